"""What a session's contributors are told of the session: files with their state, the footprint, the trigger."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ledger.conftest import on
from session.played import MODEL, Answer, Played, opened, say, the_ledger

from nexus_cli.config.hook_tables import HookTable
from nexus_cli.config.settings import Settings
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import ItemForm, Kind, WindowItem
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import Message, Role
from nexus_cli.core.services import Footprint, SeenFile
from nexus_cli.sections import project_outline
from nexus_cli.sections.project_outline import Outline, outline_project
from nexus_cli.session import section_sources as module
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.section_sources import SessionSources
from nexus_cli.tools import listing
from nexus_cli.tools.files import FileContent, read_real_file

LONG_AGO = "2020-01-01T00:00:00.000Z"


def engine(visible: Sequence[int], base: int = 0, happened: Sequence[tuple[Kind, str]] = ()) -> Any:
    """As much of a lane's state as the sources look at: the entries that its window shows, and what happened in it."""
    items = [WindowItem(entry, ItemForm.FULL, Message(Role.USER, "x")) for entry in visible]
    log = Conversation(MemoryLog(), local_now, lambda message, preamble: 1)
    for kind, actor in happened:
        log.append(kind, Message(Role.USER, "x"), actor)
    epoch = SimpleNamespace(id=3, base=base)
    conversation = SimpleNamespace(
        items=items, epoch=epoch, last=log.last, read=log.read, memos=log.memos, count_entries=log.count_entries
    )
    return SimpleNamespace(conversation=conversation)


def noted(path: Path, content: bytes, at: str = LONG_AGO, entry: int = 1) -> SeenFile:
    return SeenFile(str(path), "read", hashlib.sha256(content).hexdigest(), at, entry)


def looked(*found: SeenFile) -> SessionSources:
    return SessionSources(engine((1,)), lambda: found, [])


def test_a_file_is_compared_with_what_it_held_when_it_was_seen(tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    same.write_bytes(b"1")
    other.write_bytes(b"2")
    folder = tmp_path / "folder"
    folder.mkdir()
    found = looked(*(noted(path, b"1") for path in (same, other, tmp_path / "gone", folder))).files()
    assert [one.disk for one in found] == ["same", "changed", "gone", "gone"]
    assert [bool(one.moment) for one in found] == [False, True, False, False]


def test_a_change_of_another_day_has_its_date(tmp_path: Path) -> None:
    for days, form in ((0, "%H:%M:%S"), (9, "%Y-%m-%d %H:%M:%S")):
        (path := tmp_path / str(days)).write_bytes(b"2")
        changed = datetime.now() - timedelta(days=days)
        os.utime(path, (changed.timestamp(), changed.timestamp()))
        assert looked(noted(path, b"1")).files()[0].moment == changed.strftime(form)


def test_a_file_that_nobody_touched_since_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"2")

    def never(*arguments: Any) -> None:
        raise AssertionError("there is no need to read it")

    monkeypatch.setattr(module, "read_real_file", never)
    [one] = looked(noted(path, b"1", at="2999-01-01T00:00:00.000Z")).files()
    assert one.disk == "same"


def test_a_file_is_read_again_only_when_it_was_touched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    times: list[Path] = []
    path.write_bytes(b"1")
    given = looked(noted(path, b"1"))

    def counted(path: Path, limit: int) -> FileContent:
        times.append(path)
        return read_real_file(path, limit)

    monkeypatch.setattr(module, "read_real_file", counted)
    assert [given.files()[0].disk for _ in range(3)] == ["same"] * 3
    assert len(times) == 1
    path.write_bytes(b"22")
    assert given.files()[0].disk == "changed"
    path.unlink()
    assert given.files()[0].disk == "gone"


def test_a_large_file_is_compared_by_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 3)
    path = tmp_path / "large"
    path.write_bytes(b"12345")
    assert looked(noted(path, b"12345")).files()[0].disk == "changed"
    os.utime(path, (1, 1))
    assert looked(noted(path, b"other")).files()[0].disk == "same"


def test_what_blocks_or_may_not_be_read_is_left_as_it_was(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert looked(noted(fifo, b"1")).files()[0].disk == "gone"
    assert looked(SeenFile("a\0b", "read", "", LONG_AGO, 1)).files()[0].disk == "same"


def test_a_ledger_that_does_not_answer_costs_the_files_and_nothing_else() -> None:
    def broken() -> Sequence[SeenFile]:
        raise NexusError("ledger", "the ledger", "is gone")

    assert SessionSources(engine(()), broken, []).files() == ()


def test_the_footprint_counts_what_is_not_in_the_window_once_per_epoch() -> None:
    person, agent, tool = (Kind.USER, "person"), (Kind.ASSISTANT, "agent"), (Kind.TOOL, "tool:bash")
    made = engine([496, 497, 498, 499, 500, 501], 500, [person, agent, tool, tool, agent] * 100)
    given = SessionSources(made, tuple, [])
    assert given.footprint() == Footprint(99, {"bash": 198})
    made.conversation.log = made.conversation.read = None
    assert given.footprint() == Footprint(99, {"bash": 198}), "known for this epoch"
    assert SessionSources(engine(()), tuple, []).footprint() == Footprint()


@pytest.mark.parametrize("form", [ItemForm.SUMMARY, ItemForm.MARKER])
def test_the_footprint_is_silent_beside_a_summary_or_a_marker(form: ItemForm) -> None:
    made = engine([498, 499, 500], 500, [(Kind.USER, "person"), (Kind.TOOL, "tool:bash")] * 250)
    made.conversation.items.insert(0, WindowItem(1, form, Message(Role.USER, "[Summary of messages 1-497.]")))
    assert SessionSources(made, tuple, []).footprint() == Footprint()


def test_the_footprint_counts_what_the_person_said_during_a_turn_and_not_what_we_did() -> None:
    said = [(Kind.USER, "person"), (Kind.STEER, "person"), (Kind.STEER, "nexus"), (Kind.INSTRUCTION, "nexus")]
    given = SessionSources(engine([9], 4, said), tuple, [])
    assert given.footprint() == Footprint(2, {})


@pytest.mark.matrix
async def test_the_ledger_counts_what_is_out_of_the_window_as_reading_it_would(tmp_path: Path) -> None:
    starts = itertools.count(1)

    def calls() -> Answer:
        start = next(starts)
        return [("bash", {"command": f"seq {start} {start + 899}"}), ("glob", {"pattern": "*"})]

    provider = Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else calls())
    session = opened(provider, tmp_path)

    try:
        for number in range(12):
            _ = [event async for event in session.run(f"turn {number}")]
    finally:
        await session.aclose()
    lane = session.context.conversation
    assert lane.epoch.base > 10, "something was cut"
    shown = {item.entry for item in lane.items if item.form in (ItemForm.FULL, ItemForm.ELIDED)}
    with the_ledger() as ledger:
        timeline = Conversation(ledger.log(session.id), local_now, session.context.measure)
        gone = [entry for entry in timeline.read(1, lane.epoch.base) if entry.id not in shown]
        sources = SessionSources(session.context, tuple, [])
        given = sources._count_hidden(timeline, lane.epoch.base)
    assert given == Counter((entry.kind, entry.actor) for entry in gone) and len(gone) > 5


def last_preamble(session: str) -> str:
    """What was added to the newest message of the person."""
    with the_ledger() as ledger:
        lane = ledger.session(session).main_lane
        users = [entry for entry in on(ledger, lane).read(1, on(ledger, lane).last_id()) if entry.kind is Kind.USER]
        return users[-1].preamble


def test_a_trigger_is_told_when_it_was_not_the_person_and_then_when_it_is_the_person_again(tmp_path: Path) -> None:
    provider = Played(lambda request: "ok")
    told: list[list[str]] = []
    session = opened(provider, tmp_path)
    for words in ("one", Trigger("two", "stdin"), Trigger("three", "stdin"), "four", "five"):
        say(session, words)  # type: ignore[arg-type]
        told.append([line for line in last_preamble(session.id).splitlines() if line.startswith("Trigger")])
        session = opened(provider, tmp_path, session=session.id)
    assert told == [
        ["Trigger: ask (typed by the person)"],
        ["Trigger: ask (read from stdin, nobody is at a prompt)"],
        [],
        ["Trigger: ask (typed by the person)"],
        [],
    ]


def test_a_file_that_another_program_changed_is_told_once_and_again_after_the_next_change(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")

    def script(request: Any) -> Any:
        last = request.messages[-1]
        return [("read_file", {"path": "a.py"})] if last["role"] == "user" and "look" in last["content"] else "ok"

    provider = Played(script)
    session = opened(provider, tmp_path)
    told: list[bool] = []
    for words, content in (("look", ""), ("go on", "x = 2\n"), ("go on", ""), ("look", ""), ("go on", "x = 3\n")):
        if content:
            path.write_text(content)
            os.utime(path, (1_700_000_000 + len(told), 1_700_000_000 + len(told)))
        say(session, words)
        told.append("[nexus: file a.py: changed on disk" in last_preamble(session.id))
        session = opened(provider, tmp_path, session=session.id)
    assert told == [False, True, False, False, True]


@pytest.mark.matrix
def test_a_change_by_a_hook_that_is_too_long_to_show_is_told_once(tmp_path: Path) -> None:
    """Its line behind the call was followed by another one with the next message."""
    write: Answer = [("write_file", {"path": "a.txt", "content": "x\n" * 2000})]
    provider = Played(lambda request: "ok" if request.messages[-1]["role"] == "tool" else write)
    settings = Settings(models={MODEL: {"window": 32_000}}, hook=(HookTable("PostToolUse", "sed -i s/x/y/ a.txt"),))
    session = open_session(Options(tmp_path, MODEL, allow="all"), settings, approver=None, provider=provider)
    say(session, "write")
    session = opened(Played(lambda request: "ok"), tmp_path, session=session.id)
    say(session, "go on")
    with the_ledger() as ledger:
        log = ledger.log(session.id)
        told = "".join(entry.message.content + entry.preamble for entry in log.read(1, log.last_id()))
        assert log.digest(str(tmp_path / "a.txt")) == hashlib.sha256(b"x\n" * 2000).hexdigest()
    assert told.count("a.txt after this call") == 1 and "changed on disk" not in told


@pytest.mark.matrix
def test_a_branch_switch_that_changes_many_files_names_every_one_of_them(tmp_path: Path) -> None:
    paths = [tmp_path / f"f{n}.py" for n in range(25)]
    for path in paths:
        path.write_text("x = 1\n")

    def script(request: Any) -> Any:
        last = request.messages[-1]
        looks = last["role"] == "user" and "look" in last["content"]
        return [("read_file", {"path": path.name}) for path in paths] if looks else "ok"

    provider = Played(script)
    session = opened(provider, tmp_path)
    say(session, "look")
    for path in paths:
        path.write_text("x = 2\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    say(opened(provider, tmp_path, session=session.id), "go on")
    told = last_preamble(session.id)
    assert [path.name for path in paths if path.name not in told] == []
    with the_ledger() as ledger:
        [drop] = [drop for drop in ledger.log(session.id).drops() if "session_files" in drop.what]
        whole = ledger.log(session.id).original(drop.id) or ""
    assert whole.count("changed on disk at") == 19 and f'recall("{drop.id}")' in told
    say(opened(provider, tmp_path, session=session.id), "go on")
    assert "changed on disk" not in last_preamble(session.id)


@pytest.mark.matrix
def test_the_outline_is_that_of_git_where_there_is_a_repository_and_else_that_of_the_folder(tmp_path: Path) -> None:
    for name in ("src/a.py", "src/made.log", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert outline_project(tmp_path / "src").files == 2, "without a repository the folder is the project"
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("*.log\n")
    found = outline_project(tmp_path / "src")
    assert found == Outline(3, (("src", 1),), (("Python", 1), ("prose", 1)), ("README.md",))


def test_a_listing_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.py").touch()

    def slow(root: Path, project: Path, stop: Any) -> list[str]:
        while True:
            stop.raise_if_pressed()

    monkeypatch.setattr(listing, "list_files", slow)
    monkeypatch.setattr(project_outline, "LISTING", 0.01)
    assert outline_project(tmp_path).languages == (("Python", 1),)
