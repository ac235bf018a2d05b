"""`nexus acp`: the agent for editors, by the Agent Client Protocol on stdin and stdout."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import stat
from contextlib import suppress
from pathlib import Path

from nexus_cli.cli.command_options import SharedOptions
from nexus_cli.cli.process import block_imports_from
from nexus_cli.cli.work_folder import load_plugins
from nexus_cli.commands.verb import Authority, Noun, Source, Verb
from nexus_cli.core.errors import UsageError
from nexus_cli.core.install_hint import install_hint
from nexus_cli.core.option import Allow, Effort, Model
from nexus_cli.session.options import Options

LONGEST_LINE = 64 * 1024 * 1024
"""Most bytes of one message of the editor: a prompt with images."""


def acp(source: Source, model: Model = "", effort: Effort = "", allow: Allow = "") -> None:
    """Serve an editor over the Agent Client Protocol on stdin and stdout.

    Editors start this command (`nexus docs editors`). `nexus -r ID` continues its sessions in a terminal.
    """
    shared = SharedOptions(model=model, effort=effort, allow=allow)
    shared.check()
    if importlib.util.find_spec("acp") is None:
        raise UsageError("nexus acp", "a required package is missing", f"Install it: {install_hint('acp')}")
    if not all(_is_stream(descriptor) for descriptor in (0, 1)):
        raise UsageError(
            "nexus acp",
            "stdin and stdout must be pipes, sockets or a terminal",
            "Editors start this command; see `nexus docs editors`",
        )
    block_imports_from(os.getcwd())
    options = Options(Path.cwd(), model, effort=effort, allow=shared.allow or None)
    for line in load_plugins():
        source.say(line)
    asyncio.run(_serve(options))


def _is_stream(descriptor: int) -> bool:
    """Return True for a pipe, a socket or a terminal: an event loop cannot wait for files."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def _serve(options: Options) -> None:
    """Serve until the editor closes stdin. Only messages reach stdout: whatever libraries print goes to stderr."""
    from nexus_cli.acp.agent import EditorAgent  # noqa: PLC0415  (the SDK, for editors only)

    loop = asyncio.get_running_loop()
    out = os.dup(1)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb"))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(out, "wb"))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    agent = EditorAgent(options)
    try:
        messages = asyncio.StreamReader(limit=LONGEST_LINE)
        passing = asyncio.create_task(_pass_messages(reader, messages, writer))
        with suppress(ConnectionError):  # the editor has left, and reads no answer
            await agent.serve(messages, writer)
        passing.cancel()
    finally:
        await agent.aclose()


async def _pass_messages(
    source: asyncio.StreamReader, messages: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Pass the lines that are JSON objects on; answer any other with an error: one would end the SDK's connection."""
    while True:
        code, why = -32700, "not JSON, or too long"
        try:
            if not (line := await source.readline()):
                break
            if isinstance(json.loads(line), dict):
                messages.feed_data(line)
                continue
            code, why = -32600, "not an object"
        except (ValueError, RecursionError):  # also a line that is too long
            pass
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": f"the message is {why}"}}
        writer.write(json.dumps(error).encode() + b"\n")
    messages.feed_eof()


NOUN = Noun("acp", "run", (Verb(acp, "", Authority.OPERATES, "nothing"),))
