"""The same call again and again: a notice at the third in a row, the end of the turn at the fifth.

Counted from the tail of the window, so that a resumed turn counts on.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.entry import Slot
from nexus_cli.core.message import Role, ToolCall
from nexus_cli.core.wire import canonical

NOTICE_AT = 3
END_AT = 5


def times_in_a_row(slots: Sequence[Slot], call: ToolCall) -> int:
    """How often `call` came in a row up to itself, in this turn; 0 if it is not in the window."""
    wanted = _key(call)
    found = False
    count = 0
    for slot in reversed(slots):
        if slot.message.role is Role.USER:
            break
        for other in reversed(slot.message.tool_calls):
            found = found or other.id == call.id
            if not found:
                continue
            if _key(other) != wanted:
                return count
            count += 1
    return count


def notice(call: ToolCall, times: int) -> str:
    """What the model is told."""
    return (
        f"{call.name} was called {times} times in a row with the same arguments. Its result will not change: "
        f"try something else, or say what is missing. The turn ends at {END_AT}."
    )


def _key(call: ToolCall) -> tuple[str, bytes, str]:
    return call.name, canonical(call.arguments), call.raw
