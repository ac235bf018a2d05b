"""A second kind of terminal: tmux, which reflows its lines at a resize as most terminals do.

The same words as `terminal.terminal`, as far as tmux knows them. Each one has a server of its own on a socket of its
own, which ends with it. What starts in it is the real program from its very start.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from terminal.terminal import PATIENCE, NotSeenError

PRESENT = shutil.which("tmux") is not None


class Tmux:
    """One window of a tmux server of its own. Close it, or use it in a `with`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str],
        cwd: str | Path,
    ) -> None:
        self._folder = TemporaryDirectory(prefix="nexus-tmux-")
        self._tmux = ("tmux", "-f", "/dev/null", "-S", str(Path(self._folder.name) / "socket"))
        self._status = Path(self._folder.name) / "status"
        inside = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items() if name != "TERM")
        command = f"env {inside} {shlex.join(argv)}; echo $? > {shlex.quote(str(self._status))}"
        self._run(
            "start-server",
            ";",
            "set",
            "-g",
            "history-limit",
            "50000",
            ";",
            "set",
            "-g",
            "status",
            "off",
            ";",
            "new-session",
            "-d",
            "-x",
            str(columns),
            "-y",
            str(rows),
            "-c",
            str(cwd),
            command,
        )

    def _run(self, *arguments: str, given: bytes | None = None) -> str:
        done = subprocess.run([*self._tmux, *arguments], input=given, capture_output=True, timeout=PATIENCE)
        if done.returncode:
            raise NotSeenError(f"tmux {arguments[0]}: {done.stderr.decode('utf-8', 'replace').strip()}")
        return done.stdout.decode("utf-8", "replace")

    def send(self, text: str) -> None:
        """Type `text`, as it is."""
        self._run("send-keys", "-H", *(f"{byte:02x}" for byte in text.encode()))

    def paste(self, text: str) -> None:
        """Paste `text`, bracketed where the program asked for it."""
        self._run("load-buffer", "-", given=text.encode())
        self._run("paste-buffer", "-p", "-r")

    def resize(self, columns: int, rows: int) -> None:
        """Another size of the window; lines reflow."""
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def lines(self) -> list[str]:
        """The rows of the screen, without blanks at their ends."""
        return [line.rstrip() for line in self._run("capture-pane", "-p").split("\n")[:-1]]

    def scrollback(self, *, joined: bool = True) -> list[str]:
        """Everything from the first line on; lines that were wrapped at the edge are `joined` again."""
        text = self._run("capture-pane", "-p", "-S", "-", *(["-J"] if joined else []))
        return [line.rstrip() for line in text.split("\n")[:-1]]

    def wait_for(self, wanted: str | Callable[[Tmux], Any], timeout: float = PATIENCE, *, back: bool = False) -> None:
        """Wait until the screen (with `back` also the scrollback) holds a text, or a condition holds."""
        limit = time.monotonic() + timeout
        while True:
            lines = self.scrollback() if back else self.lines()
            if wanted(self) if callable(wanted) else wanted in "\n".join(lines):
                return
            if time.monotonic() > limit:
                raise NotSeenError("\n".join([f"not seen after {timeout} s: {wanted!r}", *lines[-60:]]))
            time.sleep(0.05)

    def status(self, timeout: float = PATIENCE) -> int:
        """Wait for its end: the exit status as a shell gives it."""
        limit = time.monotonic() + timeout
        while not self._status.exists() or not self._status.read_text().strip():
            if time.monotonic() > limit:
                raise NotSeenError("\n".join([f"it did not end within {timeout} s", *self.lines()]))
            time.sleep(0.05)
        return int(self._status.read_text())

    def close(self) -> None:
        """End the server, and with it what runs in it."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=PATIENCE)
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
