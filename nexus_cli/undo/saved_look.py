"""Save the look before a command, for the process that finds out what a killed one changed.

A file of lines: the first has all paths, each further one what differs from the lines before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from nexus_cli.config.private_file import append_lines
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.tree.file_state import FileState
from nexus_cli.tree.read_state import StampedState
from nexus_cli.undo.records import MODE

MAX_LINES = 50
"""Most lines of differences, after which all paths are written anew."""
_get_fields = attrgetter(*FileState.__dataclass_fields__)


class SavedLook:
    """The file of one project's looks."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._states: Mapping[str, StampedState] = {}
        self._about: JsonObject = {}
        self._lines = 0

    def save(self, states: Mapping[str, StampedState], about: JsonObject) -> None:
        """Write the states of all paths, or what differs from the last ones, with the values `about` the look.

        Raises `OSError`.
        """
        changed = {path: record for path, record in states.items() if self._states.get(path) is not record}
        removed = [path for path in self._states if path not in states]
        is_new = not self._lines or self._lines > MAX_LINES or 2 * len(changed) > len(states)
        paths = states if is_new else changed
        rows = {path: (*_get_fields(record.state), record.stamp, record.is_settled) for path, record in paths.items()}
        new = {name: stamp for name, stamp in about.items() if is_new or self._about.get(name) != stamp}
        line = json.dumps({"seen": rows, "gone": [] if is_new else removed, **new}, separators=(",", ":"))
        draft = self.place.with_name(f"{self.place.name}.new") if is_new else self.place
        if is_new:
            draft.unlink(missing_ok=True)
        append_lines(draft, f"{line}\n".encode("ascii"), synced=False)
        if is_new:
            draft.replace(self.place)
        self._states, self._about, self._lines = dict(states), about, 1 if is_new else self._lines + 1


def read_rows(place: Path) -> tuple[JsonDict, JsonDict]:
    """Return the newest states by path, as JSON, and the values about the look. Raises `OSError`, `ValueError`, and
    `KeyError` for a damaged file."""
    states: JsonDict = {}
    values: JsonDict = {}
    for line in place.read_text("ascii").splitlines():
        try:
            row = json.loads(line)
        except ValueError:  # cut off: its command had not begun
            break
        states |= row.pop("seen")
        for path in row.pop("gone"):
            states.pop(path, None)
        values |= row
    return states, values


def parse_rows(rows: JsonObject) -> dict[str, StampedState]:
    """Make states of the rows that `read_rows` returns. Raises `KeyError`, `TypeError`, `ValueError`."""
    states = {}
    for path, (*values, stamp, is_settled) in rows.items():
        # The attributes are a list in JSON.
        fields: list[Any] = [tuple(map(tuple, element)) if isinstance(element, list) else element for element in values]
        states[path] = StampedState(FileState(*fields), tuple(stamp), is_settled)
    return states


def read_contents(places: Iterable[Path]) -> set[str]:
    """Return the contents that saved looks name, of files and in git's folders; damaged ones are left out."""
    contents: set[str] = set()
    for place in places:
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
            rows, details = read_rows(place)
            contents.update(row[2] for row in rows.values())
            for _, values, _ in details["repositories"].values():
                contents.update(value.partition(MODE)[0] for value in values.values())
    return contents
