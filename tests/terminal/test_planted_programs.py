"""A pager, an editor and a git that lie in the project, in a folder that is first on the PATH: none is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from terminal.repl import Opens, Place, Repl
from terminal.terminal import ENTER, ctrl
from worktrees.repository import make_project

NAMES = ("git", "rg", "less", "vi", "nano", "pico", "tmux", "xclip", "xsel", "wl-copy", "wl-paste", "sh", "stty")


def plant(folder: Path, text: str, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


@pytest.fixture
def made(places: object, tmp_path: Path) -> Place:
    """A project with an activated environment that holds planted programs, and the person's own pager and editor."""
    place: Place = places(["word\\n" * 3])  # type: ignore[operator]
    place.folder.rmdir()
    make_project(place.folder)
    (place.folder / "app.py").write_text("changed\n" * 60)
    planted = place.folder / ".venv" / "bin"
    plant(planted, f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/planted.log\n', *NAMES)
    own = tmp_path / "own"
    plant(own, "#!/bin/sh\n[ -t 0 ] || cat > /dev/null\necho own ${0##*/}\nread line < /dev/tty\n", "less", "vi")
    place.environment["PATH"] = os.pathsep.join(map(str, (planted, own, place.environment["PATH"])))
    place.environment |= {"DISPLAY": ":9", "WAYLAND_DISPLAY": "w", "TMUX": "x", "VIRTUAL_ENV": str(planted.parent)}
    return place


def test_the_pager_and_the_editor_are_the_persons(repl: Opens, made: Place, tmp_path: Path) -> None:
    at = repl(at=made, rows=20)
    at.say("hello")
    for keys, seen in (
        ("/diff" + ENTER, "changed"),
        ("!seq 99" + ENTER, "exit status 0"),
        (ctrl("o"), "own less"),
        ("/transcript" + ENTER, "own less"),
        (ctrl("g"), "own vi"),
        ("/copy" + ENTER, "OSC 52"),
    ):
        before = at.raw.count(seen.encode())
        at.send(keys)
        at.wait_for(lambda terminal: terminal.raw.count(seen.encode()) > before, 120)  # noqa: B023
        at.send(ENTER if seen.startswith("own") else "")
        at.idle()
    assert not (tmp_path / "planted.log").exists()


def test_a_pager_of_the_project_that_the_environment_names_is_one_clear_line(
    repl: Opens, made: Place, tmp_path: Path
) -> None:
    at: Repl = repl(at=made, rows=20, columns=400, env={"PAGER": f"{made.folder}/.venv/bin/less -R"})
    at.send("!seq 99" + ENTER)
    at.wait_for("attached: output of `seq 99`")
    at.idle()
    at.send(ctrl("o"))
    at.wait_for("nexus does not run programs from the project. Set PAGER to another program.")
    assert not (tmp_path / "planted.log").exists()
