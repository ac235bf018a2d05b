"""Programs that lie in a project whose folders of programs are on the PATH, as after `activate`: nexus starts none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, stage
from search import sample, variant
from worktrees.repository import make_project

NAMES = (
    "git",
    "git-ls-files",
    "git-status",
    "rg",
    "less",
    "more",
    "vi",
    "nano",
    "pico",
    "ed",
    "code",
    "tmux",
    "xclip",
    "xsel",
    "wl-copy",
    "wl-paste",
    "sh",
    "bash",
    "env",
    "ssh",
    "ps",
    "bwrap",
    "stty",
    "tput",
    "gpg",
    "true",
    "which",
    "uname",
    "gcc",
    "cc",
    "ld",
    "ldconfig",
    "objdump",
    "ip",
    "ifconfig",
    "arp",
    "file",
    "xdg-open",
    "python3",
)


def plant(folder: Path, text: str, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.folder.rmdir()
        make_project(made.folder)
        log = tmp_path / "planted.log"
        folders = [made.folder / ".venv" / "bin", made.folder / "node_modules" / ".bin"]
        for folder in folders:
            plant(folder, f'#!/bin/sh\necho "$0 $*" >> {log}\n', *NAMES)
        own = tmp_path / "own"
        plant(own, f'#!/bin/sh\necho "${{0##*/}}" >> {tmp_path}/own.log\n[ -t 0 ] || cat > /dev/null\n', "less", "vi")
        made.environment["PATH"] = os.pathsep.join([*map(str, folders), str(own), made.environment["PATH"]])
        made.environment |= {"DISPLAY": ":9", "TMUX": "x", "VIRTUAL_ENV": str(folders[0].parent)}
        yield made


def planted(place: Stage) -> str:
    log = place.home.parent / "planted.log"
    return log.read_text() if log.exists() else ""


COLD = ("ask", "doctor", "space", "status", "context", "skill", "worktree")
"""The commands of which the full matrix runs the installed script: an import may start a program, too."""


@pytest.mark.parametrize("cold", [(), variant((COLD,))], ids=["forked", "installed"])
def test_no_command_of_ours_starts_a_program_of_the_project(place: Stage, cold: tuple[str, ...]) -> None:
    work: list[Any] = [
        calls(
            ("write_file", {"path": "made.txt", "content": "made\n"}),
            ("glob", {"pattern": "**/*"}),
            ("grep", {"pattern": "line"}),
        ),
        "done",
    ]
    begun = set[str]()
    for words in (
        ("space", "create", "team"),
        ("space", "list"),
        ("status",),
        ("doctor",),
        ("context",),
        ("skill", "list"),
        ("ask", "-w", "x", "--allow", "edit", "work"),
        ("worktree", "list"),
        ("worktree", "diff", "x"),
        ("worktree", "apply", "x"),
        ("worktree", "remove", "--force", "x"),
        ("ask", "--allow", "edit", "again"),
    ):
        place.script([*work])
        # The first of each imports what it needs: a library may start a program at its import, too.
        done = place.run(*words, installed=words[0] in cold and words[0] not in begun)
        begun.add(words[0])
        assert done.status in (0, 1) and b"Traceback" not in done.stderr, done
        assert not planted(place), words
    assert (place.folder / "made.txt").read_text() == "made\n"


@pytest.mark.parametrize("name", sample(["EDITOR", "VISUAL"], 2))
def test_an_editor_of_the_project_that_the_environment_names_is_one_clear_line(place: Stage, name: str) -> None:
    done = place.run("config", "edit", env={name: str(place.folder / "node_modules/.bin/vi")})
    assert done.status == 2 and len(done.told) == 1
    assert "cannot be started (nexus does not run programs from the project)" in done.told[0]
    assert not planted(place)
