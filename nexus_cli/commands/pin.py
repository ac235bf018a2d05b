"""`/pin`: keep text through every compaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, TypedDict

from nexus_cli.commands.context import look_at_session
from nexus_cli.commands.verb import Act, ActReport, Authority, Noun, Report, Source, Verb, report_act
from nexus_cli.conversation.compaction.pins import list_pins
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.elide import first_words
from nexus_cli.core.entry import PERSON, Kind, read_backwards
from nexus_cli.core.json_value import JsonDict, JsonObject, ReportOfSession
from nexus_cli.core.option import Argument
from nexus_cli.reports.text.blocks import Blocks, TitledTable
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import number, plural
from nexus_cli.session.session import Session


class PinObject(TypedDict):
    id: str
    entry: int
    """The number of the message, 0 for a text."""
    tokens: int
    text: str


class PinsReport(ReportOfSession):
    """The pins of a session."""

    pins: list[PinObject]
    tokens: int
    room: int
    """Maximum tokens of all pins together."""
    messages: list[JsonDict]
    """Number (`entry`) and first words (`text`) of your newest messages."""


MESSAGES = 10
"""Number of the person's messages that are listed."""
FURTHEST = 4000
"""Most entries searched for them."""
WORDS = 120
"""Most characters shown of each."""


def pins_report(session: Session) -> PinsReport:
    """Return the session's pins with their tokens, and the person's newest messages."""
    conversation, count = session.engine.conversation, session.engine.context.count
    rows: list[PinObject] = [
        {"id": pin.pin, "entry": pin.entry, "tokens": pin.labelled_tokens(count), "text": pin.text}
        for pin in list_pins(conversation)
    ]
    return {
        "version": 1,
        "session": session.id,
        "pins": rows,
        "tokens": sum(row["tokens"] for row in rows),
        "room": session.engine.compactor.pins_room,
        "messages": _list_messages(conversation),
    }


def _list_messages(conversation: Conversation) -> list[JsonDict]:
    """Return `entry` and the first words of the person's newest messages, oldest first."""
    entries = islice(read_backwards(conversation.read, conversation.last), FURTHEST)
    messages = (entry for entry in entries if entry.kind in (Kind.USER, Kind.STEER) and entry.actor == PERSON)
    return [
        {"entry": entry.id, "text": first_words(entry.message.content, WORDS, end="")}
        for entry in reversed(list(islice(messages, MESSAGES)))
    ]


def pins_text(value: JsonObject) -> Blocks:
    """List the pins, then the person's newest messages, which can be pinned by number."""
    messages, pins = value.get("messages") or (), value["pins"]
    newest = f"{messages[-1]['entry']}` pins your newest message" if messages else "NUMBER` pins a message"
    text = name_commands(f"No pins. `nexus pin add TEXT` pins a text; `nexus pin add {newest}.")
    if pins:
        text = f"{plural(len(pins), 'pin')}, {number(value['tokens'])} of {number(value['room'])} tokens."
    yield text
    yield TitledTable("pinned", {"id": "id", "what": describe_pin, "tokens": "tokens", "text": "text"}, pins)
    title = name_commands("your newest messages (to pin: nexus pin add NUMBER)")
    yield TitledTable(title, {"number": lambda message: str(message["entry"]), "text": "text"}, messages)


def describe_pin(pin: JsonObject) -> str:
    """Describe the kind of a pin: words, or the number of a message."""
    return f"message {pin['entry']}" if pin["entry"] else "words"


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
    pin: Annotated[str, Argument("ID", "The pin, the number of its message, or its text.", is_text=True)],
) -> Act:
    """Remove a pin: by its ID, the number of its message, or its text."""
    quote, sentence = _find_session(source).engine.compactor.unpin(pin)
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
