"""A forked run of the program in a pseudo-terminal, expected and answered as with `pexpect.spawn`.

Cheaper than that by the start of an interpreter and its imports. Whole screens are `terminal/`'s business.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pexpect
from pexpect.fdpexpect import fdspawn
from program.nursery import born

SECONDS = 180
PAUSE = 0.05
"""Seconds before each input, as in `pexpect.spawn`: a question takes keys a moment after it is shown."""
TAKE_TERMINAL = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
"""Run in the forked process before the program: it leads a session with this terminal."""


class TerminalRun(fdspawn):  # type: ignore[misc]
    """`nexus ARGUMENTS`; use it in a `with`. stdout goes to the descriptor `stdout`, if there is one."""

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str],
        cwd: Path,
        code: str = "",
        kind: str = "whole",
        columns: int = 80,
        stdout: int | None = None,
    ) -> None:
        """Start it; `code` is run in it first. `kind` is that of `born`."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        streams: dict[str, Any] = {"stdin": slave, "stdout": slave if stdout is None else stdout, "stderr": slave}
        self.run = born(
            list(arguments), cwd=cwd, env=dict(env), code=TAKE_TERMINAL + code, kind=kind, session=True, **streams
        )
        os.close(slave)
        super().__init__(master, timeout=SECONDS, encoding="utf-8")

    def send(self, text: str) -> int:
        """Type `text`."""
        time.sleep(PAUSE)
        return int(super().send(text))

    def sendline(self, text: str = "") -> int:
        """Type `text` and press Enter."""
        return self.send(f"{text}\n")

    def finish(self) -> str:
        """Return what is still printed; then `exitstatus` is known."""
        self.expect(pexpect.EOF)
        self.exitstatus = self.run.wait(SECONDS)
        return str(self.before)

    def __exit__(self, *_: object) -> None:
        self.run.kill()
        self.run.wait(SECONDS)
        self.close()
