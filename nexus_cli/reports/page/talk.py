"""The conversation of a session as HTML: messages, calls with their diffs and results, and what happened between."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.entry import Entry, Kind, members_of
from nexus_cli.core.message import Part, ToolCall, restore_result
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.reports.page.markup import Markup
from nexus_cli.reports.page.request_figures import RequestFigures
from nexus_cli.reports.text.lines import dollars, name_cause, number, plural, share, short
from nexus_cli.reports.timeline import describe_row

TIME = "%Y-%m-%d %H:%M %z"
SHOWN_DIFF = 40
"""Most lines of a diff that is open at first."""
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
SPEAKERS = {"agent": "nexus", "person": "You", "nexus": "nexus (program)", "client": "Client"}
CLASSES = {Kind.ASSISTANT: "agent", Kind.INSTRUCTION: "added"}


@dataclass(frozen=True, slots=True)
class Fold:
    """A part of the page that can be left out: its HTML, and a description."""

    html: str
    what: str


Block = list["str | Fold"]
"""The HTML of one message or event, in parts."""


class Talk:
    """Renders the entries of one session."""

    def __init__(
        self,
        markup: Markup,
        entries: Sequence[Entry],
        rows: Mapping[int, Mapping[str, Any]],
        results: Mapping[int, Mapping[str, Any]],
        shown: Mapping[int, str],
        requests: Mapping[int, RequestFigures],
    ) -> None:
        """`rows` are the rows of the timeline by entry, `results` the notes of results, `shown` the texts shown for
        messages, `requests` the newest request by the entry of its reply."""
        self._markup, self._rows, self._results, self._shown, self._requests = markup, rows, results, shown, requests
        self._answers = {entry.message.tool_call_id: entry for entry in entries if entry.kind is Kind.TOOL}
        self._called = {call.id for entry in entries for call in entry.message.tool_calls}

    def blocks(self, entry: Entry) -> Iterator[Block]:
        """Yield the block of an entry; nothing for a result, which its call shows."""
        message = entry.message
        if entry.kind is Kind.TOOL and message.tool_call_id in self._called:
            return
        block: Block = [self._head(entry)]
        if entry.kind is Kind.TOOL:
            block.append(self._fold("result", self._markup.pre(message.content)))
        elif entry.kind is Kind.ASSISTANT:
            block.append(self._markup.prose(message.content) if message.content else "")
        else:
            block += self._words(entry)
        block += [self._picture(part) for part in message.parts]
        for call in message.tool_calls:
            block += self._call(call)
        block.append("</article>\n")
        yield block

    def event(self, row: Mapping[str, Any]) -> Block:
        """Return the block of an event that is not an entry."""
        name, text = describe_row({**row, "why": name_cause(row["why"])} if row["kind"] == "drop" else row)
        ends = f' id="drop-{row["drop"]}"' if row["kind"] == "drop" else ""
        at = self._markup.time(str(row["at"]), "%H:%M")
        marked = (
            f'<p class="note {row["kind"].split("_")[0]}"{ends}><time>{at}</time> <b>{self._markup.text(name)}</b> '
        )
        return [f"{marked}{self._markup.text(text)}</p>\n"]

    def _head(self, entry: Entry) -> str:
        members = ", ".join(name for name, _, _ in members_of(entry.actor))
        who = members or SPEAKERS.get(entry.actor, entry.actor.removeprefix("tool:"))
        kind = CLASSES.get(entry.kind, "added" if entry.actor == "nexus" else "you")
        said = " (while it worked)" if entry.kind is Kind.STEER and entry.actor != "nexus" else ""
        at = self._markup.time(entry.at, TIME)
        request = self._requests.get(entry.id)
        link = f'<a class="sent" href="#r{request.row.manifest.step}">{_sent(request)}</a>' if request else ""
        return (
            f'<article id="e{entry.id}" class="{kind}"><header><h3>{self._markup.text(who)}{said}</h3>'
            f'<a class="at" href="#e{entry.id}"><time>{at}</time></a>{link}</header>\n'
        )

    def _words(self, entry: Entry) -> Block:
        """Return a message of a person: the typed text, then what was attached and added."""
        typed, attached = split_attachments(entry.message.content)
        shown = self._shown.get(entry.id)
        block: Block = [f'<div class="words">{self._markup.text(shown or typed)}</div>\n']
        if shown and shown != typed:
            block.append(self._fold("as it was sent", self._markup.pre(entry.message.content)))
        elif attached:
            block.append(self._fold(f"attached, {plural(len(attached), 'character')}", self._markup.pre(attached)))
        if entry.preamble:
            block.append(self._fold("added by nexus", self._markup.pre(entry.preamble)))
        return block

    def _call(self, call: ToolCall) -> Block:
        entry = self._answers.get(call.id)
        row = self._rows.get(entry.id, {}) if entry else {}
        result, seconds = restore_result(entry.message.content, self._results.get(entry.id, {})) if entry else (None, 0)
        outcome = str(row.get("outcome") or ("no result" if entry is None else ""))
        name = "good" if outcome == "ok" else "bad"
        badge = f' <span class="outcome {name}">{self._markup.text(outcome)}</span>' if outcome else ""
        took = f' <span class="took">{seconds:g} s</span>' if seconds >= 1 else ""
        subject = str(row.get("subject") or "")
        title = f"<b>{self._markup.text(call.name)}</b> <code>{self._markup.text(subject)}</code>{badge}{took}"
        given = call.raw or json.dumps(call.arguments, ensure_ascii=False, indent=1)
        anchor = f' id="e{entry.id}"' if entry else ""
        block: Block = [f'<div class="call"{anchor}><p>{title}</p>\n']
        if row.get("decision") in ("ask", "deny") and row.get("why"):
            block.append(f'<p class="why">{self._markup.text(str(row["why"]))}</p>')
        if result and result.diff:
            changed = result.diff.count("\n")
            opened = " open" if changed <= SHOWN_DIFF else ""
            block.append(self._fold(f"diff, {plural(changed, 'line')}", self._markup.diff(result.diff), opened))
        block.append(self._fold("arguments", self._markup.pre(given)))
        if entry and entry.message.content:
            text = entry.message.content
            lines = plural(text.count("\n") + 1, "line")
            block.append(self._fold(f"result, {lines}, {number(entry.tokens)} tokens", self._markup.pre(text)))
            block += [self._fold("added by nexus", self._markup.pre(entry.preamble))] if entry.preamble else []
            block += [self._picture(part) for part in entry.message.parts]
        return [*block, "</div>\n"]

    def _fold(self, title: str, html: str, opened: str = "") -> Fold:
        name = self._markup.text(title)
        return Fold(f"<details{opened}><summary>{name}</summary>{html}</details>\n", name)

    def _picture(self, part: Part) -> str | Fold:
        name = self._markup.text(part.name or "image")
        if part.media_type not in PICTURES:
            return f'<p class="note">{name} ({self._markup.text(part.media_type)}, {len(part.data):,} bytes)</p>\n'
        data = base64.b64encode(part.data).decode()
        return Fold(f'<img src="data:{part.media_type};base64,{data}" alt="{name}" loading="lazy">\n', name)


def _sent(request: RequestFigures) -> str:
    """Return the size of a request in a few words."""
    usage = request.row.usage
    parts = [f"request {request.row.manifest.step:,}", f"{short(request.used.total)} tokens"]
    parts += [f"{share(request.cached, request.used.total)} cached"] if request.cached else []
    parts += [dollars(usage.cost_usd)] if usage and usage.cost_usd else []
    return " · ".join(parts)
