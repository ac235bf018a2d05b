"""Projects of a shared ledger: clones of one repository are one project, whose owner alone shares it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ledger.conftest import AT, user
from ledger.older import taken_back
from ledger.postgres import Server
from ledger.test_roles import SECRET, fill, first_words, seen
from rpc.serving import MODEL, SETTINGS, Answering
from search import sample
from worktrees.repository import git

from nexus_cli.commands.memory import keep_fact
from nexus_cli.commands.sessions import list_sessions, search_sessions
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import MemorySlot
from nexus_cli.core.services import Calibration
from nexus_cli.ledger import Ledger, project_keys, schema
from nexus_cli.ledger.copying import copy_ledger
from nexus_cli.ledger.postgres import PostgresDatabase
from nexus_cli.ledger.store import read_facts
from nexus_cli.rpc.pool import AgentConfig, AgentPool, SharedComponents
from nexus_cli.sandbox.repository_key import repository_key
from nexus_cli.session.session_facts import SessionFacts

REMOTE = "git@github.com:acme/shop.git"


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two clones of one repository, and a folder without git."""
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))
    ana, mira, plain = tmp_path / "ana" / "shop", tmp_path / "mira" / "shop", tmp_path / "notes"
    ana.mkdir(parents=True)
    plain.mkdir()
    git(ana, "init", "-q")
    git(ana, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "clone", "-q", str(ana), str(mira))
    git(ana, "remote", "add", "origin", REMOTE)
    git(mira, "remote", "set-url", "origin", "https://github.com/acme/shop")
    return SimpleNamespace(ana=ana, mira=mira, plain=plain)


@pytest.fixture
def team(postgres: Server) -> Iterator[SimpleNamespace]:
    """A ledger with an administrator, and three roles that have it open."""
    postgres.make_roles()
    url = postgres.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    made = SimpleNamespace(admin=Ledger.open(url), url=url, name=name)
    for role in ("ana", "mira", "carol"):
        setattr(made, role, Ledger.open(postgres.url(name, role)))
    yield made
    for ledger in (made.admin, made.ana, made.mira, made.carol):
        ledger.close()
    postgres.drop(url)


def begin(ledger: Ledger, folder: Path, words: str) -> str:
    """A session in a folder that begins with `words`; its id."""
    values: Any = {
        "folder": str(folder),
        "project": ledger.project_of(folder),
        "model": "m",
        "recipe": "chat",
        "at": AT,
    }
    made = ledger.create_session(**values)
    ledger.log(made.id).append(user(1, words))
    return made.id


def share(ledger: Ledger, project: str, role: str, owner: str) -> None:
    with ledger.db.write():
        ledger.db.run("INSERT INTO project_members (project, role, owner) VALUES (?, ?, ?)", project, role, owner)


def titles(ledger: Ledger, folder: Path) -> list[str]:
    return [one["first_text"] for one in list_sessions(ledger, str(folder))["sessions"]]


@pytest.mark.matrix
def test_clones_are_one_project_on_a_server_and_two_in_a_file(team: Any, clones: Any, tmp_path: Path) -> None:
    project = team.ana.project_of(clones.ana)
    assert project == team.mira.project_of(clones.mira) and project.startswith("github.com/acme/shop#")
    assert team.ana.project_of(clones.plain) == str(clones.plain)
    with closing(Ledger.open(tmp_path / "ledger.db")) as alone:
        assert [alone.project_of(one) for one in (clones.ana, clones.mira)] == [str(clones.ana), str(clones.mira)]
        begin(alone, clones.ana, "of Ana")
        assert titles(alone, clones.mira) == [], "a listing is of a folder"


@pytest.mark.matrix
def test_the_sessions_and_facts_of_a_shared_repository_are_found_in_every_clone(team: Any, clones: Any) -> None:
    session = begin(team.ana, clones.ana, "the words of Ana")
    project = team.ana.project_of(clones.ana)
    keep_fact(team.ana, MemorySlot.PROJECT, "the shop closes at six", project, AT, session)
    assert titles(team.mira, clones.mira) == [] and team.mira.facts.list_facts() == []
    share(team.ana, project, "mira", "ana")
    begin(team.mira, clones.mira, "of Mira")
    assert titles(team.mira, clones.mira) == ["of Mira", "the words of Ana"]
    assert titles(team.ana, clones.ana) == ["the words of Ana"], "Mira has not shared hers"
    assert [info.id for info in team.mira.search_titles("words", str(clones.mira))[0]] == [session]
    assert len(search_sessions(team.mira, "words of Ana", str(clones.mira))["hits"]) == 1
    assert titles(team.mira, clones.plain) == []
    memory = SessionFacts.of(team.mira, "", clones.mira, lambda: None)  # type: ignore[arg-type,return-value]
    assert [fact.statement for fact in memory.search("shop")] == ["ana: the shop closes at six"]
    newest = team.mira.newest_session(str(clones.mira))
    assert newest and newest.first_text == "of Mira"
    team.mira.delete_session(newest.id)
    assert team.mira.newest_session(str(clones.mira)) is None, "--continue goes on with nobody else's"


def test_a_session_that_saves_nothing_has_the_facts_of_the_repository(team: Any, clones: Any) -> None:
    keep_fact(team.ana, MemorySlot.PROJECT, "closes at six", team.ana.project_of(clones.ana), AT)
    facts = read_facts(team.ana.place, clones.ana)
    assert [(fact.text, fact.project) for fact in facts] == [("closes at six", str(clones.ana))]


@pytest.mark.matrix
def test_nobody_gains_or_gives_by_naming_a_repository(team: Any, clones: Any) -> None:
    """Remote and first commit are public."""
    project = team.ana.project_of(clones.ana)
    session = begin(team.ana, clones.ana, SECRET)
    share(team.ana, project, "mira", "ana")
    share(team.mira, project, "ana", "mira")
    before = seen(team.mira)
    fill(team.carol, project, "carol")
    assert len(team.carol.sessions()) == 2 and team.carol.facts.list_facts(project)[0].colleague == ""
    with pytest.raises(NexusError, match="no such session"):
        team.carol.session(session)
    now = seen(team.mira)
    assert {table for table in now if now[table] != before[table]} == {"entities"}, "hers are nobody else's either"
    for role, owner in (("carol", "ana"), ("carol", "mira"), ("mira", "ana")):
        with pytest.raises(NexusError, match="lacks the permission"):
            share(team.carol, project, role, owner)
    with pytest.raises(NexusError, match="lacks the permission"):
        share(team.mira, project, "carol", "ana")
    assert first_words(team.mira, session) == SECRET


@pytest.mark.matrix
@pytest.mark.parametrize("table", sample(["sessions", "lanes", "epochs", "blobs", "facts", "spaces", "runs"], 3))
def test_who_shares_a_project_takes_nothing_out_of_it(team: Any, table: str) -> None:
    for role, project in (("ana", "/app"), ("ana", "/other"), ("mira", "/own")):
        fill(getattr(team, role), project)
    for project in ("/app", "/other"):
        share(team.ana, project, "mira", "ana")
    whose = f"SELECT project, made_by FROM {table} ORDER BY 1, 2"
    before = team.admin.db.all(whose)
    for change in ("made_by = 'mira'", "made_by = 'ana', project = '/app'", "project = '/app'"):
        with pytest.raises(NexusError, match="lacks the permission"), team.mira.db.write():
            team.mira.db.run(f"UPDATE {table} SET {change}")
    assert team.admin.db.all(whose) == before


@pytest.mark.matrix
@pytest.mark.parametrize("who", ["ana", "mira"])
def test_either_side_ends_it_and_nobody_else(team: Any, clones: Any, who: str) -> None:
    project = team.ana.project_of(clones.ana)
    session = begin(team.ana, clones.ana, SECRET)
    share(team.ana, project, "mira", "ana")
    with team.carol.db.write():
        team.carol.db.run("DELETE FROM project_members")
    assert first_words(team.mira, session) == SECRET
    ledger = getattr(team, who)
    with ledger.db.write():
        ledger.db.run("DELETE FROM project_members WHERE project = ?", project)
    assert team.mira.sessions() == [] and len(team.ana.sessions()) == 1


@pytest.mark.matrix
def test_rows_of_a_path_become_those_of_the_repository_at_its_first_use(team: Any, clones: Any) -> None:
    path = str(clones.ana)
    old = fill(team.ana, path, "ana")
    other = fill(team.carol, path, "carol")
    share(team.ana, path, "mira", "ana")
    share(team.ana, path, "carol", "ana")
    project = team.mira.project_of(clones.mira)
    fill(team.ana, project, "laptop")  # the same texts, from another machine
    assert team.ana.project_of(clones.ana) == project
    assert {one.project for one in team.ana.sessions()} == {project}
    assert first_words(team.mira, old) == first_words(team.ana, old) == SECRET, "texts and shares came along"
    assert [fact.project for fact in team.mira.facts.list_facts()] == [project] * 2
    assert {space.project for space in team.mira.spaces.list_spaces()} == {project}
    assert team.ana.db.one("SELECT count(*) FROM blobs WHERE project = ?", path) == (0,)
    for run in team.mira.db.all("SELECT project FROM runs"):
        assert run == (project,)
    assert team.ana.db.one("SELECT count(*) FROM project_members WHERE project = ?", path) == (0,)
    assert team.carol.session(other).project == path, "rows of others are theirs"
    team.ana.delete_session(old)


@pytest.mark.matrix
@pytest.mark.parametrize(("role", "folder"), [("ana", "ana"), ("mira", "mira")])
async def test_a_server_continues_a_colleagues_session_in_its_own_clone(
    team: Any, clones: Any, postgres: Server, tmp_path: Path, role: str, folder: str
) -> None:
    session = begin(team.ana, clones.ana, "the words of Ana")
    share(team.ana, team.ana.project_of(clones.ana), "mira", "ana")
    config = tmp_path / "home" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[ledger]\nurl = "{postgres.url(team.name, role)}"\n')

    pool = AgentPool(SharedComponents(SETTINGS, Answering(), cwd=clones.mira))
    try:
        assert (await pool.create(config=AgentConfig(session=session, model=MODEL))).session.folder == getattr(
            clones, folder
        )
    finally:
        await pool.aclose()


def test_a_copy_in_a_file_has_the_path_of_the_clone_here(team: Any, clones: Any, tmp_path: Path) -> None:
    begin(team.ana, clones.mira, "in another clone")
    session = begin(team.ana, clones.ana, "the words of Ana")
    with team.ana.db.write():
        team.ana.db.run("UPDATE sessions SET folder = '/elsewhere' WHERE folder = ?", str(clones.mira))
    keep_fact(team.ana, MemorySlot.PROJECT, "closes at six", team.ana.project_of(clones.ana), AT)
    with closing(Ledger.open(tmp_path / "copy.db")) as copy:
        copy_ledger(team.admin, copy, lambda made: None)
        assert {one.project for one in copy.sessions()} == {str(clones.ana)} and copy.session(session)
        assert len(copy.facts.list_facts(str(clones.ana))) == 1


def test_a_copy_in_a_file_has_what_several_people_have_once(team: Any, tmp_path: Path) -> None:
    for ledger in (team.ana, team.mira):
        log = ledger.log(begin(ledger, tmp_path, "the same words"))
        log.store_count("o200k_base", b"digest", 3)
        log.append(user(2, "more"))
        ledger.calibrate("m", Calibration(1.5, 1))
        ledger.spaces.create("Alpha", AT)
    with closing(Ledger.open(tmp_path / "copy.db")) as copy:
        copy_ledger(team.admin, copy, lambda made: None)
        assert len(copy.sessions()) == 2 and copy.calibration("m").factor == 1.5
        assert copy.db.all("SELECT encoding, tokens FROM counts") == [("o200k_base", 3)]
        assert [space.name for space in copy.spaces.list_spaces()] == ["Alpha", "Alpha-2"]


@pytest.mark.matrix
def test_git_is_asked_once(team: Any, clones: Any, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []

    def count(root: Path) -> str | None:
        looks.append(root)
        return repository_key(root)

    monkeypatch.setattr(project_keys, "repository_key", count)
    project = team.ana.project_of(clones.ana)
    for _ in range(2):
        with closing(Ledger.open(postgres.url(team.name, "ana"))) as again:
            assert again.project_of(clones.ana) == project
    assert looks == [clones.ana]
    git(clones.ana, "remote", "set-url", "origin", "git@github.com:acme/store.git")
    with closing(Ledger.open(postgres.url(team.name, "ana"))) as again:
        assert again.project_of(clones.ana).startswith("github.com/acme/store#")
        monkeypatch.setattr(project_keys, "repository_key", lambda root: None)
        git(clones.ana, "config", "a.b", "c")
    with closing(Ledger.open(postgres.url(team.name, "ana"))) as again:
        assert again.project_of(clones.ana).startswith("github.com/acme/store#"), "the last that git could tell"


@pytest.mark.matrix
def test_an_older_server_keeps_who_sees_what(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.make_roles()
    postgres.sql("DROP ROLE IF EXISTS builders", "CREATE ROLE builders", "GRANT builders TO ben")
    name = "older"
    url = postgres.url(name)
    postgres.drop(url)
    postgres.sql(f"CREATE DATABASE {name}")
    with monkeypatch.context() as older:  # it has the columns of today, which today's code reads and writes
        older.setattr(schema, "STEPS", schema.STEPS[:7])
        older.setattr(PostgresDatabase, "own_run", "1 = 1")
        Ledger.open(url).close()
        with (
            closing(Ledger.open(postgres.url(name, "ana"))) as ana,
            closing(Ledger.open(postgres.url(name, "ben"))) as ben,
        ):
            fill(ana, "/app", "ana")
            fill(ben, "/app", "ben")
            fill(ben, "/own")
        postgres.sql("INSERT INTO project_members VALUES ('/app', 'ana'), ('/app', 'builders')", database=name)
    postgres.sql(*taken_back(7), database=name)
    with pytest.raises(NexusError, match="an older nexus wrote the ledger"):
        Ledger.open(postgres.url(name, "ana"))
    Ledger.open(url).close()
    with closing(Ledger.open(postgres.url(name, "ana"))) as ana, closing(Ledger.open(postgres.url(name, "ben"))) as ben:
        assert len(ana.sessions()) == 4 and len(ben.sessions()) == 6
    postgres.sql("DROP ROLE builders")
    postgres.drop(url)
