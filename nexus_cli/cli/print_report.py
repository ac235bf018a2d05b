"""Puts a report on stdout: as JSON, or as text that a terminal cannot be harmed by, also where a pipe leads to one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nexus_cli.core.wire import json_text
from nexus_cli.ui.print.stream import Stream
from nexus_cli.ui.terminal_sanitizer import sanitize

ENDLESS = 2**30
"""A width that cuts and folds nothing."""


def print_text(text: str) -> None:
    """Write a report's text through the door, ending in one newline."""
    Stream(1).write(sanitize(text.rstrip("\n") + "\n"))


def print_value(text: str) -> None:
    """Write a value as it is, for a script; in a terminal through the door."""
    stream = Stream(1)
    stream.write((sanitize(text) if stream.terminal else text) + "\n")


def print_json(value: Mapping[str, Any]) -> None:
    """Write `value` as indented JSON; in a terminal with everything beyond ASCII escaped."""
    stream = Stream(1)
    stream.write(json_text(value, escaped=stream.terminal, indent=2) + "\n")


def text_width(*, whole: bool = False) -> int:
    """The width that text forms may take; for one that is `whole` no limit in a pipe, unless `COLUMNS` sets one: what
    reads it there wants each line complete."""
    stream = Stream(1)
    return ENDLESS if whole and not stream.terminal and not os.environ.get("COLUMNS") else stream.width
