"""The job: "it deleted my work": a turn edits files and then wipes the folder; one command gives all of it back.

The folder holds what people have in it: committed, staged, changed, untracked and ignored files, links, odd modes and
names. Neither git nor the person has a copy of most of that.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from json_shape import problems
from program.stage import Done, Stage, calls, stage
from programs import need
from search import sample
from undo.world import files, tree

from nexus_cli.undo.undo_turn import UndoReport

WIPE = "rm -rf src && git clean -fdX"
WIPE_PLAIN = "rm -rf src data.db .env .env.link && chmod 644 tool.sh"
EDITS = {"price.py": ("1.16", "1.19"), "notes.md": ("milk", "bread")}


class Careless:
    """A model that reads two files, edits them and then tidies up too much; later turns only talk."""

    def __init__(self, wipe: str) -> None:
        self.wipe = wipe

    def __call__(self, body: Any) -> dict[str, Any]:
        messages = body["messages"]
        last = max(at for at, one in enumerate(messages) if one["role"] == "user")
        if "tidy up" not in str(messages[last]["content"]):
            return {"text": "I see."}
        done = sum(one["role"] == "tool" for one in messages[last:])
        if done == 0:
            return calls(*(("read_file", {"path": name}) for name in EDITS))
        if done == 2:
            edits = ((name, {"old": old, "new": new}) for name, (old, new) in EDITS.items())
            return calls(*(("edit_file", {"path": name, "edits": [edit]}) for name, edit in edits))
        if done == 4:
            return calls(("bash", {"command": self.wipe}))
        return {"text": "Tidied up."}


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.email=p@example.org", "-c", "user.name=P", "--no-optional-locks")
    done = subprocess.run(["git", *own, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def fill(folder: Path) -> None:
    """The person's folder, before anything is committed."""
    for name, content in {
        "price.py": b"TAX = 1.16\n",
        "notes.md": b"milk\n",
        "src/main.py": b"print(1)\n",
        "src/deep/er/er.py": b"x = 1\n",
        os.fsdecode(b"src/caf\xc3\xa9 \xff.txt"): b"odd\r\n\0",
        "tool.sh": b"#!/bin/sh\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "tool.sh").chmod(0o755)
    (folder / "src/latest").symlink_to("deep/er/er.py")


def add_private(folder: Path) -> None:
    """What git has no copy of."""
    (folder / ".env").write_text("KEY=secret\n")
    (folder / ".env").chmod(0o600)
    (folder / ".env.link").symlink_to("nowhere/.env")
    (folder / "data.db").write_bytes(os.urandom(7_000_000))
    (folder / "src/idea.txt").write_text("only here\n")
    (folder / "src/run").write_text("#!/bin/sh\n")
    (folder / "src/run").chmod(0o750)
    (folder / "src/main.py").write_text("print(2)\n")


def add_git(folder: Path) -> None:
    """A repository with a stash, a staged file and a commit."""
    (folder / ".gitignore").write_text(".env*\n*.db\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    (folder / "price.py").write_text("TAX = 9\n")
    git(folder, "stash", "-q")
    (folder / "src/staged.py").write_text("staged = True\n")
    git(folder, "add", "src/staged.py")


def repository_state(folder: Path) -> tuple[str, ...]:
    """What a person sees of a repository."""
    asked = (
        ("status", "--porcelain=v2", "--branch", "--ignored", "-uall"),
        ("log", "--all", "--format=%H %D"),
        ("ls-files", "--stage"),
        ("stash", "list", "-p"),
    )
    return tuple(git(folder, *one) for one in asked)


def own_files(folder: Path) -> dict[str, Any]:
    return {name: about for name, about in files(tree(folder)).items() if not name.startswith(".git/")}


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[str], Stage]]:
    """Makes the stage for a wipe."""
    with stage(tmp_path, None) as made:
        fill(made.folder)

        def prepare(wipe: str) -> Stage:
            made.script(Careless(wipe))
            if wipe == WIPE:
                add_git(made.folder)
            add_private(made.folder)
            return made

        yield prepare


def report(done: Done, status: int = 0) -> dict[str, Any]:
    assert done.status == status, done.text
    assert not [*problems(done.result, UndoReport)]
    return done.result


def check_turn(place: Stage, level: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let the turn happen; return the files before and after it."""
    before = own_files(place.folder)
    done = place.ask("--allow", level, "--json", "Fix the price, and tidy up.")
    assert done.status == 0 and done.result["text"] == "Tidied up.", done
    assert {"price.py", "src/main.py", "src/idea.txt"} <= set(done.result["files_changed"]), done
    after = own_files(place.folder)
    assert not (place.folder / "src").exists() and not (place.folder / ".env").exists(), done
    assert "1.19" in (place.folder / "price.py").read_text()
    assert "bread" in (place.folder / "notes.md").read_text()
    return before, after


@pytest.mark.parametrize("level", sample(["all", "auto"], 2))
def test_a_wiped_repository_comes_back_whole(begin: Callable[[str], Stage], level: str) -> None:
    if level == "auto":
        need("bwrap")
    place = begin(WIPE)
    seen = repository_state(place.folder)
    before, after = check_turn(place, level)
    index = (place.folder / ".git" / "index").read_bytes()
    value = report(place.run("undo", "--json"))
    assert value["turn"] == 1 and not value["kept"] and not value["unfollowed"] and value["head_moved"] is None
    gone = {name for name in before if before[name] != after.get(name)}
    assert set(value["restored"]) == {os.fsencode(name).decode(errors="replace") for name in gone}
    assert own_files(place.folder) == before
    assert (place.folder / ".git" / "index").read_bytes() == index
    assert repository_state(place.folder) == seen
    assert report(place.run("redo", "--json"))["turn"] == 1
    assert own_files(place.folder) == after
    report(place.run("undo", "--json"))
    assert own_files(place.folder) == before and repository_state(place.folder) == seen
    assert report(place.run("undo", "--json"))["turn"] is None


def test_a_wiped_folder_without_git_comes_back_whole(begin: Callable[[str], Stage]) -> None:
    place = begin(WIPE_PLAIN)
    before, after = check_turn(place, "all")
    shown = place.run("diff", "--turn", "1")
    assert shown.status == 0 and "-TAX = 1.16\n+TAX = 1.19\n" in shown.text and "-only here\n" in shown.text
    assert "mode of tool.sh: 0755 -> 0644" in shown.text
    for command, expected in (("undo", before), ("redo", after), ("undo", before)):
        value = report(place.run(command, "--json"))
        assert not value["kept"] and not value["unfollowed"]
        assert own_files(place.folder) == expected


def test_the_next_turn_is_told_and_is_a_turn_of_its_own(begin: Callable[[str], Stage]) -> None:
    place = begin(WIPE)
    before, _ = check_turn(place, "all")
    report(place.run("undo", "--json"))
    assert place.ask("-c", "--json", "What happened?").status == 0
    told = json.dumps(place.server.requests[-1].body["messages"])
    assert "the person undid the file changes of turn 1" in told and "price.py" in told
    check_turn_again = place.ask("-c", "--allow", "all", "--json", "Once more: tidy up.")
    assert check_turn_again.status == 0 and not (place.folder / "src").exists(), check_turn_again
    (place.folder / "src").mkdir()
    (place.folder / "src/idea.txt").write_text("my own\n")
    value = report(place.run("undo", "--json"), status=1)
    assert value["turn"] == 3 and [one["path"] for one in value["kept"]] == ["src/idea.txt"]
    assert (place.folder / "src/idea.txt").read_text() == "my own\n"
    aside = value["kept"][0]["aside"]
    assert (place.folder / aside).read_text() == "only here\n"
    now = own_files(place.folder)
    assert {name: now.get(name) for name in before if name != "src/idea.txt"} == {
        name: about for name, about in before.items() if name != "src/idea.txt"
    }
