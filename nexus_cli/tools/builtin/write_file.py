"""`write_file`: a new file, or the whole content of one that was read here. Changing parts of one is `edit_file`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Seen
from nexus_cli.core.tool import Effect, Tool, ToolContext
from nexus_cli.tools.atomic import replace_file
from nexus_cli.tools.files import HARD_LIMIT, Refused, digest, in_project, problem, read, real
from nexus_cli.tools.preview import LARGEST, unified
from nexus_cli.tools.preview import preview as preview_of
from nexus_cli.tools.text import decode
from nexus_cli.tools.threads import Stop, finish


@dataclass(frozen=True, slots=True)
class _Written:
    digest: str
    how: str
    diff: str


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """One line that says what was written."""
    path, content = arguments["path"], arguments["content"]
    seen: Seen = context.services[Seen]
    try:
        target = real(path, context.cwd)
        if not context.cwd.is_dir():
            raise Refused("the working folder is gone")
        known = seen.digest(str(target))
        written = await finish(
            lambda stop: _write(target, content, known, in_project(target, context.project), stop),
            lambda done: seen.note(str(target), done.digest, "created" if done.how == "created" else "changed"),
        )
    except (OSError, Refused) as error:
        return ToolResult(error=problem(path, error, context.cwd))
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    told = f"{written.how} {path}, {lines} lines"
    return ToolResult(told, changed=(in_project(target, context.project),), diff=written.diff)


def preview(arguments: Mapping[str, Any], cwd: Path) -> str:
    """What writing would change, as a unified diff; "" where that cannot be told."""
    return preview_of(arguments["path"], cwd, lambda before: str(arguments["content"]))


def _diff(old: bytes | None, data: bytes, content: str, name: str) -> str:
    """What was written instead of `old` (None: a new file)."""
    if len(data) > LARGEST or len(old or b"") > LARGEST:
        return ""
    before = decode(old) if old is not None else None
    if old and before is None:
        return ""
    return unified(None if before is None else before.text, content, name)


def _write(target: Path, content: str, known: str | None, name: str, stop: Stop) -> _Written:
    old = None
    try:
        old = read(target)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode("utf-8")
    if old is not None:
        if old.beyond:
            raise Refused("is over 64 MiB")
        if old.data and known is None:
            raise Refused("exists and was not read yet: read it first, or use edit_file")
        if old.data and known != old.digest:
            raise Refused("changed on disk since it was read: read it again")
        data = _like(old.data, content)
    if len(data) > HARD_LIMIT:
        raise Refused("would be over 64 MiB")
    replace_file(target, data, stop, expected=None if old is None else old.digest)
    diff = _diff(None if old is None else old.data, data, content, name)
    return _Written(digest(data), "created" if old is None else "replaced", diff)


def _like(old: bytes, content: str) -> bytes:
    """`content` in the encoding of the old content, and with its line ends where all of them are CRLF."""
    text = decode(old) if old else None
    if text is None or text.errors != "strict":
        return content.encode("utf-8")
    if text.crlf:
        content = re.sub(r"(?<!\r)\n", "\r\n", content)
    try:
        return text.encoded(content)
    except UnicodeEncodeError as error:
        raise Refused(f"is {text.encoding}, which has no {content[error.start]!r}") from None


TOOL = Tool(
    name="write_file",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
        "additionalProperties": False,
    },
    run=run,
    effect=Effect.EDIT,
    subject="path",
    paths=lambda arguments: (arguments["path"],),
    preview=preview,
    needs=(Seen,),
)
