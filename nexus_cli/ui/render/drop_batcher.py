"""Show drops: those of single messages of one request in a line together, since a small window has many, which would
hide the drops of whole messages; others at once; none that no person could miss."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.entry_ranges import ranges_of
from nexus_cli.core.event import ContextDrop, ContextPlan, Event, TurnStart

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

FEW = 2
"""Most drops that are reported one by one."""
LOST = "kept only until this run ends"
"""Replaces the command if no other process can read the drops."""


def shell_drops_command(session: Session | None, drop: str) -> str:
    """Return the shell command that prints `drop` of `session` from any folder, or with "" lists all; `LOST` if there
    is none. Without a session, the command means the folder's newest session."""
    if session is not None and not session.saved:
        return LOST
    from nexus_cli.ledger.sessions import SHOWN_ID  # noqa: PLC0415  (once something was left out)

    session_option = f" --session {session.id[-SHOWN_ID:]}" if session is not None else ""
    return f"`nexus drops show {drop}{session_option}`" if drop else f"`nexus drops{session_option}`"


USUAL = (Cause.OUTPUT_CAP, Cause.COMPACTION)
"""Causes of drops that need no warning: a long output, or a compaction that was requested or announced."""
_AMONG_DROPS = ContextPlan | TurnStart
"""Events between drops of one request."""


class DropBatcher:
    """Shows drops, and holds those that may be many until an event arrives that is not among drops."""

    def __init__(self, name_command: Callable[[str], str], show: Callable[[str, str], None]) -> None:
        """`name_command` returns the command that prints the drop of an id, or lists all for ""; `show` shows a line
        in a role of the theme."""
        self._name_command, self._show = name_command, show
        self._pending: list[Drop] = []

    def feed(self, event: Event) -> None:
        """Show a drop, now, later or never: one notice reports pruned results. Before an event that is not among drops,
        show those that are held."""
        if isinstance(event, ContextDrop):
            drop = event.drop
            if drop.cause is Cause.TRUNCATION and drop.what.startswith("part of "):
                self._pending.append(drop)
            elif drop.is_missed or drop.cause is Cause.OUTPUT_CAP:
                self._show_one(drop)
        elif not isinstance(event, _AMONG_DROPS):
            self.show_held()

    def _show_one(self, drop: Drop) -> None:
        from nexus_cli.reports.event_texts import describe_drop  # noqa: PLC0415  (once something was left out)

        self._show(describe_drop(drop, self._name_command(drop.id)), "dim" if drop.cause in USUAL else "warn")

    def show_held(self) -> None:
        """Show the drops that are held, before anything else: few one by one, many in one line."""
        drops, self._pending = self._pending, []
        if len(drops) <= FEW:
            for drop in drops:
                self._show_one(drop)
            return
        tokens, beyond = sum(drop.tokens for drop in drops), sum(drop.uncounted for drop in drops)
        more = f" and {beyond:,} bytes (counted, not kept)" if beyond else ""
        spans = ranges_of(int(drop.id.removeprefix("d")) for drop in drops)
        ids = ", ".join(f"d{first} to d{last}" if first < last else f"d{first}" for first, last in spans)
        self._show(f"{len(drops)} parts left out, {tokens:,} tokens{more}: {ids}; {self._name_command('')}", "warn")
