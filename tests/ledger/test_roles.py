"""Roles of a team on one server: each sees its own sessions and those of projects that are shared with it, whichever
table it looks into, and changes nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ledger.conftest import AT, drop, epoch, fixed, manifest, on, slot, user
from ledger.postgres import Server

from nexus_cli.commands.forms import find_form
from nexus_cli.commands.memory import facts_report
from nexus_cli.commands.sessions import list_sessions
from nexus_cli.commands.usage import usage_report
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.core.run import AGENT, HUMAN
from nexus_cli.core.services import Calibration
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger

SECRET = "the words of a secret plan that is long enough to be packed " * 4


@pytest.fixture
def team(postgres: Server) -> Iterator[SimpleNamespace]:
    """A ledger whose administrator is `nexus`, and two roles, each with the ledger open."""
    postgres.make_roles()
    url = postgres.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    made = SimpleNamespace(
        admin=Ledger.open(url),
        ana=Ledger.open(postgres.url(name, "ana")),
        ben=Ledger.open(postgres.url(name, "ben")),
    )
    yield made
    for ledger in (made.admin, made.ana, made.ben):
        ledger.close()
    postgres.drop(url)


def fill(ledger: Ledger, project: str, name: str = "") -> str:
    """A session with a row in every table; its id. `name` is a part of the names in it, by default the project."""
    name = name or project[1:]
    made = ledger.create_session(folder=project, project=project, model="m", recipe="chat", at=AT)
    log = ledger.log(made.id)
    log.append(user(1, SECRET), [Memo("k", AT, 1, {"text": SECRET})])
    log.begin_epoch(epoch(0, head=(slot(1, SECRET),)), [drop(log.next_drop(), SECRET)])
    log.record_request(manifest(1, 1), [fixed(1)], [b"l" * 32])
    log.note("/p/a", "aa", "read")
    log.record_start("c1", "bash")
    log.store_count("enc", b"c" * 32, 9)
    log.calibrate(f"model of {project}", Calibration(1.5))
    log.record_reply(None, 1, Usage(100, 20, 0, 0, 0, 0.5), "stop", True)
    log.append(user(2))
    fork = ledger.fork_session(made.id, at=AT)
    ledger.log(fork.id).record_request(manifest(1, 2), [fixed(2)], [b"l" * 32])
    ledger.facts.add(
        MemorySlot.PROJECT,
        f"a fact of {project}",
        state=FactState.KEPT,
        at=AT,
        actor="person",
        project=project,
        session=made.id,
    )
    person = ledger.spaces.entity(ledger.spaces.own_role() or "somebody", HUMAN)
    agent = ledger.spaces.entity(f"agent of {name}", AGENT)
    space = ledger.spaces.create(f"space of {name}", AT, project=project, members=[person, agent])
    ((_, run),) = ledger.spaces.post(space, person, "hello", AT).triggered
    ledger.runs.signal(run, "person", {}, AT)
    ledger.plans.add("plan", {}, AT, next_at=1.0, cron="", zone="UTC", name=f"plan of {project}")
    return made.id


def first_words(ledger: Ledger, session: str) -> str:
    """What a session begins with."""
    return ledger.log(session).read(1, 1)[0].message.content


def seen(ledger: Ledger) -> dict[str, int]:
    """Rows by table that a role is shown."""
    tables = [row[0] for row in ledger.db.all("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    return {table: ledger.db.all(f"SELECT count(*) FROM {table}")[0][0] for table in sorted(tables)}


@pytest.mark.matrix
def test_a_role_sees_nothing_of_another_in_any_table(team: Any) -> None:
    empty = seen(team.ben)
    session = fill(team.ana, "/team/app")
    mine = seen(team.ana)
    assert {table for table, rows in mine.items() if not rows} == {"project_members"}, "every table has a row of hers"
    now = seen(team.ben)
    assert {table for table in now if now[table] != empty[table]} == {"entities"}, "names are the team's"
    for look in (team.ben.session, team.ben.find_session, team.ben.log):
        with pytest.raises(NexusError, match="no such session"):
            look(session)
    assert team.ben.sessions() == [] and team.ben.facts.list_facts() == [] and team.ben.runs.due() == []
    assert team.ben.calibration("model of /team/app") == Calibration() and team.ben.spaces.list_spaces() == []
    assert {**seen(team.admin), "project_members": 0} == mine, "the administrator is shown everything"


def test_a_text_that_another_role_has_stored_is_neither_shown_nor_betrayed(team: Any) -> None:
    fill(team.ana, "/team/app")
    (hidden,) = team.ana.db.all("SELECT min(id) FROM blobs")
    before = seen(team.admin)["blobs"]
    fill(team.ben, "/team/other")
    assert seen(team.ben)["blobs"] == seen(team.ana)["blobs"] and seen(team.admin)["blobs"] == 2 * before
    lane = team.ben.sessions()[0].main_lane
    with team.ben.db.write():
        team.ben.db.run("UPDATE entries SET blob = ? WHERE lane = ?", hidden[0], team.ben.sessions()[-1].main_lane)
    with pytest.raises(NexusError, match="missing"):
        on(team.ben, lane).read(1, 1)
    assert team.ben.db.all("SELECT data FROM blobs WHERE id = ?", hidden[0]) == []


_REFUSED = (
    "INSERT INTO entries SELECT {lane}, 2, at, actor, kind, blob, preamble, tokens, NULL FROM entries",
    "INSERT INTO memos (lane, entry, kind, at, blob) VALUES ({lane}, 1, 'limits', '', 1)",
    "INSERT INTO started (lane, call, name, at) VALUES ({lane}, 'c9', 'bash', '')",
    "INSERT INTO project_members (project, role, owner) VALUES ('/team/app', 'ben', 'ana')",
    "INSERT INTO signals (run, at, kind, value) VALUES (1, '', 'person', '{{}}')",
    "INSERT INTO members (space, entity) VALUES (1, 1)",
    "INSERT INTO blobs (hash, codec, data, project, made_by) VALUES ('', 0, '', '/team/app', 'ana')",
    "UPDATE sessions SET made_by = 'ana'",
    "UPDATE schema_version SET steps = 99",
    "UPDATE project_members SET owner = 'ana'",
    "DROP TABLE sessions",
    "ALTER TABLE sessions DISABLE ROW LEVEL SECURITY",
    "TRUNCATE entries",
)
_HARMLESS = (
    'UPDATE entities SET options = \'{"allow": "all"}\'',
    "UPDATE sessions SET name = 'mine'",
    "DELETE FROM entries",
    "DELETE FROM sessions",
    "UPDATE runs SET state = 'cancelled'",
    "DELETE FROM blobs",
    "DELETE FROM plans",
    "DELETE FROM project_members",
)


@pytest.mark.matrix
def test_a_role_writes_nothing_of_another(team: Any) -> None:
    lane = team.ana.session(fill(team.ana, "/team/app")).main_lane
    fill(team.ben, "/team/other")
    before = seen(team.admin)
    for statement in _REFUSED:
        with pytest.raises(NexusError) as caught, team.ben.db.write():
            team.ben.db.run(statement.format(lane=lane))
        assert "your database role lacks the permission" in caught.value.line and seen(team.admin) == before, statement


@pytest.mark.matrix
def test_a_change_of_everything_leaves_what_is_another_roles(team: Any) -> None:
    session = fill(team.ana, "/team/app")
    before = team.ana.db.all("SELECT options FROM entities ORDER BY key"), seen(team.ana)
    for statement in _HARMLESS:
        with team.ben.db.write():
            team.ben.db.run(statement)
    assert (team.ana.db.all("SELECT options FROM entities ORDER BY key"), seen(team.ana)) == before
    assert first_words(team.ana, session) == SECRET and team.ana.session(session).name == ""


def share(team: Any, project: str, role: str, owner: str = "ana") -> None:
    with team.admin.db.write():
        team.admin.db.run("INSERT INTO project_members (project, role, owner) VALUES (?, ?, ?)", project, role, owner)


@pytest.mark.matrix
def test_a_shared_project_is_seen_continued_forked_and_deleted_by_both(team: Any) -> None:
    session = fill(team.ana, "/team/app")
    hidden = fill(team.ana, "/team/private")
    share(team, "/team/app", "ben")
    assert {one.project for one in team.ben.sessions()} == {"/team/app"}
    assert first_words(team.ben, session) == SECRET
    assert [fact.text for fact in team.ben.facts.list_facts()] == ["a fact of /team/app"]
    assert [space.project for space in team.ben.spaces.list_spaces()] == ["/team/app"]
    assert len(team.ben.runs.list_runs()) == 1 and team.ben.runs.due() == [], "which her machines alone execute"
    with pytest.raises(NexusError, match="no such session"):
        team.ben.session(hidden)
    assert team.ben.lock(session) and not team.ana.lock(session)
    team.ben.log(session).append(user(3, "words of Ben"))
    fork = team.ben.fork_session(session, at=AT)
    team.ben.log(fork.id).append(user(4, "more of Ben"))
    team.ben.release(session)
    assert [entry.message.content for entry in team.ana.log(fork.id).read(3, 4)] == ["words of Ben", "more of Ben"]
    team.ana.delete_session(session)
    assert first_words(team.ben, fork.id) == SECRET, "a fork keeps what it shows"
    with team.admin.db.write():
        team.admin.db.run("DELETE FROM project_members")
    assert team.ben.sessions() == [] and len(team.ana.sessions()) == 4


@pytest.mark.matrix
def test_a_role_in_a_group_sees_what_is_shared_with_the_group(team: Any, postgres: Server) -> None:
    fill(team.ana, "/team/app")
    postgres.sql("DROP ROLE IF EXISTS builders", "CREATE ROLE builders", "GRANT builders TO ben")
    share(team, "/team/app", "builders")
    assert len(team.ben.sessions()) == 2
    postgres.sql("DROP ROLE builders")
    assert team.ben.sessions() == [] and len(team.ana.sessions()) == 2, "a role that is gone breaks nothing"


def test_a_fact_says_whose_it_is_and_nobody_elses_words_are_ones_own(team: Any) -> None:
    share(team, "/app", "ana", "ben")
    share(team, "/app", "ben", "ana")
    told = {"state": FactState.KEPT, "at": AT, "actor": "person", "project": "/app"}
    team.ana.facts.add(MemorySlot.PROJECT, "deploys on Friday", **told)
    said = {**told, "session": "01S", "entry": 1, "quote": "never on Monday"}
    team.ana.facts.add(MemorySlot.PROJECT, "Monday is closed", **said)
    (paraphrase, typed), own = team.ben.facts.list_facts("/app"), team.ana.facts.list_facts("/app")
    assert (typed.colleague, typed.source, typed.statement) == ("ana", "of ana", "ana: deploys on Friday")
    assert paraphrase.is_paraphrase and paraphrase.statement == 'ana: "never on Monday"', "what she did not accept"
    assert [fact.colleague for fact in own] == ["", ""] and own[1].source == "typed by the person"
    listed = facts_report(team.ben, team.ben.facts.list_facts("/app"))["facts"]
    assert [fact["place"] for fact in listed] == ["of ana, session 01S", "of ana"]
    assert [fact["place"] for fact in facts_report(team.ana, team.ana.facts.list_facts("/app"))["facts"]][
        1
    ] == "typed by you"


def test_reports_say_who_did_what_and_what_it_cost(team: Any) -> None:
    share(team, "/of/ben", "ana", "ben")
    fill(team.ana, "/app")
    fill(team.ben, "/of/ben")
    agent = team.ana.spaces.find_entity("agent of app")
    plan = team.ana.plans.find("plan of /app")
    key = team.ana.runs.queue("plan", "t", {}, {}, AT, plan=plan.key, entity=agent.key)
    made = team.ana.sessions("/app")[-1].id
    team.ana.runs.attach(team.ana.runs.claim(key, "here", 9.0, AT), made)
    report = usage_report(team.ana, by="person")
    assert {row["name"]: row["known_usd"] for row in report["named"]} == {"ana": 0.5, "ben": 0.5}
    assert report["total"]["known_usd"] == 1.0 and "by person" in find_form("usage")(report, 80)
    named = {by: {row["name"] for row in usage_report(team.ana, by=by)["named"]} for by in ("agent", "plan")}
    assert named == {"agent": {"agent of app", ""}, "plan": {"plan of /app", ""}}
    assert "(no plan)" in find_form("usage")(usage_report(team.ana, by="plan"), 80)
    listed = list_sessions(team.ana)
    assert {row["person"] for row in listed["sessions"]} == {"ana", "ben"}
    assert "ben: " in find_form("sessions")(listed, 100)


def test_a_ledger_in_a_file_has_one_person(tmp_path: Path) -> None:
    with closing(Ledger.open(tmp_path / "ledger.db")) as ledger:
        fill(ledger, "/app")
        assert [row["name"] for row in usage_report(ledger, by="person")["named"]] == ["you"]
        assert all("person" not in row for row in list_sessions(ledger)["sessions"])
        assert "named" not in usage_report(ledger)
