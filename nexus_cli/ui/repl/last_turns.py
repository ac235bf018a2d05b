"""Show the end of a resumed session: the last screenful of its turns, drawn by the renderer of live turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.clock import format_age, local_now
from nexus_cli.core.event import Event, Notice, SessionAct, StepStart, TurnStart
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.lines import cut_line, plural
from nexus_cli.text.cells import one_line
from nexus_cli.ui.render.live_area import Thought
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme

WORDS = 6
"""Rows of the person's message that are kept above the end of a turn that does not fit."""
LEAST = 8
"""Minimum number of rows available, however small the terminal is."""
TRANSCRIPT_HINT = "/transcript shows all"
CUT_SHORT = "This turn was cut short. /continue to resume it."
OPEN = {True: "outcome unknown: the process ended while it was running", False: "not run yet"}


@dataclass(frozen=True, slots=True)
class Screenful:
    """The end of a conversation."""

    lines: tuple[str, ...]
    turns: int
    """Number of turns that are shown at least in part."""
    output: tuple[str, str] | None
    """Title and text of the newest tool result, if there is one."""
    thought: Thought | None
    """The newest thought that was folded, if there is one."""


def last_screenful(
    turns: Iterable[Sequence[Event]], rows: int, width: int, theme: Theme, *, drawn: bool, folder: Path | None = None
) -> Screenful:
    """Return the newest `turns` that fit `rows`, or both ends of a long one, as `drawn` for `folder`."""
    room, count, output = max(rows, LEAST), 0, None
    thought: Thought | None = None
    lines: list[str] = []
    for events in turns:
        pieces: list[str] = []
        renderer = RichRenderer(pieces.append, lambda: width, theme, drawn=drawn, folder=folder)
        words, replies = _draw(events, renderer, pieces)
        output, thought = output or renderer.last_output, thought or renderer.folded_thought
        if len(words) + len(replies) > room:
            if count:
                break
            words = words if len(words) <= WORDS else [*words[:WORDS], _note(len(words) - WORDS, theme)]
            kept_rows = max(1, room - len(words) - 1)
            replies = (
                [_note(len(replies) - kept_rows, theme), *replies[-kept_rows:]] if len(replies) > kept_rows else replies
            )
        lines = [*words, *replies, *([""] if lines else ()), *lines]
        count += 1
        room -= len(words) + len(replies) + 1
        if room < 1:
            break
    return Screenful(tuple(lines), count, output, thought)


def _draw(events: Sequence[Event], renderer: RichRenderer, pieces: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the rows of the person's message, and those of the rest, which `renderer` outputs to `pieces`."""
    message_end = 0
    for event in events:
        if isinstance(event, TurnStart) and event.text:
            renderer.show_user_message(event.text)
            message_end = message_end or len(pieces)
        if isinstance(event, Notice) or (isinstance(event, SessionAct) and event.line):
            renderer.feed(StepStart(0))  # a text of the past has ended
        if isinstance(event, SessionAct) and event.act == "command":
            renderer.show_user_message(event.line)
        renderer.feed(event)
    parts = ["".join(part).strip("\n").split("\n") for part in (pieces[:message_end], pieces[message_end:])]
    words, replies = ([] if part == [""] else part for part in parts)
    return words, ["", *replies] if words and replies else replies


def _note(hidden: int, theme: Theme) -> str:
    return theme.paint("dim", f"{theme.signs.dot} {plural(hidden, 'more line')}: {TRANSCRIPT_HINT}")


def describe_session(value: JsonObject, shown_turns: int) -> str:
    """Describe the session, the time since its last use, and the number of turns not shown; `value` is that of
    `last_exchange`."""
    if not value.get("entries"):
        return f"session {value['short']}: no messages yet"
    facts = [f"session {value['short']}", one_line(str(value.get("name") or ""))]
    facts += [f"last used {format_age(str(value['at']), local_now())}"]
    earlier = int(value["turns"]) - shown_turns
    if earlier > 0:
        facts.append(f"{plural(earlier, 'earlier turn')}: {TRANSCRIPT_HINT}")
    return ", ".join(filter(None, facts))


def describe_open_calls(value: JsonObject) -> list[str]:
    """Return a line for each call without a result."""
    return [
        f"{call['name']} {cut_line(call.get('subject'), 60)}".rstrip() + f": {OPEN[bool(call.get('started'))]}"
        for call in value.get("open", ())
    ]
