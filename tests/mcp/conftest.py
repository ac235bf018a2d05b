"""One process of MCP servers for the tests of a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from mcp_play import Play
from program.nursery import fork_servers

from nexus_cli.mcp import host_process


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setitem(vars(host_process), "start_program_async", vars(host_process)["start_program_async"])  # put back
        fork_servers()
        play = Play(runner)
        yield play
        play.run(play.host.aclose())
