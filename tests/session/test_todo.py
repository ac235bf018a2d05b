"""The todo list: shown below its call, kept by a compaction, and read again by a resumed session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Answer, Played
from session.summed import asks_for_summary, ended, summary_of, turn

from nexus_cli.config.settings import Settings
from nexus_cli.conversation.compaction.work_sources import make_record
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.text.cells import cells
from nexus_cli.ui.render.theme import ASCII, Theme
from nexus_cli.ui.render.tool_line import LISTED_ITEMS, FinishedCall, format_finished_call

ITEMS = [
    {"text": "read the parser", "state": "done"},
    {"text": "write the test\nfirst", "state": "doing"},
    {"text": "mend it", "state": "open"},
    {"text": "rewrite all of it in another language, as somebody once wished", "state": "dropped"},
]


def shown(items: Any, width: int, error: str = "") -> list[str]:
    call = ToolCall("c1", "todo", {"items": items})
    return format_finished_call(FinishedCall(call, "", ToolResult("", error), 0.0), width, Theme("dark", False, ASCII))


@pytest.mark.parametrize("width", [40, 60, 100])
def test_the_list_is_shown_below_its_call(width: int) -> None:
    lines = shown(ITEMS, width)
    assert lines[0] == "ok todo | 1 of 3 done"
    assert lines[1:4] == ["    [x] read the parser", "    [>] write the test first", "    [ ] mend it"]
    assert lines[4].startswith("    [-] rewrite all of it in") and max(map(cells, lines)) <= width


def test_of_a_long_list_the_items_that_are_done_are_counted() -> None:
    many = [{"text": f"step {number}", "state": "done" if number < 20 else "open"} for number in range(24)]
    lines = shown(many, 60)
    assert len(lines) <= LISTED_ITEMS + 2 and "12 earlier items" in lines[1] and lines[-1] == "    [ ] step 23"


def test_of_a_call_that_failed_only_the_error_is_shown() -> None:
    assert shown("nonsense", 60, "bad") == ["x todo", "    bad"]


def opened(folder: Path, steps: dict[str, Any], resume: str = "") -> Session:
    def script(request: Any) -> Answer:
        if asks_for_summary(request):
            return "## Goal\nparse\n## Next\ngo on"
        last = request.messages[-1]
        said = "" if last["role"] == "tool" else str(last["content"])
        return next((calls for words, calls in steps.items() if words in said), "done")

    settings = Settings(models={MODEL: {"window": 16_000}})
    return open_session(Options(folder, MODEL, resume=resume), settings, approver=None, provider=Played(script))


FIRST = [("todo", {"items": [{"text": "old", "state": "open"}]})]
STEPS = {"begin": FIRST, "go on": [("todo", {"items": ITEMS})], "fill": [("grep", {"pattern": "z", "path": "f"})]}


def record_of(lane: Conversation, session: Session) -> list[str]:
    for _ in session.engine.work.read(lane):
        pass
    return list(make_record(lane, session.engine.work).goals)


@pytest.mark.matrix
async def test_a_compaction_keeps_what_is_left_and_what_is_done(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("z z z z z z\n" * 400)

    session = opened(tmp_path, STEPS)
    system = session.context.conversation.epoch.system
    for words in ("begin", "go on", *(f"fill {number}" for number in range(5))):
        await turn(session, words)
    assert ended(await session.compact()).ok
    assert (
        session.context.conversation.epoch.system == system
        or "mend it" not in session.context.conversation.epoch.system
    )
    text, name = summary_of(session), session.id
    await session.aclose()
    again = opened(tmp_path, STEPS, name)
    assert record_of(again.context.conversation, again)[1:] == LEFT_FIRST
    await again.aclose()
    assert "\n".join(LEFT_FIRST) in text and "old" not in text


LEFT_FIRST = [
    "- [>] write the test first",
    "- [ ] mend it",
    "- [x] read the parser",
    "- [-] rewrite all of it in another language, as somebody once wished",
]


@pytest.mark.matrix
async def test_an_empty_list_removes_the_list(tmp_path: Path) -> None:
    session = opened(tmp_path, {"go on": STEPS["go on"], "stop": [("todo", {"items": []})]})
    await turn(session, "go on")
    assert record_of(session.context.conversation, session)
    await turn(session, "stop")
    assert not record_of(session.context.conversation, session)
    await session.aclose()


@pytest.mark.parametrize("items", [[{"state": "open"}], [{"text": "a", "state": "open"}] * 51, [{"text": "a" * 501}]])
async def test_a_wrong_list_changes_nothing(tmp_path: Path, items: Any) -> None:
    session = opened(tmp_path, {"go on": STEPS["go on"], "wrong": [("todo", {"items": items})]})
    await turn(session, "go on")
    await turn(session, "wrong")
    assert record_of(session.context.conversation, session)[1:] == LEFT_FIRST
    await session.aclose()
