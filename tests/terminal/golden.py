"""Whole screens kept as files, beside the tests: what was seen once and found right to the eye.

What differs from run to run (ids, times, the version) is masked, almost without moving anything. With `SCREENS=write`
in the environment a screen is written instead of compared; look at what changed before you keep it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

from terminal.emulator import Cell

FOLDER = Path(__file__).with_name("expected")
ULID = re.compile(r"\b0[0-9A-HJKMNP-TV-Z]{25}\b")
SHORT_ID = re.compile(r"(?:(?<=/resume )|(?<=session )|(?<= -r )|(?<=--session ))[0-9A-HJKMNP-TV-Z]{6}\b")
SECONDS = re.compile(r"\b\d+ min(?= \d+ s\b)|\b\d+(\.\d+)?(?= ?m?s\b)")
VERSION = re.compile(r"(?<=nexus )\d+(\.\d+)+(\.?\w+)?")
FIGURES = re.compile(r"\$\d+\.\d+|\d[\d.,]*[kM]?(?= of \d[\d.]*[kM]| in\b| out\b| tokens\b)|\d+%")
"""Costs and tokens: the request names the folder, which is another one each time."""
ROUND = re.compile(r"\b0+(\.0)?(?=[kM]\b)")
"""Thousands, which have a decimal or none as it happens."""
SLOW = re.compile(r"\[dim\| · 0+(\.0+)? s\]$| · 0+(\.0+)? s(?=\]?$)| for 0+(\.0+)? s(?= \()")
"""Masked times that are shown only where something took a second or more."""
TIME = re.compile(r"\b(0+ min )?0+(\.0+)?(?= s\b)")
WRITE = "SCREENS"


def masked(line: str) -> str:
    """`line` with zeros for ids, times, and what depends on the folder's name."""
    for ids in (ULID, SHORT_ID):
        line = ids.sub(lambda found: "0" * len(found[0]), line)
    line = VERSION.sub(lambda found: re.sub(r"\w", "0", found[0]), line)
    for figures in (SECONDS, FIGURES):
        line = figures.sub(lambda found: re.sub(r"\d", "0", found[0]), line)
    return ROUND.sub("0", line)


def styled(cells: Sequence[Sequence[Cell]]) -> list[str]:
    """The rows with what is seen of their looks: `[red bold|words]`; blanks at the end are left out."""
    return ["".join(_piece(look, list(run)) for look, run in groupby(row, _look)).rstrip(" ") for row in cells]


def timeless(lines: Sequence[str]) -> list[str]:
    """Masked lines as they are wherever they are seen: without what only a slow machine shows."""
    return [TIME.sub("0", SLOW.sub("", line)) for line in lines]


@cache
def _look(cell: Cell) -> str:
    names = [name for name in ("bold", "dim", "italics", "underscore", "reverse") if getattr(cell, name)]
    colours = [cell.fg if cell.fg != "default" else "", f"on {cell.bg}" if cell.bg != "default" else ""]
    return " ".join(filter(None, [*colours, *names]))


def _piece(look: str, cells: Sequence[Cell]) -> str:
    text = "".join(cell.data for cell in cells)
    plain = not look or (not text.strip() and "on " not in look and "reverse" not in look)
    return text if plain else f"[{look}|{text}]"


def check(name: str, lines: Sequence[str]) -> None:
    """`AssertionError` with the difference when `lines` are not what the file `name` has."""
    seen = [masked(line) for line in lines]
    while seen and not seen[-1]:
        seen.pop()
    path = FOLDER / f"{name}.txt"
    if os.environ.get(WRITE) == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in seen))
    expected = path.read_text().split("\n")[:-1] if path.exists() else []
    assert timeless(seen) == timeless(expected), "\n".join([f"not as {path.name} has it:", *_marked(seen, expected)])


def _marked(seen: Sequence[str], expected: Sequence[str]) -> list[str]:
    lines = []
    for number in range(max(len(seen), len(expected))):
        new, old = (side[number] if number < len(side) else None for side in (seen, expected))
        if new == old:
            lines.append(f"  {new}")
        else:
            lines += [f"- {old}"] if old is not None else []
            lines += [f"+ {new}"] if new is not None else []
    return lines
