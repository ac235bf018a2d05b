"""What the tests of the laws share: a fast folder, and a model library that is imported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from laws.world import say, world
from ledger.postgres import Server

from nexus_cli.cli import ledger_wait
from nexus_cli.ledger import postgres_connection, server_journal


@pytest.fixture
def place(_isolated: Path) -> Path:
    """A folder in memory where there is one: hundreds of sessions commit thousands of times."""
    return _isolated / "laws"


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    """An empty ledger on the server, which a test may have stopped."""
    made = postgres.new_database()
    yield made
    if postgres.process.poll() is not None:
        postgres.start()
    postgres.drop(made)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is away is asked again soon."""
    monkeypatch.setattr(server_journal, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(ledger_wait, "PAUSE", 0.05)
    monkeypatch.setattr(postgres_connection, "PAUSE", 0.0)


@pytest.fixture(scope="session", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first request of a process imports the model library and loads the token table: no test is to wait for it."""

    async def one() -> None:
        session = around.open()
        await say(session, "one turn to begin with " * 20)
        await session.aclose()

    with world(tmp_path_factory.mktemp("warm"), ["done"]) as around:
        asyncio.run(one())
