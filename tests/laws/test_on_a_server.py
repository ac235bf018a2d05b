"""The laws over a ledger on PostgreSQL: a few of the random sessions and of the kills that SQLite sees many of."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from laws.check import assert_laws
from laws.elsewhere import run_elsewhere
from laws.play import Person, random_world
from laws.test_kills import Worker, assert_sound, go_on, ran
from laws.world import the_ledger, world
from ledger.postgres import Server
from program.nursery import run_born
from search import sample


@pytest.mark.matrix
@pytest.mark.parametrize("seed", sample([1, 6], 2))
def test_every_law_holds_over_random_sessions_on_a_server(seed: int, place: Path, url: str) -> None:
    chosen = random_world(seed)
    with world(place, chosen.pop("script"), ledger_url=url, **chosen) as around:  # type: ignore[arg-type]
        played = asyncio.run(Person(around, seed).live(None))
        with the_ledger() as ledger:
            assert ledger.path is None and ledger.is_kept
            assert_laws(ledger, played.session, around.server.requests)
    assert "internal" not in played.kinds and not list((place / "home" / "data").glob("*.db*"))


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("kind", "nth", "when"),
    sample(
        [("append tool", 1, "after"), ("sending", 3, "before"), ("started", 1, "after"), ("begin_epoch", 2, "before")],
        4,
        1,
    ),
)
def test_a_kill_around_a_commit_loses_nothing_on_a_server(
    kind: str, nth: int, when: str, place: Path, url: str
) -> None:
    with world(place, Worker(), window=7000, ledger_url=url) as around:
        status, confirmed = run_elsewhere(around, ["first", "second"], kind=kind, nth=nth, when=when)
        assert status == -signal.SIGKILL, "the commit was never reached"
        session = asyncio.run(go_on(around, "go on"))
        assert confirmed[0] == f"session {session}"
        with the_ledger() as ledger:
            assert_sound(ledger, confirmed)
            assert_laws(ledger, session, around.server.requests)
        assert len(set(ran(around))) == len(ran(around)), "a command ran twice"


@pytest.mark.matrix
def test_the_program_ends_with_one_line_when_its_server_goes_away_and_everything_must_be_saved(
    place: Path, url: str, postgres: Server
) -> None:
    def answer(body: object) -> dict[str, object]:
        postgres.stop()
        return {"text": "answer"}

    with world(place, answer, ledger_url=url) as around:
        with (place / "home/config/config.toml").open("a") as settings:
            settings.write("wait = 0.5\n")
        try:
            done = run_born(["ask", "-m", around.model, "--require-save", "--json", "words"], cwd=around.folder)
        finally:
            postgres.start()
        result = json.loads(done.stdout)
        assert done.returncode == 1 and result["error"]["kind"] == "ledger", done
        assert b"Traceback" not in done.stderr and b"postgresql://nexus@/" in done.stderr
        assert len(around.server.requests) == 1
