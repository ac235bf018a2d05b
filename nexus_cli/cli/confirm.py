"""Ask the person at the terminal whether to go on."""

from __future__ import annotations

import os
import sys

from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import QuietStream, Stream


def can_confirm() -> bool:
    """Return True if a person can be asked: the questions are on stderr, because stdout may be read by a program."""
    return os.isatty(0) and os.isatty(2)


def confirm(question: str) -> bool:
    """Ask `question` on stderr and read a line of stdin; only `y` and `yes` are True."""
    QuietStream(Stream(2)).write(sanitize(f"{question} [y/N] ".lstrip()))
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
