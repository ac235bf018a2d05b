"""A request's body as lines, and back; a recorded session as a text that git can show the difference of.

Owns the form of the files in `expected/`. A body becomes a line of JSON for its tools, one for each system text and
message, and one for everything else; put together they are the bytes that were sent. What an earlier request began with
stands there as a reference.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LISTS = ("system", "messages", "contents")
"""Fields of a body of which every item is a line, in the order of the lines; the tools are one line before them."""
SHARED = 600
"""A line of so many characters is kept in a file of its own, once for all sessions."""
SPELLINGS: Mapping[str, Mapping[str, Any]] = {
    "": {"ensure_ascii": False, "separators": (",", ":")},
    "; JSON with blanks and escapes": {},
}
"""How the libraries of the providers write JSON, by what the head of a request says of it."""
MARK = "  |"
"""How a row begins that goes on with the line before."""
BREAKS = re.compile(r'(?<=\\n)|(?={"type":"function","function":{"name":"\w+","description")|(?={"name":"\w+","[dpi])')
"""Where a line is broken into rows: behind each `\\n` of a text, before each tool."""


@dataclass
class Request:
    """One request of a session."""

    head: str
    """Method, path, and the headers that providers look at."""
    lines: list[str]


@dataclass
class Step:
    """What a person did, and what the provider received and the person read because of it."""

    title: str
    script: list[str] = field(default_factory=list)
    """What was put there for this step: files, settings, the model's answers."""
    requests: list[Request] = field(default_factory=list)
    end: list[str] = field(default_factory=list)
    """Exit status and stdout."""


def body_lines(raw: bytes) -> tuple[list[str], str]:
    """Return the lines of a body, and how its JSON is spelled; `ValueError` if they do not give its bytes again."""
    body = json.loads(raw)
    rest = dict(body)
    lines: list[str] = []
    if "tools" in body:
        rest["tools"] = []
        lines.append(f"tools {_packed(body['tools'])}")
    for name in LISTS:
        if isinstance(body.get(name), list):
            rest[name] = []
            lines += [f"{name}[{place}] {_packed(item)}" for place, item in enumerate(body[name])]
    lines.append(f"body {_packed(rest)}")
    for spelling in SPELLINGS:
        if body_bytes(lines, spelling) == raw:
            return lines, spelling
    raise ValueError(f"a body that is spelled in another way: {raw[:200]!r}")


def body_bytes(lines: Sequence[str], spelling: str) -> bytes:
    """Return the bytes of a body from its lines."""
    body = json.loads(lines[-1].removeprefix("body "))
    for line in lines[:-1]:
        name, _, value = line.partition(" ")
        if name == "tools":
            body[name] = json.loads(value)
        else:
            body[name.partition("[")[0]].append(json.loads(value))
    return json.dumps(body, **SPELLINGS[spelling]).encode()


def _packed(value: Any) -> str:
    return json.dumps(value, **SPELLINGS[""])


def write_session(about: str, steps: Iterable[Step], shared: Path) -> str:
    """Return the text of a session; what many sessions have is written to files below `shared`."""
    rows = [f"# {about}"]
    before: list[list[str]] = []
    for number, step in enumerate(steps, 1):
        rows += ["", f"## {number}. {step.title}", *step.script]
        for request in step.requests:
            rows.append(f"### request {len(before) + 1}: {request.head}")
            most, place = max(((_shared(one, request.lines), -at) for at, one in enumerate(before)), default=(0, 0))
            if most:
                rows.append(f"= {most} of request {1 - place}")
            for line in request.lines[most:]:
                rows += ["body ="] if before and line == before[-1][-1] else _fold(line, shared)
            before.append(request.lines)
        rows += step.end
    return "\n".join(rows) + "\n"


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """Return with how many equal lines both begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))


def _fold(line: str, shared: Path) -> list[str]:
    """Return the rows of a line, or the name of the file that holds it."""
    if len(line) < SHARED:
        first, *more = BREAKS.split(line)
        return [first, *(MARK + row for row in more)]
    name, _, value = line.partition(" ")
    digest = hashlib.sha256(value.encode()).hexdigest()[:12]
    shared.mkdir(parents=True, exist_ok=True)
    (shared / f"{digest}.txt").write_text("\n".join(BREAKS.split(value)) + "\n", encoding="utf-8")
    return [f"{name} @{digest}"]


def read_session(text: str, shared: Path) -> list[Step]:
    """Return the steps of a session's text."""
    steps: list[Step] = []
    before: list[list[str]] = []
    rows: list[str] = []
    for row in text.split("\n")[:-1]:
        if row.startswith("## "):
            steps.append(Step(row.partition(". ")[2]))
            rows = steps[-1].script
        elif row.startswith("### request "):
            request = Request(row.partition(": ")[2], [])
            steps[-1].requests.append(request)
            before.append(request.lines)
            rows = request.lines
        elif row.startswith("exit "):
            rows = steps[-1].end
            rows.append(row)
        elif rows is (before[-1] if before else None):
            _unfold(row, rows, before, shared)
        elif row and not row.startswith("# "):
            rows.append(row)
    return steps


def _unfold(row: str, lines: list[str], before: Sequence[list[str]], shared: Path) -> None:
    name, _, value = row.partition(" ")
    if row.startswith("= "):
        count, _, _, number = value.split()
        lines += before[int(number) - 1][: int(count)]
    elif row == "body =":
        lines.append(before[-2][-1])
    elif row.startswith(MARK):
        lines[-1] += row.removeprefix(MARK)
    elif value.startswith("@"):
        kept = (shared / f"{value[1:]}.txt").read_text(encoding="utf-8")
        lines.append(f"{name} {kept.replace(chr(10), '')}")
    elif row:
        lines.append(row)
