"""From a summary to the head of the next epoch: one message that carries it, then what is kept (law 6). Pure.

Before the rule stand our own notes: what is summed up, how to read it, the person's words. After it the summary, and
below it what does not depend on the summariser: lines that it missed, pins, what was read again from its source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from nexus_cli.context.compaction import create_summary_message
from nexus_cli.context.neutral import named_drops, neutral
from nexus_cli.context.own_words import quoted
from nexus_cli.context.pin import left_out
from nexus_cli.context.plan import Plan
from nexus_cli.context.unseen import BUT, SUMMED, Span, named
from nexus_cli.core.clock import Clock
from nexus_cli.core.entry import Form, Slot
from nexus_cli.core.message import Message

ADDED = "Not in the summary above, from the messages themselves:"
PINNED = "Pinned by the person, word for word:"


@dataclass(frozen=True, slots=True)
class Additions:
    """What stands below a summary."""

    added: Sequence[str] = ()
    """Lines for what the summary missed."""
    attached: str = ""
    """What was read again from its source."""
    left_out: Sequence[tuple[str, str]] = ()
    """Pins that had no room, by their id, each with the drop that it can be read in."""
    recalls: bool = True
    """Whether the model can read drops: where it cannot, no way back is named to it."""
    unseen: Sequence[Span] = ()
    """The messages that whoever wrote the summary was never shown."""


def below(summary: str, chosen: Plan, more: Additions, known: Collection[str]) -> str:
    """`summary`, made harmless, with everything that stands below it."""
    parts = [neutral(summary, known).strip()]
    if more.added:
        lines = (" ".join(neutral(line, known).split()).removeprefix("- ") for line in more.added)
        parts.append("\n".join([ADDED, *(f"- {line}" for line in lines)]))
    if chosen.pins:
        parts.append("\n".join([PINNED, *(pin.shown for pin in chosen.pins)]))
    if more.left_out:
        parts.append(left_out(more.left_out, more.recalls))
    if more.attached:
        parts.append(more.attached)
    return "\n\n".join(parts)


def head(
    chosen: Plan,
    summary: str,
    drop_id: str,
    *,
    clock: Clock,
    measure: Callable[[Message, str], int],
    more: Additions = Additions(),
) -> tuple[Slot, ...]:
    """The new head: one summary message, then what is kept."""
    notes = SUMMED.format(chosen.named_but(more.unseen))
    if more.unseen:
        notes += BUT.format(named(more.unseen))
        notes += f'. Read all of them as they were with recall("{drop_id}").]' if more.recalls else ".]"
    else:
        notes += f'; read them as they were with recall("{drop_id}").]' if more.recalls else ".]"
    if chosen.own_words:
        words = "\n\n".join(map(quoted, chosen.own_words))
        notes += f"\n\nWhat the person said in them, word for word:\n{words}"
    known = {name for group in chosen.gone for slot in group for name in named_drops(slot.message.content)}
    message = create_summary_message(below(summary, chosen, more, known), clock, notes)
    slot = Slot(chosen.entries[1], Form.SUMMARY, message)
    return (replace(slot, tokens=measure(message, "")), *chosen.kept)
