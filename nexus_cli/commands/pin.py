"""`/pin`: keep text through every compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexus_cli.commands.command import Command, CommandContext, run_act, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.engine.compaction.pins import has_pin, list_pins
from nexus_cli.engine.requests.user_messages import newest_messages
from nexus_cli.reports.pins import pins_report
from nexus_cli.session.acts.compaction import pin, unpin

REMOVE = "remove"
MESSAGES = 10
"""Number of the person's messages that are listed."""


async def pin_text(context: CommandContext, rest: str) -> None:
    """Keep a text or a message through every compaction.

    A number selects a message, anything else is text to pin. Pins are kept verbatim below the summary, in at most 5 %
    of the budget. Without an argument, lists the pins, and your newest messages with their numbers. remove ID removes a
    pin; the number of its message or a part of its text works too.
    """
    word, _, named = rest.partition(" ")
    if word.casefold() == REMOVE and (" " not in named.strip() or has_pin(context.session.context.conversation, named)):
        if not named.strip():
            raise usage_error("pin", REMOVE, "the ID is missing", "/pin lists them")
        await run_act(context, "unpinning", unpin(named.strip()))
        return
    if not rest:
        context.show("pins", {**pins_report(context.session.state), "messages": _list_messages(context)})
        return
    await run_act(context, "pinning", pin(rest))


def _list_messages(context: CommandContext) -> list[dict[str, Any]]:
    return newest_messages(context.session.context.conversation, MESSAGES)


def _complete_pin(context: CommandContext) -> Sequence[str]:
    """Return the numbers of the person's newest messages, newest first, then the arguments that remove each pin."""
    numbers = [str(one["entry"]) for one in reversed(_list_messages(context))]
    return [*numbers, *(f"{REMOVE} {one.pin}" for one in list_pins(context.session.context.conversation))]


COMMANDS = (
    Command(
        "pin",
        "context",
        pin_text,
        "[TEXT | MESSAGE | remove ID]",
        idle=True,
        complete=_complete_pin,
        authority=Authority.ACTS,
    ),
)
