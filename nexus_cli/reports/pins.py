"""Report the pins of a session."""

from __future__ import annotations

from typing import Any

from nexus_cli.conversation.compaction.pins import list_pins
from nexus_cli.engine.compaction.compact import compactor
from nexus_cli.reports.text.lines import Value, block, filled, number, plural
from nexus_cli.session.session_state import SessionState


def pins_report(state: SessionState) -> dict[str, Any]:
    """Return the session's pins with their tokens; `room` is their share after a compaction."""
    engine = state.engine
    pins, count = list_pins(engine.conversation), engine.context.count
    rows: list[dict[str, Any]] = [
        {"id": pin.pin, "entry": pin.entry, "tokens": pin.labelled_tokens(count), "text": pin.text} for pin in pins
    ]
    tokens = sum(int(row["tokens"]) for row in rows)
    return {
        "version": 1,
        "session": state.session_id,
        "pins": rows,
        "tokens": tokens,
        "room": compactor(engine).pins_room,
    }


def pins_text(value: Value, width: int) -> str:
    """List the pins, then the person's newest messages, which can be pinned by number."""
    messages, pins = value.get("messages") or (), value["pins"]
    text = "Nothing is pinned. /pin TEXT pins a text"
    text += f", /pin {messages[-1]['entry']} your newest message." if messages else ", /pin NUMBER a message."
    if pins:
        text = f"{plural(len(pins), 'pin')}, {number(value['tokens'])} of {number(value['room'])} tokens."
    rows = [(str(one["id"]), describe_pin(one), number(one["tokens"]), str(one["text"])) for one in pins]
    lines = [*filled(text, width), *block("pinned", [("id", "what", "tokens", "text"), *rows], width)]
    newest = [(str(one["entry"]), str(one["text"])) for one in messages]
    return "\n".join([*lines, *block("your newest messages (/pin NUMBER)", [("number", "text"), *newest], width)])


def describe_pin(one: Value) -> str:
    """Describe the kind of a pin: words, or the number of a message."""
    return f"message {one['entry']}" if one["entry"] else "words"
