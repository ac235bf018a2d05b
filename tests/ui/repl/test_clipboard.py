"""The clipboard: which way is taken, with real programs on a PATH of their own, and a terminal that only listens."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from nexus_cli.core.errors import NexusError
from nexus_cli.ui.repl import clipboard


def copy(text: str, environ: Mapping[str, str], write: Callable[[str], None]) -> str:
    with patch.dict(os.environ, environ, clear=True):
        return asyncio.run(clipboard.copy_to_clipboard(text, write))


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "SECONDS", 300.0)


class Terminal:
    """Remembers what it was sent."""

    def __init__(self) -> None:
        self.sent = ""

    def write(self, text: str) -> None:
        self.sent += text


def program(folder: Path, name: str, code: str = 'cat > "$0.got"; echo "$@" > "$0.with"') -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\nPATH=/bin:/usr/bin\n" + code + "\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("name", "environ"),
    [
        ("wl-copy", {"WAYLAND_DISPLAY": "wayland-0"}),
        ("xclip", {"DISPLAY": ":0"}),
        ("xsel", {"DISPLAY": ":0"}),
    ],
)
def test_a_program_of_the_desktop_is_taken_where_there_is_a_display(
    tmp_path: Path, name: str, environ: dict[str, str]
) -> None:
    program(tmp_path / "bin", name)
    terminal = Terminal()
    how = copy("grüße\n", {**environ, "PATH": str(tmp_path / "bin"), "TERM": "xterm"}, terminal.write)
    assert name in how and terminal.sent == ""
    assert (tmp_path / "bin" / f"{name}.got").read_text() == "grüße\n"


def test_without_a_display_or_a_program_the_terminal_is_asked(tmp_path: Path) -> None:
    program(tmp_path / "bin", "xclip")
    terminal = Terminal()
    how = copy("grüße", {"PATH": str(tmp_path / "bin"), "TERM": "xterm"}, terminal.write)
    assert "OSC 52" in how
    assert terminal.sent == f"\x1b]52;c;{base64.b64encode('grüße'.encode()).decode()}\x07"


def test_a_program_that_fails_or_hangs_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = asyncio.create_subprocess_exec

    async def start_program(path: str, *arguments: str, **more: Any) -> asyncio.subprocess.Process:
        monkeypatch.setattr(clipboard, "SECONDS", 0.1 if path.endswith("xclip") else 300.0)
        return await start(path, *arguments, **more)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_program)
    program(tmp_path / "bin", "wl-copy", "exit 1")
    program(tmp_path / "bin", "xclip", "exec sleep 30")
    program(tmp_path / "bin", "xsel")
    environ = {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0", "PATH": str(tmp_path / "bin")}
    assert "xsel" in copy("x", environ, Terminal().write)


def test_a_program_that_hangs_stops_nothing_and_leaves_no_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "bin" / "xclip.pipe")

    def is_read() -> bool:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    async def give_up(work: Coroutine[Any, Any, Any], seconds: float) -> None:
        """Do as `asyncio.wait_for`, where the time is over once the program hangs."""
        task = asyncio.ensure_future(work)
        while not is_read():  # noqa: ASYNC110  (another process reads)
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        raise TimeoutError

    monkeypatch.setattr(asyncio, "wait_for", give_up)
    # The child waits for the end of a pipe that only itself and its parent can write to.
    program(tmp_path / "bin", "xclip", 'mkfifo "$0.pipe"; sh -c \'exec 3<>"$1"; read x <&3\' x "$0.pipe" & wait')
    for name, value in {"DISPLAY": ":0", "PATH": str(tmp_path / "bin"), "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)

    async def play() -> int:
        ticks = 0
        copying = asyncio.ensure_future(clipboard.copy_to_clipboard("x" * 200_000, Terminal().write))
        while not copying.done():
            await asyncio.sleep(0)
            ticks += 1
        with pytest.raises(NexusError, match="200,000 bytes"):
            await copying
        return ticks

    assert asyncio.run(play()) > 10
    ends = time.monotonic() + 60
    while is_read():  # until the kernel has ended the killed child
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_inside_tmux_its_buffer_is_loaded(tmp_path: Path) -> None:
    program(tmp_path / "bin", "tmux")
    terminal = Terminal()
    how = copy("text", {"TMUX": "/tmp/tmux,1,0", "PATH": str(tmp_path / "bin"), "TERM": "tmux"}, terminal.write)
    assert "tmux" in how and terminal.sent == ""
    assert (tmp_path / "bin" / "tmux.got").read_text() == "text"
    assert (tmp_path / "bin" / "tmux.with").read_text() == "load-buffer -w -\n"


def test_where_tmux_cannot_the_sequence_passes_through_it(tmp_path: Path) -> None:
    program(tmp_path / "bin", "tmux", "exit 1")
    terminal = Terminal()
    copy("x", {"TMUX": "/tmp/tmux,1,0", "PATH": str(tmp_path / "bin"), "TERM": "tmux"}, terminal.write)
    assert terminal.sent == "\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\"


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_without_a_program_is_told_with_a_hint(term: str) -> None:
    terminal = Terminal()
    with pytest.raises(NexusError) as caught:
        copy("x", {"TERM": term, "PATH": "/nowhere"}, terminal.write)
    assert caught.value.kind == "usage" and "xclip" in caught.value.hint and terminal.sent == ""


def test_more_than_a_terminal_takes_is_told() -> None:
    terminal = Terminal()
    with pytest.raises(NexusError, match="100,001 bytes"):
        copy("x" * 100_001, {"TERM": "xterm", "PATH": "/nowhere"}, terminal.write)
    assert terminal.sent == ""


def test_nothing_is_not_copied() -> None:
    with pytest.raises(NexusError, match="nothing to copy"):
        copy("", {"TERM": "xterm"}, Terminal().write)


def test_a_program_through_a_relative_entry_of_the_path_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "xclip")
    monkeypatch.chdir(tmp_path)
    terminal = Terminal()
    copy("x", {"DISPLAY": ":0", "PATH": "bin", "TERM": "xterm"}, terminal.write)
    assert terminal.sent and not (tmp_path / "bin" / "xclip.got").exists()


def test_a_lone_surrogate_is_copied_as_a_replacement() -> None:
    terminal = Terminal()
    copy("\ud800", {"TERM": "xterm", "PATH": "/nowhere"}, terminal.write)
    assert base64.b64encode("\ufffd".encode()).decode() in terminal.sent


HEX = r"""printf '\302\253data PNGf'; od -An -v -tx1 "$0.image" | tr -d ' \n' | tr a-f A-F; printf '\302\273'"""
IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


@pytest.mark.parametrize(
    ("name", "code", "environ"),
    [
        ("wl-paste", 'cat "$0.image"', {"WAYLAND_DISPLAY": "wayland-0"}),
        ("xclip", 'cat "$0.image"', {"DISPLAY": ":0"}),
        ("osascript", HEX, {}),
    ],
)
def test_an_image_on_the_clipboard_is_saved_once_and_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str, environ: dict[str, str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin" if name == "osascript" else "linux")
    program(tmp_path / "bin", name, code)
    (tmp_path / "bin" / f"{name}.image").write_bytes(IMAGE)
    here = {**environ, "PATH": str(tmp_path / "bin")}
    with patch.dict(os.environ, here, clear=True):
        paths = [asyncio.run(clipboard.save_clipboard_image(tmp_path / "pasted")) for _ in range(2)]
    path = Path(paths[0])
    assert paths[0] == paths[1] and path.read_bytes() == IMAGE and path.suffix == ".png"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("code", ["echo a text", "exit 1", "exec sleep 60"])
def test_what_is_no_image_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(clipboard, "SECONDS", 0.3)
    program(tmp_path / "bin", "xclip", code)
    for environ in ({"DISPLAY": ":0"}, {}):
        here = {**environ, "PATH": str(tmp_path / "bin")}
        with patch.dict(os.environ, here, clear=True):
            assert asyncio.run(clipboard.save_clipboard_image(tmp_path / "pasted")) == ""
    assert not (tmp_path / "pasted").exists()
