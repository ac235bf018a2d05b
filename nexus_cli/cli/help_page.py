"""The page of `nexus --help` as a file: typer, which generates it, takes five times as long as Python's start.

Imports only modules that Python itself has loaded.
"""

from __future__ import annotations

import os

PAGE = f"{os.path.dirname(__file__)}/help.txt"
"""The output of typer in a wide terminal; a test compares the two."""
WIDE = 80
"""Columns from which typer's page no longer depends on the width."""


def read_help_page() -> str:
    """Return the page, "" if typer must generate it: for a narrower terminal, and for shell completion."""
    if _columns() < WIDE or "_NEXUS_COMPLETE" in os.environ:
        return ""
    try:
        with open(PAGE, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _columns() -> int:
    """Return the same width as `shutil.get_terminal_size`."""
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
