"""Text of sessions: the list, one whole, a search, the last exchange, and the result of a replay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.reports.text.lines import Value, cut_line, filled, folded, number, plural, table, when
from nexus_cli.reports.text.workers import worker_lines

HEAD = (
    "id",
    "name",
    "folder",
    "worktree",
    "model",
    "recipe",
    "created",
    "updated",
    "turns",
    "parent",
    "spawner",
    "cost_usd",
)
TITLE = 200
"""Most columns of a title on lines that are otherwise as long as their content."""
WIDE = 1000
"""Wider than any terminal: from here on ids are whole, for scripts."""


def sessions_text(value: Value, width: int) -> str:
    """Return the sessions of a folder or of all."""
    sessions, runs = value.get("sessions", []), int(value.get("runs", 0))
    left = f"{plural(runs, 'run')} of `nexus ask` left out: `nexus sessions list --all` lists them too." if runs else ""
    left = " ".join(filter(None, (describe_more_sessions(value), left)))
    if not sessions:
        text = "No sessions here yet."
        return "\n".join(filled(f"{text} {left or '`nexus sessions list --all` lists those of other folders.'}", width))
    rows = [("id", "last used", "turns", "what")]
    for s in sessions:
        what = s.get("name") or title_of(s.get("first_text")) or f"({s.get('recipe')})"
        named = s["id"] if width >= WIDE else s.get("short", s["id"])
        run = "ask: " if s.get("front") == "ask" else ""
        place = f"-w {s['worktree']}: " if s.get("worktree") else ""
        rows.append((str(named), when(s.get("updated")), number(s.get("turns")), cut_line(place + run + what, TITLE)))
    return "\n".join([*table(rows, width, right=(2,)), *(["", *filled(left, width)] if left and width < WIDE else ())])


def describe_more_sessions(value: Value) -> str:
    """Return the number of older sessions that a list leaves out, with the command that lists them; "" for none."""
    total = int(value.get("total", 0))
    more = total - len(value.get("sessions", []))
    return f"{more:,} older not shown: `nexus sessions list --limit {total}`." if more > 0 else ""


def title_of(text: object) -> str:
    """Return the beginning of a session as its title: the person's text without attachments."""
    return str(text or "").split("\n\n<", 1)[0]


def session_text(value: Value, width: int) -> str:
    """Show one session: its head, then its entries in order; a result names the call that it answers."""
    head = {**value, **{key: when(value.get(key)) for key in ("created", "updated")}}
    lines = [cut_line(f"{key:<8}  {head[key]}", width) for key in HEAD if head.get(key) not in (None, "")]
    lines += worker_lines(value, width)
    for entry in value.get("entries", []):
        answers = f" of {entry['call']}" if entry.get("call") else ""
        lines += ["", cut_line(f"[{entry.get('id')}] {when(entry.get('at'))} {entry.get('actor', '')}{answers}", width)]
        lines += folded(text, width) if (text := str(entry.get("text") or "").rstrip("\n")) else []
        for call in entry.get("calls", []):
            given = call.get("raw") or _arguments_line(call.get("arguments"))
            lines.append(cut_line(f"-> {call.get('id', '')} {call.get('name')} {given}", width))
    return "\n".join(lines)


def _arguments_line(arguments: Any) -> str:
    """Return the arguments of a call on one line: a single text unchanged, else JSON."""
    values = list(arguments.values()) if isinstance(arguments, Mapping) else [arguments]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else json.dumps(arguments, ensure_ascii=False)


def search_text(value: Value, width: int) -> str:
    """List the matches: session and entry, then the text around each."""
    hits = value.get("hits", [])
    where = "any folder" if value.get("folder") is None else "the sessions of this folder"
    if not hits:
        lines = filled(f"`{cut_line(value.get('text'), 200)}` was not found in {where}.", width)
    else:
        lines = []
        for hit in hits:
            name = f" {hit['name']}" if hit.get("name") else ""
            head = f"{hit['session']} [{hit['entry']}] {when(hit['at'])} {hit['actor']}{name}"
            lines += [*filled(head, width, "    ", ""), *filled(str(hit["snippet"]), width, "    "), ""]
        more = ", the newest; --limit shows more" if value.get("more") else ""
        lines += filled(f"{plural(len(hits), 'place')}{more}.", width)
    if value.get("damaged"):
        lines += filled(f"{plural(int(value['damaged']), 'damaged text')} could not be read.", width)
    return "\n".join(lines)


ONE_LINE = 1 << 20
FEW = 5
"""Most steps that are named."""


def replay_text(value: Value, width: int = ONE_LINE) -> str:
    """Return one sentence, and one more for each finding of `--wire`; on the command line each on its own line, for
    `grep`."""
    session, count = value["session"], int(value["requests"])
    if not value["ok"]:
        text = f"Session {session} differs from what was sent: {value['first_difference']}"
    elif not count:
        text = f"Session {session} has sent no request: there is nothing to compare."
    else:
        text = f"{plural(count, 'request')} of session {session} rebuilt: every line is as it was sent."
    told = [text, *(_wire(value["wire"]) if "wire" in value else ())]
    return "\n".join(line for sentence in told for line in filled(sentence, width))


def _wire(value: Value) -> list[str]:
    """Return the findings of `--wire` in one or a few sentences; requests beside the conversation are named by their
    lane."""
    lanes = [("", value), *((f" of a side request ({one['agent']})", one) for one in value.get("beside", ()))]
    equal = sum(int(one["equal"]) for _, one in lanes)
    compared = equal + sum(len(one["differ"]) for _, one in lanes)
    if not compared:
        parts = [f"No body could be compared ({value['library']})."]
    else:
        parts = [f"{equal} of {compared} bodies, made by {value['library']}, match what was sent."]
    parts += [f"Different: {_steps(one['differ'])}{whose}." for whose, one in lanes if one["differ"]]
    for whose, one in lanes:
        parts += [f"Not compared: {_steps(steps)}{whose}, because {why}." for why, steps in one["skipped"].items()]
    return parts


def _steps(steps: Sequence[int]) -> str:
    named = ", ".join(map(str, steps[:FEW])) + (", ..." if len(steps) > FEW else "")
    return f"{'request' if len(steps) == 1 else 'requests'} {named}"
