"""A process of MCP servers in an event loop of its own, and entries for the raw server, for tests.

Not in `tests/mcp/`: to Python that name is the SDK.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from nexus_cli.mcp.host_process import McpHost
from nexus_cli.mcp.server_values import ServerEntry

Result = TypeVar("Result")
RAW = Path(__file__).with_name("mcp") / "raw_server.py"


class Play:
    """A host and the loop that it lives in."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.host = McpHost()

    def run(self, work: Coroutine[Any, Any, Result], seconds: float = 60) -> Result:
        return self._runner.run(asyncio.wait_for(work, seconds))

    def call(self, server: ServerEntry, **arguments: Any) -> str:
        return self.run(self.host.call(server, "read_file", arguments)).text


def raw(mode: str, file: Path | None = None, start: float = 20.0, call: float = 20.0, **more: Any) -> ServerEntry:
    """Return the entry of a raw server; its name is its mode, its limits are long where they are not the point."""
    command = (sys.executable, str(RAW), mode, *([str(file)] if file else []))
    return ServerEntry(mode, command, start_seconds=start, call_seconds=call, **more)


def is_gone(pid: int) -> bool:
    """Wait until a process has ended; a zombie has."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
