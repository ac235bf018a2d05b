"""`/pin`: keep text through every compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.command import CommandContext
from nexus_cli.commands.context import look_at_session
from nexus_cli.commands.verb import Act, Authority, Noun, Option, Report, Source, Verb, report_act
from nexus_cli.conversation.compaction.pins import has_pin, list_pins, remove_pin
from nexus_cli.reports.pins import PinsReport, pins_report
from nexus_cli.session.acts.compaction import pin

if TYPE_CHECKING:
    from nexus_cli.session.session_state import SessionState


def build_list(source: Source) -> Report[PinsReport]:
    """List the pins of a session, and your newest messages with their numbers."""
    return Report("pins", pins_report(_read_state(source)))


def add_pin(
    source: Source,
    text: Annotated[list[str], Option("TEXT", "The text, or the number of a message.", is_argument=True, is_text=True)],
) -> Act:
    """Keep a text or a message through every compaction.

    A number means that message, anything else is the text itself. Pins are kept word for word below the summary,
    together in at most 5 % of the budget. The model is told a short text with the next request, also while the session
    works in another terminal.
    """
    made, said = pin(_read_state(source), " ".join(text))
    return report_act(said, made)


def pin_text(
    source: Source,
    text: Annotated[str, Option("TEXT", "The text, or the number of a message.", is_argument=True, is_text=True)] = "",
) -> Report[Any]:
    """Pin a text, or a message by its number; without an argument, list the pins, and your newest messages with their
    numbers.
    """
    return add_pin(source, [text]) if text else build_list(source)


def drop_pin(
    source: Source,
    named: Annotated[str, Option("ID", "The pin, its message, or part of its text.", is_argument=True, is_text=True)],
) -> Act:
    """Remove a pin: by its ID, the number of its message, or a part of its text.

    Several words that are no part of a pin are a text to pin.
    """
    gone = remove_pin(_read_state(source).engine.conversation, named)
    return report_act(f"unpinned {gone.pin}; it stays in the window until the next compaction", gone.pin)


def _read_state(source: Source) -> SessionState:
    return source.live.state if source.live else look_at_session(source)


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
        Verb(pin_text, "", Authority.ACTS, "write", of_session=True, complete=_complete_messages, places=("slash",)),
        Verb(build_list, "list", of_session=True, fits=lambda context, words: not words),
        Verb(add_pin, "add", Authority.ACTS, "write", of_session=True, complete=_complete_messages),
        Verb(drop_pin, "remove", Authority.ACTS, "write", of_session=True, complete=_complete_pins, fits=_is_pin),
    ),
    "Keep a text or a message through every compaction.",
    aliases=("pins",),
    is_idle=True,
)
