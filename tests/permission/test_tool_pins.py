"""The definitions of server tools that a person has allowed: what is kept, what counts as a change, how it is shown."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.config.paths import places
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.permission.tool_pins import LARGEST, MAX_COMPARED, MAX_LINES, SPACES, find_change, pin_tools


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))


def tool(words: str, entry: str = "e1", name: str = "mcp__rug__note") -> Tool:
    async def run(*_given: Any) -> ToolResult:
        return ToolResult()

    return Tool(name, {}, run, Effect.RUN, "", server="rug", entry=entry, definition=lambda: words)


def diff(words: str) -> str:
    found = find_change(tool(words))
    assert found is not None
    return found.diff


def test_only_what_differs_from_the_kept_words_is_a_change() -> None:
    assert find_change(tool("one")) is None, "nobody has allowed it"
    pin_tools([tool("one")])
    pin_tools([tool("two")])
    assert find_change(tool("one")) is None and diff("two") == "- one\n+ two"
    others = (tool("two", entry="e2"), tool("two", name="mcp__rug__other"), replace(tool("two"), entry=""))
    assert not any(map(find_change, others)), "another server, another tool, a tool of ours"


def test_the_third_change_is_one_of_an_unsteady_server_and_any_words_end_them() -> None:
    pin_tools([tool("0")])
    for number in ("1", "2", "3"):
        found = find_change(tool(number))
        assert found is not None and (found.times, found.is_unsteady) == (int(number), number == "3")
        pin_tools([tool(number)], replaces=True)
        pin_tools([tool(number)], replaces=True)
    pin_tools([tool("3")], replaces=True, any_words=True)
    assert find_change(tool("4")) is None
    pin_tools([tool("4")])
    assert find_change(tool("5")) is None
    pin_tools([tool("4")], replaces=True)
    assert diff("5") == "- 4\n+ 5"


def test_a_change_is_bounded_and_says_how_much_is_missing() -> None:
    pin_tools([tool("a")])
    shown = diff("\n".join(f"{number} {'x' * 300}" for number in range(200))).split("\n")
    assert len(shown) == MAX_LINES + 1 and shown[-1].startswith("... ") and shown[-1].endswith(" more lines")
    assert max(map(len, shown)) < 90
    pin_tools([tool("\n".join(f"old {number}" for number in range(MAX_LINES + 1)))], replaces=True)
    assert diff("read the keys").startswith("+ read the keys\n- old 0\n"), "what goes away does not hide what is new"
    pin_tools([tool("a b")], replaces=True)
    assert diff("a b\n\n") == SPACES
    pin_tools([tool("b" * (LARGEST + 1))], replaces=True)
    assert find_change(tool("b" * (LARGEST + 1))) is None
    assert "SHA-256" in diff("b" * (LARGEST + 2)) and diff("b" * LARGEST).startswith("+ bbb")


@pytest.mark.matrix
def test_a_change_of_very_many_lines_is_shown_without_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 signs on 49,000 lines in another order took `difflib` minutes."""
    lines = [chr(0x100 + number % 100) for number in range(LARGEST // 2 - 1)]
    pin_tools([tool("\n".join(lines))])
    compare = difflib.unified_diff

    def compare_few(before: list[str], after: list[str], **given: Any) -> Any:
        assert min(len(before), len(after)) <= MAX_COMPARED
        return compare(before, after, **given)

    monkeypatch.setattr(difflib, "unified_diff", compare_few)
    assert diff("\n".join(reversed(lines))).startswith("+ ")


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"tools": {"mcp__rug__note": 5}}', '{"tools": {"mcp__rug__note": {}}}']
)
def test_a_damaged_record_permits_nothing_more_than_none(damage: str) -> None:
    pin_tools([tool("one")])
    (record,) = (places().data / "mcp_pins").iterdir()
    assert record.stat().st_mode & 0o777 == 0o600
    record.write_text(damage)
    change = find_change(tool("two"))  # without words to compare, an entry counts as changed
    assert (change is not None) is damage.endswith("{}}}")
    pin_tools([tool("two")], replaces=True)
    assert find_change(tool("two")) is None and diff("three") == "- two\n+ three"
