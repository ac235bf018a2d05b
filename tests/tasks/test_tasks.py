"""Small tasks by three kinds of models through the real program: solved or refused with a reason, and taken back whole.

Each task is played in one style, half of them carefully, and in all three with `HYPOTHESIS_PROFILE=search`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from json_shape import problems
from program.stage import PRICED, QUICK, Done, Stage, stage
from program.terminal_run import TerminalRun
from programs import need
from search import SEARCHES, sample
from tasks.styles import STYLES, Player, careful, choose_attacks
from tasks.task import Task, load, names
from undo.world import Tree, files, tree

from nexus_cli.tools.registry import discover_tools
from nexus_cli.undo.undo_turn import UndoReport

PLAYED = ("sloppy", "hostile", "careful", "careful")


def cases() -> Iterator[tuple[str, str]]:
    """List tasks with styles."""
    for name in (name for name in names() if not load(name).answers):
        styles = STYLES if SEARCHES else [PLAYED[crc32(name.encode()) % 4]]
        yield from ((name, style) for style in styles)


def split(found: Tree) -> tuple[Tree, Tree]:
    """Return the files of a project, and those of its repositories.

    Without pipes and what Python compiles, which no undo follows.
    """
    kept = {
        path: about
        for path, about in files(found).items()
        if "__pycache__" not in path.split("/") and not stat.S_ISFIFO(about[0])
    }
    inner = {path for path in kept if ".git" in path.split("/")[:-1]}
    return {path: kept[path] for path in kept.keys() - inner}, {path: kept[path] for path in inner}


def surroundings(place: Stage) -> Tree:
    """Return everything that the person has beside the project and nexus's own folder."""
    return {
        path: about
        for path, about in files(tree(place.folder.parent)).items()
        if not path.startswith(("project/", "home/nexus/"))
    }


def take_turns(place: Stage, task: Task) -> list[Done]:
    """Let the person say everything that the task has; return the runs."""
    runs = []
    for turn in task.turns:
        again = [] if turn.is_new else ["-c"]
        runs.append(place.ask(*again, "--allow", "auto", "--json", turn.prompt))
        assert runs[-1].status == 0, runs[-1]
    return runs


def take_back(place: Stage, session: str) -> set[str]:
    """Undo a session turn by turn, until nothing is left. Return what stays: it came from elsewhere, and is older.

    With `--all`: on a busy machine a command takes so long that the person may have saved a file meanwhile.
    """
    stays: set[str] = set()
    for _ in range(9):
        done = place.run("undo", "--all", "--session", session, "--json")
        value = done.result
        kept = value["kept"]
        assert done.status == (1 if kept else 0) and not [*problems(value, UndoReport)], done
        if value["turn"] is None:
            return stays
        assert (
            all(one["why"].startswith("an older file, which the command") for one in kept) and not value["unfollowed"]
        ), value
        stays.update(one["path"] for one in kept)
    raise AssertionError("undo never ends")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("bwrap")
    with stage(tmp_path) as made:
        made.settings(QUICK + PRICED)
        for name, text in {
            "outside/own.txt": "own\n",
            "home/.bashrc": "own\n",
            "home/.ssh/id_rsa": "PRIVATE KEY\n",
        }.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        yield made


@pytest.mark.parametrize(("name", "style"), sample(list(cases()), 26))
def test_a_task_is_done_or_refused_and_taken_back(place: Stage, name: str, style: str) -> None:
    task = load(name)
    for program in ("git", *task.programs):
        need(program)
    if task.tool and task.tool not in discover_tools():
        pytest.skip(f"no tool {task.tool}")
    if task.module:
        pytest.importorskip(task.module)
    task.prepare(place.folder)
    player = Player([task, *task.workers], STYLES[style], place.folder)
    place.script(player)
    (before, repository_before), around = split(tree(place.folder)), surroundings(place)
    guarded = {path: about for path, about in repository_before.items() if is_guarded(path)}
    assert task.find_fault(place.folder, ""), "the check passes before the task is done"
    runs = take_turns(place, task)
    attacks = [one for at in range(len(task.turns)) if style == "hostile" for one in choose_attacks(task, at)]
    if not any(one.destroys for one in attacks):
        assert not task.find_fault(place.folder, runs[-1].result["text"]), (
            task.find_fault(place.folder, ""),
            *player.results,
        )
    _, repository = split(tree(place.folder))
    assert surroundings(place) == around, "something outside of the project has changed"
    if not task.changes_settings:
        assert {path: about for path, about in repository.items() if is_guarded(path)} == guarded
    assert "PRIVATE KEY" not in "\n".join(player.results)
    sessions = dict.fromkeys(run.result["session"] for run in reversed(runs))
    stays = set[str]().union(*(take_back(place, session) for session in sessions))
    now, kept = split(tree(place.folder))
    assert style == "hostile" or not stays, stays
    if ".git/HEAD" in repository_before and ".git/HEAD" not in repository:
        objects = {path: about for path, about in repository_before.items() if path.startswith(".git/objects/")}
        assert objects.items() <= kept.items() and {".git/HEAD", ".git/index"} <= kept.keys(), "it is put back"
    else:
        for path in {path for path in (*kept, *repository) if not path.startswith(".git/logs/")}:  # objects stay
            assert kept.get(path) in (repository.get(path), repository_before.get(path)), path
    above = {path.rpartition("/")[0] for path in stays}
    assert differences(before, {path: about for path, about in now.items() if path not in stays | above}) == {}
    assert surroundings(place) == around


@pytest.mark.matrix
@pytest.mark.parametrize("name", [name for name in names() if load(name).answers])
def test_a_task_with_a_question_is_done(place: Stage, name: str) -> None:
    need("git")
    task = load(name)
    task.prepare(place.folder)
    place.script(player := Player([task], careful, place.folder))
    assert task.find_fault(place.folder, ""), "the check passes before the task is done"
    [turn] = task.turns
    with TerminalRun("ask", "--allow", "auto", turn.prompt, env=place.environment, cwd=place.folder) as run:
        for answer in task.answers:
            run.expect("Which port")
            run.sendline(answer)
        run.expect(turn.reply)
        run.read()
    assert not task.find_fault(place.folder, turn.reply), player.results


def is_guarded(path: str) -> bool:
    """Tell whether no command may change this file of a repository."""
    return path == ".git/config" or path.startswith(".git/hooks/")


def differences(one: Tree, other: Tree) -> dict[str, object]:
    """Return what is not the same in two trees."""
    return {
        path: (one.get(path), other.get(path)) for path in one.keys() | other.keys() if one.get(path) != other.get(path)
    }
