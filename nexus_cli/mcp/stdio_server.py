"""Run a server on stdin and stdout as a transport of the SDK: lines are bounded, its process group ends with it.

The SDK's own transport reads lines of any length, fails on invalid UTF-8 and hides what the server wrote to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from nexus_cli.config.programs import end_group, start_program_async
from nexus_cli.core.elide import clip_text
from nexus_cli.core.json_value import JsonDict
from nexus_cli.mcp.server_values import LAST_LINES, LINE_MARK, Fault

MAX_MESSAGE = 10_000_000
"""Most bytes of one message of a server."""
_KEPT_LINES = 20
_GRACE_SECONDS = 1.0
"""Seconds that a server has to end after its stdin was closed, and again after SIGTERM."""

Streams = tuple[Any, Any]


@dataclass
class ServerProcess:
    """The process of a server while it runs and after it ended."""

    tell: Callable[[JsonDict], None]
    """Takes a notice when its process group begins and when it was ended."""
    on_end: Callable[[], None]
    """Called when nothing more comes from the server."""
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """Last lines on stderr."""
    last_stray_line: str = ""
    """Last line on stdout that is no message."""
    fault: tuple[Fault, str] | None = None
    calls_written: int = 0
    """Number of calls that the server may have seen."""
    open: bool = False
    status: int | None = None
    """With which the server ended by itself; None if nexus ended it by a signal."""

    def explain_end(self) -> str:
        """Return the reason that the server ended and its last output, in one line."""
        status = self.status
        how = "the server closed its stdout"
        if status is not None:
            how = f"signal {-status} killed the server" if status < 0 else f"the server exited with status {status}"
        return how + self.last_words()

    def last_words(self) -> str:
        """Return the last lines of stderr as an addition to an error, "" if there are none."""
        if self.errors:
            return f"{LAST_LINES}{LINE_MARK.join(line.replace(LINE_MARK, '|') for line in list(self.errors)[-3:])}"
        return (
            f"; the server wrote a line to stdout that is not a message: {self.last_stray_line}"
            if self.last_stray_line
            else ""
        )


@contextlib.asynccontextmanager
async def run_server(
    command: Sequence[str], env: Mapping[str, str], cwd: str, server: ServerProcess
) -> AsyncIterator[Streams]:
    """Start `command` and yield the streams of its messages; raise `OSError` or `ValueError` if that fails."""
    process = await start_program_async(
        command,
        env=env,
        cwd=cwd or None,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=MAX_MESSAGE,
    )
    server.open = True
    server.tell({"group": process.pid, "begun": True})
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read_messages(process, to_session, server)),
        asyncio.create_task(_write_messages(process, from_session, server)),
        asyncio.create_task(_keep_errors(process, server)),
    ]
    try:
        yield from_server, to_server
    finally:
        await asyncio.shield(asyncio.create_task(_end(process, tasks, server)))
        for stream in (to_session, from_server, to_server, from_session):
            stream.close()


async def _read_messages(process: asyncio.subprocess.Process, to_session: Any, server: ServerProcess) -> None:
    assert process.stdout is not None
    try:
        async with to_session:
            while line := await process.stdout.readline():
                text = line.decode("utf-8", "replace").strip()
                if not text:
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(text, by_name=False)
                except ValueError:
                    server.last_stray_line = printable_line(text)
                    continue
                await to_session.send(SessionMessage(message))
    except ValueError:  # a longer line than the limit
        server.fault = ("too_large", f"sent a message larger than {MAX_MESSAGE // 1_000_000} MB")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        pass
    finally:
        server.open = False
        with contextlib.suppress(TimeoutError):
            server.status = await asyncio.wait_for(process.wait(), 0.2)
        server.on_end()


async def _write_messages(process: asyncio.subprocess.Process, from_session: Any, server: ServerProcess) -> None:
    assert process.stdin is not None
    pipe = process.stdin
    try:
        async with from_session:
            async for item in from_session:
                data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                if is_running := _is_running(process):
                    pipe.write(data)
                # A pipe that is closed right after `write` has not taken the whole line.
                if not is_running or pipe.transport.is_closing():
                    break
                if isinstance(item.message, JSONRPCRequest) and item.message.method == "tools/call":
                    server.calls_written += 1
                await pipe.drain()
    except OSError:
        pass
    finally:
        if server.open:
            server.open = False
            server.on_end()


def _is_running(process: asyncio.subprocess.Process) -> bool:
    """Ask the kernel: the event loop learns of the end later, and children may hold the pipes open."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


async def _keep_errors(process: asyncio.subprocess.Process, server: ServerProcess) -> None:
    """Keep the last lines of stderr; a line without an end is kept in pieces."""
    assert process.stderr is not None
    partial_line = ""
    while data := await process.stderr.read(65_536):
        lines = (partial_line + data.decode("utf-8", "replace")).split("\n")
        partial_line = lines.pop()[-4_000:]
        server.errors.extend(text for line in lines if (text := printable_line(line)))
    if text := printable_line(partial_line):
        server.errors.append(text)


def printable_line(text: str, most: int = 300) -> str:
    """Return `text` as one line of printable characters, cut where it is long."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text[: 8 * most]).split())
    return clip_text(plain, most)


async def _end(process: asyncio.subprocess.Process, tasks: list[asyncio.Task[None]], server: ServerProcess) -> None:
    """End the server and its process group: close stdin, then SIGTERM, then SIGKILL. Never raises."""
    assert process.stdin is not None
    process.stdin.close()
    # A server that waits for a reader of its output would not see that its input has ended.
    drain = asyncio.create_task(_drain(process))
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            end_group(process.pid, number)
        with contextlib.suppress(TimeoutError):
            status = await asyncio.wait_for(_wait_for_end(process), 0.05 if server.fault else _GRACE_SECONDS)
            server.status = status if number is None else server.status
            break
    end_group(process.pid)  # what it left running in its group
    server.tell({"group": process.pid, "begun": False})
    for task in (*tasks, drain):
        task.cancel()
    await asyncio.gather(*tasks, drain, return_exceptions=True)
    transport = getattr(process, "_transport", None)
    if transport is not None:  # a process outside the group may hold the pipes
        with contextlib.suppress(OSError):
            transport.close()


async def _wait_for_end(process: asyncio.subprocess.Process) -> int:
    # `process.wait` also waits for the end of the pipes, which others may hold.
    while process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return process.returncode


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    with contextlib.suppress(Exception):  # another reader, or a closed pipe: nothing to drain then
        while await process.stdout.read(65_536):
            pass
