"""The pins of a session: quotations that stay in the window word for word through every compaction and cut (law 6).

Pins are memos of the conversation, so forks inherit them and nothing is overwritten: `{id, entry, text}` pins, `{id,
off}` unpins. The n-th pin is `pn`, whichever process added it. A pin is a `Quote` with its id; `compaction_plan.py`
plans which of them fit, `summary_head.py` and `pinned_marker.py` place them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nexus_cli.conversation.compaction.own_words import Quote, list_labelled
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.elide import Count, clip_text, name_first
from nexus_cli.core.entry import Cause, Drop, Memo, MemoSource
from nexus_cli.core.errors import UsageError
from nexus_cli.core.memo_kinds import PIN

PINNED = "Pinned by the person, word for word:"
LEFT_OUT = "[Pinned too, and left out here for room: {}"
MAX_NAMED = 5
"""Most pins without room that a line names."""
FIND = "`nexus pin list` shows your newest messages by number; any other text is pinned as is"
SHORTER = "Pin only the important part as text: nexus pin add TEXT"
SHORT = 40
"""Most characters of the input that an error message repeats."""
MAX_IMMEDIATE_PIN = 500
"""Most characters of pinned text that is sent at once; longer text waits for the summary."""


def number_pins(memos: Iterable[Memo]) -> list[Memo]:
    """Return all memos of pins with their ids and the line that is `shown` to people."""
    numbered, newest = list[Memo](), 0
    for memo in memos:
        pin, line = str(memo.value["id"]), f"unpinned {memo.value['id']}"
        if not memo.value.get("off"):
            newest += 1  # two processes may have written one id at the same time
            pin = f"p{newest}"
            line = describe_pinning(Quote(int(memo.value.get("entry", 0)), "", pin=pin))
        numbered.append(replace(memo, value={**memo.value, "id": pin, "shown": line}))
    return numbered


def list_pins(source: MemoSource) -> tuple[Quote, ...]:
    """Return the pins in force, oldest first."""
    values = [memo.value for memo in number_pins(source.memos(PIN))]
    removed = {value["id"] for value in values if value.get("off")}
    pinned = (value for value in values if value["id"] not in removed)
    return tuple(Quote(int(value.get("entry", 0)), str(value.get("text", "")), pin=value["id"]) for value in pinned)


def add_pin(conversation: Conversation, target: str, count: Count, room: int | None = None) -> Quote:
    """Pin the message with the number `target` (`14`, `#14`), else `target` itself as text.

    Returns the existing pin if there is one. Raises `UsageError` for an empty text, an unknown message, and for more
    than `room` tokens: that is the limit of all pins together, so no summary could ever show it.
    """
    target = target.strip()
    entry = _number(target)
    text = target if entry is None else _read_text(conversation, entry)
    if not text:
        why = f"message {entry} has no text" if entry else "expected text or the number of a message"
        raise UsageError(f"nexus pin add {target}".strip(), why, FIND)
    added = Quote(entry or 0, text)
    pins = list_pins(conversation)
    existing = next((pin for pin in pins if (pin.entry == entry if entry else pin.text == text)), None)
    if existing:
        return existing
    added = replace(added, pin=f"p{1 + sum(not memo.value.get('off') for memo in conversation.memos(PIN))}")
    if room is not None and (tokens := added.labelled_tokens(count)) > room:
        why = f"the text has {tokens:,} tokens; the limit for all pins together is {room:,}"
        raise UsageError(f"nexus pin add {_short(target)}", why, SHORTER)
    is_told = not entry and len(text) <= MAX_IMMEDIATE_PIN
    notice = {"told": f"the person pinned this; it applies from now on: {text}"} if is_told else {}
    conversation.memo(PIN, {"id": added.pin, "entry": added.entry, "text": added.text, **notice})
    recorded = (pin for pin in reversed(list_pins(conversation)) if replace(pin, pin=added.pin) == added)
    return next(recorded, added)  # the ledger replaces surrogates: such a text is not found


def remove_pin(conversation: Conversation, target: str) -> Quote:
    """Remove the pin with this id, message number or text. Raises `UsageError` if there is none."""
    pins, target = list_pins(conversation), target.strip()
    entry = _number(target)
    matching = [pin for pin in pins if pin.pin == target.casefold()]
    for pin in matching or pins:
        if matching or target == pin.text or (entry and pin.entry == entry):
            conversation.memo(PIN, {"id": pin.pin, "off": True})
            return pin
    existing = f"pins: {', '.join(pin.pin for pin in pins)}" if pins else "this session has none"
    why = f"there is no such pin; {existing}"
    raise UsageError(f"nexus pin remove {_short(target)}".rstrip(), why, "`nexus pin list` shows the pins")


def describe_pinning(pin: Quote) -> str:
    """Describe that a text or a message was pinned."""
    return f"pinned {f'message {pin.entry}' if pin.entry else 'this text'} as {pin.pin}"


def _number(target: str) -> int | None:
    """Parse a message number (`14`, `#14`); None for anything else."""
    number = target.removeprefix("#")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None


def _short(target: str) -> str:
    return clip_text(" ".join(target.split()), SHORT, "...")


def _read_text(conversation: Conversation, number: int) -> str:
    """Return the text of a message. Raises `UsageError` if there is no such message."""
    entry = next(iter(conversation.read(number, number)), None) if 0 < number <= conversation.last else None
    if entry is None:
        has = f"the messages are 1 to {conversation.last}" if conversation.last else "no message was sent yet"
        why = f"this session has no message {number}: {has}"
        raise UsageError(f"nexus pin add {number}", why, FIND)
    return entry.message.content


def quote_pins(pins: Sequence[Quote], missing: str) -> list[str]:
    """Return the quotations of `pins`, and the line that names the `missing` ones, as far as there are any."""
    return list(filter(None, [list_labelled(PINNED, pins), missing]))


def name_pins(pins: Sequence[Quote]) -> str:
    """Name pins by their ids."""
    return name_first([pin.pin for pin in pins], MAX_NAMED)


def are_left_out(pins: Sequence[Quote], texts: Sequence[str]) -> bool:
    """Return True if a line in one of `texts` names just these pins, each of them, as left out."""
    line = LEFT_OUT.format(name_pins(pins))
    return len(pins) <= MAX_NAMED and any(f"{line}{end}" in text for text in texts for end in ":]")


def left_out_line(names: str, drop_id: str, *, recalls: bool) -> str:
    """Return the line that names pins without room, with their drop if the model `recalls` drops."""
    recall_hint = f': recall("{drop_id}")' if recalls else ""
    return f"{LEFT_OUT.format(names)}{recall_hint}]"


def pin_drop(pins: Sequence[Quote], drop_id: str, cause: Cause, at: str, count: Count) -> Drop:
    """Return the drop of the pins without room."""
    text = "\n\n".join(pin.labelled for pin in pins)
    return Drop(
        drop_id, f"pin{'s' * (len(pins) > 1)} {name_pins(pins)}, without room", count(text), cause, at, text=text
    )
