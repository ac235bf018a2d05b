"""`bash`: run one shell command to its end, through `tools/process.py`.

The command runs in the sandbox and with the environment that permission decided on (`ToolContext.sandbox`).
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nexus_cli.config.command_records import UncheckedError
from nexus_cli.config.programs import find_program
from nexus_cli.core.attachment import IMAGE_NAMES, image_type
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import CommandSandbox, ToolContext
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import NUL, decode_output
from nexus_cli.tools.pipe_statuses import record_pipe_statuses
from nexus_cli.tools.process import ProcessResult
from nexus_cli.tools.process import run_process as run_process

DEFAULT_SECONDS = 120
MOST_SECONDS = 3600
_PIECE = 1 << 20
_SHOW_EVERY = 0.1
_SHOW_MOST = 4096
_MOST_RESTORED = 20
"""Most changed protected places listed in a result."""
_MOST_SHOWN = 5
"""Most changed protected places shown to the person."""
_LATIN = "nexus-latin"
_STYLE = re.compile("\x1b\\[[0-9;:]*[mK]")
"""SGR (colours) and EL (erase to the end of the line) of ECMA-48."""
_OPEN_STYLE = re.compile("\x1b(?:\\[[0-9;:]*)?\\Z")


def _latin(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as Windows-1252."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_LATIN, _latin)


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return the output and a last line with the exit status, or all of its last pipe if an earlier part failed.

    Only a command that could not be started is an error.
    """
    if not arguments["command"].strip():
        return ToolResult(error="`command` must not be empty", ran=False)
    seconds = min(arguments.get("timeout", DEFAULT_SECONDS), MOST_SECONDS)
    loop = asyncio.get_running_loop()
    live = _Live(lambda text: loop.call_soon_threadsafe(context.emit, text))
    shell, command = _shell(context.cwd), arguments["command"]
    ended: list[ProcessResult] = []
    sandbox, pipe = CommandSandbox(None, os.environ), tuple[int, ...]()

    def work(stop: StopFlag) -> ProcessResult:
        nonlocal sandbox, pipe
        sandbox = context.sandbox() if context.sandbox else sandbox
        with record_pipe_statuses(shell, command, sandbox.env) as statuses:
            result = run_process(
                [shell, "-c", command],
                cwd=context.cwd,
                env={**sandbox.env, "TERM": "dumb", **statuses.variables},
                stop=stop,
                seconds=seconds,
                show=live.feed,
                confinement=sandbox.confinement,
                pass_fds=statuses.pass_fds,
            )
            pipe = found if any((found := statuses.read())[:-1]) else ()
        return result

    try:
        done = await run_in_thread(work, ended.append)
    except asyncio.CancelledError:
        if ended:
            _tell_restored(ended[0], context)
        if ended and ended[0].output:
            context.stopped(_STYLE.sub("", await asyncio.to_thread(_text, ended[0].output)))
        raise
    except UncheckedError as error:
        context.tell(str(error.strerror))
        return ToolResult(error=f"the command was not started: {error.strerror}", ran=False)
    except (OSError, ValueError) as error:
        if not os.path.isdir(context.cwd):
            return ToolResult(error=f"the working folder {context.cwd} is gone", ran=False)
        why = error.strerror if isinstance(error, OSError) else str(error)
        return ToolResult(error=f"the command could not be started: {why}", ran=False)
    live.flush()
    _tell_restored(done, context)
    text = await asyncio.to_thread(_format_result, done, seconds, sandbox, pipe)
    return ToolResult(text, uncounted=done.uncounted, status=done.status, pipe=pipe)


def _tell_restored(done: ProcessResult, context: ToolContext) -> None:
    """Show the person the protected places that the command had changed."""
    for line in done.restored[:_MOST_SHOWN]:
        context.tell(f"sandbox: {line}")
    if len(done.restored) > _MOST_SHOWN:
        context.tell(f"sandbox: {len(done.restored) - _MOST_SHOWN:,} more protected places restored or removed")


def _shell(cwd: Path) -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else find_program("bash", cwd) or "/bin/sh"


def _text(output: bytes, uncounted: int = 0) -> str:
    """Decode `output` and end it with a newline unless it is empty; replace binary output by a note."""
    read = None if b"\0" in output else _utf_8(output)
    if read is None:
        decoded = decode_output(output, cut=uncounted > 0)
        if decoded is None:
            kind = image_type(output)
            what = f" (a {IMAGE_NAMES[kind]} image)" if kind else ""
            size = len(output) + uncounted
            return f"[binary output{what}, {size:,} bytes: not shown; write it to a file, or look with xxd]\n"
        read = decoded.plain.replace("\0", NUL)
    return read if read.endswith("\n") or not read else f"{read}\n"


def _utf_8(output: bytes) -> str | None:
    """Return `output` decoded as UTF-8, or None."""
    # In pieces: one call would block all other threads until everything is decoded.
    pieces = (output[start : start + _PIECE] for start in range(0, len(output), _PIECE))
    try:
        return "".join(codecs.iterdecode(pieces, "utf-8"))
    except UnicodeDecodeError:
        return None


def _format_result(done: ProcessResult, seconds: int, sandbox: CommandSandbox, pipe: Sequence[int]) -> str:
    text, styles = _STYLE.subn("", _text(done.output, done.uncounted))
    notes, lines = [], [f"[sandbox: {note}]" for note in (*sandbox.notes, *done.restored[:_MOST_RESTORED])]
    if len(done.restored) > _MOST_RESTORED:
        lines.append(f"[sandbox: {len(done.restored) - _MOST_RESTORED:,} more protected places restored or removed]")
    if done.status and (denial := sandbox.describe_denial(text)):
        lines.append(denial)
    if done.timed_out:
        notes.append(f"ended after {seconds} s: time limit")
    notes.append(f"exit status {done.status}")
    if pipe:
        notes.append(f"pipe: {' '.join(map(str, pipe))}")
    if styles:
        notes.append("colour codes left out")
    if done.left:
        notes.append(f"{done.left} background processes ended")
    return text + "\n".join([*lines, f"[{'; '.join(notes)}]"])


class _Live:
    """Shows the newest live output a few times a second, from the reading thread."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")(_LATIN)
        self._binary = False
        self._pending = ""
        self._last = 0.0

    def feed(self, data: bytes) -> None:
        if b"\0" in data and not self._binary:
            self._binary = decode_output(data[:_SHOW_MOST], cut=True) is None
        if self._binary:
            return
        # Decode only as many bytes as can be shown.
        self._pending = (self._pending + self._decoder.decode(data[-5 * _SHOW_MOST :]).replace("\0", NUL))[-_SHOW_MOST:]
        if time.monotonic() - self._last >= _SHOW_EVERY:
            self.flush()

    def flush(self) -> None:
        begun = _OPEN_STYLE.search(self._pending)
        end = begun.start() if begun else len(self._pending)
        if end:
            self._show(_STYLE.sub("", self._pending[:end]))
            self._pending = self._pending[end:]
            self._last = time.monotonic()
