"""Our own process is closed to other programs of the person, and does all of its work as an ordinary user."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox.scene import GROUNDS, Ground, in_user, open_scene
from search import sample

from nexus_cli.core.private_process import make_process_private
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.listing import list_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
CLOSED = ("environ", "maps", "fd", "cwd", "root")
FREE = [ground for ground in GROUNDS if not ground.missing and ground.user == "ordinary" and ground.abi in (0, 7)]


def look_at(pid: int) -> list[str]:
    """Return what of `CLOSED` another program of the same user can read."""
    tries = (
        f"cat /proc/{pid}/{name} >/dev/null || ls /proc/{pid}/{name}/ >/dev/null && echo {name}" for name in CLOSED
    )
    done = subprocess.run(["sh", "-c", "; ".join(tries)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.split()


def forked(make_private: bool) -> tuple[list[str], bool]:
    """Return what can be read of a fork of this process, and whether it leaves a core dump."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a process that has changed its user is private
        if make_private:
            make_process_private()
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGQUIT)
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    found = look_at(child)
    os.kill(child, signal.SIGCONT)
    return found, os.WCOREDUMP(os.waitpid(child, 0)[1])


@pytest.mark.matrix
def test_nothing_of_a_private_process_is_read_or_dumped(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    os.chdir(tmp_path)
    readable, _ = in_user("ordinary", lambda: forked(False))
    assert readable == list(CLOSED), "otherwise it would prove nothing"
    assert in_user("ordinary", lambda: forked(True)) == ([], False)


@pytest.mark.matrix
@pytest.mark.parametrize("arguments", [["ask"], ["status"]], ids=str)
def test_the_program_makes_itself_private(arguments: list[str], tmp_path: Path) -> None:
    """Seen where the first module of the app is loaded, before it does anything."""
    code = (
        "import ctypes, sys, runpy; from nexus_cli.cli import app;"
        "app.run = lambda arguments: print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)) or 0;"
        f"sys.argv[1:] = {arguments!r}; from nexus_cli.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "0\n", done


@pytest.mark.parametrize("ground", sample(FREE, 2), ids=lambda ground: ground.name)
def test_a_private_process_starts_commands_and_ends_them(ground: Ground) -> None:
    mark = f"64{os.getpid()}"

    def act() -> tuple[str, bool, list[str]]:
        make_process_private()
        with open_scene(ground) as scene:
            text = scene.text(f"(env -i setsid sleep {mark} >&- 2>&- &); cat tracked; echo x > new; cat $HOME/.netrc")
            left = subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True).stdout
            return text, bool(left), sorted(list_files(scene.project, scene.project, StopFlag()))

    text, left, files = in_user(ground.user, act)
    assert text.startswith("1\n") and "SECRET" not in text and not left and files == ["new", "tracked"]
