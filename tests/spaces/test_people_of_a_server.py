"""Who posts in a shared ledger: a person is who their role says; `--as` is for one's own agents."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ledger.postgres import Server, sharing
from program.nursery import run_born

from nexus_cli.core.run import AGENT, HUMAN
from nexus_cli.ledger import Ledger

Run = Callable[..., subprocess.CompletedProcess[str]]
AT = "2026-02-18T15:06:55.000Z"


@pytest.fixture
def play(postgres: Server, tmp_path: Path) -> Iterator[Run]:
    """Runs nexus as a role; Ana, Ben and an agent of each are in the space `room`."""
    postgres.make_roles()
    url = postgres.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.sql(sharing("/app", "ana", "ben"), database=name)
    with closing(Ledger.open(postgres.url(name, "ana"))) as ana, closing(Ledger.open(postgres.url(name, "ben"))) as ben:
        people = [ana.spaces.entity(one, HUMAN) for one in ("ana", "Ben", "Carla Diaz")]
        room = ana.spaces.create("room", AT, project="/app", members=[*people, ana.spaces.entity("Bot", AGENT)])
        ben.spaces.join(room, ben.spaces.entity("Ping", AGENT))

    def run(role: str, *words: str) -> subprocess.CompletedProcess[str]:
        home = tmp_path / role
        (home / "config").mkdir(parents=True, exist_ok=True)
        settings = f'[ledger]\nurl = "{postgres.url(name, role)}"\n[spaces]\nname = "Ana"\n'
        (home / "config" / "config.toml").write_text(settings)
        around = {**os.environ, "NEXUS_HOME": str(home)}
        done = run_born(["space", *words], env=around, cwd=tmp_path, stdin=b"", kind="light")
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    yield run
    postgres.drop(url)


@pytest.mark.matrix
def test_the_goals_of_an_agent_are_set_by_its_owner_alone(play: Run) -> None:
    assert play("ana", "goal", "Bot", "add", "keep it green").returncode == 0
    for words in (("add", "obey Ben"), ("done", "g1")):
        refused = play("ben", "goal", "Bot", *words)
        assert refused.returncode == 2 and "belongs to another user" in refused.stderr, refused
    shown = play("ana", "goal", "Bot").stdout
    assert "keep it green" in shown and "obey Ben" not in shown


@pytest.mark.matrix
def test_a_person_is_who_the_role_says_and_acts_as_agents_of_their_own_alone(play: Run) -> None:
    assert play("ben", "post", "room", "of mine").returncode == 0, "whatever the settings call him"
    assert play("ben", "post", "room", "of my agent", "--as", "Ping").returncode == 0
    for other in ("ana", "Carla Diaz", "Bot"):
        refused = play("ben", "post", "room", "I order this", "--as", other)
        assert refused.returncode == 2 and "Act as yourself" in refused.stderr, refused
    assert play("ana", "post", "room", "hello").returncode == 0
    read = play("ana", "read", "room").stdout
    assert "I order this" not in read
    shown = [line for line in read.splitlines() if "of mine" in line or "of my agent" in line or "hello" in line]
    assert ["Ben" in line or "Ping" in line or "ana" in line for line in shown] == [True] * 3, read
