"""The JSON that programs read: a `TypedDict` for each report and server result (an event is its own: `core/event.py`).

Builders import these for mypy only; at runtime `nexus docs json`, `/openrpc.json` and the tests do. The modules do not
use `from __future__ import annotations`: evaluating annotations at once is cheaper than evaluating strings.
"""

from typing import Literal, TypedDict


class VersionedReport(TypedDict):
    """The object of a command with `--json`."""

    version: Literal[1]


class ActReport(VersionedReport):
    """The object of a command that changes something."""

    ids: list[str]
    """The ids, names or paths of what it changed; empty if it changed nothing."""
    message: str
    """What it did, as a sentence for people; may be empty."""


class TextReport(VersionedReport):
    """The object of a command that prints a text."""

    name: str
    """What has the text: an id, a name or a path."""
    text: str


class LevelFields(TypedDict):
    """A permission level."""

    allow: str
    """The level by its former name: `read`, `edit`, `run` or `all`."""
    level: str
    """The level: `ask`, `edit`, `auto`, `all` or `plan`."""


class ReportOfSession(VersionedReport):
    """A report on one session."""

    session: str
