"""Puts a report on stdout: as JSON, or as text that a terminal cannot be harmed by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nexus_cli.ui.door import through
from nexus_cli.ui.stream import Stream


def show(text: str) -> None:
    """Write `text`, ending in one newline; in a terminal through the door."""
    stream = Stream(1)
    text = text.rstrip("\n") + "\n"
    stream.write(through(text) if stream.terminal else text)


def show_json(value: Mapping[str, Any]) -> None:
    """Write `value` as indented JSON; in a terminal with everything beyond ASCII escaped."""
    stream = Stream(1)
    stream.write(json.dumps(value, indent=2, ensure_ascii=stream.terminal) + "\n")


def columns() -> int:
    """The width that text forms may take."""
    return Stream(1).width
