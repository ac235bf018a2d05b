"""`/pin`: keep text through every compaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

from nexus_cli.commands.command import CommandContext, run_act
from nexus_cli.commands.verb import Noun, Option, Source, Verb
from nexus_cli.conversation.compaction.pins import has_pin, list_pins
from nexus_cli.core.elide import first_words
from nexus_cli.core.entry import PERSON, Kind, read_backwards
from nexus_cli.reports.pins import pins_report
from nexus_cli.session.acts.compaction import pin, unpin
from nexus_cli.session.session import Session

MESSAGES = 10
"""Number of the person's messages that are listed."""
FURTHEST = 4000
"""Most entries searched for them."""
WORDS = 120
"""Most characters shown of each."""


async def pin_text(
    context: CommandContext,
    text: Annotated[str, Option("TEXT", "The text, or the number of a message.", is_argument=True, is_text=True)] = "",
) -> None:
    """Keep a text or a message through every compaction.

    A number means that message, anything else is the text itself. Pins are kept word for word below the summary,
    together in at most 5 % of the budget. Without an argument, lists the pins, and your newest messages with their
    numbers.
    """
    if text:
        await run_act(context, "pinning", pin(text))
    else:
        context.show("pins", {**pins_report(context.session.state), "messages": _list_messages(context.session)})


async def remove_pin(
    context: CommandContext,
    named: Annotated[str, Option("ID", "The pin, its message, or part of its text.", is_argument=True, is_text=True)],
) -> None:
    """Remove a pin: by its ID, the number of its message, or a part of its text.

    Several words that are no part of a pin are a text to pin.
    """
    await run_act(context, "unpinning", unpin(named))


def _is_pin(context: CommandContext | None, named: str) -> bool:
    """True if the words behind `remove` are meant for a pin."""
    return " " not in named or (context is not None and has_pin(context.session.context.conversation, named))


def _list_messages(session: Session) -> list[dict[str, Any]]:
    """Return `entry` and the first words of the person's newest messages, oldest first."""
    conversation = session.context.conversation
    entries = islice(read_backwards(conversation.read, conversation.last), FURTHEST)
    said = (entry for entry in entries if entry.kind in (Kind.USER, Kind.STEER) and entry.actor == PERSON)
    return [
        {"entry": entry.id, "text": first_words(entry.message.content, WORDS, end="")}
        for entry in reversed(list(islice(said, MESSAGES)))
    ]


def _complete_messages(source: Source) -> Sequence[str]:
    """Return the numbers of the person's newest messages, newest first."""
    return [str(one["entry"]) for one in reversed(_list_messages(source.live))] if source.live else ()


def _complete_pins(source: Source) -> Sequence[str]:
    return [one.pin for one in list_pins(source.live.context.conversation)] if source.live else ()


NOUN = Noun(
    "pin",
    "context",
    (
        Verb(pin_text, complete=_complete_messages),
        Verb(
            remove_pin,
            "remove",
            complete=_complete_pins,
            fits=_is_pin,
        ),
    ),
    is_idle=True,
)
