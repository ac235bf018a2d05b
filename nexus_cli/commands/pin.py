"""`/pin`: keep text through every compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.context import look_at_session
from nexus_cli.commands.verb import Act, ActReport, Authority, Noun, Report, Source, Verb, report_act
from nexus_cli.core.option import Argument
from nexus_cli.reports.pins import PinsReport, pins_report

if TYPE_CHECKING:
    from nexus_cli.session.session import Session


def build_list(source: Source) -> Report[PinsReport]:
    """List the pins of a session, and your newest messages with their numbers."""
    return Report("pins", pins_report(_find_session(source)))


def pin_text(
    source: Source,
    text: Annotated[list[str] | None, Argument("TEXT", "The text, or the number of a message.", is_text=True)] = None,
) -> Report[Annotated[Any, PinsReport | ActReport]]:
    """Keep text or a message through every compaction; without an argument, list the pins, and your newest messages.

    A number selects the message with that number; any other argument is the text to pin. Pins are kept verbatim below
    the summary, and together take at most 5 % of the budget. Short text also reaches the model with the next request,
    even if another terminal is working in the session.
    """
    if not text:
        return build_list(source)
    quote, sentence = _find_session(source).engine.compactor.pin(" ".join(text))
    return report_act(sentence, quote)


def drop_pin(
    source: Source,
    named: Annotated[str, Argument("ID", "The pin, the number of its message, or its text.", is_text=True)],
) -> Act:
    """Remove a pin: by its ID, the number of its message, or its text."""
    quote, sentence = _find_session(source).engine.compactor.unpin(named)
    return report_act(sentence, quote)


def _find_session(source: Source) -> Session:
    return source.live if source.live else look_at_session(source)


def _complete_messages(source: Source) -> Sequence[str]:
    """Return the numbers of the person's newest messages, newest first."""
    messages = build_list(source).value["messages"] if source.live else ()
    return [str(message["entry"]) for message in reversed(messages)]


def _complete_pins(source: Source) -> Sequence[str]:
    return [pin["id"] for pin in build_list(source).value["pins"]] if source.live else ()


NOUN = Noun(
    "pin",
    "context",
    (
        Verb(pin_text, "", Authority.ACTS, "write", of_session=True, complete=_complete_messages, only="slash"),
        Verb(build_list, "list", of_session=True, is_alone=True),
        Verb(pin_text, "add", Authority.ACTS, "write", of_session=True, complete=_complete_messages),
        Verb(drop_pin, "remove", Authority.ACTS, "write", of_session=True, complete=_complete_pins),
    ),
    "Keep text or a message through every compaction.",
    aliases=("pins",),
    is_idle=True,
)
