"""What the tests of the laws share: a fast folder, and a model library that is imported."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from laws.world import say, world


@pytest.fixture
def place(_isolated: Path) -> Path:
    """A folder in memory where there is one: hundreds of sessions commit thousands of times."""
    return _isolated / "laws"


@pytest.fixture(scope="session", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first request of a process imports the model library and loads the token table: no test is to wait for it."""

    async def one() -> None:
        session = around.open()
        await say(session, "one turn to begin with " * 20)
        await session.aclose()

    with world(tmp_path_factory.mktemp("warm"), ["done"]) as around:
        asyncio.run(one())
