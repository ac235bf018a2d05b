"""The conversation of a session as HTML: messages, calls with their diffs and results, and what happened between."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from nexus_cli.core.entry import Entry, Kind, members_of
from nexus_cli.core.event import (
    AgentEvent,
    CompactionDone,
    ContextDrop,
    Notice,
    SessionAct,
    SteeringMessage,
    Text,
    Thinking,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
)
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import Part, ToolCall, ToolResult
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.reports.acts import PastEvent
from nexus_cli.reports.conversation import describe_unlogged_event, results_by_call
from nexus_cli.reports.event_texts import describe_outcome, describe_thought
from nexus_cli.reports.page.markup import Markup
from nexus_cli.reports.page.request_figures import RequestFigures, describe_request
from nexus_cli.reports.text.lines import name_cause, plural
from nexus_cli.reports.timeline import describe_row
from nexus_cli.text.diff_lines import describe_changes

TIME = "%Y-%m-%d %H:%M %z"
SHOWN_DIFF = 40
"""Most lines of a diff that is open at first."""
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
SPEAKERS = {"agent": "nexus", "person": "You", "nexus": "nexus (program)", "client": "Client"}
IN_ROWS = (AgentEvent, CompactionDone, ContextDrop, SessionAct, TurnEnd)
"""Events that have a row in the timeline; so has a warning."""
CLASSES = {Kind.ASSISTANT: "agent", Kind.INSTRUCTION: "added"}


@dataclass(frozen=True, slots=True)
class Fold:
    """A part of the page that can be left out: its HTML and a description."""

    html: str
    description: str


Block = list["str | Fold"]
"""The HTML of one message or event, in parts."""


class ConversationHtml:
    """Renders the conversation of one session: a fold over its events."""

    def __init__(
        self,
        markup: Markup,
        past: Collection[PastEvent],
        requests: Mapping[int, RequestFigures],
    ) -> None:
        """`requests` are the newest request by the entry of its reply."""
        self._markup, self._requests = markup, requests
        self._events_by_entry: dict[int, list[PastEvent]] = {}
        """Events by the entry that holds them, or after which they happened."""
        self._results = results_by_call(past)
        """The results of calls that are not shown yet."""
        place = 0
        for past_event in past:
            place = past_event.entry.id if past_event.entry else place
            self._events_by_entry.setdefault(place, []).append(past_event)

    def blocks(self, entry: Entry) -> Iterator[Block]:
        """Yield the block of an entry, which for a result its call has shown."""
        block: Block = []
        for past_event in self._events_by_entry.get(entry.id, ()):
            match past_event.event:
                case TurnStart(text) | SteeringMessage(text) if past_event.entry:
                    block += self._words(entry, text)
                case Thinking(text) if past_event.entry:
                    block.append(self._thought(text))
                case Text(text) if past_event.entry:
                    block.append(self._markup.prose(text))
                case ToolCallEvent(call, subject):
                    block += self._call(call, subject)
                case ToolResultEvent(call) if call.id in self._results:  # no message has its call
                    block += self._call(call, "")
        if entry.kind is Kind.STEER and not block:  # a message of ours
            block += self._words(entry, entry.message.content)
        if entry.kind is not Kind.TOOL:
            block += map(self._render_image, entry.message.parts)
        if block or entry.kind is not Kind.TOOL:
            yield [self._head(entry), *block, "</article>\n"]

    def notes(self, entry: int) -> list[tuple[str, Block]]:
        """Return the blocks of the events behind an entry that have no row in the timeline, each with its time."""
        return [
            (past.at, [self._between(past, text)])
            for past in self._events_by_entry.get(entry, ())
            if not (isinstance(past.event, IN_ROWS) or (isinstance(past.event, Notice) and past.event.warning))
            and (text := describe_unlogged_event(past))
        ]

    def _between(self, past: PastEvent, text: str) -> str | Fold:
        return self._thought(text) if isinstance(past.event, Thinking) else self._note(past.at, "notice", "", text)

    def event(self, row: JsonObject) -> Block:
        """Return the block of an event that is not an entry."""
        row_name, text = describe_row({**row, "why": name_cause(row["why"])} if row["kind"] == "drop" else row)
        name = "" if row["kind"] == "notice" else row_name
        ends = f' id="drop-{row["drop"]}"' if row["kind"] == "drop" else ""
        return [self._note(row["at"], row["kind"].split("_")[0], name, text, ends)]

    def _note(self, at: str, kind: str, name: str, text: str, ends: str = "") -> str:
        time, title = self._markup.time(at, "%H:%M"), f"<b>{self._markup.text(name)}</b> " if name else ""
        return f'<p class="note {kind}"{ends}><time>{time}</time> {title}{self._markup.text(text)}</p>\n'

    def _head(self, entry: Entry) -> str:
        members = ", ".join(name for name, _, _ in members_of(entry.actor))
        who = members or SPEAKERS.get(entry.actor, entry.actor.removeprefix("tool:"))
        kind = CLASSES.get(entry.kind, "added" if entry.actor == "nexus" else "you")
        note = " (while the model worked)" if entry.kind is Kind.STEER and entry.actor != "nexus" else ""
        shown_time = self._markup.time(entry.at, TIME)
        link = ""
        if request := self._requests.get(entry.id):
            step = request.row.manifest.step
            link = f'<a class="sent" href="#r{step}">request {step:,} · {describe_request(request)}</a>'
        return (
            f'<article id="e{entry.id}" class="{kind}"><header><h3>{self._markup.text(who)}{note}</h3>'
            f'<a class="at" href="#e{entry.id}"><time>{shown_time}</time></a>{link}</header>\n'
        )

    def _words(self, entry: Entry, text: str) -> Block:
        """Return a message: the text that people are shown, then what was attached and added."""
        typed, attached = split_attachments(text)
        block: Block = [f'<div class="words">{self._markup.text(typed)}</div>\n']
        if typed not in entry.message.content:
            block.append(self._fold("as sent", self._markup.pre(entry.message.content)))
        elif attached:
            block.append(self._fold(f"attached, {plural(len(attached), 'character')}", self._markup.pre(attached)))
        return [*block, *self._added(entry)]

    def _call(self, call: ToolCall, subject: str) -> Block:
        past, ended = self._results.pop(call.id, (None, None))
        entry = past.entry if past else None
        result, seconds = (ended.result, ended.seconds) if ended else (ToolResult(), 0.0)
        outcome = describe_outcome(result) if ended else "no result"
        name = "good" if outcome == "ok" else "bad"
        badge = f' <span class="outcome {name}">{self._markup.text(outcome)}</span>'
        took = f' <span class="took">{seconds:g} s</span>' if seconds >= 1 else ""
        title = f"<b>{self._markup.text(call.name)}</b> <code>{self._markup.text(subject)}</code>{badge}{took}"
        arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False, indent=1)
        anchor = f' id="e{entry.id}"' if entry else ""
        block: Block = [f'<div class="call"{anchor}><p>{title}</p>\n']
        if result.denied:
            block.append(f'<p class="why">{self._markup.text(result.error)}</p>')
        if result.diff:
            opened = " open" if result.diff.count("\n") <= SHOWN_DIFF else ""
            block.append(self._fold(f"diff, {describe_changes(result.diff)}", self._markup.diff(result.diff), opened))
        block.append(self._fold("arguments", self._markup.pre(arguments)))
        if entry and result.text:
            lines = plural(result.text.count("\n") + 1, "line")
            summary = f"result, {lines}, {plural(entry.tokens, 'token')}"
            block += [self._fold(summary, self._markup.pre(result.text)), *self._added(entry)]
            block += [self._render_image(part) for part in entry.message.parts]
        return [*block, "</div>\n"]

    def _added(self, entry: Entry) -> Block:
        return [self._fold("added by nexus", self._markup.pre(entry.preamble))] if entry.preamble else []

    def _fold(self, title: str, html: str, opened: str = "") -> Fold:
        name = self._markup.text(title)
        return Fold(f"<details{opened}><summary>{name}</summary>{html}</details>\n", name)

    def _thought(self, text: str) -> Fold:
        return self._fold(describe_thought(text), self._markup.pre(text))

    def _render_image(self, part: Part) -> str | Fold:
        name = self._markup.text(part.name or "image")
        if part.media_type not in PICTURES:
            return f'<p class="note">{name} ({self._markup.text(part.media_type)}, {len(part.data):,} bytes)</p>\n'
        data = base64.b64encode(part.data).decode()
        return Fold(f'<img src="data:{part.media_type};base64,{data}" alt="{name}" loading="lazy">\n', name)
