"""The context contract of a turn: promises about its requests that are checked before anything is sent.

All of it holds for the first request. `max_input` also holds for every later one, where a break stops the turn as a
limit does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core.context_contract import ContextContract
from nexus_cli.core.drop_list import returned_drops
from nexus_cli.core.elide import name_first
from nexus_cli.core.entry import Drop
from nexus_cli.core.errors import NexusError, UsageError, nearest_name
from nexus_cli.core.memo_kinds import CLIPPED_MESSAGE, PLAN
from nexus_cli.engine.requests.user_input import input_cap
from nexus_cli.sections.contributor import discover

MAX_NAMED = 2
"""Most drops that an error names."""
HISTORY = "the earlier conversation"


def check_contract(
    contract: ContextContract, settings: Settings, context: ContextManager, request: RequestPlan, is_first: bool
) -> None:
    """Check the next request before room is made for it, which may send a request for a summary.

    Raises `NexusError`: "usage" for an unknown section, "contract" if the first request of the turn breaks the
    contract, "limit" if a later one is too large.
    """
    sections = contract.sections if is_first else ()
    forms = _section_forms(context.conversation, request) if sections else {}
    for name in sections:
        _require_known(name)
    if is_first and contract.full_input:
        _check_input(context, contract, request)
    if contract.max_input is not None and request.tokens > contract.max_input:
        raise _too_large(context, contract, contract.max_input, request, is_first)
    if is_first and contract.max_drop is not None:
        _check_drops(context, contract, request, settings)
    for name in sections:
        _check_section(name, forms)


# -- the input ---------------------------------------------------------------------------------------------------------


def _check_input(context: ContextManager, contract: ContextContract, request: RequestPlan) -> None:
    option, hint = "--require-full-input", "Send less, use a model with a larger window, or omit the option"
    if contract.uncounted:
        why = f"{contract.largest_input} exceeds the maximum size by {contract.uncounted:,} bytes"
        raise _broken(option, why, hint)
    clipped_tokens = sum(
        drop.tokens for drop in context.conversation.log.drops() if drop.id in _clipped(context.conversation)
    )
    if not clipped_tokens:
        alone, most = request.tokens - _parts(context, None, request)[HISTORY], request.budget.available
        if alone > most and not request.fits:  # the provider has refused it: the window is smaller than it was thought
            why = f"the input does not fit: it needs {alone:,} tokens without {HISTORY}, but only {most:,} are free"
            raise _broken(option, why, hint)
        return
    cap = input_cap(context, contract.inputs[0][1] if contract.inputs else "")
    size = (clipped_tokens + cap) * contract.share(contract.largest_input)
    over = f"the input exceeds its limit of {cap:,} by {clipped_tokens:,}"
    why = f"{contract.largest_input} has about {size:,.0f} tokens; {over}"
    raise _broken(option, why, hint)


def _clipped(conversation: Conversation) -> frozenset[str]:
    """Return the ids of the drops of this turn's input."""
    values = [memo.value for memo in conversation.memos(CLIPPED_MESSAGE) if memo.entry >= conversation.run]
    return frozenset(
        drop_id for value in values for drop_id in (value.get("drop"), *(part[2] for part in value.get("parts", ())))
    )


def _too_large(
    context: ContextManager, contract: ContextContract, most: int, request: RequestPlan, is_first: bool
) -> NexusError:
    parts = _parts(context, contract if is_first and contract.inputs else None, request)
    name, tokens = max(parts.items(), key=lambda part: part[1])
    option, over = f"--max-input-tokens {most}", request.tokens - most
    why = f"the request has {request.tokens:,} input tokens, {over:,} too many (largest part: {name}, about {tokens:,})"
    if not is_first:
        return NexusError("limit", f"{option} reached", why, "Raise the limit, or compact the session (/compact)")
    advice = "Start a new session, compact this session (/compact)," if name == HISTORY else "Send less,"
    return _broken(option, why, f"{advice} or raise the limit to {request.tokens}")


def _parts(context: ContextManager, contract: ContextContract | None, request: RequestPlan) -> dict[str, int]:
    """Return the parts of a request and their tokens, in the unit of the budget; by input with a `contract`."""
    mine = request.window.totals[-1] - request.window.tokens_until(context.conversation.run - 1)
    parts: dict[str, float] = {**context.fixed_parts()}
    parts[HISTORY] = request.window.totals[-1] - mine
    parts |= {name: mine * contract.share(name) for name, _ in contract.inputs} if contract else {"this turn": mine}
    return {name: round(tokens * request.scale) for name, tokens in parts.items()}


# -- drops -------------------------------------------------------------------------------------------------------------


def _check_drops(context: ContextManager, contract: ContextContract, request: RequestPlan, settings: Settings) -> None:
    """Raise `NexusError` if too much is left out, or would be by the compaction that is due."""
    conversation, most = context.conversation, contract.max_drop or 0
    every = conversation.log.drops()
    option = f"--max-drop {most}" if most else "--no-drops"
    back = returned_drops(every, conversation.items, conversation.memos, request.epoch.sections)
    drops = [drop for drop in every if drop.id not in back and not drop.is_record]
    dropped_tokens = sum(drop.tokens for drop in drops)
    if dropped_tokens > most:
        of = f", {dropped_tokens - most:,} too many" if most else ""
        clipped = dict.fromkeys(_clipped(conversation), f"part of {contract.largest_input}")
        why = f"the request omits {dropped_tokens:,} tokens{of}: {_name_drops(drops, clipped)}"
        raise _broken(option, why, f"Send less, start a new session, or allow this: --max-drop {dropped_tokens}")
    if not request.needs_room(settings.compact.at):
        return
    goal = int(settings.compact.to * request.budget.available)
    if dropped_tokens + request.tokens - goal > most:
        why = f"nexus would first compact the session from {request.tokens:,} to about {goal:,} tokens"
        raise _broken(option, why, "Start a new session, or compact this session (/compact)")


def _name_drops(drops: Sequence[Drop], names: Mapping[str, str]) -> str:
    """Describe the largest drops; `names` has other descriptions of some, by id."""
    largest = sorted(drops, key=lambda drop: -drop.tokens)
    return name_first([f"{drop.id} {names.get(drop.id, drop.what)} ({drop.tokens:,})" for drop in largest], MAX_NAMED)


# -- sections ----------------------------------------------------------------------------------------------------------


def _section_forms(conversation: Conversation, request: RequestPlan) -> dict[str, str]:
    """Return the form of each section of the request.

    An event section that the epoch sent before is in the window, and is not sent again.
    """
    forms: dict[str, str] = {}
    entries = set(request.window.entries)
    for memo in conversation.memos(PLAN):
        if memo.entry in entries:
            forms.update((str(section["id"]), str(section["form"])) for section in memo.value["sections"])
    forms.update((str(section["id"]), str(section["form"])) for section in request.sections)
    return forms


def _require_known(name: str) -> None:
    """Raise `NexusError` for an id that no section can have: an absent section breaks the contract."""
    contributors = discover()
    if any(contributor.can_have(name) for contributor in contributors.values()):
        return
    head, _, part = name.partition(".")
    group = head if head in contributors else nearest_name(head, contributors)
    parts = contributors[group].parts if group else ()
    part = nearest_name(part, parts)
    near = f"{group}.{part}" if part else group
    names = [f"{head}.{part_name}" for part_name in parts] if head in contributors else [*contributors]
    hint = f"Did you mean {near}?" if near not in ("", head) else f"The sections are: {', '.join(names)}"
    raise UsageError(f"--require-section {name[:80]}", "there is no such section", hint)


def _check_section(name: str, form_by_section: Mapping[str, str]) -> None:
    """Raise `NexusError` unless the section is sent in full; the id of a contributor means all of its sections."""
    forms = {
        section_id: form
        for section_id, form in form_by_section.items()
        if section_id == name or section_id.startswith(f"{name}.")
    }
    reduced = {section_id: form for section_id, form in forms.items() if form != "full"}
    if forms and not reduced:
        return
    option = f"--require-section {name}"
    if not reduced:
        why = "the request does not contain this section: it is empty, or the recipe turns it off"
        raise _broken(option, why, "`nexus context` lists the sections; omit the option, or add content to the section")
    section, form = next(iter(reduced.items()))
    why = f"{section} is {'omitted' if form == 'dropped' else f'sent as {form}'}"
    raise _broken(
        option,
        why,
        "`nexus context` shows the reason; shorten the section's source, or use a model with a larger window",
    )


def _broken(option: str, why: str, hint: str) -> NexusError:
    return NexusError("contract", option, why, f"Nothing was sent. {hint}")
