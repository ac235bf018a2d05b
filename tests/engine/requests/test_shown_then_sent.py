"""However a session is opened: what is shown of its next request before it is sent is what is sent, to the token."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL, Answer, Person, Played, context_report

from nexus_cli.cli import app
from nexus_cli.config.paths import places
from nexus_cli.config.settings import RunSettings, SandboxSettings, Settings
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core import clock
from nexus_cli.core.approval import Deny
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.event import Event
from nexus_cli.core.limits import LEVELS, PLAN
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import Delta, ModelInfo, Request
from nexus_cli.core.run import AGENT, HUMAN
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import Ledger
from nexus_cli.reports.context import live_report
from nexus_cli.rpc.pool import AgentPool, SharedComponents
from nexus_cli.runs.runner import Runner
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

AT = "2026-02-18T15:06:55.000Z"
OTHER = "openai/another"
SETTINGS = Settings(
    models={name: {"window": 64_000, "input_price": 1.0, "output_price": 1.0} for name in (MODEL, OTHER)},
    runs=RunSettings(allow="all", max_cost=1e6, max_cost_day=1e9),
)
WORDS = "zzz"
FRAME = TiktokenCounter("o200k_base").count_messages([Message(Role.USER, WORDS)]) - 1
"""Tokens of a message beside its words (one token here) and what we add to it."""
SPACE_TOOLS = {"send_message", "send_reply", "enter_space", "read_messages", "get_my_runs"}


def as_json(value: object) -> dict[str, Any]:
    """A report as a script reads it."""
    found: dict[str, Any] = json.loads(json.dumps(value))
    return found


@dataclass
class Wire(Played):
    """Keeps each first request of a turn together with what the session showed before that turn."""

    script: Callable[[Request], Answer] = lambda request: "done"
    shown: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    pairs: list[tuple[str, dict[str, Any], Request]] = field(default_factory=list)

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        if self.shown:
            self.pairs.append((*self.shown.pop(), request))
        return super().stream(request)

    def check(self, *, event: bool = True) -> list[dict[str, Any]]:
        """Every request is the one that was shown; return what was shown. Without `event` for turns whose trigger
        brings sections of its own."""
        assert self.pairs and not self.shown
        for session, shown, request in self.pairs:
            lines = (canonical(list(request.tools)), canonical(request.messages[0]["content"]))
            assert [one["name"] for one in shown["tools"]] == [one["function"]["name"] for one in request.tools]
            if shown["history"]["entries"] == 0:
                assert shown["prefix_sha256"] == hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
            sent = context_report(Options(Path.cwd(), MODEL), SETTINGS, session, 1)
            assert [shown["counted"][name] for name in ("system", "tools")] == [
                sent["counted"][name] for name in ("system", "tools")
            ]
            if event:
                told, held = ([one for one in value["sections"] if one["form"] != "dropped"] for value in (shown, sent))
                assert [(one["id"], one["form"], one["counted"]) for one in told] == [
                    (one["id"], one["form"], one["counted"]) for one in held
                ]
                assert shown["counted"]["event"] == sent["counted"]["event"]
                assert shown["counted"]["total"] + FRAME == sent["counted"]["total"]
        return [shown for _, shown, _ in self.pairs]


@pytest.fixture(autouse=True)
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock: the minute is told to the model."""
    stopped = clock.local_now()
    monkeypatch.setattr(clock, "datetime", type("Stopped", (datetime,), {"now": staticmethod(lambda: stopped)}))


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Every session of this process shows its context before it runs a turn."""
    made, run = Wire(), Session.run

    async def shows(self: Session, trigger: Trigger | str) -> AsyncGenerator[Event, None]:
        if self.saved and not self.engine.conversation.items:
            text = trigger if isinstance(trigger, str) else trigger.text
            self.engine.control.waiting_texts = lambda: [text]
            made.shown.append((self.id, as_json(live_report(self))))
            self.engine.control.waiting_texts = list
        async for one in run(self, trigger):
            yield one

    monkeypatch.setattr(Session, "run", shows)
    yield made


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of which a request tells something, with a skill and recipes of one's own."""
    (tmp_path / "NEXUS.md").write_text("Always run the linter.\n")
    (tmp_path / "a.py").write_text("print(1)\n")
    skill = places().config / "skills" / "deploying"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: deploying\ndescription: How we deploy.\n---\nDo it.\n")
    recipes = places().config / "recipes"
    recipes.mkdir()
    (recipes / "reading.toml").write_text('[multipliers]\nworkspace = 0\n[limits]\ntools = ["read_file", "bash"]\n')
    (recipes / "quiet.toml").write_text('[limits]\nmode = "plan_execute"\ncategories = ["read", "none"]\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def join(name: str = "nexus") -> None:
    """Let an agent take part in a space."""
    ledger = Ledger.open(places().ledger)
    members = [ledger.spaces.entity("Husam", HUMAN), ledger.spaces.entity(name, AGENT)]
    ledger.spaces.create("Project Alpha", AT, members=members)
    ledger.close()


def opened(wire: Wire, folder: Path, **options: Any) -> Session:
    """A session as the command line opens it."""
    settings = replace(SETTINGS, sandbox=options.pop("sandbox", SETTINGS.sandbox))
    asked = Options(folder, **{"model": MODEL, **options})
    approver = Person(Deny()) if asked.interactive else None
    return open_session(asked, settings, approver=approver, provider=wire, services=SERVICES)


def turn(session: Session, trigger: Trigger | str = WORDS) -> None:
    """One turn, and the session's end."""

    async def live() -> None:
        try:
            async for _ in session.run(trigger):
                pass
        finally:
            await session.aclose()

    asyncio.run(live())


PLAIN: dict[str, dict[str, Any]] = {
    "ask": {},
    "ask in a terminal": {"interactive": True, "one_turn": True},
    "repl": {"front": "chat", "interactive": True},
    "in a worktree": {"worktree": "fix"},
    "without tools": {"no_tools": True},
    "system text given": {"system_prompt": "Only Latin."},
    "by a program": {"served": True, "interactive": True},
    "effort": {"effort": "high"},
    "sandbox off": {"sandbox": SandboxSettings("off"), "interactive": True},
    **{
        f"recipe {name}": {"recipe": name}
        for name in (
            "ask",
            "chat",
            "worker",
            "quiet",
            "reading",
            "reflection",
            "tick_autonomous",
            "tick_event",
        )
    },
    **{f"level {level}": {"allow": level, "front": "chat", "interactive": True} for level in (PLAN, *LEVELS)},
}


@pytest.mark.matrix
@pytest.mark.parametrize("member", [False, True], ids=["", "member of a space"])
@pytest.mark.parametrize("way", sample(PLAIN, 4))
def test_a_session_sends_what_it_showed(here: Path, wire: Wire, way: str, member: bool) -> None:
    if member:
        join()
    turn(opened(wire, here, **PLAIN[way]))
    [shown] = wire.check()
    offered = {one["name"] for one in shown["tools"]}
    if not {"recipe", "without", "by"} & set(way.split()):
        assert (offered & SPACE_TOOLS == SPACE_TOOLS) is member


@pytest.mark.matrix
@pytest.mark.parametrize("member", [False, True], ids=["", "member of a space"])
@pytest.mark.parametrize("way", sample(["ask", "repl", "recipe quiet", "recipe reading", "effort", "sandbox off"], 3))
def test_another_process_shows_what_a_session_sends(here: Path, wire: Wire, way: str, member: bool) -> None:
    if member:
        join()
    given = dict(PLAIN[way])
    settings = replace(SETTINGS, sandbox=given.pop("sandbox", SETTINGS.sandbox))
    before = as_json(context_report(Options(here, MODEL, save=False, **given), settings, None, services=SERVICES))
    turn(opened(wire, here, **PLAIN[way]))
    [shown] = wire.check()
    told = ("tools", "sections", "prefix_sha256", "recipe", "limits", "notices", "section_budget")
    assert {name: before[name] for name in told} == {name: shown[name] for name in told}
    layers = ("system", "tools", "event")
    assert [before["counted"][name] for name in layers] == [shown["counted"][name] for name in layers]
    assert before["counted"]["total"] == sum(before["counted"][name] for name in layers)


@pytest.mark.parametrize(
    ("effort", "switches"), sample([("", False), ("high", False), ("low", True), ("default", True)], 2)
)
def test_another_process_shows_a_switch_of_the_effort(here: Path, wire: Wire, effort: str, switches: bool) -> None:
    model = "openai/o3"
    turn(session := opened(wire, here, model=model, effort="high"))
    value = context_report(Options(here, model, effort), SETTINGS, session.id, services=SERVICES)
    assert any(line.startswith("switching the effort") for line in value["notices"]) is switches


@pytest.mark.matrix
@pytest.mark.parametrize("member", [False, True], ids=["", "member of a space"])
def test_a_switch_of_model_and_a_reload_send_what_was_shown(here: Path, wire: Wire, member: bool) -> None:
    turn(session := opened(wire, here))
    if member:
        join()
    (here / "NEXUS.md").write_text("Never run the linter.\n")
    asked = Options(here, OTHER, resume=session.id)
    elsewhere = context_report(asked, SETTINGS, session.id, services=SERVICES)
    again = opened(wire, here, model=OTHER, resume=session.id)
    shown = live_report(again)
    wire.seen.clear()
    lines: list[bytes] = []
    wire.script = lambda request: lines.append(canonical(list(request.tools))) or "done"  # type: ignore[func-returns-value]
    turn(again)
    assert "Never run" in wire.seen[0][0]["content"]
    sent = context_report(Options(here, OTHER), SETTINGS, session.id, 2)
    for value in (elsewhere, shown):
        assert value["tools"] == shown["tools"]
        assert [value["counted"][name] for name in ("system", "tools")] == [
            sent["counted"][name] for name in ("system", "tools")
        ]
        assert ("send_message" in {one["name"] for one in value["tools"]}) is member
        assert len(value["tools"]) == len(sent["tools"])


@pytest.mark.matrix
def test_a_worker_sends_what_its_session_showed(here: Path, wire: Wire) -> None:
    join()
    wire.script = lambda request: (
        [("agent", {"task": "count the files"})]
        if len(request.messages) == 2 and "count the files" not in str(request.messages[-1]["content"])
        else "done"
    )
    turn(opened(wire, here, allow="all"))
    parent, worker = wire.check(event=False)
    assert worker["recipe"] == "worker"
    assert worker["tools"] == parent["tools"] and len(worker["tools"]) == 14


@pytest.mark.matrix
@pytest.mark.parametrize("agent", sample(["", "Ana", "nexus"], 3))
@pytest.mark.parametrize("kind", ["service", "plan"])
async def test_a_run_sends_what_its_session_showed(here: Path, wire: Wire, kind: str, agent: str) -> None:
    if agent:
        join(agent)
    ledger = Ledger.open(places().ledger)
    facts = {"type": kind, kind: {"name": "ci"} if kind == "plan" else "ci", "instruction": "look", "payload": {}}
    entity = ledger.spaces.find_entity(agent) if agent else None
    said = {"folder": str(here), "model": MODEL, "allow": "all"}
    ledger.runs.queue(kind, "look", facts, said, AT, entity=entity.key if entity else None)

    runner = Runner(ledger, provider=wire, settings=SETTINGS)
    try:
        [done] = await runner.run_due()
        assert done.state == "done", done.error
    finally:
        await runner.aclose()
        ledger.close()
    [shown] = wire.check(event=False)
    assert ({one["name"] for one in shown["tools"]} >= SPACE_TOOLS) is bool(agent)


@pytest.mark.matrix
@pytest.mark.parametrize("member", [False, True], ids=["", "member of a space"])
async def test_an_agent_of_the_server_sends_what_it_showed(here: Path, wire: Wire, member: bool) -> None:
    if member:
        join()

    pool = AgentPool(SharedComponents(config=SETTINGS, provider=wire, model=MODEL))
    agent = await pool.create()
    async for _ in agent.session.run(WORDS):
        pass
    await pool.aclose()
    [shown] = wire.check(event=False)
    assert not SPACE_TOOLS & {one["name"] for one in shown["tools"]}


def test_without_a_model_the_first_request_is_shown_all_the_same(here: Path) -> None:
    join()
    value = context_report(Options(here, save=False), SETTINGS, None, services=SERVICES)
    assert value["model"] == "" and {one["name"] for one in value["tools"]} >= SPACE_TOOLS
    assert value["budget"]["window"] == ModelInfo("", "openai", 128_000).window


@pytest.mark.matrix
@pytest.mark.parametrize("terminal", [True, False])
def test_the_command_describes_what_plain_nexus_would_begin_here(
    here: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.setattr(os, "isatty", lambda number: terminal and number != 1)
    places().settings.parent.mkdir(parents=True, exist_ok=True)
    places().settings.write_text('[sandbox]\nbackend = "off"\n')
    settings = Settings(sandbox=SandboxSettings("off"))
    assert app.run(["context", "--json", "--model", MODEL]) == 0
    value = json.loads(capfd.readouterr().out)
    options = Options(here, MODEL, save=False, front="chat" if terminal else "ask", interactive=terminal)
    assert value["recipe"] == options.front
    asking = (terminal, not terminal)
    every = [replace(options, interactive=asks) for asks in asking]
    reports = (context_report(one, settings, None, services=SERVICES) for one in every)
    same, other = (one["prefix_sha256"] for one in reports)
    assert value["prefix_sha256"] == same != other
