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
from program.stage import PRICED, QUICK, Stage, calls, stage

from nexus_cli.ledger import Ledger

SPACE = "Q4 report"
METRICS = "Generate and post the daily metrics"
FOLLOW = "Follow up with Designer"


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
        return calls(
            ("plan", {"action": "add", "prompt": FOLLOW, "in": "2 hours"}),
            ("send_message", {"text": "I will follow up with the designer."}),
        )

    def planned(self, body: Any, trigger: str) -> dict[str, Any]:
        text = sent(body)
        if body["messages"][-1]["role"] != "tool":
            assert "ACTIVE SPACE: none (call enter_space to enter a space first)" in text, text
            assert re.search(rf'YOUR SPACES:\n  - "{SPACE}" .* You', text), text
            return calls(("enter_space", {"space": SPACE}))
        said = "42 orders, 3 returns" if METRICS in trigger else "@Designer is the mockup done?"
        return calls(("send_message", {"text": said}))

    def designer(self, body: Any, trigger: str) -> dict[str, Any]:
        return calls(("send_message", {"text": "It is."}))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, Team()) as made:
        made.settings(QUICK + PRICED + '[spaces]\nname = "Ana"\n')
        yield made


def said(place: Stage) -> list[str]:
    value = place.run("space", "read", SPACE, "--json").result
    return [f"{one['sender']['name']}: {one['text']}" for one in value["messages"]]


def make_due(place: Stage, *plans: int) -> None:
    with closing(Ledger.open(place.ledger)) as ledger:
        for plan in plans:
            ledger.plans.change(plan, next_at=time.time() - 1.0)


def test_a_plan_and_what_an_agent_planned_act_as_that_agent(place: Stage) -> None:
    agents = ("--agent", "DataAnalyst", "--agent", "Designer", "--allow", "edit")
    assert place.run("space", "create", SPACE, "--member", "Ben", *agents).status == 0
    wrong = place.run("schedule", "add", METRICS, "--in", "1h", "--agent", "Nobody")
    assert wrong.status == 2 and "no agent has this name" in wrong.stderr.decode(), wrong
    added = place.run("schedule", "add", METRICS, "--cron", "0 9 * * *", "--agent", "DataAnalyst")
    assert added.status == 0 and "plan-1 was added, as DataAnalyst" in added.text, added
    assert place.run("space", "post", SPACE, "@DataAnalyst see to the designer").status == 0
    assert place.run("serve", "--once").status == 0
    plans = place.run("schedule", "list", "--json").result["plans"]
    assert sorted((one["prompt"], one["agent"]) for one in plans) == [(FOLLOW, "DataAnalyst"), (METRICS, "DataAnalyst")]
    make_due(place, 1, 2)
    assert place.run("serve", "--once").status == 0
    assert sorted(said(place)[1:]) == [
        "DataAnalyst: 42 orders, 3 returns",
        "DataAnalyst: @Designer is the mockup done?",
        "DataAnalyst: I will follow up with the designer.",
        "Designer: It is.",
    ]
