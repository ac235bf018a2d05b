"""The pins of a session: quotations that stay in the window word for word through every compaction and cut (law 6).

Pins are memos of the conversation, so forks inherit them and nothing is overwritten: `{id, entry, text}` pins, `{id,
off}` unpins. Another process than the session's may add one: the next step reads it. A pin is a `Quote` with its id;
`compaction_plan.py` plans which of them fit, `summary_head.py` and `pinned_marker.py` place them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nexus_cli.conversation.compaction.own_words import Quote, list_labelled
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.elide import Count, clip_text, elide_text, name_first
from nexus_cli.core.entry import Cause, Drop, Entry, Memo, MemoSource
from nexus_cli.core.errors import UsageError
from nexus_cli.core.memo_kinds import PIN
from nexus_cli.core.message import Role

PINNED = "Pinned by the person, word for word:"
MOST_CROWDED = 24
"""Most pins without room that are named, each with the drop that has its text."""
_WAY = re.compile(r"\b(p\d+): recall\(\"(d\d+)\"\)")
NUMBERED = re.compile(
    r"#?\s*[-+]?\d[\d\s.,:#-]*|#\s*[-+]?\w*\d\S*|(?:message|entry|no\.?|nr\.?)\s*#?\s*\d+", re.IGNORECASE
)
"""Matches the ways in which people type a message number."""
FIND = "`nexus pin list` shows your newest messages by number; any other text is pinned as is"
SHORTER = "Pin only the important part as text: nexus pin add TEXT"
SHORT = 40
"""Most characters of the input that an error message repeats."""
TOLD = 500
"""Most characters of pinned text that is sent at once; longer text waits for the summary."""
RESULT_CAP = 1000
"""Most tokens of a pinned tool result; its message keeps the whole."""


def list_pins(source: MemoSource) -> tuple[Quote, ...]:
    """Return the pins in force, oldest first."""
    return tuple(_read_pins(source)[0].values())


def number_pins(memos: Iterable[Memo]) -> list[Memo]:
    """Return all memos of pins with the ids that are in force and the line that is `shown` to people.

    Where two processes gave one id at the same time, the second pin has the next number.
    """
    renumbered, used_ids, newest = list[Memo](), set[str](), 0
    for memo in memos:
        pin = str(memo.value["id"])
        if memo.value.get("off"):
            used_ids.discard(pin)
            shown = f"unpinned {pin}"
        else:
            number = newest + 1 if pin in used_ids else int(pin[1:])
            newest, pin = max(newest, number), f"p{number}"
            used_ids.add(pin)
            shown = describe_pinning(Quote(int(memo.value.get("entry", 0)), "", pin=pin))
        renumbered.append(replace(memo, value={**memo.value, "id": pin, "shown": shown}))
    return renumbered


def _read_pins(source: MemoSource) -> tuple[dict[str, Quote], int]:
    """Return the pins in force by id, and the highest number ever used, removed pins included."""
    quotes: dict[str, Quote] = {}
    newest = 0
    for value in (memo.value for memo in number_pins(source.memos(PIN))):
        pin = str(value["id"])
        newest = max(newest, int(pin[1:]))
        if value.get("off"):
            quotes.pop(pin, None)
        else:
            quotes[pin] = Quote(int(value.get("entry", 0)), str(value.get("text", "")), pin=pin)
    return quotes, newest


def add_pin(conversation: Conversation, target: str, count: Count, room: int | None = None) -> Quote:
    """Pin the message with the number `target`, else `target` itself as text.

    Returns the existing pin if there is one. Raises `UsageError` for an empty text, an unknown message,
    a malformed number, and for more than `room` tokens: that is the limit of all pins together, so no summary could
    ever show it.
    """
    target = target.strip()
    number, entry = target.removeprefix("#"), _number(target)
    if not target or (number.isdigit() and not entry):
        why = "expected text or the number of a message"
        raise UsageError(f"nexus pin add {target}".strip(), why, FIND)
    if not entry and NUMBERED.fullmatch(target):
        raise UsageError(f"nexus pin add {target[:40]}", "not a message number", FIND)
    text = _text(_entry(conversation, entry), count) if entry else target
    now, newest = _read_pins(conversation)
    same = next((quote for quote in now.values() if (quote.entry == entry if entry else quote.text == text)), None)
    if same:
        return same
    added = Quote(entry, text, pin=f"p{1 + newest}")
    if room is not None and (tokens := added.labelled_tokens(count)) > room:
        why = f"the text has {tokens:,} tokens; the limit for all pins together is {room:,}"
        raise UsageError(f"nexus pin add {_short(target)}", why, SHORTER)
    is_told = not entry and len(text) <= TOLD
    told = {"told": f"the person pinned this; it applies from now on: {text}"} if is_told else {}
    conversation.memo(PIN, {"id": added.pin, "entry": added.entry, "text": added.text, **told})
    recorded = (pin for pin in reversed(list_pins(conversation)) if (pin.entry, pin.text) == (added.entry, added.text))
    return next(recorded, added)  # the ledger replaces surrogates: such a text is not found


def remove_pin(conversation: Conversation, target: str) -> Quote:
    """Remove the pin with this id, message number or text; a part of the text is enough.

    Raises `UsageError` unless exactly one pin matches.
    """
    now, target = list_pins(conversation), target.strip()
    quotes = _find_pins(now, target)
    if len(quotes) != 1:
        ids = ", ".join(quote.pin for quote in quotes or now)
        there = f"pins: {ids}" if now else "this session has none"
        why = f"{ids} match" if quotes else f"there is no such pin; {there}"
        raise UsageError(f"nexus pin remove {_short(target)}".rstrip(), why, "`nexus pin list` shows the pins")
    conversation.memo(PIN, {"id": quotes[0].pin, "off": True})
    return quotes[0]


def describe_pinning(pin: Quote) -> str:
    """Describe that a text or a message was pinned."""
    return f"pinned {f'message {pin.entry}' if pin.entry else 'this text'} as {pin.pin}"


def _find_pins(now: Sequence[Quote], target: str) -> list[Quote]:
    """Return the pins that match `target` by id, message number or whole text, else those that contain the text."""
    normalized, entry = " ".join(target.split()).casefold(), _number(target)
    texts = [" ".join(quote.text.split()).casefold() for quote in now]
    for same in (
        [quote for quote in now if quote.pin == normalized],
        [quote for quote in now if entry and quote.entry == entry],
        [pin for pin, text in zip(now, texts, strict=True) if normalized and text == normalized],
    ):
        if same:
            return same
    return [pin for pin, text in zip(now, texts, strict=True) if normalized and not entry and normalized in text]


def _number(target: str) -> int:
    """Parse a message number (`14`, `#14`); 0 for anything else."""
    number = target.removeprefix("#")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0


def _short(target: str) -> str:
    return clip_text(" ".join(target.split()), SHORT, "...")


def _entry(conversation: Conversation, number: int) -> Entry:
    entry = next(iter(conversation.read(number, number)), None) if number <= conversation.last else None
    if entry is None:
        has = f"the messages are 1 to {conversation.last}" if conversation.last else "no message was sent yet"
        why = f"this session has no message {number}: {has}"
        raise UsageError(f"nexus pin add {number}", why, FIND)
    return entry


def _text(entry: Entry, count: Count) -> str:
    """Return the text to pin of a message: its content (capped for a tool result), image names and calls."""
    message = entry.message
    text = message.content
    if message.role is Role.TOOL:

        def marker(start: int, end: int, total: int, tokens: int) -> str:
            return f"[... {tokens:,} tokens left out of this pin; message {entry.id} has the full text ...]"

        text = elide_text(text, RESULT_CAP, count, marker).text
    lines = [text] if text else []
    lines += [f"[image {name}]" for name in message.image_names]
    lines += [f"{call.name}({call.arguments_text})"[: 4 * RESULT_CAP] for call in message.tool_calls]
    return "\n".join(lines) or "(empty)"


def split_fitting_pins(pins: Sequence[Quote], room: int, count: Count) -> tuple[tuple[Quote, ...], tuple[Quote, ...]]:
    """Return the pins that fit `room` (the newest get room first) and the others, both in their order."""
    fitting = set()
    for pin in reversed(pins):
        if (cost := pin.labelled_tokens(count)) <= room:
            room -= cost
            fitting.add(pin.pin)
    return tuple(p for p in pins if p.pin in fitting), tuple(p for p in pins if p.pin not in fitting)


def pin_texts(pins: Sequence[Quote], ways: Sequence[tuple[str, str]], recalls: bool) -> list[str]:
    """Return the quotations of `pins`, and the line that names the pins of `ways`, as far as there are any."""
    return list(filter(None, [list_labelled(PINNED, pins), crowded_line(ways, recalls) if ways else ""]))


def crowded_line(ways: Sequence[tuple[str, str]], recalls: bool) -> str:
    """Return the line that names pins without room by their id; with their drops if the model `recalls` drops."""
    entries = [f'{name}: recall("{drop}")' if recalls else name for name, drop in ways]
    return f"[Pinned too, and left out here for room: {name_first(entries, MOST_CROWDED)}]"


def named_ways(texts: Iterable[str]) -> dict[str, str]:
    """Return the drop of each pin that a line in `texts` names. A pin's text never changes: one drop is enough."""
    lines = (line for text in texts for line in text.splitlines() if line.startswith("[Pinned too"))
    return {name: drop for line in lines for name, drop in _WAY.findall(line)}


def pin_drop(pin: Quote, drop_id: str, cause: Cause, at: str, count: Count) -> Drop:
    """Return the drop of a pin without room."""
    what = f"pin {pin.pin}, which exceeded the limit for pins"
    return Drop(drop_id, what, count(pin.text), cause, at, text=pin.text)
