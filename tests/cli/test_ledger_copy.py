"""`nexus ledger copy` between files and servers: every row, every number, every request rebuilt; or nothing."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ledger.postgres import Server
from search import sample
from session.played import MODEL, Played

from nexus_cli.cli.serve import ledger as command
from nexus_cli.cli.shell_command import ShellSource
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.core.run import AGENT, HUMAN
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.blobs import BLOBS_OF
from nexus_cli.ledger.copying import _TABLES, _columns
from nexus_cli.reports.check_replay import check
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

Run = Callable[..., subprocess.CompletedProcess[bytes]]
AT = "2026-01-02T03:04:05.000Z"


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A ledger with sessions of two projects that say the same, a fork whose source is gone, and rows elsewhere."""
    path = tmp_path / "from" / "ledger.db"
    with closing(Ledger.open(path)) as ledger:
        for project in ("one", "two"):
            (tmp_path / project).mkdir()
            provider = Played(lambda request: "an answer\0 that is the same in both")
            options = Options(tmp_path / project, MODEL, allow="all")
            settings = Settings(models={MODEL: {"window": 16_000}})
            session = open_session(options, settings, approver=None, provider=provider, ledger=ledger)
            _talk(session)
            fork = ledger.fork_session(session.id, at=AT, name=f"fork of {project}")
            ledger.delete_session(session.id)
            assert check(ledger, fork.id)["requests"] == 0 and ledger.log(fork.id).last_id() == 4
            _talk(
                open_session(
                    Options(tmp_path / project, MODEL, resume=fork.id, allow="all"),
                    settings,
                    approver=None,
                    provider=provider,
                    ledger=ledger,
                )
            )
        ledger.facts.add(MemorySlot.USER, "gone", state=FactState.KEPT, at=AT, actor="person")
        ledger.facts.forget("m1", AT)
        person, agent = ledger.spaces.entity("Husam", HUMAN), ledger.spaces.entity("Ana", AGENT)
        space = ledger.spaces.create("Alpha", AT, project=str(tmp_path / "one"), members=[person, agent])
        ledger.spaces.post(space, person, "hello", AT)
        ledger.plans.remove(ledger.plans.add("p", {}, AT, next_at=1.5, cron="", zone="UTC").key)
    return path


def _talk(session: Any) -> None:
    import asyncio

    async def turns() -> None:
        for words in ("first", "second"):
            async for _ in session.run(words):
                pass
        await session.aclose()

    asyncio.run(turns())


def content(place: Any) -> dict[str, list[tuple[Any, ...]]]:
    """Every row by table, with texts in the place of their numbers; and the numbers that come next."""
    with closing(Ledger.open(place)) as ledger:
        texts = {row[0]: row[1] for row in ledger.db.all("SELECT id, hash FROM blobs")}
        found: dict[str, list[tuple[Any, ...]]] = {"blobs": sorted({(text,) for text in texts.values()})}
        for table in set(_TABLES) - {"blobs"}:
            names = _columns()[table]
            rows = ledger.db.all(f"SELECT {', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)} FROM {table}")
            hashed = BLOBS_OF.get(table, ("", ()))[1]
            found[table] = sorted(
                (tuple(texts.get(v, v) if n in hashed else v for n, v in zip(names, row, strict=True)) for row in rows),
                key=repr,
            )
        numbers = ledger.db.last_numbers()
        numbers.pop("blobs", None)
        assert all(check(ledger, info.id)["ok"] for info in ledger.sessions())
        return {**found, "numbers": sorted(numbers.items())}


@pytest.fixture
def urls(postgres: Server) -> Iterator[list[str]]:
    """Two empty databases."""
    made = [postgres.new_database() for _ in range(2)]
    yield made
    for url in made:
        postgres.drop(url)


def test_a_ledger_goes_to_a_server_to_another_and_back_and_is_the_same(
    nexus: Run, filled: Path, urls: list[str], tmp_path: Path
) -> None:
    places = [str(filled), *urls, str(tmp_path / "back.db"), str(tmp_path / "again.db")]
    before = content(filled)
    for source, target in pairwise(places):
        done = nexus("ledger", "copy", source, target)
        assert done.returncode == 0, done.stderr
        assert b"2 sessions, 16 entries" in done.stdout and b"4 requests rebuilt" in done.stdout, done.stdout
        assert b"host=" not in done.stdout and done.stdout.count(b"\n") == 1
        assert content(Path(target) if "//" not in target else target) == before
    with closing(Ledger.open(urls[0])) as server:
        assert server.facts.add(MemorySlot.USER, "new", state=FactState.KEPT, at=AT, actor="person").id == "m2"
        rows = server.db.all("SELECT project, count(*) FROM lanes GROUP BY project ORDER BY project")
        assert rows == [(str(tmp_path / "one"), 2), (str(tmp_path / "two"), 2)], "what forks need is theirs"
        lost = "SELECT count(*) FROM entries e JOIN lanes l ON l.id = e.lane JOIN blobs b ON b.id = e.blob"
        assert server.db.one(f"{lost} WHERE b.project <> l.project") == (0,)


def test_a_target_that_is_not_empty_is_refused(nexus: Run, filled: Path, tmp_path: Path) -> None:
    before = filled.read_bytes()
    done = nexus("ledger", "copy", str(filled), str(filled))
    assert done.returncode == 2 and b"not empty: it contains sessions" in done.stderr and filled.read_bytes() == before
    done = nexus("ledger", "copy", str(tmp_path / "missing.db"), str(tmp_path / "to.db"))
    assert done.returncode == 2 and b"no such file" in done.stderr and not (tmp_path / "to.db").exists()
    done = nexus("ledger", "copy", str(filled), "mysql://host/nexus")
    assert done.returncode == 2 and b"neither a file nor a PostgreSQL database" in done.stderr, done.stderr


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample(["text", "empty", "foreign", "damaged"], 2))
def test_a_file_that_is_no_ledger_is_left_as_it_is(kind: str, filled: Path, tmp_path: Path) -> None:
    other = tmp_path / "else" / "other.db"
    other.parent.mkdir()
    if kind == "foreign":
        with closing(sqlite3.connect(other)) as connection:
            connection.execute("CREATE TABLE notes (text)")
    content = {"text": b"mine\n" * 999, "empty": b"", "damaged": filled.read_bytes()[:-8192]}
    if kind in content:
        other.write_bytes(content[kind])
    other.chmod(0o644)
    before, source = other.read_bytes(), ShellSource(partial(Ledger.open, None))
    for ends in ((other, tmp_path / "new" / "new.db"), (filled, other)):
        with pytest.raises(NexusError, match=str(other)) as caught:
            command.copy(source, *map(str, ends))
        assert caught.value.exit_status == 1 and "NEXUS_HOME" not in caught.value.hint
    assert other.read_bytes() == before and stat.S_IMODE(other.stat().st_mode) == 0o644
    assert [*other.parent.iterdir()] == [other] and not (tmp_path / "new").exists()


@pytest.mark.matrix
def test_an_empty_ledger_is_copied_too(nexus: Run, tmp_path: Path) -> None:
    Ledger.open(tmp_path / "from.db").close()
    done = nexus("ledger", "copy", str(tmp_path / "from.db"), str(tmp_path / "to.db"))
    assert done.returncode == 0 and b"0 sessions, 0 entries" in done.stdout, done.stderr


@pytest.mark.matrix
def test_a_ledger_in_which_somebody_works_is_not_copied(nexus: Run, filled: Path, urls: list[str]) -> None:
    assert nexus("ledger", "copy", str(filled), urls[0]).returncode == 0
    for place in (filled, urls[0]):
        with closing(Ledger.open(place)) as ledger:
            session = ledger.sessions()[0].id
            assert ledger.lock(session)
            done = nexus("ledger", "copy", str(place), urls[1])
            assert done.returncode == 2 and f"other processes have open sessions: {session}" in done.stderr.decode()
        assert content(urls[1])["sessions"] == []


@pytest.mark.matrix
@pytest.mark.parametrize("to_server", [False, True])
def test_a_copy_that_is_not_rebuilt_as_it_was_leaves_the_target_empty(
    filled: Path, urls: list[str], tmp_path: Path, to_server: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = urls[0] if to_server else str(tmp_path / "to.db")
    with closing(Ledger.open(filled)) as ledger:
        damaged = ledger.sessions()[0].id

    def differ(ledger: Ledger, session: str) -> dict[str, Any]:
        found = check(ledger, session)
        if ledger.path != filled and session == damaged:
            found = {**found, "ok": False, "first_difference": "request 1, line 3"}
        return found

    monkeypatch.setattr(command, "check", differ)
    with pytest.raises(NexusError, match=f"session {damaged} was not rebuilt") as caught:
        command.copy(ShellSource(partial(Ledger.open, None)), str(filled), target)
    assert caught.value.exit_status == 1
    found = content(target if to_server else Path(target))
    assert not any(rows for table, rows in found.items() if table != "numbers")


@pytest.mark.matrix
def test_a_session_that_was_damaged_before_is_copied_as_it_is_and_named(nexus: Run, filled: Path, url: str) -> None:
    with closing(Ledger.open(filled)) as ledger:
        session = ledger.sessions()[0].id
        with ledger.db.write():
            source = "SELECT l.parent FROM lanes l JOIN sessions s ON s.main = l.id WHERE s.id = ?"
            ledger.db.run(f"UPDATE entries SET preamble = 'other' WHERE id = 1 AND lane = ({source})", session)
    done = nexus("ledger", "copy", str(filled), url)
    assert done.returncode == 0 and f"not readable in either ledger: {session}" in done.stdout.decode()


@pytest.fixture
def url(urls: list[str]) -> str:
    """One of them."""
    return urls[0]


def test_a_project_is_shared_with_a_role_and_no_more(
    nexus: Run, filled: Path, url: str, postgres: Server, tmp_path: Path
) -> None:
    postgres.make_roles()
    assert nexus("ledger", "share", str(tmp_path / "one"), "ana").returncode == 2, "the ledger is a file"
    assert nexus("ledger", "copy", str(filled), url).returncode == 0
    assert nexus("config", "set", "ledger.url", url).returncode == 0
    missing = nexus("ledger", "share", str(tmp_path / "one"), "nobody_there")
    assert missing.returncode == 2 and b"no such role" in missing.stderr
    nowhere = nexus("ledger", "share", str(tmp_path / "nowhere"), "ana")
    assert nowhere.returncode == 2 and b"no such folder" in nowhere.stderr
    ben = Ledger.open(url.replace("nexus@", "ben@"))
    values: Any = {"folder": "/x", "project": str(tmp_path / "one"), "model": "m", "recipe": "chat", "at": "2026-01-01"}
    of_ben = ben.create_session(**values, name="of ben").id
    assert nexus("ledger", "share", str(tmp_path / "one"), "ana").returncode == 0
    assert {info.name for info in ben.sessions()} == {"fork of one", "of ben"}, "it is shared both ways"
    ben.delete_session(of_ben)
    ben.close()
    with closing(Ledger.open(url.replace("nexus@", "ana@"))) as ana:
        assert [info.name for info in ana.sessions()] == ["fork of one"] and check(ana, ana.sessions()[0].id)["ok"]
        assert nexus("ledger", "unshare", str(tmp_path / "one"), "ana").returncode == 0
        assert ana.sessions() == []
    assert nexus("ledger", "unshare", str(tmp_path / "one"), "ana").returncode == 2
    assert nexus("config", "set", "ledger.url", url.replace("nexus@", "ana@")).returncode == 0
    refused = nexus("ledger", "share", str(tmp_path / "one"), "ana")
    assert refused.returncode == 2 and b"your own role" in refused.stderr
    copied = nexus("ledger", "copy", str(filled), url.replace("nexus@", "ana@"))
    assert copied.returncode == 2 and b"only the server's administrator" in copied.stderr
    assert os.path.exists(filled)


@pytest.mark.matrix
def test_the_administrator_shares_with_a_group_and_its_people_share_too(
    nexus: Run, url: str, postgres: Server, tmp_path: Path
) -> None:
    postgres.make_roles()
    postgres.sql("DROP ROLE IF EXISTS builders", "CREATE ROLE builders", "GRANT builders TO ben")
    Ledger.open(url).close()
    values: Any = {"folder": "/x", "project": str(tmp_path), "model": "m", "recipe": "chat", "at": "2026-01-01"}
    people = {role: Ledger.open(url.replace("nexus@", f"{role}@")) for role in ("ana", "ben", "carol")}
    for role, ledger in people.items():
        if role != "carol":
            ledger.create_session(**values, name=f"of {role}")
    assert nexus("config", "set", "ledger.url", url).returncode == 0
    assert nexus("ledger", "share", str(tmp_path), "builders").returncode == 0
    people["carol"].create_session(**values, name="of carol")
    seen = {role: {info.name for info in ledger.sessions()} for role, ledger in people.items()}
    assert seen == {"ana": {"of ana", "of ben"}, "ben": {"of ana", "of ben"}, "carol": {"of carol"}}
    assert nexus("config", "set", "ledger.url", url.replace("nexus@", "carol@")).returncode == 0
    assert nexus("ledger", "unshare", str(tmp_path), "ana").returncode == 2, "it is not hers to end"
    assert len(people["ben"].sessions()) == 2
    for ledger in people.values():
        ledger.close()
    postgres.sql("DROP ROLE builders")
