"""`/pin`: keep text through every compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.arguments import read_source, show_report
from nexus_cli.commands.command import CommandContext, run_act
from nexus_cli.commands.context import look_at_session
from nexus_cli.commands.verb import Noun, Option, Report, Source, Verb
from nexus_cli.conversation.compaction.pins import has_pin, list_pins
from nexus_cli.reports.pins import PinsReport, pins_report
from nexus_cli.session.acts.compaction import pin, unpin


def build_list(source: Source) -> Report[PinsReport]:
    """List the pins of a session, and your newest messages with their numbers."""
    return Report("pins", pins_report(source.live.state if source.live else look_at_session(source)))


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
        show_report(context, build_list(read_source(context)))


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


def _complete_messages(source: Source) -> Sequence[str]:
    """Return the numbers of the person's newest messages, newest first."""
    messages = build_list(source).value["messages"] if source.live else ()
    return [str(one["entry"]) for one in reversed(messages)]


def _complete_pins(source: Source) -> Sequence[str]:
    return [one.pin for one in list_pins(source.live.context.conversation)] if source.live else ()


NOUN = Noun(
    "pin",
    "context",
    (
        Verb(pin_text, complete=_complete_messages),
        Verb(build_list, "list", of_session=True, fits=lambda context, words: not words),
        Verb(
            remove_pin,
            "remove",
            complete=_complete_pins,
            fits=_is_pin,
        ),
    ),
    "Keep a text or a message through every compaction.",
    aliases=("pins",),
    is_idle=True,
)
