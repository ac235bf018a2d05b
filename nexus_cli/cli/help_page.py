"""The page of `nexus --help` as a file: to make it imports typer, which takes five times as long as Python's start.

Imports only what Python itself has loaded.
"""

from __future__ import annotations

import os

PAGE = f"{os.path.dirname(__file__)}/help.txt"
"""What typer prints in a terminal that is wide enough; a test compares them."""
WIDE = 80
"""Columns from which typer's page no longer depends on the width."""


def read_help_page() -> str:
    """Return the page, "" where typer has to make it: for a narrower terminal, and for a shell's completion."""
    if _columns() < WIDE or "_NEXUS_COMPLETE" in os.environ:
        return ""
    try:
        with open(PAGE, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _columns() -> int:
    """Return the width that `shutil.get_terminal_size` finds."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(1).columns or WIDE
    except OSError:
        return WIDE
