"""What is left out is told once, in words that name it; what an undo brought back is left out no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from engine.requests.test_replan_sections import lived
from project_files import write_files
from session.played import MODEL, Played, context_report, opened, say, the_ledger
from session.summed import Summariser, done, ended, living

from nexus_cli.commands.drops import session_drops
from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.drop_list import MAX_DIFFERENCE, returned_drops, window_drops
from nexus_cli.core.entry import Cause, Drop, ItemForm, Memo, WindowItem
from nexus_cli.core.event import ContextDrop, Event, Notice, SessionStart
from nexus_cli.core.message import Message, Role
from nexus_cli.session.acts.compaction import uncompaction
from nexus_cli.session.options import Options


def of(undone: Sequence[Memo]) -> Callable[[str], Sequence[Memo]]:
    """The memos of a lane in which this was undone."""
    return lambda kind: undone if kind == "undone" else ()


RULES = "Never do this before that.\n" * 6000
TURNS = tuple(f"TURN{number} make a list" for number in range(5))


def dropped(events: Sequence[Event]) -> list[Drop]:
    return [event.drop for event in events if isinstance(event, ContextDrop)]


@pytest.mark.matrix
def test_instructions_that_do_not_fit_are_told_once_in_a_session(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    session = opened(Played(lambda request: "well"), tmp_path)

    async def live() -> tuple[list[Event], list[Event]]:
        try:
            first = [event async for event in session.run("one")]
            session.reload()
            return first, [event async for event in session.run("two")]
        finally:
            await session.aclose()

    first, second = asyncio.run(live())
    assert isinstance(first[0], SessionStart), "before it nothing can be told"
    (drop,) = dropped(first)
    assert drop.cause is Cause.INSTRUCTION_CAP and drop.tokens > 20_000 and drop.text is None
    assert "NEXUS.md" in drop.what
    assert not dropped(second), "the same text again is the same drop"
    again, outcome = say(opened(Played(lambda request: "well"), tmp_path, session.id), "three")
    assert outcome.ok and not dropped(again)
    with the_ledger() as ledger:
        assert [one.id for one in ledger.log(session.id).drops()] == [drop.id]


def test_instructions_that_stand_whole_again_are_left_out_no_more(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES[:30_000])
    provider = Played(lambda request: "well")
    session, _, _ = lived(provider, tmp_path, 16_000, "one")
    with the_ledger() as ledger:
        assert [one["back"] for one in session_drops(ledger, session)["drops"]] == [False]
    lived(provider, tmp_path, 600_000, "two", again=session, model="openai/wide")
    asked, settings = Options(tmp_path, ""), Settings()
    for step, out in ((1, 1), (2, 0), (None, 0)):
        shown = context_report(asked, settings, session, step)
        form = next(one["form"] for one in shown["sections"] if one["id"] == "instructions.project")
        assert (shown["left_out"], form == "full") == (out, not out)
    with the_ledger() as ledger:
        assert session_drops(ledger, session)["left_out"] == 0
    (tmp_path / "NEXUS.md").write_text("Be brief.")
    lived(provider, tmp_path, 16_000, "three", again=session, model="openai/third")
    with the_ledger() as ledger:
        assert session_drops(ledger, session)["left_out"] == 1, "other words do not bring these back"


@pytest.mark.matrix
def test_a_drop_of_a_section_is_what_is_left_out_of_it_now(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES[:30_000])
    provider = Played(lambda request: "well")
    session, _, _ = lived(provider, tmp_path, 24_000, "one")
    lived(provider, tmp_path, 12_000, "two", again=session, model="openai/narrow")
    left = []
    for step in (1, 2):
        shown = context_report(Options(tmp_path, ""), Settings(), session, step)
        row = next(one for one in shown["sections"] if one["id"] == "instructions.project")
        left += [one["tokens"] for one in shown["drops"]]
        assert abs(left[-1] - (row["full_counted"] - row["counted"])) <= MAX_DIFFERENCE
    assert len(left) == 2 and left[0] < left[1] - MAX_DIFFERENCE
    with the_ledger() as ledger:
        assert [one["tokens"] for one in session_drops(ledger, session)["drops"]] == left[1:]


@pytest.mark.matrix
async def test_what_the_sections_of_a_refused_compaction_would_leave_out_is_no_drop(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS[:3]) as session:
        (tmp_path / "NEXUS.md").write_text(RULES)
        events = await session.compact()
        assert "the compaction would not free tokens" in ended(events).why, "with so many rules"
        assert not dropped(events) and session.status().drops == 0 and not session.drops()
        session.reload()
        (drop,) = dropped([event async for event in session.run("go on")])
        assert "NEXUS.md" in drop.what and [one.id for one in session.drops()] == [drop.id]


@pytest.mark.matrix
def test_bytes_of_a_memory_file_that_were_not_read_are_counted_and_said(tmp_path: Path) -> None:
    write_files(places().config, {"MEMORY.md": "a line of notes\n" * 9_000, "IDENTITY.md": "Be calm.\n" * 200_000})
    session = opened(Played(lambda request: "well"), tmp_path)
    events, _ = say(session, "one")
    counted = {drop.what.partition(" (")[0]: drop.uncounted for drop in dropped(events)}
    assert counted == {"part of section identity.identity": 751_424, "part of section memory": 78_464}
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("MEMORY.md: only the first 65,536 bytes were read" in text for text in notices)
    shown = context_report(Options(tmp_path, MODEL), Settings(models={MODEL: {"window": 16_000}}), session.id, 1)
    assert {one["id"]: one["unread_bytes"] for one in shown["sections"] if one["unread_bytes"]} == {
        "identity.identity": 751_424,
        "memory": 78_464,
    }
    text = " ".join(find_form("context")(shown, 120).split())
    assert "78,464 bytes not read; the text read is d2" in text


@pytest.mark.matrix
def test_a_result_that_was_cut_is_named_by_its_call_and_what_it_was_about(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("some line of a file\n" * 9000)

    def script(request: Any) -> Any:
        over = any(message["role"] == "tool" for message in request.messages)
        return "done" if over else [("read_file", {"path": "long.txt"}), ("bash", {"command": "seq 1 60000 # " * 20})]

    events, _ = say(opened(Played(script), tmp_path), "look at it")
    assert [drop.what for drop in dropped(events)] == ["result of read_file long.txt", f"result of bash {BASH}"]


BASH = ("seq 1 60000 # " * 20)[:80].rstrip()


@pytest.mark.matrix
async def test_what_an_undo_brought_back_is_shown_as_back_and_not_counted(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS) as session:
        assert ended(await session.compact()).ok
        assert session.status().drops == len(session.drops()) == 1
        await done(session, uncompaction())
        assert session.status().drops == 0
    with the_ledger() as ledger:
        value = session_drops(ledger, session.id)
        ledger.log(session.id).count_recall("d1")
    assert [one["back"] for one in value["drops"]] == [True] and value["left_out"] == 0
    assert "back in the window: messages" in find_form("drops")(value, 120)
    assert "Nothing is left out now: the drop is back in the window." in find_form("drops")(value, 120)
    shown = context_report(Options(tmp_path, MODEL), Settings(models={MODEL: {"window": 24_000}}), session.id)
    assert [one["back"] for one in shown["drops"]] == [True] and (shown["left_out"], shown["recalled"]) == (0, 0)
    text = find_form("context")(shown, 120)
    assert "back in the window: messages" in text and "nothing is left out now: the drop is back" in text


@pytest.mark.matrix
async def test_what_an_undo_brought_back_and_a_new_compaction_took_again_is_out(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS) as session:
        assert ended(await session.compact()).ok
        await done(session, uncompaction())
        assert ended(await session.compact()).ok
        session.ledger.log(session.id).count_recall("d1")
        assert session.status().drops == 2
        await done(session, uncompaction())
        assert session.status().drops == 0, "and both are back when that is undone too"
        assert ended(await session.compact()).ok
    with the_ledger() as ledger:
        value = session_drops(ledger, session.id)
    assert [(one["id"], one["back"]) for one in value["drops"]] == [("d1", False), ("d2", False), ("d3", False)]
    assert "1 of 3 recalled." in find_form("drops")(value, 120)
    shown = context_report(Options(tmp_path, MODEL), Settings(models={MODEL: {"window": 24_000}}), session.id)
    assert [one["back"] for one in shown["drops"]] == [False] * 3 and shown["recalled"] == 1


def test_a_pin_without_room_is_back_with_the_compaction_that_left_it_out_and_no_longer() -> None:
    drops = [drop("d1", (1, 3)), drop("d2", None), drop("d3", (1, 3))]
    memos = [Memo("undone", "", 4, {"epoch": 1, "drops": ["d1", "d2"]})]
    whole = [WindowItem(entry, ItemForm.FULL, Message(Role.USER, "x")) for entry in range(1, 5)]
    assert returned_drops(drops[:2], whole, of(memos)) == {"d1", "d2"}
    assert returned_drops(drops, whole[3:], of(memos)) == set()


def drop(name: str, span: tuple[int, int] | None) -> Drop:
    return Drop(name, "x", 1, Cause.TRUNCATION, "", span)


def test_the_listing_counts_recalls_of_what_is_still_out_alone() -> None:
    drops = [Drop("d1", "x", 1, Cause.COMPACTION, "", (1, 2), recalls=1), Drop("d2", "y", 1, Cause.OUTPUT_CAP, "")]
    items = [WindowItem(entry, ItemForm.FULL, Message(Role.USER, "x")) for entry in (1, 2)]
    value = window_drops("s", drops, items, of([]))
    assert (value["left_out"], value["recalled"]) == (1, 0)


@pytest.mark.matrix
async def test_the_status_counts_what_a_person_could_miss(tmp_path: Path) -> None:
    causes = [
        ("section episodic.more (earlier sessions)", Cause.SECTION_BUDGET),
        ("result of bash", Cause.OUTPUT_CAP),
        ("result of read_file", Cause.PRUNED),
        ("part of section instructions.project (NEXUS.md)", Cause.SECTION_BUDGET),
        ("part of a.log", Cause.INPUT_CAP),
        ("messages 1 to 4", Cause.TRUNCATION),
    ]

    async with living(tmp_path, Summariser(), *TURNS[:1]) as session:
        log = session.engine.conversation.log
        for what, cause in causes:
            log.record_drop(Drop(log.next_drop(), what, 57, cause, "2026-01-01T00:00:00Z", text="words"))
        assert len(session.drops()) == 6 and session.status().drops == 3
