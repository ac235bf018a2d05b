"""Make a request fit: replan sections for the present window, refuse a request that cannot fit (laws 2 and 6).

`compaction/make_room` compacts and truncates, `compaction/prune` removes stale results. Both are imported only when the
window is nearly full, which is rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.attachment import IMAGE_TOKENS
from nexus_cli.core.budget import remaining_output
from nexus_cli.core.elide import plural
from nexus_cli.core.entry import ItemForm, sum_tokens
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.event import Notice
from nexus_cli.core.message import Role
from nexus_cli.core.request import Model
from nexus_cli.core.section_rows import JOINT
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.provider.model_table import window_command
from nexus_cli.sections.planner import section_budget

MAX_NAMED = 3
"""Number of largest parts, or of images, named in a refusal."""
FEWER = "Send less in one message, or use a model with a larger window"
WINDOW = "window"
"""Cause of the epoch; also the kind of the memo of an `epoch` and a `window` for which replanning saved too little."""
BATCH = 0.08
"""Least share of the budget that pruning must free."""
BATCH_COLD = 0.02
"""The same with an expired cache, when a rewrite costs nothing."""
PRUNING_INTERVAL_STEPS = 4
"""Steps between searches for stale results: a search takes time, and results become stale slowly."""
MIN_SAVING_SHARE = 0.1
"""Least share of system text and tools that replanning must save if they already fit: it invalidates the cache."""

NARROW = (
    "the context window is nearly full: after about {:,} more tokens, earlier messages are removed. nexus keeps the "
    "person's messages, the last steps, and a record of files and commands. Write other findings into your next reply."
)
"""The notice to a model before a compaction."""


def draft_due_pruning(engine: Engine) -> Rewrite | None:
    """Return the rewrite that prunes stale tool results before the next request, None if none is due. Searches for them
    only if there may be enough. Takes the ids of its drops; nothing else changes."""
    results = sum(
        item.tokens
        for item in engine.conversation.items
        if item.message.role is Role.TOOL and item.form is ItemForm.FULL
    )
    if not (results and engine.settings.compact.prune and engine.can_recall):
        return None
    warm = engine.is_warm
    if (warm and engine.step % PRUNING_INTERVAL_STEPS) or engine.backoff.was_undone:
        return None
    least = int((BATCH if warm else BATCH_COLD) * engine.context.countable(engine.context.budget.available))
    if results <= least:  # not even whole results have as much
        return None
    from nexus_cli.engine.compaction.prune import draft_pruning  # noqa: PLC0415  (rarely needed)

    return draft_pruning(engine, least, still_warm=warm)


async def ensure_fits(engine: Engine, plan: RequestPlan) -> RequestPlan:
    """Return the next request, for which room is made if `plan` does not fit or is due for a compaction. Raises
    `NexusError("overflow", ...)` if it cannot fit."""
    if not plan.needs_room(engine.settings.compact.at):
        return plan
    from nexus_cli.engine.compaction.make_room import make_room  # noqa: PLC0415  (the window is too full)

    await make_room(engine, fits=plan.fits)
    return _refuse_if_too_large(engine.context, engine.window_request())


async def plan_request(engine: Engine) -> RequestPlan:
    """Plan the sections of the next request again if they have outgrown the window, which begins an epoch; check its
    contract and return it. Raises `NexusError` if its fixed parts cannot fit or the contract is broken."""
    await replan_sections(engine)
    _refuse_if_unshrinkable(engine.context)
    request = engine.window_request()
    if engine.contract is not None:
        from nexus_cli.engine.requests.check_contract import check_contract  # noqa: PLC0415  (few turns have one)

        check_contract(engine.contract, engine.settings, engine.context, request, not engine.spending.steps)
    return request


def notice_narrow_window(engine: Engine) -> None:
    """Tell the model if one long result more would have the window compacted, once, and again after there was more
    room."""
    request, was_narrow = engine.window_request(), engine.is_narrow
    room = int(engine.settings.compact.at * request.budget.available) - request.tokens
    engine.is_narrow = room <= request.budget.output_cap
    if engine.is_narrow and not was_narrow and room > 0:
        engine.notices.tell(NARROW.format(room))


async def ensure_fits_after_overflow(engine: Engine, error: ProviderError) -> RequestPlan:
    """Learn the window from the provider's overflow error, free more than usual, and return the next request. Raises as
    `ensure_fits` does."""
    learned = engine.context.learn_from_overflow(engine.conversation.counted, error)
    why = f"the provider refused the request as too long: {error.why}"
    engine.control.emit(learned or Notice(why, warning=False))
    await plan_request(engine)
    from nexus_cli.engine.compaction.make_room import make_room_after_overflow  # noqa: PLC0415  (the window is too full)

    await make_room_after_overflow(engine)
    return _refuse_if_too_large(engine.context, engine.window_request())


def _refuse_if_unshrinkable(context: ContextManager) -> None:
    """Raise `NexusError` if the parts that no rewrite can shorten do not fit, before paying for a summary."""
    fixed = context.conversation.epoch.header_tokens
    room = context.countable(context.room)
    if fixed > room:
        hint = "Shorten the instruction files, use --no-tools, or choose a model with a larger window"
        what = "the system text and the tools already exceed the budget"
        raise _too_large(context.model, what, context.fixed_parts(), hint, _sum_needed(context, fixed))
    images = _images(context.conversation)
    if images and fixed + sum(images.values()) > room:
        parts = context.fixed_parts() | images
        what = "the images in the request exceed the budget"
        raise _too_large(context.model, what, parts, FEWER, _sum_needed(context, sum(parts.values())))


def _refuse_if_too_large(context: ContextManager, request: RequestPlan) -> RequestPlan:
    """Return the request, or raise `NexusError` if it, cut as far as the laws allow, leaves no room for an answer.

    The person's request and call pairs may exceed the budget: its reserves exist for this case (`nexus docs context`).
    """
    estimate, expected, info = request.tokens, request.upper_bound, context.model.info
    if remaining_output(info, expected) >= context.least_output:
        return request
    images, requests = _images(context.conversation), context.conversation.current_requests()
    request_tokens = sum(map(sum_tokens, requests)) - sum(images.values())
    parts = {**context.fixed_parts(), **images, "the text of the request": request_tokens}
    if requests and requests[-1] != (newest := context.conversation.groups()[-1]):
        parts["the newest step"] = sum_tokens(newest)
    answer = context.least_output + info.window - remaining_output(info, 0)
    sums = {
        "for the request": estimate,
        context.estimate.describe_margin(): expected - estimate,
        "for the answer": answer,
    }
    why = _sum(sums, info.window, "window")
    raise _too_large(context.model, "the request does not fit the window", parts, FEWER, why)


def _sum_needed(context: ContextManager, counted: int) -> str:
    """Describe the need of `counted` tokens with the margin of our count, compared with the budget."""
    tokens = ceil(context.estimate.scale(context.conversation.counts()).tokens(counted))
    sums = {"for these parts": tokens, context.estimate.describe_margin(): context.estimate.margin(tokens)}
    return _sum(sums, context.room, "budget")


def _sum(sums: Mapping[str, int], room: int, name: str) -> str:
    """Format `900 for these parts + 92 margin (...) = 992 tokens; the budget is 800`."""
    terms = " + ".join(f"{tokens:,} {label}" for label, tokens in sums.items() if tokens)
    return f"{terms} = {sum(sums.values()):,} tokens; the {name} is {room:,}"


def _images(conversation: Conversation) -> dict[str, int]:
    """Return the tokens of the images in the current request, under one label that lists their names."""
    if not any(item.message.parts for item in conversation.items):
        return {}
    parts = [part for group in conversation.current_requests() for part in group[0].message.parts]
    if not parts:
        return {}
    names = [part.name or part.media_type for part in parts[:MAX_NAMED]] + ["..."] * (len(parts) > MAX_NAMED)
    return {f"{plural(len(parts), 'image')}: {', '.join(names)}": IMAGE_TOKENS * len(parts)}


def _too_large(model: Model, what: str, parts: Mapping[str, int], hint: str, why: str) -> NexusError:
    largest = sorted(parts.items(), key=lambda part: -part[1])[:MAX_NAMED]
    largest_parts = ", ".join(f"{name} {tokens:,}" for name, tokens in largest)
    info = model.info
    if info.window_refused and not info.window_key:
        hint += f". A provider error reported this window; if it is wrong: {window_command(info, info.listed_window)}"
    return NexusError("overflow", what, f"{why} (largest parts: {largest_parts})", hint)


async def replan_sections(engine: Engine) -> None:
    """Begin an epoch with sections planned for the present budget if that makes them smaller.

    The forms of static sections are chosen once per epoch. After a change of the window (a resume with other settings,
    a switch of model, an overflow error) they may exceed their share, or the budget. Sends nothing.
    """
    conversation = engine.conversation
    epoch, fixed = conversation.epoch, conversation.epoch.header_tokens
    hopeless = fixed > engine.context.countable(engine.context.room)
    replanned = {"epoch": epoch.id, "window": engine.context.budget.window}
    sections = sum(int(row["tokens"]) + JOINT for row in epoch.section_rows if row.get("form") != "dropped")
    outgrown = sections > section_budget(engine.context.budget.available)
    if not hopeless and not (outgrown and all(memo.value != replanned for memo in conversation.memos(WINDOW))):
        return  # also if replanning for this window was already found not worth it
    planned = await engine.prompt.draft_epoch(engine.context)
    saved = fixed - planned.epoch.header_tokens
    if saved <= (0 if hopeless else int(MIN_SAVING_SHARE * fixed)):
        if not hopeless:
            conversation.memo(WINDOW, replanned)
        return
    engine.begin_epoch(engine.draft_replanned(planned, engine.readings.epoch_cause or WINDOW))
    engine.readings.epoch_cause = ""
