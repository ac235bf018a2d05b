"""The files that a command changes are known by name, with git and without."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from project_files import write_files
from search import sample
from session.played import Played, opened, say, the_ledger
from worktrees.repository import git

from nexus_cli.config.paths import places
from nexus_cli.conversation.compaction.work_log import MAX_FILES
from nexus_cli.core.event import ToolResultEvent
from nexus_cli.core.memo_kinds import WORK
from nexus_cli.core.message import ToolResult
from nexus_cli.core.request import Delta, Request
from nexus_cli.engine.calls import call_changes
from nexus_cli.engine.calls.call_changes import CallChanges
from nexus_cli.permission.call_decision import CallDecision, CheckedCall
from nexus_cli.rules.decide import CommandDecision
from nexus_cli.session.session import Session
from nexus_cli.tools.builtin import bash, write_file
from nexus_cli.tools.registry import discover_tools
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.read_state import StampedState, StateReader
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.journal import read_steps
from nexus_cli.undo.project_look import LookedProject

FILES = {"kept.txt": "a\n", "gone.txt": "b\n", "edited.txt": "old\n", ".gitignore": "*.log\n"}


def repository(folder: Path) -> Path:
    git(folder, "init", "-q")
    write_files(folder, FILES)
    git(folder, "add", "-A")
    return folder


def changed_by(folder: Path, *commands: str) -> tuple[str, ...]:
    """What the outcome of a turn with these commands names."""
    calls = [("bash", {"command": command}) for command in commands]
    session = opened(Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else calls), folder)
    return say(session, "go")[1].changed


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("command", "changed"),
    sample(
        [
            ("sed -i s/old/new/ edited.txt", ("edited.txt",)),
            ("cat > made.txt <<'X'\nhello\nX", ("made.txt",)),
            ("rm gone.txt", ("gone.txt",)),
            ("mv gone.txt moved.txt", ("gone.txt", "moved.txt")),
            ("mkdir sub && echo x > 'sub/a b.txt'", ("sub/a b.txt",)),
            ("touch -d 2001-01-01 kept.txt", ("kept.txt",)),
            ("cp -p kept.txt copy.txt", ("copy.txt",)),
            ("echo x > build.log; cat kept.txt", ()),
            ("git add -A; git status", ()),
            ("rm -f gone.txt; echo b > gone.txt", ("gone.txt",)),
            ("false", ()),
        ],
        3,
    ),
)
def test_what_a_command_changes_is_named(tmp_path: Path, command: str, changed: tuple[str, ...]) -> None:
    assert changed_by(repository(tmp_path), command) == changed


@pytest.mark.matrix
def test_a_command_deletes_what_a_tool_has_made(tmp_path: Path) -> None:
    steps = [
        [("bash", {"command": "true"})],
        [("write_file", {"path": "new.txt", "content": "x"})],
        [("bash", {"command": "rm new.txt"})],
    ]
    session = opened(Played(lambda request: steps.pop(0) if steps else "done"), repository(tmp_path))
    assert say(session, "go")[1].changed == ("new.txt",)
    with the_ledger() as ledger:
        noted = [memo.value for memo in ledger.log(session.id).memos(WORK)]
    path = str(tmp_path / "new.txt")
    assert noted == [{"by": "", "files": [path]}, {"by": "a command", "files": [path]}]


@pytest.mark.parametrize(
    ("call", "module", "name"),
    [
        (("write_file", {"path": "new.txt", "content": "x"}), write_file, "write_shown_file"),
        (("bash", {"command": "echo x > new.txt"}), bash, "_format_result"),
    ],
)
def test_a_tool_that_fails_after_it_changed_a_file_was_run_and_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any, module: Any, name: str
) -> None:
    works = getattr(module, name)

    def fails_behind(*given: Any, **named: Any) -> None:
        works(*given, **named)
        raise RuntimeError("boom")

    monkeypatch.setattr(module, name, fails_behind)
    session = opened(Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else [call]), tmp_path)
    events, ended = say(session, "go")
    (result,) = [event.result for event in events if isinstance(event, ToolResultEvent)]
    assert result.error == f"{call[0]} failed: RuntimeError: boom" and result.ran
    assert result.changed == ended.changed == ("new.txt",)
    with the_ledger() as ledger:
        (memo,) = ledger.log(session.id).memos(WORK)
    assert memo.value["files"] == [str(tmp_path / "new.txt")]


@pytest.mark.matrix
def test_of_very_many_files_some_are_named_and_the_others_counted(tmp_path: Path) -> None:
    assert len(changed_by(repository(tmp_path), "for n in $(seq 1000 1199); do echo > $n.txt; done")) == 200
    with the_ledger() as ledger:
        (memo,) = ledger.log(ledger.sessions()[0].id).memos(WORK)
    assert len(memo.value["files"]) == MAX_FILES and memo.value["more"] == 200 - MAX_FILES


@pytest.mark.matrix
def test_a_project_without_git_is_followed_too(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("old\n")
    command = "echo x > a.txt; rm -r sub; echo y > d.txt; mkdir node_modules; echo > node_modules/e.js"
    assert changed_by(tmp_path, command) == ("a.txt", "d.txt", "sub/c.txt")


@pytest.mark.matrix
def test_nothing_of_the_project_runs_for_it(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    ran = tmp_path.parent / f"{tmp_path.name}-ran"
    for name, value in {
        "core.fsmonitor": f"touch {ran}",
        "filter.x.clean": f"touch {ran}; cat",
        "core.hooksPath": str(tmp_path),
    }.items():
        subprocess.run(["git", "-C", str(folder), "config", name, value], check=True)
    (folder / ".gitattributes").write_text("* filter=x\n")
    assert changed_by(folder, "echo new > edited.txt", "echo newer > edited.txt") == ("edited.txt",)
    assert not ran.exists()


@pytest.mark.matrix
def test_a_stop_does_not_wait_for_a_slow_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look goes on, and what it finds is in the journal before the session ends."""
    look, free = LookedProject.end, threading.Event()

    def slow(self: LookedProject, before: Any) -> Any:
        assert free.wait(120)
        return look(self, before)

    monkeypatch.setattr(LookedProject, "end", slow)
    monkeypatch.setattr(call_changes, "SECONDS_STOPPED", 0.05)
    changes, folder = CallChanges("session"), repository(tmp_path)
    stop_command(changes, folder, free)
    assert changes.pop_interrupted_files() == ()
    (step,) = read_steps(places().data, "session")
    assert [one.path for one in step.changes] == ["edited.txt"]


@pytest.mark.matrix
async def test_a_stop_after_a_command_loses_none_of_its_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks, free = LookedProject.end, threading.Event(), threading.Event()

    def slow(self: LookedProject, before: Any) -> Any:
        looks.set()
        assert free.wait(120)
        return look(self, before)

    monkeypatch.setattr(LookedProject, "end", slow)
    changes, folder = CallChanges("session"), repository(tmp_path)

    async def work() -> None:
        (folder / "edited.txt").write_text("new\n")

    call = asyncio.create_task(changes.follow("bash", "c1", folder, work, "edit it"))
    assert await asyncio.to_thread(looks.wait, 120)
    call.cancel()
    await asyncio.wait([call])
    closing = asyncio.create_task(changes.aclose())
    await asyncio.sleep(0.05)
    assert not closing.done()
    free.set()
    await closing
    (step,) = read_steps(places().data, "session")
    assert [one.path for one in step.changes] == ["edited.txt"]


@pytest.mark.matrix
def test_a_stopped_command_names_what_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_changes, "SECONDS_STOPPED", 300.0)
    changes, folder = CallChanges("session"), repository(tmp_path)
    stop_command(changes, folder)
    assert changes.pop_interrupted_files() == ("edited.txt",)


@dataclass
class Slow(Played):
    """A model that answers once the early look has ended, if one has begun."""

    looked: threading.Event = field(default_factory=threading.Event)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        if len(self.seen) == 0:
            assert await asyncio.to_thread(self.looked.wait, 120)
        async for delta in Played.stream(self, request):
            yield delta


def say_slowly(folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, work: Any = None) -> tuple[Session, int]:
    """A turn whose model answers after the early look, and after `work`; return how many files were read since."""
    look, read, counts = ChangeJournal.look_early, StateReader.complete, list[str]()

    def counted(self: StateReader, path: str, *given: Any) -> StampedState:
        counts.append(path)
        return read(self, path, *given)

    monkeypatch.setattr(StateReader, "complete", counted)

    def looks(self: ChangeJournal, roots: Any) -> None:
        look(self, roots)
        counts.clear()
        if work:
            work()
        model.looked.set()

    monkeypatch.setattr(ChangeJournal, "look_early", looks)
    monkeypatch.setattr(call_changes, "EARLY_SECONDS", 0.0)
    calls = [("bash", {"command": command})]
    model = Slow(lambda request: "done" if request.messages[-1]["role"] == "tool" else calls)
    session = opened(model, folder)
    assert say(session, "go")[1].changed == ("edited.txt",)
    return session, len(counts)


@pytest.mark.matrix
def test_the_first_look_runs_while_the_model_answers_and_what_changes_after_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        (tmp_path / f"f{number}").write_text(f"{number}\n")
    (tmp_path / "edited.txt").write_text("old\n")
    time.sleep(0.1)  # what has just changed is read again
    mine = tmp_path / "edited.txt"
    session, read = say_slowly(tmp_path, monkeypatch, "echo new > edited.txt", lambda: mine.write_text("mine\n"))
    assert read == 2, "the file as the person left it, and as the command did"
    (step,) = read_steps(places().data, session.id)
    with ByteStore(places().data).open(step.changes[0].before.content) as file:
        assert file.read() == b"mine\n"


def test_an_early_look_that_comes_too_late_does_not_look_while_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would copy git's folder as the command has left it so far."""
    journal, begins = ChangeJournal(places().data), list[LookedProject]()
    begun = journal.begin(StepOwner("session", 1), "bash", "c1", tmp_path)
    monkeypatch.setattr(LookedProject, "begin", begins.append)
    journal.look_early([tmp_path])
    journal.end(begun)
    journal.close()
    assert not begins


@pytest.mark.matrix
def test_an_early_look_that_fails_costs_the_turn_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, fails = LookedProject.begin, [True]

    def failing(self: LookedProject) -> Any:
        if fails.pop() if fails else False:
            raise RuntimeError("boom")
        return begin(self)

    monkeypatch.setattr(LookedProject, "begin", failing)
    (tmp_path / "edited.txt").write_text("old\n")
    say_slowly(tmp_path, monkeypatch, "echo new > edited.txt")


@pytest.mark.matrix
@pytest.mark.parametrize("options", [{"no_tools": True}, {"save": False}])
def test_nothing_is_looked_at_early_where_no_command_can_run_or_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(CallChanges, "_start_early", lambda *_: pytest.fail("looked"))
    monkeypatch.setattr(call_changes, "EARLY_SECONDS", 0.0)
    assert say(opened(Played(lambda request: "done"), tmp_path, **options), "go")[1].error is None


def stop_command(changes: CallChanges, folder: Path, look: threading.Event | None = None) -> None:
    """Stop a command after it has written `edited.txt`; set `look` once it is stopped."""
    context = SimpleNamespace(project=folder, call_id="c1")
    line = CommandDecision("allow", "write", (), "")
    call = CheckedCall(discover_tools()["bash"], {"command": "sleep"}, {})
    decision = CallDecision("allow", command=line, about=call)

    async def go() -> None:
        begun = asyncio.Event()

        async def command() -> ToolResult:
            (folder / "edited.txt").write_text("new\n")
            begun.set()
            await asyncio.sleep(60)
            raise AssertionError

        task = asyncio.create_task(changes.run(decision, context, command))  # type: ignore[arg-type]
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() and not (look and look.is_set())
        if look:
            look.set()
        await changes.aclose()

    asyncio.run(go())
