"""Combine the drops of one request's sections and single messages into a few lines. Each is small and a small window
has many, which would hide the drops of whole messages. Other drops are reported at once by the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nexus_cli.context.window.entry_ranges import ranges_of
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.event import ContextDrop, ContextPlan, Event, TurnStart

FEW = 2
"""Most drops of one kind that are reported one by one."""
SECTIONS, PARTS = "sections shortened or left out", "messages cut short"
LOST = "kept until the end of this run only"
"""Replaces the command if no other process can read the drops."""


class DropOwner(Protocol):
    """The session that the drops belong to."""

    @property
    def id(self) -> str:
        """Its id in the ledger."""

    @property
    def saved(self) -> bool:
        """True if another process can read it now."""


def shell_drops_command(session: DropOwner | None, drop: str = "") -> str:
    """Return the shell command that prints `drop` of `session` from any folder, or with "" lists all; `LOST` if there
    is none. Without a session, the command means the folder's newest session."""
    if session is not None and not session.saved:
        return LOST
    from nexus_cli.reports.text.lines import SHORT_ID  # noqa: PLC0415  (once something was left out)

    named = f" --session {session.id[:SHORT_ID]}" if session is not None else ""
    return f"`nexus drops show {drop}{named}`" if drop else f"`nexus drops{named}`"


def describe_drop(drop: Drop, how: str) -> str:
    """Return the line about one drop: what was left out, why, and `how` to see it."""
    from nexus_cli.reports.text.lines import name_cause, plural  # noqa: PLC0415  (as above)

    beyond = f" and {drop.uncounted:,} bytes that were counted, not kept" if drop.uncounted else ""
    return (
        f"left out as {drop.id}: {drop.what}, {plural(drop.tokens, 'token')}{beyond} ({name_cause(drop.cause)}); {how}"
    )


class DropBatcher:
    """Holds drops until another event arrives."""

    def __init__(self, single: Callable[[Drop], str], way: Callable[[], str]) -> None:
        """`single` describes one drop; `way` returns the command that lists them."""
        self._single = single
        self._way = way
        self._held: dict[str, list[Drop]] = {}

    def hold(self, event: Event) -> bool:
        """True if the drop is held, to be shown later."""
        kind = _kind(event.drop) if isinstance(event, ContextDrop) else ""
        if isinstance(event, ContextDrop) and kind:
            self._held.setdefault(kind, []).append(event.drop)
        return bool(kind)

    def release(self, event: Event | None = None) -> list[str]:
        """Return the lines to show before `event` (None: before anything else); none while more drops may follow."""
        if isinstance(event, ContextDrop | ContextPlan | TurnStart):
            return []
        held, self._held = self._held, {}
        return [line for kind, drops in held.items() for line in self._lines(kind, drops)]

    def _lines(self, kind: str, drops: list[Drop]) -> list[str]:
        if len(drops) <= FEW:
            return [self._single(drop) for drop in drops]
        tokens, beyond = sum(drop.tokens for drop in drops), sum(drop.uncounted for drop in drops)
        more = f" and {beyond:,} bytes that were counted, not kept" if beyond else ""
        spans = ranges_of(int(drop.id.removeprefix("d")) for drop in drops)
        ids = ", ".join(f"d{first} to d{last}" if first < last else f"d{first}" for first, last in spans)
        return [f"{len(drops)} {kind}, {tokens:,} tokens{more}: {ids}; {self._way()}"]


def _kind(drop: Drop) -> str:
    """Return the plural name of a drop's kind; "" for a kind that is reported at once."""
    if drop.cause is Cause.SECTION_BUDGET:
        return SECTIONS
    return PARTS if drop.cause is Cause.TRUNCATION and drop.what.startswith("part of ") else ""
