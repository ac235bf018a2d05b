"""Show the parts of the next request of a session, or of one that was sent; compare that with the one before it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import WindowItem
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonDict, JsonObject, ReportOfSession
from nexus_cli.core.limits import MAX_INT
from nexus_cli.core.option import Model, Option, Recipe
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import Ledger, pick_request
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.reports.context import (
    ROLES,
    ContextReport,
    NextRewrite,
    context_report,
    describe_rewrite,
    describe_waiting,
    live_report,
    request_value,
    window_bar,
    window_parts,
)
from nexus_cli.reports.request_view import RequestView, describe_items, sent_view
from nexus_cli.reports.text.blocks import NO_CELLS, Blocks, Drawn, Paragraph, TitledTable
from nexus_cli.reports.text.lines import cut_line, measure_attached, number, short
from nexus_cli.reports.text.style import PLAIN, ReportStyle
from nexus_cli.service_list import SERVICES
from nexus_cli.session.options import Options
from nexus_cli.text.cells import cells

if TYPE_CHECKING:
    from nexus_cli.context.manager import ContextManager
    from nexus_cli.engine.requests.engine import Engine
    from nexus_cli.session.session import Session

LABEL = 10
"""Cells of the column of labels."""
NARROW = 70
"""Width below which labels have no column of their own."""
LARGEST = ATTACHED = 5
_SIGNS = (("+", "added"), ("-", "removed"), ("~", "changed"))


class SeenSection(TypedDict):
    """A section in one of the requests."""

    form: str
    tokens: int
    sha256: str | None


class ToldSection(SeenSection):
    """An event section that was sent with a request."""

    id: str


class SectionDifference(ToldSection):
    """A section that only one of the requests had."""

    counted: int


class ChangedSection(TypedDict):
    """A section that differs."""

    id: str
    before: SeenSection
    after: SeenSection


class SectionDifferences(TypedDict):
    """Sections of the system layer that differ."""

    added: list[SectionDifference]
    removed: list[SectionDifference]
    changed: list[ChangedSection]


class EntryDifference(TypedDict):
    """An entry that only one of the requests had."""

    entry: int
    form: str
    what: str
    tokens: int


class EntryDifferences(TypedDict):
    """Entries that differ."""

    added: list[EntryDifference]
    removed: list[EntryDifference]


class ToolDifferences(TypedDict):
    """Tool schemas that differ."""

    added: list[str]
    removed: list[str]
    changed: list[str]


class DifferenceReport(ReportOfSession):
    """With `--diff`: the differences between a request and the one before it."""

    step: int
    before: int | None
    """The previous request."""
    model: dict[str, str | None]
    """`before`, `after`."""
    epoch: JsonDict
    """`before`, `after`, and the `cause` of a new one."""
    tokens: dict[str, int]
    sections: SectionDifferences
    told: list[ToldSection]
    """Event sections that were sent with the message."""
    tools: ToolDifferences
    entries: EntryDifferences


def build_context(
    source: Source,
    step: Annotated[int | None, Option("N", "Request N, from 1.", least=-MAX_INT, is_positional=True)] = None,
    model: Model = "",
    recipe: Recipe = "",
    difference: Annotated[
        bool, Option(None, "Compare request N (default: the newest) with the previous request.", "--diff")
    ] = False,
    all_parts: Annotated[
        bool, Option(None, "In a session: show every section, tool, drop and limit.", "--all")
    ] = False,
) -> Report[Annotated[Any, ContextReport | DifferenceReport]]:
    """Show the content and token counts of the next request, without sending it; with --step, of request N.

    In a session, show a bar of its parts, the largest items, the drops and the next rewrite of the window.
    """
    is_sent = step is not None or difference
    if is_sent and recipe:
        why = "the recipe of a sent request cannot be changed"
        raise UsageError(f"--recipe {recipe}", why, "Omit --recipe, or omit --step and --diff")
    if difference:
        return Report("between", request_difference(source.ledger, source.session(), source.settings(), step))
    if step is not None:
        info = source.ledger.session(source.session())
        return Report("context", request_value(sent_view(source.ledger, info, source.settings(), step)))
    if source.live and not (model or recipe):
        return Report("context" if all_parts else "context_summary", context_summary(source.live))
    session, settings = _find_session(source), source.settings()
    options = prepare_options(source, settings, session, model)
    options = replace(options, resume=session, recipe=recipe or options.recipe, save=False, newest=False)
    return Report("context", context_report(options, settings, session or None, services=SERVICES))


def _find_session(source: Source) -> str:
    """Return the id of the session, "" for a new one: the folder has none, or none that has sent a request."""
    if source.live:
        return source.session() if source.ledger.log(source.session()).step() else ""
    newest = None if source.session_name else source.ledger.newest_session(str(source.folder()))
    return source.session() if source.session_name or newest else ""


def look_at_session(source: Source) -> Session:
    """Return the session that a shell command names, as it would be opened. Changes nothing."""
    from nexus_cli.session.draft import look_at  # noqa: PLC0415  (the engine; not for others)
    from nexus_cli.session.limits_record import NextLimits  # noqa: PLC0415

    session, settings = source.ledger.session(source.session()), source.settings()
    options = replace(prepare_options(source, settings, session.id, ""), resume=session.id, save=False, newest=False)
    recipe = NextLimits.load(source.ledger.log(session.id), session, options, settings).recipe
    return look_at(source.ledger, session, options, settings, recipe, SERVICES)


def prepare_options(source: Source, settings: Settings, session: str, model: str) -> Options:
    """Return the options with which `nexus` would begin or resume the session here."""
    try:
        chosen = choose_model(model, settings, resumes=bool(session), servers=tuple).model
    except NexusError as error:
        if error.what != "no model":
            raise
        chosen = ""
    if source.live:
        return replace(source.live.options, model=chosen)
    is_interactive = os.isatty(0)  # plain `nexus` would then be interactive
    front = "chat" if is_interactive else "ask"
    return Options(source.folder(), chosen, settings.effort, front=front, interactive=is_interactive)


def context_summary(session: Session) -> ContextReport:
    """Return the report of the next request, with what its cache should hold now and when the window is rewritten."""
    value = live_report(session)
    used = value["budget"]["used"]["total"]
    cached = 0 if session.engine.begins_epoch else session.engine.window_request().cached
    value["cached"]["expected"] = min(value["cached"]["tokens"], cached) if used else 0
    value["rewrite"] = next_rewrite(session.engine)
    return value


def next_rewrite(engine: Engine) -> NextRewrite:
    """Return the next rewrite of the window."""
    if engine.conversation.is_recorded and engine.begins_epoch:
        return {"by": "epoch", "at": None, "why": _epoch_cause(engine.context)}
    request = engine.window_request()
    overflow = round(request.room * request.tokens / request.upper_bound) if request.upper_bound else request.room
    if engine.backoff.may_compact(fits=True):
        return {
            "by": "summary",
            "at": min(round(engine.settings.compact.at * request.budget.available), overflow),
            "why": "",
        }
    may_compact = engine.backoff.may_compact(fits=False)
    return {"by": "summary" if may_compact else "truncation", "at": overflow, "why": ""}


def _epoch_cause(context: ContextManager) -> str:
    epoch, model = context.conversation.epoch, context.model
    if epoch.model != model.info.name:
        return "another model"
    return "another effort" if epoch.effort != model.effort else "nexus reloads instructions and tools"


def context_summary_text(value: JsonObject, width: int, look: ReportStyle = PLAIN) -> Blocks:
    """Draw the window as one bar, with its largest items, drops, the next rewrite, and a hint to the full report."""
    indent = LABEL if width >= NARROW else 2
    room = max(8, width - indent)
    yield _label("Context", _size(value), width)
    yield from (Drawn(" " * indent + line) for line in (*window_bar(value, room, look), *_legend(value, room, look)))
    largest = value["largest"][:LARGEST]
    size = max((len(number(item["tokens"])) for item in largest), default=0)
    rows = [f"{number(item['tokens']):>{size}}  {cut_line(item['what'], room - size - 2)}" for item in largest]
    yield from map(Drawn, _title_rows(rows, width))
    yield from (_label(label, texts, width) for label, texts in _facts(value))


def _title_rows(rows: Sequence[str], width: int) -> Sequence[str]:
    """Return the largest messages with a label before the first one, or above it if there is no room."""
    if not rows:
        return []
    if width < NARROW:
        return ["Largest:", *(f"  {row}" for row in rows)]
    return ["Largest".ljust(LABEL) + rows[0], *(" " * LABEL + row for row in rows[1:])]


def _label(label: str, texts: Sequence[str], width: int) -> Paragraph:
    """Return the first of `texts` that fits on one line after its label, or else the last one on several lines."""
    first, indent = (f"{label}: ", "  ") if width < NARROW else (label.ljust(LABEL), " " * LABEL)
    text = next((text for text in texts if cells(first + text) <= width), texts[-1])
    return Paragraph(text, indent, first)


def _size(value: JsonObject) -> Sequence[str]:
    budget = value["budget"]
    used, available = budget["used"]["total"], budget["available"]
    about = "about " if value["basis"] == "estimate" else ""
    window = budget["window"]
    text = f"{about}{number(used)} of {number(available)} tokens, {used / max(1, available):.0%}"
    return f"{text} ({short(window)} window, {short(window - available)} reserved)", text


def _legend(value: JsonObject, room: int, look: ReportStyle) -> Iterator[str]:
    """Yield the parts of the bar by their shades."""
    line, end = "", 0
    for role, shade, (name, tokens) in zip(ROLES, look.shades, window_parts(value), strict=True):
        text = f" {name} {short(tokens)}"
        if line and end + 2 + 1 + len(text) > room:
            yield line
            line, end = "", 0
        line += ("  " if line else "") + look.paint(role, shade) + text
        end += (2 if end else 0) + 1 + len(text)
    yield line


def _facts(value: JsonObject) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the labels and texts below the largest items. Several texts are variants of one, longest first."""
    if waiting := describe_waiting(value):
        yield "Waiting", [waiting]
    if files := [measure_attached(attachment) for attachment in value.get("attachments", [])]:
        more = [f"{len(files) - ATTACHED} more"] if len(files) > ATTACHED else []
        yield "Attached", ["; ".join([*files[-ATTACHED:], *more])]
    if servers := value.get("servers"):
        spent = (
            f"{server['name']}: schemas {number(server['schemas'])}, results {number(server['results'])}"
            for server in servers
        )
        yield "MCP", ["; ".join(spent)]
    yield (
        "Left out",
        _describe_omissions([drop for drop in value["drops"] if not drop.get("back")], value.get("missed")),
    )
    notices, rewrite = list(value["notices"]), value["rewrite"]
    if rewrite:
        text = describe_rewrite(rewrite)
        now = [f"{text} (now: /compact)"] if rewrite["by"] == "summary" else []
        notices = notices[:-1] if rewrite["by"] == "epoch" else notices  # the last one repeats it in more words
        yield "Next", [*now, text]
    yield "More", ["/context all: sections, tools, drops, limits"]
    for notice in notices:
        yield "Note", [notice]


def _describe_omissions(drops: Sequence[JsonObject], missed: int | None) -> Sequence[str]:
    """Describe the drops, of which the status line counts those that are `missed`, and the way to read them."""
    if not drops:
        return ["nothing"]
    tokens = number(sum(drop["tokens"] for drop in drops))
    if len(drops) == 1:
        return [f"{cut_line(drops[0]['what'], 30)}, {tokens} tokens; /drops {drops[0]['id']} prints it"]
    counted = "" if missed in (None, len(drops)) else f" ({missed:,} counted in the status line)"
    text = f"{len(drops):,} parts{counted}, {tokens} tokens; /drops lists them"
    return [f"{text}; the model can recall them", text]


def request_difference(ledger: Ledger, session: str, settings: Settings, step: int | None = None) -> DifferenceReport:
    """Return the difference of request `step` (default: the newest) from the one before; raise `UsageError` if the
    session or request does not exist."""
    info = ledger.find_session(session)
    rows = ledger.log(info.id).requests()
    if step is None and not rows:
        raise UsageError("--diff", f"session {info.id} has not sent a request yet", "Send a message first")
    number = len(rows) if step is None else step
    pick_request(rows, number)
    before = sent_view(ledger, info, settings, number - 1) if number > 1 else None
    return compare_requests(before, sent_view(ledger, info, settings, number))


def compare_requests(before: RequestView | None, after: RequestView) -> DifferenceReport:
    """Return the difference as JSON; without `before` everything of `after` is new."""
    assert after.row is not None and after.session is not None, "only sent requests can be compared"
    earlier, later = _entries(before), _entries(after)
    is_same_epoch = before is not None and before.request.epoch.id == after.request.epoch.id
    old, new = _sections(before), _sections(after)
    return {
        "version": 1,
        "session": after.session,
        "step": after.row.manifest.step,
        "before": before.row.manifest.step if before and before.row else None,
        "model": {"before": before.model if before else None, "after": after.model},
        "epoch": {
            "before": before.request.epoch.id if before else None,
            "after": after.request.epoch.id,
            "cause": None if is_same_epoch else after.request.epoch.cause,
        },
        "tokens": {
            "before": before.request.tokens if before else 0,
            "after": after.request.tokens,
        },
        "sections": {
            "added": [row for key, row in new.items() if key not in old],
            "removed": [row for key, row in old.items() if key not in new],
            "changed": [
                {"id": key, "before": _summarize_section(old[key]), "after": _summarize_section(row)}
                for key, row in new.items()
                if key in old and _text(old[key]) != _text(row)
            ],
        },
        "told": [{"id": row["id"], **_summarize_section(row)} for row in after.request.event_rows],
        "tools": _tools(before, after),
        "entries": {
            "added": _rows(after, (key for key in later if key not in earlier)),
            "removed": _rows(before, (key for key in earlier if key not in later)),
        },
    }


def _sections(view: RequestView | None) -> dict[str, SectionDifference]:
    """Return the sections of the system text by id. Event sections are reported apart: they stay where they were
    sent."""
    rows = [section for section in view.request.sections if section["layer"] == "system"] if view else []
    return {row["id"]: {"id": row["id"], **_summarize_section(row), "counted": row["counted"]} for row in rows}


def _text(section: JsonObject) -> tuple[Any, ...]:
    """Return the key by which sections are compared. It has no tokens: these follow the provider's count and differ by
    request."""
    return section["form"], section["sha256"], section["counted"]


def _summarize_section(section: JsonObject) -> SeenSection:
    return {"form": section["form"], "tokens": section["tokens"], "sha256": section["sha256"]}


def _key(item: WindowItem) -> tuple[int, str, str]:
    return item.entry, str(item.form), str(item.message.role)


def _entries(view: RequestView | None) -> dict[tuple[int, str, str], WindowItem]:
    return {_key(item): item for item in view.arranged} if view else {}


def _rows(view: RequestView | None, keys: Iterable[tuple[int, str, str]]) -> list[EntryDifference]:
    if view is None:
        return []
    selected = set(keys)
    items = [item for item in view.arranged if _key(item) in selected]
    return [
        {
            "entry": item.entry,
            "form": str(item.form),
            "what": description,
            "tokens": round(item.tokens * view.request.messages_scale),
        }
        for item, description in describe_items(items, view.arranged)
    ]


def _tools(before: RequestView | None, after: RequestView) -> ToolDifferences:
    earlier = {tool["function"]["name"]: canonical(tool) for tool in (before.request.epoch.tools if before else ())}
    later = {tool["function"]["name"]: canonical(tool) for tool in after.request.epoch.tools}
    return {
        "added": [name for name in later if name not in earlier],
        "removed": [name for name in earlier if name not in later],
        "changed": [name for name in later if name in earlier and earlier[name] != later[name]],
    }


def between_text(value: JsonObject) -> Blocks:
    """List the sections, entries and tools that were added, removed or changed, and the cause of a new epoch."""
    step, before = value["step"], value["before"]
    tokens, epoch, model = value["tokens"], value["epoch"], value["model"]
    change = tokens["after"] - tokens["before"]
    against = f"against request {before}" if before else "(the first of its session)"
    yield f"request {step} {against}: {number(tokens['after'])} tokens, {change:+,}"
    yield f"The window was rewritten: {epoch['cause']}." if epoch["cause"] else "The window continues the previous one."
    if before and model["before"] != model["after"]:
        yield f"The model changed from {model['before']} to {model['after']}."
    sections, entries, tools = value["sections"], value["entries"], value["tools"]
    section_columns = {"": "sign", "id": "id", "tokens": _describe_tokens, "form": _describe_form}
    entry_columns = {
        "": "sign",
        "entry": lambda entry: str(entry["entry"]),
        "tokens": "tokens",
        "form": "form",
        "what": "what",
    }
    named_tools = {kind: [{"name": name} for name in tools[kind]] for _, kind in _SIGNS}
    tables = [
        TitledTable("system sections", section_columns, _sign(sections)),
        TitledTable("event sections", section_columns, _sign({"added": value["told"]})),
        TitledTable("tools", {"": "sign", "name": "name", **NO_CELLS}, _sign(named_tools)),
        TitledTable("entries", entry_columns, _sign(entries)),
    ]
    yield from tables
    if not any(table.rows for table in tables):
        yield from ["", "Nothing differs."]


def _sign(differences: JsonObject) -> list[JsonDict]:
    """Return the added, removed and changed parts, each with its sign."""
    return [{"sign": sign, **row} for sign, kind in _SIGNS for row in differences.get(kind, ())]


def _describe_tokens(section: JsonObject) -> str:
    """Return the tokens of a section; of a changed one before and after."""
    versions = [section["before"], section["after"]] if "before" in section else [section]
    return " to ".join(number(part["tokens"]) for part in versions)


def _describe_form(section: JsonObject) -> str:
    forms = (str(section.get(time, section)["form"]) for time in ("before", "after"))
    return " to ".join(dict.fromkeys(forms))


NOUN = Noun(
    "context",
    "context",
    (Verb(build_context, of_session=True),),
    "Show the content of the next request.",
    aliases=("tokens",),
    is_first=True,
)
