"""Which tools leave a small window, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from nexus_cli.lane.tool_selection import OPTIONAL, missing_tools, tools_without_room

CORE = ("bash", "edit_file", "glob", "grep", "read_file", "recall", "write_file")


def schemas(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in sorted(names)]


@pytest.mark.parametrize("window", [15_999, 12_000, 8_192, 4_096, 1_024])
def test_optional_tools_leave_in_their_order_until_the_rest_fits(window: int) -> None:
    left_out = tools_without_room(schemas(*CORE, *OPTIONAL), window, lambda _: 100)
    kept = {*CORE, *OPTIONAL} - {*left_out}
    assert left_out == OPTIONAL[: len(left_out)], "the order is the same at every size"
    assert len(kept) * 100 <= max(window // 12, len(CORE) * 100)
    assert kept >= set(CORE), "what a task needs never leaves"
    assert not left_out or (len(kept) + 1) * 100 > window // 12, "none leaves without need"


def test_a_window_that_is_not_small_keeps_all() -> None:
    tools = schemas(*CORE, *OPTIONAL)
    assert tools_without_room(tools, 16_000, lambda _: 10_000) == ()
    assert missing_tools(16_000, schemas(*CORE)) == () and missing_tools(8_192, []) == ()
    assert missing_tools(8_192, schemas(*CORE, "agents"))[0] == "agent"
