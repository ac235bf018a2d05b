"""Read the table of the start: the page of `nexus --help`, and each command with its options.

`python tests/cli/test_start_table.py` writes the table from the declarations. Imports only modules that Python itself
has loaded.
"""

from __future__ import annotations

import os

TABLE = f"{os.path.dirname(__file__)}/start_table.txt"
HELP = "--help"
"""The block of the page of `nexus --help`. Any other is that of a command: `sessions show`, "" for nexus itself."""
COMPLETED_BY = "?"
"""Before `NOUN VERB` in place of values: those that complete the first argument of this verb."""


def read_block(name: str) -> str:
    """Return the lines of a block; "" if there is none, or the table cannot be read."""
    try:
        with open(TABLE, encoding="utf-8") as file:
            return file.read().partition(f"\n[{name}]\n")[2].partition("\n\n[")[0]
    except (OSError, ValueError):  # also bytes that are no text
        return ""


def read_rows(command: str) -> list[list[str]]:
    """Return the rows of a command: kind, names, values and help.

    Kinds are `section` (of the commands that follow), `command`, `alias` (its value is the command), `slash` (a name of
    a command that works only in a session: its value), `flag`, `option` and `argument`, `options` and `arguments` that
    may be given several times. Lines that are no row are left out.
    """
    rows = [line.split("\t") for line in read_block(command).splitlines()]
    return [row for row in rows if len(row) == 4]
