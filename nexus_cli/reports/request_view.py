"""Read one request of a session, or the next one, from the ledger, with the data that reports need beside it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypedDict

from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import Settings
from nexus_cli.conversation.groups import arrange
from nexus_cli.conversation.render import Wire
from nexus_cli.conversation.request_plan import RequestPlan, project
from nexus_cli.conversation.tokens.content_kinds import WindowCounts
from nexus_cli.conversation.tokens.counter import StoredCounter, TiktokenCounter
from nexus_cli.conversation.tokens.estimate import Estimate
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.elide import Count, first_words, plural
from nexus_cli.core.entry import Drop, Epoch, ItemForm, Memo, WindowItem
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.limits import Bound
from nexus_cli.core.memo_kinds import LIMITS_IN_FORCE, PLAN
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.section_rows import SectionRows
from nexus_cli.core.shielded_work import run_to_end
from nexus_cli.ledger import Ledger, RequestRow, SessionInfo, pick_request
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.sections.instruction_files import instruction_layers
from nexus_cli.sections.recipe import Recipe
from nexus_cli.session.limits_record import NextLimits
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMakers
from nexus_cli.session.session import Session
from nexus_cli.tools.registry import describe_past_subject

UNNOTED = "the limits of this request were not recorded"
Memos = Callable[[str], Sequence[Memo]]
MOST = 10
WORDS = 60
"""Characters of a message that identify it for a person."""


class ToolTokens(TypedDict):
    """A tool schema."""

    name: str
    tokens: int
    counted: int


class LargestPart(TypedDict):
    """One of the largest parts of the request."""

    what: str
    tokens: int
    entry: int | None


@dataclass(frozen=True)
class RequestView:
    """One request, or the next one."""

    json_fields: ClassVar = """
        version session model recipe:recipe.name epoch:request.epoch.id cursor basis:request.basis budget:request.budget
        counted:request.counted
    """
    version: ClassVar[int] = 1
    request: RequestPlan
    items: tuple[WindowItem, ...]
    """The window, in chronological order."""
    session: str | None
    """null for the first request of a new session."""
    model: str
    recipe: Recipe
    cursor: int
    """The last entry that was sent."""
    entries: int
    """Number of the conversation's entries at that time."""
    drops: Sequence[Drop]
    bounds: Sequence[JsonObject]
    """The limits at that time, described; none for a request older than their record."""
    count: Count
    row: RequestRow | None = None
    """None for the next request."""
    last_told: SectionRows = ()
    """For the next request of a session: the event sections that were sent last."""
    notices: tuple[str, ...] = ()
    memos: Memos = lambda kind: ()
    """Returns the memos of its conversation of one kind, as of that time."""
    waiting: tuple[WindowItem, ...] = ()
    """Texts waiting for the person's next message."""

    @cached_property
    def arranged(self) -> list[WindowItem]:
        """The window in the order in which it is sent."""
        return arrange(self.items)

    @property
    def prefix_sha256(self) -> str:
        """The hash of the lines with which the request begins."""
        wire = Wire(self.request.epoch)
        wire.extend(self.arranged)
        return wire.sha256


def sent_view(ledger: Ledger, session: SessionInfo, settings: Settings, step: int) -> RequestView:
    """Return request `step` of a session; raise `UsageError` if it does not exist."""
    log = ledger.log(session.id)
    rows = log.requests()
    row = pick_request(rows, step)
    epoch, last = log.epoch(row.manifest.epoch), row.manifest.last
    items = (*epoch.head, *map(WindowItem.of, log.read(epoch.base + 1, last)))
    noted = row.manifest.newest_of(log.memos(LIMITS_IN_FORCE))
    recorded = noted or {"recipe": session.recipe, "section_budget": None, "limits": ()}
    info = load_model_info(str(row.manifest.arguments["model"]), settings)
    info = replace(info, **{name: recorded[name] for name in ("window", "max_output") if name in recorded})
    before = rows[step - 2] if step > 1 else None
    last_sent = before.manifest.last if before and before.manifest.epoch == epoch.id else -1
    window = WindowCounts.of(epoch, items, last_sent)
    ends = (earlier_row.manifest.last for earlier_row in rows if earlier_row.manifest.step < row.manifest.step)
    previous_end = max(ends, default=0)  # `row` sent the plans after it
    request = project(
        epoch,
        window,
        Estimate.of(log.calibration(info.served_name)).anchored_at(last, row.reported_tokens, window),
        TokenBudget.of(info.window, info.max_output),
        event_rows=_merge_plans([memo for memo in log.memos(PLAN) if previous_end < memo.entry <= row.manifest.last]),
        reported=row.reported_usage.input if row.reported_usage else None,
    )
    return RequestView(
        request,
        items,
        session.id,
        info.name,
        Recipe(str(recorded["recipe"]), section_budget=recorded["section_budget"]),
        last,
        log.last_id(),
        [drop for drop in log.drops() if row.manifest.is_newer_than(drop.after, drop.at)],
        tuple(recorded["limits"]),
        StoredCounter(TiktokenCounter(info.encoding), log).count,
        row,
        notices=() if noted else (UNNOTED,),
        memos=lambda kind: [memo for memo in log.memos(kind) if row.manifest.is_newer_than(memo.entry, memo.at)],
    )


def recorded_view(
    ledger: Ledger, session: SessionInfo, options: Options, settings: Settings, services: ServiceMakers
) -> RequestView:
    """Return the next request of a session that does not run here; under a new epoch where the model or the effort is
    another one by then, and its recipe says what that begins with."""
    log = ledger.log(session.id)
    holds, epoch = NextLimits.load(log, session, options, settings), log.current_epoch()
    if epoch is None:
        raise UsageError(f"session {session.id}", "this session has not sent a request yet", "Send a message first")
    if holds.lost:
        options = replace(options, model=epoch.model, effort=epoch.effort)
    from nexus_cli.session.draft import look_at  # noqa: PLC0415  (the factory; not for others)

    resumed = look_at(ledger, session, options, settings, holds.recipe, services)
    view = live_view(resumed)
    bounds = to_json_value(holds.at(view.request.budget).bounds)
    return replace(view, bounds=bounds, notices=(*filter(None, [holds.lost]), *view.notices))


def prune_notice(session: Session) -> list[str]:
    """Return the notice about old results that will be taken out before the next request, if there are any."""
    from nexus_cli.engine.compaction.context_fit import draft_due_pruning  # noqa: PLC0415  (the engine)

    session.load_cache_history()
    rewrite = draft_due_pruning(session.engine.drafting())
    if rewrite is None or rewrite.price is None:
        return []
    saved = f"about {rewrite.price.saved:,} tokens"
    return [f"nexus will remove old or stale tool results before the next request ({saved})"]


def live_view(session: Session) -> RequestView:
    """Return the next request of a running session that has begun, with the faults of its instruction files now: those
    that may not be sent are in no request."""
    engine, dispatcher, unread = session.engine, session.dispatcher, list[str]()
    request, conversation = session.prepare_next_request(unread.append), engine.conversation
    draft = engine.next_epoch
    cwd, drops = dispatcher.cwd, list(session.drops())
    permission = CallPermission(cwd, project_root(cwd), sandbox=engine.settings.sandbox)
    notices = [layer.notice for layer in instruction_layers(cwd, permission.is_denied) if layer.notice]
    if draft is not None:
        drops += draft.drops
        notices = [*dict.fromkeys((*notices, *unread)), change_notice(conversation.epoch, request.epoch)]
    elif engine.begins_epoch:
        notices.append("the next request will rewrite the window; this report shows the current window")
    elif conversation.is_recorded:
        notices += prune_notice(session)
    return _view_of(session, request, session.id, drops, dispatcher.in_force(engine)[1], notices)


def _view_of(
    session: Session,
    request: RequestPlan,
    shown_id: str | None,
    drops: Sequence[Drop],
    bounds: Sequence[Bound],
    notices: Iterable[str],
) -> RequestView:
    """Return the view of the next request of an open session, with the texts that wait for it as it would show them."""
    engine, conversation = session.engine, session.conversation
    count = engine.context.count
    messages = (Message(Role.USER, text) for text in engine.control.waiting_texts())
    return RequestView(
        request,
        tuple(conversation.items),
        shown_id,
        engine.model.info.name,
        session.dispatcher.recipe,
        conversation.cursor,
        conversation.last,
        drops,
        to_json_value(bounds),
        count,
        None,
        last_told(conversation.memos, conversation.cursor),
        tuple(notices),
        conversation.memos,
        tuple(
            WindowItem(conversation.last + 1, ItemForm.FULL, message, tokens=count(message.content))
            for message in messages
        ),
    )


def first_view(session: Session) -> RequestView:
    """Return the first request of a session that has sent nothing yet, with the texts that wait for it."""
    engine, dispatcher, unread = session.engine, session.dispatcher, list[str]()
    draft, info = engine.drafting(unread.append), engine.model.info
    planned = run_to_end(draft.prompt.draft_epoch(draft.context))
    preamble = run_to_end(draft.prompt.draft_preamble(draft.context, []))
    drops = [*planned.drops, *draft.conversation.log.drops()]
    texts, rows = engine.control.waiting_texts(), preamble.sections
    # Without words there is no message yet in which anything joins the sections.
    added = engine.context.count(preamble.text) if texts else sum(section["tokens"] for section in rows)
    request = engine.context.project(epoch=planned.epoch, event_rows=rows, added=added, texts=texts)
    unknown = f"unknown context window for {info.name}" if info.name else "no model is chosen"
    assumed = [f"{unknown}; assuming {info.window:,} tokens"]
    notices = [] if info.known or info.window_refused else assumed
    bounds = NextLimits(dispatcher.recipe, dispatcher.limits, dispatcher.bounds).at(request.budget).bounds
    return _view_of(session, request, None, drops, bounds, (*notices, *unread))


def change_notice(before: Epoch, after: Epoch) -> str:
    """Return the notice for a request under a new epoch."""
    if before.model != after.model:
        request = f"this is the request to {after.model} instead of {before.model}"
        return f"switching the model rewrites the window; {request}"
    if before.effort == after.effort:
        return "a reload rewrites the window; this is the request after it"
    return f"switching the effort rewrites the window; this is the request with effort {after.effort!r}"


def last_told(memos: Memos, last: int) -> SectionRows:
    """Return the event sections that were sent last, up to entry `last`."""
    plans = [memo for memo in memos(PLAN) if memo.entry <= last]
    return _merge_plans([memo for memo in plans if memo.entry == plans[-1].entry])


def _merge_plans(plans: Sequence[Memo]) -> SectionRows:
    return tuple({section["id"]: section for memo in plans for section in memo.value["sections"]}.values())


def largest_items(
    sections: Sequence[JsonObject], tools: Sequence[ToolTokens], items: Sequence[WindowItem], scale: float
) -> list[LargestPart]:
    """Return the `MOST` largest parts: `what`, `tokens` (of `items` times `scale`), `entry` for history."""
    parts: list[tuple[int, str, WindowItem | None]] = [
        (section["tokens"], f"section {section['id']}", None) for section in sections
    ]
    parts += [(tool["tokens"], f"schema of {tool['name']}", None) for tool in tools]
    parts += [(round(item.tokens * scale), "", item) for item in items]
    chosen = heapq.nlargest(MOST, parts, key=lambda row: row[0])
    descriptions = {
        id(item): description for item, description in describe_items([item for _, _, item in chosen if item], items)
    }
    return [
        {
            "what": descriptions[id(item)] if item else description,
            "tokens": tokens,
            "entry": item.entry if item else None,
        }
        for tokens, description, item in chosen
        if tokens
    ]


def describe_items(chosen: Iterable[WindowItem], items: Sequence[WindowItem]) -> list[tuple[WindowItem, str]]:
    """Return each of `chosen` with a description that identifies it among `items`."""
    chosen = list(chosen)
    call_ids = {item.message.tool_call_id for item in chosen if item.message.role is Role.TOOL}
    calls = (
        {call.id: call for item in items for call in item.message.tool_calls if call.id in call_ids} if call_ids else {}
    )
    return [(item, _describe_item(item, calls)) for item in chosen]


def _describe_item(item: WindowItem, calls: Mapping[str, ToolCall]) -> str:
    message = item.message
    if item.form is ItemForm.SUMMARY:
        return f"summary of messages up to {item.entry}"
    if item.form is ItemForm.MARKER:
        return "note about omitted or shortened messages"
    shortened = " (shortened)" if item.form is ItemForm.ELIDED else ""
    if message.role is Role.TOOL:
        call = calls.get(message.tool_call_id or "")
        return f"result of {_called(call) if call else 'a call'}{shortened}"
    if message.role is Role.USER:
        images = f" with {plural(len(message.parts), 'image')}" if message.parts else ""
        return f"message{images}{shortened}: {first_words(message.content, WORDS)}"
    if message.tool_calls and not message.content:
        return f"call of {_called(message.tool_calls[0])}{shortened}"
    return f"answer{shortened}: {first_words(message.content, WORDS)}"


def _called(call: ToolCall) -> str:
    """Describe a call by its name and its main argument."""
    return f"{call.name} {first_words(describe_past_subject(call), WORDS)}".rstrip()
