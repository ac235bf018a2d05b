"""What a command changes in a git repository is known by name; elsewhere nothing is looked at."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from session.played import Played, opened, say, the_ledger

from nexus_cli.core.message import ToolResult
from nexus_cli.lane.work_notes import MOST_FILES, WORK
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.listing import list_files
from nexus_cli.tools.registry import discover_tools
from nexus_cli.turn import command_changes
from nexus_cli.turn.command_changes import CommandChanges

FILES = {"kept.txt": "a\n", "gone.txt": "b\n", "edited.txt": "old\n", ".gitignore": "*.log\n"}


def repository(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True)
    return folder


def changed_by(folder: Path, *commands: str) -> tuple[str, ...]:
    """What the outcome of a turn with these commands names."""
    calls = [("bash", {"command": command}) for command in commands]
    session = opened(Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else calls), folder)
    return say(session, "go")[1].changed


@pytest.mark.parametrize(
    ("command", "changed"),
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
)
def test_what_a_command_changes_is_named(tmp_path: Path, command: str, changed: tuple[str, ...]) -> None:
    assert changed_by(repository(tmp_path), command) == changed


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


def test_of_very_many_files_some_are_named_and_the_others_counted(tmp_path: Path) -> None:
    assert len(changed_by(repository(tmp_path), "for n in $(seq 1000 1199); do echo > $n.txt; done")) == 200
    with the_ledger() as ledger:
        (memo,) = ledger.log(ledger.sessions()[0].id).memos(WORK)
    assert len(memo.value["files"]) == MOST_FILES and memo.value["more"] == 200 - MOST_FILES


def test_without_git_and_in_a_project_too_large_nothing_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert changed_by(tmp_path, "echo x > a.txt") == ()
    monkeypatch.setattr(command_changes, "MOST", 3)
    assert changed_by(repository(tmp_path), "echo x > b.txt") == ()


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


def test_a_stop_does_not_wait_for_the_names_of_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing that takes long is given up, and what was known is looked at all the same."""
    listed = list[int]()

    def slow(root: Path, project: Path, stop: StopFlag) -> Iterable[str]:
        listed.append(1)
        while len(listed) > 1 and not stop.is_pressed:
            time.sleep(0.005)
        return list_files(root, project, stop)

    monkeypatch.setattr(command_changes, "list_files", slow)
    monkeypatch.setattr(command_changes, "SECONDS_STOPPED", 0.05)
    changes, folder = CommandChanges(), repository(tmp_path)
    context = SimpleNamespace(project=folder)
    tool = discover_tools()["bash"]

    begun = asyncio.Event()

    async def command() -> ToolResult:
        (folder / "edited.txt").write_text("new\n")
        begun.set()
        await asyncio.sleep(60)
        raise AssertionError

    async def go() -> None:
        task = asyncio.create_task(changes.run(tool, "write", context, command))  # type: ignore[arg-type]
        await begun.wait()
        task.cancel()
        await asyncio.wait([task], timeout=1)
        assert task.cancelled() and changes.take_cut() == ("edited.txt",)

    asyncio.run(go())
