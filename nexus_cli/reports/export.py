"""Export a whole session as a page or Markdown for people, or as JSON Lines for programs or for Claude Code.

Markdown and our own JSON Lines are made in pieces, so that the size of a session does not matter.

Also creates the export's file; an existing file is never overwritten.
"""

from __future__ import annotations

import base64
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.entry import DropObject, Entry, Kind
from nexus_cli.core.errors import UsageError, reason_of
from nexus_cli.core.event import Thinking
from nexus_cli.core.json_value import JsonObject, ReportOfSession, to_json_value
from nexus_cli.core.message import Role
from nexus_cli.core.real_files import real_path
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import json_text
from nexus_cli.hooks.claude_lines import claude_lines, claude_session_id
from nexus_cli.ledger import LaneLog, SessionInfo
from nexus_cli.reports.conversation import Replay, describe_unlogged_event
from nexus_cli.reports.event_texts import describe_thought
from nexus_cli.text.cells import one_line


class ExportReport(ReportOfSession):
    """An exported session."""

    format: str
    file: str
    """The file; empty if the export is in `text`."""
    text: str


AT_ONCE = 200
"""Entries that are read together."""
SPEAKERS = MappingProxyType({"person": "You", "agent": "Assistant", "nexus": "nexus"})
CLAUDE = "claude"
HTML, MARKDOWN = "html", "md"
FORMATS = (MARKDOWN, "jsonl", HTML, CLAUDE)
SUFFIXES = MappingProxyType({".jsonl": "jsonl", ".html": HTML, ".htm": HTML})
"""Formats by the ending of a file's name; md for others."""
LOCAL = "%Y-%m-%d %H:%M %z"
"""Times in Markdown have their zone, because a file is read in other places too."""
CUT_OFF = "\n*the end of this turn was not recorded*\n"
"""The line behind a turn whose process was killed, or that still runs."""
_FENCE = re.compile("`{3,}")
_WORD = re.compile(r"\w+")


def format_of_file(name: str) -> str:
    """Return the format that the ending of a file's name means."""
    return SUFFIXES.get(os.path.splitext(name)[1].casefold(), MARKDOWN)


def session_pieces(record: LaneLog, info: SessionInfo, form: str, *, escaped: bool = False) -> Iterator[str]:
    """Yield the session as Markdown or in a form of JSON Lines; `escaped` limits JSON to ASCII, for a terminal."""
    if form == CLAUDE:
        entries = list(_entries(record))
        used: dict[int, Usage] = {}
        replies = [entry.id for entry in entries if entry.message.role is Role.ASSISTANT]
        for row in record.requests():
            place = bisect_right(replies, row.manifest.last)
            if row.usage is not None and place < len(replies):
                used[replies[place]] = used.get(replies[place], Usage()) + row.usage
        return claude_lines(entries, info.id, info.folder, info.model, name=info.name, used=used, escaped=escaped)
    return _markdown(record, info) if form == MARKDOWN else _lines(record, info, escaped)


def default_file_name(info: SessionInfo, form: str) -> str:
    """Return a file name for a session: its day, and its name or the end of its id; for Claude Code its id there."""
    if form == CLAUDE:
        return f"{claude_session_id(info.id)}.jsonl"
    title = "-".join(_WORD.findall(info.name))[:60].strip("-") or info.id[-8:].lower()
    return f"nexus-{format_local_minute(info.created, '%Y-%m-%d')}-{title}.{form}"


def save_in(
    folder: Path, name: str, default: str, text: Iterable[str], *, inside: bool = False, beside: bool = True
) -> Path:
    """Write `text` to a new file `name` in `folder`, or to `default` in the folder of that name; return its path.
    `beside` as in `save_export`.

    With `inside`, raise `UsageError` for a file outside of `folder` or in a hidden folder.
    """
    target = folder / os.path.expanduser(name)
    target = target / default if os.path.isdir(target) else target
    if inside:
        _require_inside(folder, target)
    return save_export(text, target, beside=beside)


def _require_inside(folder: Path, target: Path) -> None:
    try:
        parts = real_path(target).relative_to(os.path.realpath(folder)).parts
    except ValueError:
        parts = (".",)
    if any(part.startswith(".") for part in parts):
        raise UsageError(
            str(target),
            "the file is hidden or outside the session's folder",
            "Choose a visible file in that folder",
        )


def save_export(pieces: Iterable[str], path: Path, *, beside: bool) -> Path:
    """Write `pieces` to a new file and return its path; blocking.

    If the file exists, `beside` writes to the same name with -2, -3, ...; without it, fail. Raises `UsageError` if
    the file cannot be created; a partial file is deleted.
    """
    try:
        file = _create_file(path, beside)
        folder = Path(file.name)
        try:
            with file:
                file.writelines(pieces)
        except BaseException:
            with suppress(OSError):
                folder.unlink()
            raise
        return folder
    except (OSError, ValueError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "not a valid file name"
        raise UsageError(f"{path} cannot be written", why.lower(), "Choose another file") from error


def _create_file(path: Path, beside: bool) -> TextIO:
    """Create a file at `path`, or under the first free name in its folder, and open it."""
    names = chain([path], (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2)))
    for name in names:
        with suppress(*([FileExistsError] if beside else [])):
            return open(name, "x", encoding="utf-8", errors="replace", newline="", opener=_private)
    raise AssertionError("the sequence of names is endless")


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner can read."""
    return os.open(path, flags, 0o600)


def _entries(record: LaneLog) -> Iterator[Entry]:
    last = record.last_id()
    for first in range(1, last + 1, AT_ONCE):
        yield from record.read(first, min(last, first + AT_ONCE - 1))


def _lines(record: LaneLog, info: SessionInfo, escaped: bool) -> Iterator[str]:
    """Yield one JSON object per line: the session, every entry, and every drop with its text if no entry has it."""

    def line(kind: str, value: JsonObject) -> str:
        return json_text({"type": kind, **value}, escaped=escaped, dense=True) + "\n"

    yield line("session", {"version": 1, **to_json_value(info)})
    for entry in _entries(record):
        images = [
            {"name": part.name, "media_type": part.media_type, "data": base64.b64encode(part.data).decode()}
            for part in entry.message.parts
        ]
        yield line("entry", {**to_json_value(entry), "images": images})
    for drop in record.drops():
        text = record.original(drop.id) if drop.entries is None else None
        entries = list(drop.entries) if drop.entries else None
        yield line("drop", {**to_json_value(DropObject(drop)), "entries": entries, "text": text})


def _markdown(record: LaneLog, info: SessionInfo) -> Iterator[str]:
    title = " ".join((info.name or info.first_text.split("\n\n<", 1)[0] or "Session").split())
    yield f"# {title}\n\n"
    for name, value in (
        ("Session", info.id),
        ("Folder", info.folder),
        ("Model", info.model),
        ("Started", format_local_minute(info.created, LOCAL)),
        ("Last used", format_local_minute(info.updated, LOCAL)),
        ("Turns", info.turns),
    ):
        yield f"- {name}: {value}\n"
    replay = Replay(record)
    before: Entry | None = None
    for entry in _entries(record):
        yield CUT_OFF if entry.kind is Kind.USER and replay.has_no_end(before) else ""
        yield from _entry(entry, *(thinking.text for thinking in replay.thinking_of(entry)))
        for past in replay.between(entry.id):
            if isinstance(past.event, Thinking):
                yield _format_thinking(past.event.text)
            elif text := describe_unlogged_event(past):
                yield f"\n*{format_local_minute(past.at, LOCAL)}: {one_line(text)}*\n"
        before = entry
    yield CUT_OFF if replay.has_no_end(before) else ""


def _format_thinking(text: str) -> str:
    quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return f"\n*{describe_thought(text)}*\n\n{quoted}\n"


def _entry(entry: Entry, thinking: str = "") -> Iterator[str]:
    message = entry.message
    speaker = SPEAKERS.get(entry.actor, entry.actor)
    if entry.actor.startswith("tool:"):
        speaker = f"Result of {entry.actor.removeprefix('tool:')} ({message.tool_call_id})"
    shown_time = format_local_minute(entry.at, LOCAL)
    yield f"\n## {speaker}\n\n*[{entry.id}] {shown_time}*\n"
    if thinking:
        yield _format_thinking(thinking)
    if message.content:
        yield f"\n{fenced(message.content) if entry.actor.startswith('tool:') else message.content.rstrip()}\n"
    for part in message.parts:
        yield f"\n*Image {part.name or 'without a name'} ({part.media_type}, {len(part.data):,} bytes)*\n"
    for call in message.tool_calls:
        block = fenced(call.raw) if call.raw else fenced(json_text(call.arguments, escaped=False, dense=True), "json")
        yield f"\n**{call.name}** ({call.id})\n\n{block}\n"


def fenced(text: str, language: str = "") -> str:
    """Return `text` as a code block with a fence that does not occur in it."""
    fence = "`" * max(3, 1 + max(map(len, _FENCE.findall(text)), default=0))
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"
