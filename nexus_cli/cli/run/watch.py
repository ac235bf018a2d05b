"""`nexus ask --watch`: the turns of one session over a stream, a turn for each batch of lines.

Each batch begins a turn of its own, with prompt hooks and an outcome, so this is not a `Continuation`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import UsageError
from nexus_cli.core.event import Outcome
from nexus_cli.ui.input.line_batches import LineBatches
from nexus_cli.ui.print.stream import write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.cli.run.ask_options import AskOptions
    from nexus_cli.session.session import Session

NEXT_TURN_HINT = "The next lines:"
CONTINUES = ("network", "provider", "rate_limit", "overloaded", "length", "refused", "schema")
"""Kinds of error after which the next batch may succeed."""
MIN_COST = 1e-9
"""The dollar limit once all is spent: the next turn is refused before its request."""


class Watch:
    """The turns over one stream. Limits on tokens and dollars apply to all of them together."""

    def __init__(self, options: AskOptions, trigger: Trigger, *, quiet: bool) -> None:
        """`trigger` has the prompt, without a batch."""
        self._trigger, self._quiet = trigger, quiet
        self.batches = LineBatches(0, options.watch_lines, options.watch_pause, self._print_notice)
        self.failed: Outcome | None = None
        """The first failed turn."""

    async def triggers(self) -> AsyncIterator[Trigger]:
        """Yield the trigger of each batch until the stream ends."""
        first = True
        while text := await self.batches.next():
            block = f"<stdin>\n{text.removesuffix(chr(10))}\n</stdin>"
            trigger = self._trigger if first else Trigger(NEXT_TURN_HINT, "stdin", schema=self._trigger.schema)
            yield replace(trigger, text=f"{trigger.text}\n\n{block}")
            first = False
        if first:
            self._print_notice("stdin ended without input; nothing was sent")

    def end_turn(self, session: Session, outcome: Outcome) -> bool:
        """Subtract what a turn used from the limits; return False if the watch must end."""
        limits, usage = session.dispatcher.limits, outcome.usage
        cost, tokens = limits.max_cost, limits.max_total_tokens
        if cost is not None:
            cost = max(MIN_COST, cost - (usage.cost_usd or 0.0))
        if tokens is not None:
            tokens = max(1, tokens - usage.input - usage.output)
        session.dispatcher.limits = replace(limits, max_cost=cost, max_total_tokens=tokens)
        if not outcome.ok:
            self.failed = self.failed or outcome
        return outcome.ok or outcome.finish in CONTINUES

    def _print_notice(self, notice: str) -> None:
        if not self._quiet:
            write_stderr_line(f"nexus: {notice}")


def check_watch(words: tuple[str, ...], *, is_terminal: bool, until: str) -> None:
    """Raise `UsageError` if there is no prompt or no stream."""
    if not " ".join(words).strip() or words == ("-",):
        raise UsageError(
            "--watch", "requires a prompt in addition to stdin", 'Try tail -f LOG | nexus ask --watch "..."'
        )
    if is_terminal:
        raise UsageError("--watch", "stdin is a terminal", 'Try tail -f LOG | nexus ask --watch "..."')
    if until:
        raise UsageError("--watch and --until", "cannot be used together", "Omit one of them")
