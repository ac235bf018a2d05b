"""One process of MCP servers for the tests of a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from mcp_play import Play


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    with asyncio.Runner() as runner:
        play = Play(runner)
        yield play
        play.run(play.host.aclose())
