"""Report the events of a session, oldest first: time, actor, reason, the part that the model was sent, and the cost.

Reads the ledger, without epochs and messages before the listed ones. Sends nothing and writes nothing.
The rows are those of `timeline_rows.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import cast

from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.elide import name_first
from nexus_cli.core.entry import Kind
from nexus_cli.core.json_value import JsonObject, JsonOf, ReportOfSession
from nexus_cli.core.running_workers import describe_state
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.sessions import SHOWN_ID
from nexus_cli.reports.decisions import describe_verdict
from nexus_cli.reports.event_texts import worker_figures
from nexus_cli.reports.text.blocks import Blocks, Paragraph, paragraphs
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import (
    MAX_MEMBERS,
    PURPOSES,
    cut_line,
    describe_tokens,
    dollars,
    known_dollars,
    measure_attached,
    number,
    plural,
    short,
    when,
)
from nexus_cli.reports.timeline_rows import SessionRecord, TimelineRow
from nexus_cli.text.cells import cells, one_line

LAST = 200
"""Number of rows unless another one is asked for."""
KIND = 14
"""Cells of a trigger's type."""
CAUSES = {
    "compaction": "compaction",
    "overflow": "compaction",
    "compaction_failed": "compaction",
    "pruned": "pruning",
    "model": "model",
    "restore": "restored",
    "waiting_reply": "waiting",
}
"""Kinds of rows by their name for people; other kinds keep their name."""
STATED = frozenset(Kind)
"""Kinds of rows whose text is somebody's words, cut to one line: those of entries; all others are whole."""
ENOUGH = 60
"""Cells of somebody's words that are shown at least, on several lines of a narrow terminal."""
ASK_PERSON = "ask_person"
"""The tool whose result has the person's answers, which are whole."""
LONGEST_NAME = 24
"""Most cells of a name before words."""
TYPED = ("repl", "ask")
"""Types of triggers that only mean that the person typed."""


class TimelineTotals(JsonOf[Usage]):
    """Sums over a session, with its side lanes and workers."""

    rows: int
    entries: int
    requests: int
    tokens: int
    known_usd: float
    """The sum of the known costs."""
    saved_usd: float
    """Dollars that the cache saved, as far as it is known."""
    drops: int


class TimelineReport(ReportOfSession):
    """The events of a session."""

    name: str
    model: str
    folder: str
    cursor: int
    """The last entry that was sent to the model."""
    earlier: int
    """Number of rows before the first one."""
    rows: list[TimelineRow]
    """Oldest first."""
    totals: TimelineTotals


def session_timeline(ledger: Ledger, session: str, last: int = LAST) -> TimelineReport:
    """Return the newest `last` rows, oldest first."""
    return cast("TimelineReport", {"version": 1, **SessionRecord(ledger, session, last).report()})


def timeline_text(value: JsonObject, width: int) -> Blocks:
    """Return a line for each row below its day, then the totals."""
    rows = value["rows"]
    yield _title(value)
    if value["earlier"]:
        row_limit = min(len(rows) * 5, len(rows) + value["earlier"])
        yield f"{plural(value['earlier'], 'earlier row')} not shown (--last {row_limit} shows more)."
    for day, several in groupby(rows, key=lambda row: format_local_minute(str(row["at"]), "%Y-%m-%d")):
        yield from ["", day] if day else [""]
        for row in several:
            yield from _row(row, width)
    if not rows:
        yield "No events yet."
    yield from ["", _totals(value["totals"])]
    if drop := next((row["drop"] for row in rows if row["kind"] == "drop"), ""):
        command = name_commands(f"nexus drops show {drop}")
        session_option = "" if command.startswith("/") else f" --session {value['session'][-SHOWN_ID:]}"
        yield f"Show a drop: {command}{session_option}"


def _title(value: JsonObject) -> str:
    if space := value.get("space"):
        members = name_first([f"{member['name']} ({member['type']})" for member in space["members"]], MAX_MEMBERS)
        new = f" · (new) means unread by {value['reader']}" if value["reader"] else ""
        return f'space "{space["name"]}" · {members}{new}'
    name = f" {value['name']}" if value["name"] else ""
    session = f"session {value['session']}{name} · {value['model']}" if value["session"] else "no session yet"
    if run := value.get("run"):
        return f"{run['id']} {run['state']} · {run['title']} · {session}"
    return session


def _totals(total: JsonObject) -> str:
    if "messages" in total:
        counts = [plural(total["messages"], "message"), plural(total["runs"], "run")]
        return " · ".join([*counts, *([dollars(total["cost_usd"])] if total["cost_usd"] else [])])
    cost = known_dollars(total["cost_usd"], total["known_usd"]) or "no price"
    counts = [plural(total["entries"], "entry", "entries"), plural(total["requests"], "request")]
    tokens = f"{short(total['tokens'])} tokens ({short(total['cache_read'])} from the cache)"
    return " · ".join([*counts, tokens, cost, plural(total["drops"], "drop")])


def _row(row: JsonObject, width: int) -> Blocks:
    """Return a row: time, who or what, then the words or facts, which are below on a narrow terminal."""
    time = cut_line(format_local_minute(str(row["at"]), "%H:%M:%S") or "-" * 8, 8)
    name = "nexus" if row["kind"] == "assistant" else cut_line(_name(row), LONGEST_NAME)
    kind = cut_line((row["trigger"] or {}).get("type", ""), KIND)
    notes = [kind] if kind.casefold() not in ("", *TYPED, name.casefold()) and not _is_posted(row) else []
    notes += ["after a cut-off turn"] if row.get("cut_off") else []
    unseen = "new" if _is_posted(row) else "not sent yet"
    if row["seen"] is False and row["kind"] != "assistant":
        notes.append(unseen)
    head = f"{time} {name}" + (f" ({', '.join(notes)})" if notes else "") + ":"
    _, words = describe_row(row)
    indent, first = " " * 9, f"{head} "
    if cells(head) > width // 2:
        yield Paragraph(head, "  ", "")
        indent = first = "  "
    elif not words:
        yield head.removesuffix(":")
    if row["kind"] in STATED and row["actor"]["name"] != ASK_PERSON:
        words = cut_line(words, max(width - cells(first), ENOUGH))
    yield Paragraph(words, indent, first)
    yield from paragraphs(_list_attached_lines(row), "    ", "  ")


def describe_row(row: JsonObject) -> tuple[str, str]:
    """Return the name of a row and its facts on one line."""
    return _name(row), " · ".join(filter(None, map(one_line, _facts(row))))


def _is_posted(row: JsonObject) -> bool:
    """True for one message of a space. An entry of SPACE HISTORY has the same kind, and several messages."""
    return row["kind"] == "message" and "runs" in row


def _list_attached_lines(row: JsonObject) -> Iterator[str]:
    """Yield the lines below a message: its files; for a message of a space its origin, the agents it triggered and
    their runs."""
    if row.get("attached"):
        yield f"with {'; '.join(one_line(measure_attached(attachment)) for attachment in row['attached'])}"
    if not _is_posted(row):
        return
    if row["why"]:
        yield row["why"]
    for run in row["runs"]:
        session = f"session {run['session']}" if run["session"] else ""
        facts = " · ".join(filter(None, (f"{run['run']} {run['state']}", _cost(run), session)))
        why = f": {run['error']}" if run.get("error") else ""
        yield f"-> {run['agent']} ({run['source']}): {facts}{why}"


def _name(row: JsonObject) -> str:
    """Return the actor; for a row that is not an entry, its kind."""
    if row["kind"] in STATED:
        return str(row["actor"]["name"]).replace("←", "<-")
    key = {"request": "step", "drop": "drop", "worker": "worker"}.get(row["kind"], "")
    return f"{row['kind']} {row[key]}" if key else CAUSES.get(row["kind"], str(row["kind"]))


def _facts(row: JsonObject) -> Iterator[str]:
    """Yield the facts of a row, the most important first."""
    if row.get("recalled") and row["kind"] != "tool":
        yield f"recalled {', '.join(row['recalled'])}"
    match row["kind"]:
        case "tool":
            yield row["outcome"]  # before the subject, which may be cut
            yield row["subject"]
            yield f"{row['seconds']:g} s" if row["seconds"] else ""
            yield _decided(row)
            says_why = row["why"] and row["why"] in row["text"]
            yield f'"{row["text"]}"' if row["text"] and not says_why else ""
        case "request":
            yield from _request(row)
        case "drop":
            yield f"{plural(row['tokens'], 'token')} ({row['why']})"
            yield row["text"]
            yield f"recalled {plural(row['recalls'], 'time')}" if row["recalls"] else ""
        case "worker":
            yield describe_state(row["state"])
            yield from worker_figures(row)
            yield f"session {row['session']}" if row["session"] else ""
            yield row["text"]
            yield row["why"]
        case "lane":
            yield PURPOSES.get(str(row["lane"]), str(row["lane"]))
            yield plural(row["requests"], "request")
            yield f"{short(row['tokens'])} tokens"
            yield _cost(row)
        case kind if kind in STATED:
            if _is_posted(row):
                yield f"[{row['message']}]" + (f" to {row['reply_to']}" if row["reply_to"] else "")
                yield "waits for a reply" if row["waits"] else ""
            yield row["text"]
            yield from (f"-> {call['name']} {call['subject']}".rstrip() for call in row.get("calls", ()))
        case "waiting":
            yield row["text"]
            yield f"until {when(row['until'])} at the latest" if row["until"] else ""
        case _:
            if row.get("after") is not None and row["before"] is not None:
                yield f"{number(row['before'])} -> {number(row['after'])} tokens"
            yield row["text"] if row["text"] != row["kind"] else ""
            yield f"{row['seconds']:g} s" if row["seconds"] else ""
            yield row["why"]
            yield _cost(row)
            yield "" if row.get("taken", True) else "not processed yet"


def _cost(row: JsonObject) -> str:
    """Return the cost of a row, "" if it is unknown."""
    return dollars(row["cost_usd"]) if row["cost_usd"] is not None else ""


def _decided(row: JsonObject) -> str:
    """Return the decision on a call that was refused or asked about, with the reason; else ""."""
    if row["decision"] not in ("ask", "deny"):
        return ""
    verdict = describe_verdict({**row, "ran": row["outcome"] not in ("refused", "not run")})
    return ": ".join(filter(None, ("" if verdict == row["outcome"] else verdict, row["why"])))


def _request(row: JsonObject) -> Iterator[str]:
    if row["finish"] in (None, "lost"):
        state = "waiting for the" if row.get("running") else "no recorded"
        yield f"{state} response to a request of about {short(row['input'])} tokens"
    else:
        yield describe_tokens(row)
        yield _cost(row)
        yield f"{row['seconds']:g} s" if row["seconds"] is not None else ""
        yield "" if row["finish"] in ("stop", "tool_calls") else str(row["finish"])
    yield row["model"]
