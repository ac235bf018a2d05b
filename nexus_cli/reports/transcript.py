"""Report a whole session for a person: every message and call, each output before it was cut for the model.

A fold over the events of the session (`conversation.py`), whose lines are those of `--stream-json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nexus_cli.core import event as e
from nexus_cli.core.entry import members_of
from nexus_cli.core.event_json import event_value
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.message import ToolCall
from nexus_cli.ledger import SessionInfo
from nexus_cli.reports.acts import PastEvent
from nexus_cli.reports.conversation import CONTINUED, Replay, replay_of
from nexus_cli.reports.event_texts import describe_event, describe_thought
from nexus_cli.reports.text.blocks import Blocks, OneLine, Verbatim, Wrapped
from nexus_cli.reports.text.lines import dollars, plural, when
from nexus_cli.reports.workers import worker_lines
from nexus_cli.text.cells import one_line

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

INDENT = "    "


def session_transcript(session: Session) -> JsonObject:
    """Return the transcript of an open session; without events if nothing is recorded."""
    return transcript_of(replay_of(session, is_whole=True), session.ledger.session(session.id))


def transcript_of(replay: Replay, info: SessionInfo) -> JsonObject:
    """Return a session with every event of its main conversation."""
    return {"version": 1, **to_json_value(info), "events": list(map(_line, replay.events()))}


def _line(past: PastEvent) -> JsonObject:
    """Return the line of an event, with the number of its entry, and who wrote it."""
    kind, fields = event_value(past.event)
    line = {"type": kind, "at": past.at, **fields, "entry": past.entry and past.entry.id}
    if past.entry is not None:
        line |= {"actor": past.entry.actor, "images": past.entry.message.image_names}
    return line


def transcript_text(value: JsonObject) -> Blocks:
    """Show the session in order, with an empty line between messages; outputs of `!` lines are among them."""
    from nexus_cli.core.read_event import read_event  # noqa: PLC0415  (a transcript is shown)

    lines, shell = value["events"], list(value.get("shell", ()))
    if not lines and not shell:
        return [OneLine("No messages in this session yet.")]
    titles = {block["title"]: "" for block in shell}
    blocks = [_head(value)] if value["id"] else []
    for line in lines:
        while shell and shell[0]["after"] < (line["entry"] or 0):
            blocks.append(_output(shell[0]["title"], shell.pop(0)["text"]))
        event = read_event(line)
        if isinstance(event, e.ToolCallEvent):
            titles[event.call.id] = f"{event.call.name} {event.call.raw or event.subject}".rstrip()
        if event is not None:
            blocks.append(_block(event, line, titles))
    blocks += [_output(block["title"], block["text"]) for block in shell]
    return [part for block in blocks if block for part in ("", *block)][1:]


def _head(value: JsonObject) -> Blocks:
    name = f" {value['name']}" if value.get("name") else ""
    turns = plural(value["turns"], "turn")
    facts = [f"session {value['id']}{name}", value["model"], value.get("recipe"), turns, value.get("folder")]
    facts += [f"{name} {value[name]}" for name in ("parent", "spawner") if value.get(name)]
    if value.get("cost_usd"):
        facts.append(dollars(value["cost_usd"]))
    lines = [OneLine(" · ".join(map(str, filter(None, facts))))]
    if origin := value.get("imported"):
        lines.append(OneLine(f"imported from {origin['from']}: {origin['file']}"))
    return [*lines, *worker_lines(value)]


def _block(event: e.Event, line: JsonObject, titles: Mapping[str, str]) -> Blocks:
    """Return the lines of an event; none if a person does not see it. `titles` are those of the calls, and of
    outputs that are shown apart."""
    match event:
        case e.SessionAct(act="command", line=typed, output=output) if typed.startswith("!"):
            return _output(typed, output) if output and typed not in titles else []  # else its message has the output
        case e.TurnStart(text) | e.SteeringMessage(text):
            return _message(text.strip("\n"), line) if line["entry"] else []
        case e.Thinking(text):
            return _output(describe_thought(text), text)
        case e.Text(text):
            return [Wrapped(text.strip("\n"))]
        case e.ToolCallEvent(call, subject):
            arguments = [*_arguments(call, subject)]
            return [OneLine(f"-> {titles[call.id]}"), *arguments] if arguments else []
        case e.ToolResultEvent(call, result):
            waits = " · waiting" if result.waits else ""
            return _output(f"{titles.get(call.id, call.name)}{waits}", result.text)
    text = describe_event(event).replace("\n", " ")  # the blanks of a line of output stay
    return [Wrapped(f"{when(line['at'])} {text}")] if text else []


def _message(text: str, line: JsonObject) -> Blocks:
    if line["actor"] == "nexus":
        return [OneLine(f"{when(line['at'])} {CONTINUED}")]
    words = "\n".join([text, *(f"[image {one_line(name)}]" for name in line["images"])])
    who = [line["actor"]] if members_of(line["actor"]) else []
    return [OneLine(" ".join([when(line["at"]), f"[{line['entry']}]", *who])), Wrapped(words, "  ", "> ")]


def _arguments(call: ToolCall, subject: str) -> Blocks:
    """Yield the other arguments besides the main one, texts unchanged."""
    for name, value in call.arguments.items():
        if value != subject:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
            yield Verbatim(f"{name}:{chr(10) if chr(10) in text else ' '}{text}".rstrip("\n"), INDENT)


def _output(title: str, text: str) -> Blocks:
    return [OneLine(f"* {title}"), Verbatim(text.strip("\n"), INDENT)]
