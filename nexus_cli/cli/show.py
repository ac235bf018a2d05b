"""Puts a report on stdout: as JSON, or as text that a terminal cannot be harmed by, also where a pipe leads to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.json_text import json_text
from nexus_cli.ui.door import through
from nexus_cli.ui.stream import Stream


def show(text: str) -> None:
    """Write a report's text through the door, ending in one newline."""
    Stream(1).write(through(text.rstrip("\n") + "\n"))


def show_value(text: str) -> None:
    """Write a value as it is, for a script; in a terminal through the door."""
    stream = Stream(1)
    stream.write((through(text) if stream.terminal else text) + "\n")


def show_json(value: Mapping[str, Any]) -> None:
    """Write `value` as indented JSON; in a terminal with everything beyond ASCII escaped."""
    stream = Stream(1)
    stream.write(json_text(value, escaped=stream.terminal, indent=2) + "\n")


def columns() -> int:
    """The width that text forms may take."""
    return Stream(1).width
