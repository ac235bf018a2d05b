"""The job: "let the analyst work with us", a morning of two people with names of their own in one space.

Ana asks the analyst for the figures; it asks Ben which ones, and waits. He answers where he is. It writes them down,
which a person has to approve there, and says so; Ben mentions it too. At nine its own plans post the metrics and follow
up with the designer. At the end everybody sees who did what, and what it cost.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledger.postgres import Server, sharing
from program.stage import PRICED, QUICK, Done, Stage, calls, stage
from program.terminal_run import TerminalRun
from search import variant

from nexus_cli.config.worktree_record import project_identity
from nexus_cli.ledger import Ledger

SPACE = "Q4 report"
METRICS = "Generate and post the daily metrics"
FOLLOW = "Follow up with Designer"
GOAL = "Maintain the daily report (long-term)"
SETTINGS = f'{QUICK}{PRICED}[agents.DataAnalyst]\ngoals = ["{GOAL}"]\n'


def last(body: Any) -> str:
    return str(body["messages"][-1]["content"])


def sent(body: Any) -> str:
    return "\n".join(str(one.get("content") or "") for one in body["messages"])


def newest_trigger(text: str) -> str:
    """The lines of the newest TRIGGER block."""
    return "\n".join(re.findall(r"TRIGGER:((?:\n  .*)+)", text)[-1:])


class Team:
    """Two agents that go by what they read, and by nothing else."""

    def __call__(self, body: Any) -> dict[str, Any]:
        text = sent(body)
        name = re.findall(r'IDENTITY:\n  name: "(\w+)"', text)[-1]
        if body["messages"][-1]["role"] == "tool" and not last(body).startswith(("wrote", "created", "space", '"')):
            return {"text": "Done."}
        play = {"DataAnalyst": self.dataanalyst, "Designer": self.designer}[name]
        return play(body, newest_trigger(text))

    def dataanalyst(self, body: Any, trigger: str) -> dict[str, Any]:
        if "type: plan" in trigger:
            return self.planned(body, trigger)
        if "type: resume" in trigger:
            which = re.findall(r'Ben .*?: "(.*?)".*<- RESUME', sent(body))[-1]
            return calls(
                ("write_file", {"path": "figures.txt", "content": f"{which}\n"}),
                ("send_message", {"text": f"@Ana the figures are written down: {which}"}),
            )
        if "figures" in trigger:
            return calls(("send_message", {"text": "@Ben gross or net?", "wait": True}))
        if "there" in trigger:
            return calls(("send_message", {"text": "I am."}))
        return calls(
            ("plan", {"action": "add", "prompt": FOLLOW, "in": "2 hours"}),
            ("send_message", {"text": "I will follow up with the designer."}),
        )

    def planned(self, body: Any, trigger: str) -> dict[str, Any]:
        text = sent(body)
        if body["messages"][-1]["role"] != "tool":
            assert "ACTIVE SPACE: none (call enter_space to enter a space first)" in text, text
            assert f"GOALS:\n  - {GOAL}" in text, text
            assert re.search(rf'YOUR SPACES:\n  - "{SPACE}" .* You', text), text
            return calls(("enter_space", {"space": SPACE}))
        said = "42 orders, 3 returns" if METRICS in trigger else "@Designer is the mockup done?"
        return calls(("send_message", {"text": said}))

    def designer(self, body: Any, trigger: str) -> dict[str, Any]:
        return calls(("send_message", {"text": "It is."}))


class Office:
    """A stage with two people: on one machine by `--as`, on a server as two roles with homes of their own."""

    def __init__(self, place: Stage, server: Server | None) -> None:
        self.place, self.url = place, ""
        self._as_ben: tuple[str, ...] = ("--as", "Ben")
        self._env: dict[str, str | None] = {}
        place.settings(f'{SETTINGS}[spaces]\nname = "Ana"\n')
        if server is not None:
            self._share(server)

    def _share(self, server: Server) -> None:
        server.make_roles()
        self.url = server.new_database()
        name = self.url.partition("?")[0].rpartition("/")[2]
        with closing(Ledger.open(self.url)) as ledger:
            project = str(project_identity(self.place.folder))
            with ledger.db.write():
                ledger.db.run(sharing(project, "ana", "ben"))
        self._as_ben, self._env = (), {"NEXUS_HOME": str(self.place.home / "ben")}
        config = self.place.home / "ben" / "config" / "config.toml"
        config.parent.mkdir(parents=True)
        for role, path in (("ana", self.place.nexus_home / "config" / "config.toml"), ("ben", config)):
            url = server.url(name, role)
            path.write_text(f'{SETTINGS}[spaces]\nname = "{role.title()}"\n[ledger]\nurl = "{url}"\n')

    def ana(self, *arguments: str) -> Done:
        return self.place.run(*arguments)

    def ben_posts(self, text: str) -> Done:
        return self.place.run("space", "post", SPACE, text, *self._as_ben, env=self._env)

    def said(self) -> list[str]:
        value = self.ana("space", "read", SPACE, "--json").result
        return [f"{one['sender']['name']}: {one['text']}" for one in value["messages"]]

    def make_due(self, *plans: int) -> None:
        address = self.url or self.place.ledger
        with closing(Ledger.open(address)) as ledger:
            for plan in plans:
                ledger.plans.change(plan, next_at=time.time() - 1.0)


@pytest.fixture(params=[variant("sqlite"), "postgres"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Office]:
    server: Server | None = request.getfixturevalue("postgres") if request.param == "postgres" else None
    with stage(tmp_path, Team()) as place:
        made = Office(place, server)
        yield made
        if server is not None:
            server.drop(made.url)


def test_a_morning_of_two_people_and_an_agent(office: Office) -> None:
    assert office.ana("space", "create", SPACE, "--member", "Ben", "--agent", "DataAnalyst").status == 0
    assert office.ana("space", "post", SPACE, "@DataAnalyst write the figures down").status == 0
    assert office.ben_posts("@DataAnalyst are you there?").status == 0
    assert office.ana("serve", "--once").status == 0
    assert sorted(office.said()[2:]) == ["DataAnalyst: @Ben gross or net?", "DataAnalyst: I am."]
    waits = [one["waits_for"] for one in office.ana("runs", "list", "--json").result["runs"]]
    assert sorted(filter(None, waits)) == [f'a reply of Ben in "{SPACE}"'], waits

    answered = office.ben_posts("net, please")
    assert answered.status == 0 and "resumed run-1" in answered.stderr.decode(), answered
    env = {**office.place.environment, "TERM": "dumb"}
    with TerminalRun("space", "open", SPACE, env=env, cwd=office.place.folder) as space:
        space.expect(r"DataAnalyst \(run-1\) asks: \S+ +figures.txt")
        space.expect("instead:")
        space.send("y\r")
        space.expect("the figures are written down: net, please")
        space.send("/leave\r")
        space.finish()
    assert (office.place.folder / "figures.txt").read_text() == "net, please\n"
    assert 'Ben (human, id:ent-2): "net, please"' in office.ana("timeline", "--run", "run-1").text.replace("\n", "")
    timeline = office.ana("timeline", "--space", SPACE).text
    for line in ("Ana", "Ben", "DataAnalyst (mention): run-1 done · $", "DataAnalyst (mention): run-2 done · $"):
        assert line in timeline, timeline


def test_a_plan_and_what_an_agent_planned_act_as_that_agent(office: Office) -> None:
    agents = ("--agent", "DataAnalyst", "--agent", "Designer", "--allow", "edit")
    assert office.ana("space", "create", SPACE, "--member", "Ben", *agents).status == 0
    wrong = office.ana("schedule", "add", METRICS, "--in", "1h", "--agent", "Nobody")
    assert wrong.status == 2 and "there is no such agent" in wrong.stderr.decode(), wrong
    added = office.ana("schedule", "add", METRICS, "--cron", "0 9 * * *", "--agent", "DataAnalyst")
    assert added.status == 0 and "plan-1 was added, as DataAnalyst" in added.text, added
    assert office.ana("space", "post", SPACE, "@DataAnalyst see to the designer").status == 0
    assert office.ana("serve", "--once").status == 0
    plans = office.ana("schedule", "list", "--json").result["plans"]
    assert sorted((one["prompt"], one["agent"]) for one in plans) == [(FOLLOW, "DataAnalyst"), (METRICS, "DataAnalyst")]
    office.make_due(1, 2)
    assert office.ana("serve", "--once").status == 0
    assert sorted(office.said()[1:]) == [
        "DataAnalyst: 42 orders, 3 returns",
        "DataAnalyst: @Designer is the mockup done?",
        "DataAnalyst: I will follow up with the designer.",
        "Designer: It is.",
    ]
