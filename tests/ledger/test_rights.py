"""What a role can forge by SQL in a project that is shared with it: nobody else's words, agents, runs or answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from ledger.conftest import AT, user
from ledger.older import describe_tables, taken_back
from ledger.postgres import Server, sharing

from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.memo_kinds import WAIT
from nexus_cli.core.run import AGENT, APPROVAL, HUMAN, QUEUED, WAITING, Run, Wait
from nexus_cli.ledger import Ledger, schema
from nexus_cli.ledger.copying import copy_ledger

PROJECT = "/team/app"
OPTIONS = {"folder": PROJECT, "allow": "ask"}
FORGED = json.dumps({"folder": "/", "allow": "all", "rules": ["bash(*)"]})


@dataclass
class Room:
    """A space that Ana and Ben share, with Ana's agent `Bot` in it, and Ben's `Ping` outside."""

    server: Server
    name: str
    ana: Ledger
    ben: Ledger
    space: int = 0
    people: tuple[int, int] = (0, 0)
    bot: int = 0
    ping: int = 0

    def sql(self, *statements: str, role: str = "ben") -> list[tuple[Any, ...]]:
        return self.server.sql(*statements, database=self.name, role=role)

    def refuse(self, *statements: str, role: str = "ben") -> None:
        import psycopg

        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            self.sql(*statements, role=role)

    def mention(self, ledger: Ledger, text: str = "@Bot go") -> Run:
        """The run that a message starts, in the ledger of who wrote it."""
        who = ledger.spaces.get_entity(self.people[ledger is self.ben])
        ((_, key),) = ledger.spaces.post(ledger.spaces.get(self.space), who, text, AT).triggered
        return ledger.runs.get(key)

    def insert_run(self, **columns: Any) -> str:
        """The statement for a row of PROJECT."""
        said = {"state": QUEUED, "type": "plan", "title": "t", "run_trigger": "{}", "options": FORGED} | columns
        row: dict[str, Any] = {**said, "project": PROJECT, "created": AT, "updated": AT}
        values = (str(one) if isinstance(one, int) else "'" + one.replace("'", "''") + "'" for one in row.values())
        return f"INSERT INTO runs ({', '.join(row)}) VALUES ({', '.join(values)})"


@pytest.fixture
def room(postgres: Server) -> Iterator[Room]:
    if not postgres.sql("SELECT 1 FROM pg_roles WHERE rolname = 'ana'"):
        postgres.sql("CREATE ROLE ana LOGIN", "CREATE ROLE ben LOGIN")
    url = postgres.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.sql(sharing(PROJECT, "ana", "ben"), database=name)
    with closing(Ledger.open(postgres.url(name, "ana"))) as ana, closing(Ledger.open(postgres.url(name, "ben"))) as ben:
        made = Room(postgres, name, ana, ben)
        people = [ana.spaces.entity(one, HUMAN) for one in ("Ana", "Ben")]
        bot, ping = ana.spaces.entity("Bot", AGENT, OPTIONS), ben.spaces.entity("Ping", AGENT, OPTIONS)
        made.space = ana.spaces.create("room", AT, project=PROJECT, members=[*people, bot]).key
        made.people, made.bot, made.ping = (people[0].key, people[1].key), bot.key, ping.key
        yield made
    postgres.drop(url)


def test_a_message_is_by_the_role_that_writes_it_or_by_an_agent_of_its_own(room: Room) -> None:
    said = f"INSERT INTO messages (space, sender, at, text) VALUES ({room.space}, %d, '{AT}', 'I order this')"
    for sender in (room.people[0], room.bot):
        room.refuse(said % sender)
        room.sql(said % sender, role="ana")
    for sender in (room.people[1], room.ping):
        room.sql(said % sender)
        room.refuse(said % sender, role="ana")
    room.refuse(f"UPDATE messages SET sender = {room.people[0]} WHERE sender = {room.people[1]}")
    room.refuse("UPDATE messages SET text = 'other words'")
    room.sql("UPDATE messages SET origin = '{\"root\": 1}'")
    assert room.sql("SELECT sender FROM messages WHERE origin = '{}'", role="ana") == [(room.people[0],), (room.bot,)]


def test_nobody_takes_the_name_of_another(room: Room) -> None:
    import psycopg

    row = "INSERT INTO entities (name, folded, kind) VALUES ('{}', '{}', '{}')"
    for kind in (AGENT, HUMAN):
        with pytest.raises(psycopg.errors.UniqueViolation):
            room.sql(row.format("ANA", "other", kind))
    room.refuse(f"UPDATE entities SET name = 'Carla' WHERE key = {room.ping}")
    room.refuse(f"UPDATE entities SET kind = '{HUMAN}' WHERE key = {room.ping}")
    room.sql("DELETE FROM members", "DELETE FROM entities WHERE name = 'Ben'", role="ana")
    room.sql(row.format("Carla", "ben", HUMAN))
    ((key,),) = room.sql("SELECT key FROM entities WHERE folded = 'ben'")
    room.refuse(f"INSERT INTO messages (space, sender, at, text) VALUES ({room.space}, {key}, '{AT}', 'hello')")


@pytest.mark.matrix
def test_the_built_in_agent_speaks_for_everybody(room: Room) -> None:
    nexus = room.ana.spaces.entity("nexus", AGENT, OPTIONS)
    space = room.ben.spaces.get(room.space)
    assert room.ben.spaces.join(space, nexus) and room.ben.spaces.is_own(nexus)
    assert room.ben.spaces.post(space, nexus, "done", AT).message.sender == nexus


def test_only_its_owner_lets_an_agent_into_a_space(room: Room) -> None:
    theirs = room.ben.spaces.create("theirs", AT, project=PROJECT)
    room.refuse(f"INSERT INTO members (space, entity) VALUES ({theirs.key}, {room.bot})")
    room.sql(f"INSERT INTO members (space, entity) VALUES ({theirs.key}, {room.ping})")
    room.refuse(f"UPDATE members SET entity = {room.bot} WHERE space = {theirs.key}")
    with pytest.raises(NexusError, match="belongs to another user") as caught:
        room.ben.spaces.join(theirs, room.ben.spaces.get_entity(room.bot))
    assert "nexus space join theirs --as Bot" in caught.value.hint
    assert room.ana.spaces.join(theirs, room.ana.spaces.get_entity(room.bot))


@pytest.mark.matrix
def test_a_run_has_the_rights_of_the_role_that_writes_it_whatever_the_row_says(room: Room) -> None:
    room.sql(room.insert_run(principal="ana", made_by="ana", plan=1))
    (run,) = room.ana.runs.list_runs()
    assert run.principal == "ben" and not room.ana.runs.is_own(run) and room.ben.runs.is_own(run)
    assert room.ana.runs.claim(run.key, "here:1", 60.0, AT) is None
    assert room.ben.runs.claim(run.key, "here:1", 60.0, AT) is not None
    room.refuse("UPDATE runs SET principal = 'ana'")


@pytest.mark.matrix
def test_an_agent_is_started_only_by_a_message_where_its_owner_let_it_in(room: Room) -> None:
    run = room.mention(room.ben)
    assert (run.principal, run.options) == ("ana", OPTIONS) and room.ana.runs.is_own(run)
    trigger = json.dumps(run.trigger)
    cause = f"again msg-{run.message} ent-{room.bot}"
    row = {"type": "space_message", "entity": room.bot, "space": room.space, "message": run.message, "cause": cause}
    room.sql(room.insert_run(**row, run_trigger=trigger))
    (again,) = room.ana.runs.list_runs([QUEUED], 1)
    assert (again.principal, again.options) == ("ana", OPTIONS), "as a mention, with what Ana wrote"
    hers = room.mention(room.ana, "@Bot deploy")
    other = room.ben.spaces.create("theirs", AT, project=PROJECT)
    said = json.dumps({**run.trigger, "sender": {"id": f"ent-{room.people[0]}", "name": "Ana", "type": "human"}})
    for changed in (
        {"type": "plan"},
        {"cause": "plan-1 2026"},
        {"space": other.key},
        {"message": 99},
        {"session": "of mine"},
        {"waits": "{}"},
        {"state": WAITING},
        {"run_trigger": said},
        {"message": hers.message, "run_trigger": json.dumps(hers.trigger)},
        {"run_trigger": json.dumps({**run.trigger, "message": "other words"})},
    ):
        room.refuse(room.insert_run(**{**row, "run_trigger": trigger, **changed}))
    with pytest.raises(NexusError, match="your database role lacks the permission"):
        room.ben.runs.queue("plan", "t", {}, {}, AT, entity=room.bot)


@pytest.mark.matrix
def test_an_agent_is_started_by_nobody_with_whom_its_owner_shares_no_longer(room: Room) -> None:
    ben = room.ben.spaces.get_entity(room.people[1])
    theirs = room.ben.spaces.create("theirs", AT, project=PROJECT, members=[ben])
    room.ana.spaces.join(theirs, room.ana.spaces.get_entity(room.bot))
    room.sql("DELETE FROM project_members WHERE 'ana' IN (owner, role)", role="ana")
    room.sql(f"INSERT INTO project_members (project, role, owner) VALUES ('{PROJECT}', 'ana', 'ben')")
    with pytest.raises(NexusError, match="your database role lacks the permission"):
        room.ben.spaces.post(theirs, ben, "@Bot go", AT)


@pytest.mark.matrix
def test_a_row_of_another_role_holds_back_no_run_of_ones_own(room: Room) -> None:
    room.sql(room.insert_run(type="plan", cause="plan-1 x", state="done"))
    assert room.ana.runs.queue("plan", "t", {}, {}, AT, cause="plan-1 x") is not None
    assert room.ana.runs.queue("plan", "t", {}, {}, AT, cause="plan-1 x") is None


@pytest.mark.matrix
def test_no_function_of_ones_own_hides_whose_a_run_is(room: Room) -> None:
    run = room.mention(room.ben)
    room.sql("CREATE SCHEMA ben AUTHORIZATION ben", role="nexus")
    function = "CREATE FUNCTION ben.row_security_active(oid) RETURNS boolean LANGUAGE sql AS 'SELECT false'"
    update = f"UPDATE public.runs SET options = '{FORGED}' WHERE key = {run.key}"
    room.refuse(function, "SET search_path = ben, pg_catalog, public", update)


@pytest.mark.matrix
def test_no_table_of_ones_own_hides_whose_an_agent_is(room: Room) -> None:
    for table in ("entities", "members", "messages", "runs"):
        copied = f"CREATE TEMP TABLE {table} AS SELECT * FROM public.{table}"
        forged = "UPDATE entities SET made_by = 'ben'" if table == "entities" else "SELECT 1"
        statement = room.insert_run(entity=room.bot).replace("INTO runs", "INTO public.runs")
        room.refuse(copied, forged, statement)


def test_a_colleague_can_end_a_run_and_change_nothing_else_of_it(room: Room) -> None:
    run = room.mention(room.ben)
    assert room.ana.runs.claim(run.key, "here:1", 60.0, AT) is not None
    room.ana.runs.wait(run, Wait(APPROVAL, "w", {"questions": []}), AT)
    for change in (
        f"options = '{FORGED}'",
        "session = 'of mine'",
        "resumes = 9999",
        "cost = -1000000",
        "lease = 1e300",
        'waits = \'{"kind": "approval"}\'',
        f"run_trigger = '{FORGED}'",
        f"entity = {room.ping}",
        "type = 'plan'",
        "report = 'done'",
        "state = 'running'",
        "title = 'other'",
        "plan = 1",
        "made_by = 'ben'",
    ):
        room.refuse(f"UPDATE runs SET {change}")
    with pytest.raises(NexusError, match="only its owner, ana"):
        room.ben.runs.set_paused(run.key, True, AT)
    assert room.ana.runs.get(run.key).state == WAITING
    room.ben.runs.cancel(run.key, AT)
    assert room.ana.runs.get(run.key).state == "cancelled"


@pytest.mark.matrix
def test_a_wait_in_the_session_of_a_colleagues_run_is_a_run_of_its_own(room: Room) -> None:
    key = room.ana.runs.queue("plan", "t", {}, OPTIONS, AT)
    claimed = room.ana.runs.claim(key or 0, "here:1", 60.0, AT)
    assert claimed is not None
    session = room.ana.runs.make_session(claimed, folder=PROJECT, project=PROJECT, model="m", recipe="run", at=AT)
    hers, his = (Wait("time", f"until {when}", {}, when) for when in (1e10, 2e10))
    room.ana.runs.wait(claimed, hers, AT)
    said = {"type": "repl", "title": "t", "trigger": {}, "options": OPTIONS, "wait": to_json_value(his)}
    room.ben.log(session).append(user(1), [Memo(WAIT, AT, 1, said)])
    waiting = room.ana.runs.waiting()
    assert [(run.principal, run.session, run.waits) for run in waiting] == [
        ("ana", session, hers),
        ("ben", session, his),
    ]


@pytest.mark.matrix
def test_an_answer_is_by_the_role_that_wrote_it(room: Room) -> None:
    run = room.mention(room.ben)
    signal = "INSERT INTO signals (run, at, kind, value{}) VALUES ({}, '', 'approval', '{{}}'{})"
    room.refuse(signal.format(", author", run.key, ", 'ana'"))
    room.sql(signal.format("", run.key, ""))
    assert room.ana.runs.answers(run.key) == [] and len(room.ben.runs.answers(run.key)) == 1
    room.ana.runs.signal(run.key, APPROVAL, {"answers": {}}, AT)
    assert len(room.ana.runs.answers(run.key)) == 1
    for change in ("author = 'ana'", f"run = {run.key}", "value = '{}'", "kind = 'approval'"):
        room.refuse(f"UPDATE signals SET {change}")
    room.sql("UPDATE signals SET taken = 1")


@pytest.mark.matrix
def test_a_copy_on_another_server_keeps_whose_everything_is(room: Room) -> None:
    run = room.mention(room.ben)
    room.ana.runs.signal(run.key, APPROVAL, {"answers": {}}, AT)
    room.sql(room.insert_run())
    url = room.server.new_database()
    with (
        closing(Ledger.open(room.server.url(room.name))) as source,
        closing(Ledger.open(url)) as target,
    ):
        copy_ledger(source, target, lambda ledger: None)
        for query in ("SELECT principal, options FROM runs ORDER BY key", "SELECT author FROM signals"):
            assert source.db.all(query) == target.db.all(query)
    room.server.drop(url)


@pytest.mark.matrix
@pytest.mark.parametrize("role", ["Carla Diaz", "Ärna", "ÅSA"])
def test_a_role_of_any_name_posts_as_itself(room: Room, role: str) -> None:
    if not room.sql(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'", role="nexus"):
        room.sql(f'CREATE ROLE "{role}" LOGIN', role="nexus")
    room.sql(sharing(PROJECT, role, "ana"), role="nexus")
    invited = room.ana.spaces.entity(role.swapcase(), HUMAN)
    room.ana.spaces.join(room.ana.spaces.get(room.space), invited)
    with closing(Ledger.open(room.server.url(room.name, quote(role)))) as ledger:
        assert ledger.spaces.own_role() == role and ledger.spaces.is_own(invited)
        assert ledger.spaces.post(ledger.spaces.get(room.space), invited, "here", AT).message.sender == invited
    room.sql(f'ALTER ROLE "{role}" CONNECTION LIMIT 0', role="nexus")
    with pytest.raises(NexusError, match="too many connections for role") as refused:
        Ledger.open(room.server.url(room.name, quote(role)))
    assert "connection limit of the server, the database or the role" in refused.value.hint


def test_an_older_ledger_is_upgraded_by_its_administrator_and_proves_only_what_it_could(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not postgres.sql("SELECT 1 FROM pg_roles WHERE rolname = 'ana'"):
        postgres.sql("CREATE ROLE ana LOGIN", "CREATE ROLE ben LOGIN")
    postgres.sql("DROP DATABASE IF EXISTS older", "CREATE DATABASE older")
    url, hers = postgres.url("older"), postgres.url("older", "ana")
    with monkeypatch.context() as before:
        before.setattr(schema, "STEPS", schema.STEPS[:7])
        Ledger.open(url).close()
        columns = "state, type, title, run_trigger, options, project, made_by, created, updated"
        row = "('waiting_reply', 'plan', 't', '{{}}', '{{}}', '{}', 'ana', '', '')"
        postgres.sql(
            f"INSERT INTO project_members VALUES ('{PROJECT}', 'ana')",
            f"INSERT INTO runs ({columns}) VALUES {row.format('')}, {row.format(PROJECT)}",
            "INSERT INTO signals (run, at, kind, value) VALUES (1, '', 'approval', '{}')",
            database="older",
        )
    postgres.sql(*taken_back(7), database="older")
    with pytest.raises(NexusError) as refused:
        Ledger.open(hers)
    assert "administrator to run `nexus sessions list`, which upgrades" in refused.value.hint
    Ledger.open(url).close()
    new = postgres.new_database()
    assert describe_tables(postgres, "older") == describe_tables(postgres, new.partition("?")[0].rpartition("/")[2])
    postgres.drop(new)
    with closing(Ledger.open(hers)) as ledger:
        assert [run.principal for run in ledger.runs.list_runs()] == ["", "ana"] and ledger.runs.answers(1) == []
        ledger.runs.cancel(2, AT)
    with monkeypatch.context() as after:
        after.setattr(schema, "STEPS", schema.STEPS[:7])
        with pytest.raises(NexusError) as newer:
            Ledger.open(hers)
        assert newer.value.hint == "Upgrade nexus"
    postgres.drop(url)
