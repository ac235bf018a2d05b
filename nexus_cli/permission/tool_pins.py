"""Keep the definitions of server tools that a person has allowed: a rule does not allow a tool whose server says
something else of it since.

A record in the data folder for each server, named by the hash of its entry, holds the allowed words of each tool.
"""

from __future__ import annotations

import difflib
import hashlib
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from nexus_cli.config.record_file import RecordFile
from nexus_cli.core.elide import name_first, plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.tool import Tool
from nexus_cli.text.hidden_signs import mark_on_one_line

LARGEST = 100_000
"""Most characters of a definition that is kept; of a longer one only the digest, so that its change cannot be shown."""
MAX_LINES = 200
"""Most lines of a shown change."""
WIDTH = 72
"""Characters of such a line."""
MAX_COMPARED = 3000
"""Most lines that are compared: for more of them a server could make that take minutes. Only the new ones are shown."""
MAX_FIRST = 4
"""Most lines of a change that a line of text shows."""
SPACES = "only whitespace differs"
UNSTEADY = 3
"""At this change a tool may be allowed whatever its server says of it."""
ANY = "any"
"""Kept in place of the words of such a tool."""


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A server says something else of a tool than when a person allowed it."""

    diff: str
    """The changed lines, each after `+ ` or `- `."""
    times: int
    """1 for the first change."""

    @classmethod
    def between(cls, before: str, after: str, times: int = 1) -> DefinitionChange:
        """Return the change from the words of a server to its later ones."""
        return cls(_describe_change(before, after), times)

    @property
    def first_lines(self) -> str:
        """The first changed lines in one line of text, the new ones first."""
        changed = [line for sign in "+-" for line in self.diff.split("\n") if line.startswith(sign)]
        return mark_on_one_line(name_first(changed, MAX_FIRST, " | ")) or self.diff

    @property
    def is_unsteady(self) -> bool:
        """True if the person may allow the tool whatever its server says of it."""
        return self.times >= UNSTEADY


def find_change(tool: Tool) -> DefinitionChange | None:
    """Return the difference of a tool's definition from the allowed one; None if it does not, or none was allowed."""
    pin = _record(tool.entry).read_items().get(tool.name) if tool.entry else None
    now = _words(tool) if pin else ""
    if pin is None or pin.get("words") in (now, ANY):
        return None
    return DefinitionChange.between(str(pin.get("words")), now, _count_changes(pin) + 1)


def pin_tools(tools: Iterable[Tool], *, replaces: bool = False, any_words: bool = False) -> None:
    """Keep the definitions of `tools`, as a person allowed them.

    Those that are kept already stay unless the new one `replaces` them. `any_words`: the tools are allowed whatever
    their servers say of them. Raises `NexusError("internal", ...)` if the record cannot be written.
    """
    servers: dict[str, list[Tool]] = {}
    for tool in tools:
        if tool.entry:
            servers.setdefault(tool.entry, []).append(tool)
    for of_server in servers.values():
        record = _record(of_server[0].entry)
        kept_pins = record.read_items()
        new_pins = {
            tool.name: ANY if any_words else _words(tool)
            for tool in of_server
            if replaces or tool.name not in kept_pins
        }
        if all(name in kept_pins and kept_pins[name].get("words") == words for name, words in new_pins.items()):
            continue
        with record.change() as pins:
            for name, words in new_pins.items():
                before = pins.get(name)
                if before is None or before.get("words") != words:
                    pins[name] = {"words": words, "changes": _count_changes(before) + 1 if before else 0}


def read_unpinned(entry: str) -> set[str]:
    """Return the names of the tools of a server that are allowed whatever the server says of them."""
    return {name for name, pin in _record(entry).read_items().items() if pin.get("words") == ANY}


def _record(entry: str) -> RecordFile:
    return RecordFile(f"mcp_pins/{entry}.json", "tools")


def _words(tool: Tool) -> str:
    words = tool.definition()
    return words if len(words) <= LARGEST else f"SHA-256 {hashlib.sha256(words.encode()).hexdigest()}"


def _count_changes(pin: JsonObject) -> int:
    changes = pin.get("changes")
    return changes if isinstance(changes, int) else 0


def _describe_change(before: str, after: str) -> str:
    """Return the lines that differ, with a line around them; of too many the new ones first."""
    old, new = (
        [piece for line in text.split("\n") for piece in textwrap.wrap(line, WIDTH)] for text in (before, after)
    )
    compared = old if len(old) + len(new) <= MAX_COMPARED else []
    changes = [line for line in difflib.unified_diff(compared, new, lineterm="", n=1) if line[0] != "@"][2:]
    if len(changes) > MAX_LINES:
        changes.sort(key=lambda line: line[0] != "+")
    rows = [f"{line[0]} {line[1:]}" for line in changes[:MAX_LINES]]
    omitted = len(changes) - len(rows)
    return "\n".join([*rows, *([f"... {plural(omitted, 'more line')}"] if omitted else [])]) or SPACES
