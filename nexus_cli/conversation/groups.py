"""Atomic groups, and the one repair of tool pairs (law 3).

A group is one message, or an assistant message with calls and the result of each call in call order. Entries are stored
in the order in which they happened; here they are put in the order that a provider accepts. A late result is moved to
its call, messages in between follow the group, an orphan or repeated result is left out, and a missing result gets a
placeholder. Pure; used for building, loading, resuming and truncation alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nexus_cli.core.entry import PLACEHOLDER, ItemForm, WindowItem
from nexus_cli.core.message import Message, Role, ToolCall

Group: TypeAlias = tuple[WindowItem, ...]
Measure: TypeAlias = Callable[[Message, str], int]
"""Returns the tokens of a message with its preamble and overhead."""

PLACEHOLDER_TOKENS = 16
"""Tokens of a placeholder without a measure."""


def group_tool_calls(items: Iterable[WindowItem], measure: Measure | None = None) -> list[Group]:
    """Group `items` in the order of first messages; every call gets one result. `measure` counts placeholders."""
    groups: list[list[WindowItem | None]] = []
    waiting: dict[str, list[tuple[int, int]]] = {}
    for item in items:
        message = item.message
        if message.role is Role.TOOL:
            places = waiting.get(message.tool_call_id or "")
            if places:
                group, position = places.pop(0)
                groups[group][position] = item
            continue
        groups.append([item, *[None] * len(message.tool_calls)])
        for number, call in enumerate(message.tool_calls):
            if groups[-1][0] is item and number and any(c.id == call.id for c in message.tool_calls[:number]):
                waiting[call.id].append((len(groups) - 1, number + 1))
            else:
                waiting[call.id] = [(len(groups) - 1, number + 1)]
    return [
        _fill_results(group, measure) if None in group else tuple(item for item in group if item is not None)
        for group in groups
    ]


def _fill_results(group: Sequence[WindowItem | None], measure: Measure | None) -> Group:
    first = group[0]
    assert first is not None
    results = zip(first.message.tool_calls, group[1:], strict=True)
    return (first, *(item or _placeholder(first, call, measure) for call, item in results))


def _placeholder(owner: WindowItem, call: ToolCall, measure: Measure | None) -> WindowItem:
    message = Message(Role.TOOL, PLACEHOLDER, tool_call_id=call.id)
    return WindowItem(
        owner.entry, ItemForm.STUB, message, tokens=measure(message, "") if measure else PLACEHOLDER_TOKENS
    )


def flatten(groups: Iterable[Group]) -> list[WindowItem]:
    """Return the items of all groups in order."""
    return [item for group in groups for item in group]


def arrange(items: Iterable[WindowItem]) -> list[WindowItem]:
    """Return `items` in the order in which they are sent, repaired."""
    return [item for group in group_tool_calls(items) for item in group]


def newest_entry_id(groups: Iterable[Group]) -> int:
    """Return the newest entry in these groups; results of parallel calls are recorded as they end."""
    return max(item.entry for group in groups for item in group)


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next step of the loop: a model request, unless there are calls to run or it is done."""

    calls: tuple[ToolCall, ...] = ()
    """Calls that have no result."""
    is_done: bool = False
    """True if the last message is the assistant's."""


def next_step(items: Sequence[WindowItem]) -> NextStep:
    """Return the next step of the loop, determined by the tail of the window alone."""
    answered: set[str] = set()
    spoken = False
    for item in reversed(items):
        message = item.message
        if message.role is Role.TOOL:
            answered.add(message.tool_call_id or "")
        elif message.role is Role.ASSISTANT:
            missing = tuple(call for call in message.tool_calls if call.id not in answered)
            if missing:
                return NextStep(missing)
            return NextStep(is_done=not spoken and not message.tool_calls)
        else:
            spoken = True
    return NextStep(is_done=not spoken)


def newest_request(groups: Sequence[Group]) -> int | None:
    """Return the index of the newest user message (a summary counts, a marker does not), or None."""
    for index in reversed(range(len(groups))):
        item = groups[index][0]
        if item.message.role is Role.USER and item.form is not ItemForm.MARKER:
            return index
    return None


def run_requests(groups: Sequence[Group], run: int) -> list[int]:
    """Return the indices of the current request with its steering: messages from entry `run` on, else the newest."""
    latest = newest_request(groups)
    if latest is None:
        return []
    return [i for i, group in enumerate(groups) if run and group[0].is_request and group[0].entry >= run] or [latest]
