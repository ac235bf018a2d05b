"""The page of `nexus --help` as a file; `nexus --help all` is typer's, which takes five times Python's own start.

Imports only modules that Python itself has loaded.
"""

from __future__ import annotations

import os

PAGE = f"{os.path.dirname(__file__)}/help.txt"
"""A screen of 24 lines."""


def read_help_page() -> str:
    """Return the page, "" if it cannot be read and typer's has to do."""
    try:
        with open(PAGE, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""
