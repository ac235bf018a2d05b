"""Properties over random trees: a turn changes anything, then the person changes anything, then the turn is undone."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import need
from search import SEARCHES
from undo.world import World, files, tree

NAMES = (
    "a",
    "b",
    "d",
    "d/a",
    "d/e",
    "d/e/f",
    "x y",
    "caf\u00e9",
    "cafe\u0301",
    "n\nl",
    "\x1b[1m",
    os.fsdecode(b"\xff"),
)
TEXTS = (
    "",
    "one\n",
    "one\ntwo\nthree\nfour\nfive\nsix\n",
    "one\ntwo\nthree\nfour\nfive\nSIX\n",
    "ONE\ntwo\nthree\nfour\nfive\nsix\n",
    "\0bin",
)
VERBS = ("write", "write", "write", "delete", "link", "mode", "move", "folder")


def change(folder: Path, verb: str, name: str, other: str, text: str) -> None:
    """Make one change, if it can be made."""
    path, to = folder / name, folder / other
    try:
        match verb:
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                draft = path.with_name("draft")
                draft.write_text(text)
                draft.rename(path)
            case "delete" if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            case "delete":
                path.unlink()
            case "link":
                path.unlink(missing_ok=True)
                path.symlink_to(other)
            case "mode" if path.is_file() and not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o777 == 0o644 else 0o644)
            case "move":
                to.parent.mkdir(parents=True, exist_ok=True)
                path.rename(to)
            case "folder":
                path.unlink(missing_ok=True)
                path.mkdir(parents=True)
                (path / "inner").write_text(text)
    except OSError:
        (folder / "draft").unlink(missing_ok=True)


Changes = list[tuple[str, str, str, str]]
changes = st.lists(
    st.tuples(st.sampled_from(VERBS), st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(TEXTS)),
    max_size=8,
)


def make(world: World, several: Changes) -> None:
    for one in several:
        change(world.project, *one)
    for draft in world.project.rglob("draft"):
        draft.unlink()


@pytest.mark.matrix
@given(start=changes, turns=st.lists(changes, min_size=1, max_size=3), person=changes)
def test_each_path_is_as_before_or_the_persons_with_ours_beside(
    start: Changes, turns: list[Changes], person: Changes
) -> None:
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(os.path.realpath(place)) / "project", Path(os.path.realpath(place)) / "data")
        world.project.mkdir()
        make(world, start)
        shown = []
        for several in turns:
            shown.append(files(tree(world.project)))
            world.turn(partial(make, world, several))
        after = files(tree(world.project))
        make(world, person)
        mine = files(tree(world.project))
        before = shown[-1]
        report = world.undo(turn=len(turns))
        now = files(tree(world.project))
        kept = {one["path"]: one["aside"] for one in report["kept"]}
        for path in {*before, *after, *mine, *now} - {aside for aside in kept.values() if aside}:
            old, ours, theirs, here = (found.get(path) for found in (before, after, mine, now))
            if old == ours:
                assert here == theirs, (path, "not of the turn")
            elif theirs == ours and path not in kept:
                assert here == old, (path, "unchanged since")
            elif path in kept:
                assert here == theirs, (path, "kept")
                assert old is None or kept[path], (path, "ours is beside it")
            else:
                assert here is not None or old is None or theirs == old, (path, "merged")
        for path, aside in kept.items():
            if aside:
                assert now[aside][0] == before[path][0] and now[aside][2] == before[path][2], "ours, as it was"
        undone = tree(world.project)
        world.redo()
        assert files(tree(world.project)) == mine, "a redo brings it back"
        world.undo(turn=len(turns))
        assert files(tree(world.project)) == files(undone), "undo, redo, undo is undo"


@pytest.mark.matrix
@given(start=changes, turns=st.lists(changes, min_size=1, max_size=5))
def test_turns_go_back_one_by_one_and_forward_again(start: Changes, turns: list[Changes]) -> None:
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(os.path.realpath(place)) / "project", Path(os.path.realpath(place)) / "data")
        world.project.mkdir()
        make(world, start)
        states = [files(tree(world.project))]
        for several in turns:
            world.turn(partial(make, world, several))
            states.append(files(tree(world.project)))
        for _ in range(2):
            back = []
            while (report := world.undo())["turn"] is not None:
                assert report["kept"] == []
                assert files(tree(world.project)) == states[report["turn"] - 1]
                back.append(report["turn"])
            assert files(tree(world.project)) == states[0]
            for turn in reversed(back):
                assert world.redo()["turn"] == turn
                assert files(tree(world.project)) == states[turn]
            assert world.redo()["turn"] is None and files(tree(world.project)) == states[-1]


GIT = (
    "git",
    "-c",
    "user.name=n",
    "-c",
    "user.email=n@x",
    "-c",
    "init.defaultBranch=main",
    "-c",
    "commit.gpgsign=false",
)
COMMANDS = (
    ("add", "-A"),
    ("commit", "-qam", "x"),
    ("stash", "-u"),
    ("checkout", "-q", "-B", "other"),
    ("reset", "-q", "--hard"),
    ("clean", "-fdqX"),
    ("rm", "-rqf", "d"),
    ("mv", "a", "moved"),
)


@pytest.mark.matrix
def test_mixes_leave_git_as_it_is_and_give_the_tree_back(tmp_path: Path) -> None:
    """Of edits, commands of git, and what the person does: index, HEAD, refs and stash stay byte for byte."""
    need("git")
    chance = random.Random(29)
    for number in range(200 if SEARCHES else 20):
        world = World(Path(os.path.realpath(tmp_path)) / f"p{number}", Path(os.path.realpath(tmp_path)) / f"d{number}")
        world.project.mkdir()

        def git(*arguments: str, world: World = world) -> None:
            subprocess.run([*GIT, *arguments], cwd=world.project, capture_output=True, check=False)

        def some(count: int) -> Changes:
            picks = (VERBS, NAMES, NAMES, TEXTS)
            return [tuple(chance.choice(pick) for pick in picks) for _ in range(count)]  # type: ignore[misc]

        git("init", "-q")
        world.write(".gitignore", "b\n*.env\n")
        world.write("my.env", "KEY=1\n", 0o600)
        make(world, some(6))
        git("add", "-A")
        git("commit", "-qm", "first")
        make(world, some(3))
        before = files(tree(world.project))

        def work(git: Callable[..., None] = git, world: World = world) -> None:
            for _ in range(3):
                make(world, some(2))
                git(*chance.choice(COMMANDS))

        world.turn(work)
        is_alone = number % 2 == 0
        if not is_alone:
            make(world, some(2))
        own, mine = tree(world.path(".git")), files(tree(world.project))
        report = world.undo()
        assert tree(world.path(".git")) == own, number
        if is_alone:
            now = {path: about for path, about in files(tree(world.project)).items() if not path.startswith(".git/")}
            assert now == {path: about for path, about in before.items() if not path.startswith(".git/")}, number
        assert {one["path"]: mine.get(one["path"]) for one in report["kept"]} == {
            one["path"]: files(tree(world.project)).get(one["path"]) for one in report["kept"]
        }, number
        shutil.rmtree(world.project)
        shutil.rmtree(world.data)
