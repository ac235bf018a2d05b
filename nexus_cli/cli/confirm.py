"""Ask the person at the terminal whether to go on."""

from __future__ import annotations

import os
import sys

from nexus_cli.reports.text.lines import filled
from nexus_cli.ui.print.stream import QuietStream, Stream


def can_confirm() -> bool:
    """Return True if a person can be asked: the questions are on stderr, because stdout may be read by a program."""
    return os.isatty(0) and os.isatty(2)


def confirm(question: str) -> bool:
    """Ask `question` on stderr, wrapped at words, and read a line of stdin; only `y` and `yes` are True."""
    stream = Stream(2)
    QuietStream(stream).write("\n".join(filled(f"{question} [y/N]", stream.width - 5)) + " ")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
