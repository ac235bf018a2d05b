"""The session of another program as a value, and the reader of the JSON Lines that these programs write."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from nexus_cli.core.attachment import IMAGE_NAMES, Part
from nexus_cli.core.clock import format_utc
from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.image_check import choose_images
from nexus_cli.core.json_value import JsonDict, JsonObject, is_nested_within
from nexus_cli.core.message import UNKNOWN_OUTCOME, Message, Role, ToolCall, to_record
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import as_table, canonical

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one line that are read."""
MAX_NESTING = 100
"""Most nested levels of a value: deeper ones fail in the stack of whoever writes them."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
NOTE = "nexus"
"""Actor of messages that the other program wrote in the person's place."""


@dataclass
class ForeignSession:
    """One session of another program."""

    program: str
    id: str
    """Its id there."""
    path: Path
    folder: str = ""
    name: str = ""
    """The name that the person gave it; "" if none."""
    model: str = ""
    """As the other program names it; "" if no record does."""
    entries: list[Entry] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    """By model. Dollars are unknown."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What could not be taken over, by kind."""
    bad_lines: list[str] = field(default_factory=list)
    """Lines of the file that could not be read."""
    _at: str = ""
    _images: list[tuple[str, Sequence[Part]]] = field(default_factory=list)
    """Tool and images of the results since the last message, which follow them in messages of their own."""

    def note_time(self, timestamp: object) -> None:
        """Use `timestamp` (ISO 8601) for the entries that follow; keep the time before for any other value."""
        if isinstance(timestamp, str):
            try:
                moment = datetime.fromisoformat(timestamp)
                if not 2000 <= moment.year < 2100:
                    raise ValueError(timestamp)
                self._at = format_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
            except (ValueError, OverflowError):
                self.left_out["invalid timestamps"] += 1

    def omit(self, noun: str, kind: object) -> None:
        """Count a part of a kind that has no counterpart."""
        self.left_out[f"{noun} of type {str(kind)[:40]}"] += 1

    def add(self, kind: Kind, message: Message, actor: str) -> int:
        """Append an entry at the time noted last, and return its place in `entries`."""
        if kind is not Kind.TOOL:
            self._add_images()
        at = self._at or format_utc(datetime.fromtimestamp(self.path.stat().st_mtime, UTC))
        self.entries.append(Entry(0, at, actor, kind, message))
        return len(self.entries) - 1

    def extend(self, place: int, text: str, calls: Sequence[ToolCall]) -> None:
        """Add to the assistant message at a place."""
        entry = self.entries[place]
        joined = "\n\n".join(filter(None, (entry.message.content, text)))
        extended = replace(entry.message, content=joined, tool_calls=(*entry.message.tool_calls, *calls))
        self.entries[place] = replace(entry, message=extended)

    def add_text(self, text: str, parts: Sequence[Part] = (), *, typed: bool = True) -> None:
        """Append a user message: of the person, or (not `typed`) of the other program."""
        if text or parts:
            message = Message(Role.USER, clean_text(text), parts=tuple(parts))
            self.add(*((Kind.USER, message, "person") if typed else (Kind.STEER, message, NOTE)))

    def add_result(self, call: str, text: str, names: Mapping[str, str], images: Sequence[Part]) -> None:
        """Append the result of a call; `names` are the tools by call id."""
        tool = names.get(call, "unknown")
        image_data = [(image.media_type, image.data) for image in images]
        chosen, lines, _ = choose_images(image_data, None, origin=f"result of {tool}")
        content = "\n".join(filter(None, [text, *lines]))
        self.add(Kind.TOOL, Message(Role.TOOL, clean_text(content), tool_call_id=call), f"tool:{tool}")
        self._images += [(tool, chosen)] if chosen else []

    def _add_images(self) -> None:
        images, self._images = self._images, []
        for tool, parts in images:
            self.add_text(f"[Images in the result of {tool}]", parts, typed=False)

    def close_calls(self) -> None:
        """Give every call before the last step that has no result one that says so, and number the entries.

        Calls of the last step stay open: the session that resumes it closes them.
        """
        self._add_images()
        unanswered = {call.id for call in self.open_calls()}
        last = max((i for i, entry in enumerate(self.entries) if entry.message.role is not Role.TOOL), default=0)
        closed: list[Entry] = []
        for place, entry in enumerate(self.entries):
            closed.append(entry)
            for call in entry.message.tool_calls if place < last else ():
                if call.id in unanswered:
                    result = Message(Role.TOOL, UNKNOWN_OUTCOME, tool_call_id=call.id)
                    closed.append(replace(entry, actor=f"tool:{call.name}", kind=Kind.TOOL, message=result))
                    self.left_out["tool calls without a result (recorded as unknown)"] += 1
        self.entries = [replace(entry, id=number) for number, entry in enumerate(closed, 1)]

    def open_calls(self) -> list[ToolCall]:
        """Return the calls that have no result."""
        answered = {entry.message.tool_call_id for entry in self.entries if entry.message.role is Role.TOOL}
        return [call for entry in self.entries for call in entry.message.tool_calls if call.id not in answered]

    def digest(self, count: int) -> str:
        """Return the hash of the first `count` messages."""
        digest = hashlib.sha256()
        for entry in self.entries[:count]:
            digest.update(canonical(to_record(entry.message)))
        return digest.hexdigest()


def find_files(patterns: Sequence[str], home: Path) -> list[Path]:
    """Return the files below another program's folder that match one of the patterns."""
    return sorted(path for pattern in patterns for path in home.glob(pattern))


def read_name(record: JsonObject, key: str) -> str:
    """Return the text in a field of a record, "" for anything else."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def clean_text(text: str) -> str:
    """Return `text` without NUL, which no provider accepts."""
    return text.replace("\x00", "\ufffd")


def make_call(call: str, name: str, arguments: object) -> ToolCall:
    """Return a call whose arguments are an object, or else are kept as raw text."""
    fit = as_table(arguments)
    raw = "" if isinstance(arguments, dict) else arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(call, name or "unknown", fit, raw)


def image_part(media_type: object, data: object) -> Part | None:
    """Return an image from base64; None if it has no data or another type."""
    if not isinstance(media_type, str) or media_type not in IMAGE_NAMES or not isinstance(data, str):
        return None
    try:
        return Part(media_type, base64.b64decode(data, validate=True)) if data else None
    except (binascii.Error, ValueError):
        return None


def count(value: object) -> int:
    """Return `value` if it may be a number of tokens, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12 else 0


def read_records(path: Path, bad_lines: list[str]) -> Iterator[JsonDict]:
    """Yield the JSON objects of a file, one per line; add other lines to `bad_lines`. Raises `OSError`."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # to open a pipe is to wait for its writer
        bad_lines.append("not a regular file")
        return
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE and not line.endswith(b"\n"):
                while (more := file.readline(MAX_LINE)) and not more.endswith(b"\n"):
                    pass
                bad_lines.append(f"line {number} is larger than {MAX_LINE >> 20} MB")
                continue
            is_last = not line.endswith(b"\n")
            line = line.removeprefix(b"\xef\xbb\xbf").strip(b"\0 \t\r\n")
            if not line:
                continue
            try:
                value = json.loads(line.decode("utf-8", "replace"), parse_constant=str)
                if b"\\ud" in line or b"\\uD" in line:
                    value = json.loads(_LONE_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict) and not is_nested_within(value, MAX_NESTING):
                bad_lines.append(f"line {number} is nested too deeply")
            elif isinstance(value, dict):
                yield value
            else:
                bad_lines.append(f"line {number} is {'cut off' if is_last else 'not a JSON object'}")
