"""The same call again and again: a notice at the third in a row, the end of the turn at the fifth.

Counted from the tail of the window, so that a resumed turn counts on.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.entry import WindowItem
from nexus_cli.core.message import Role, ToolCall
from nexus_cli.core.wire import canonical

NOTICE_AT = 3
END_AT = 5


def repeated_calls(items: Sequence[WindowItem], call: ToolCall) -> list[ToolCall]:
    """`call` and the same ones before it in a row, in this turn, the newest first; none if it is not in the window."""
    wanted = _key(call)
    found: list[ToolCall] = []
    for item in reversed(items):
        if item.message.role is Role.USER:
            break
        for other in reversed(item.message.tool_calls):
            if not found and other.id != call.id:
                continue
            if _key(other) != wanted:
                return found
            found.append(other)
    return found


def repeat_notice(call: ToolCall, times: int) -> str:
    """What the model is told."""
    return (
        f"{call.name} was called {times} times in a row with the same arguments. Its result will not change: "
        f"try something else, or say what is missing. The turn ends at {END_AT}."
    )


def _key(call: ToolCall) -> tuple[str, bytes, str]:
    return call.name, canonical(call.arguments), call.raw
