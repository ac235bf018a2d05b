"""The job: "Dora looks after our reports; she shall know for good what matters, and may say what she would take up".

Her owner sets goals, with a command. Every run of hers is told of them, the most important first, whoever starts it.
She proposes one herself; it counts once the owner has accepted it, like other work that she would start.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage
from search import variant

from nexus_cli.ledger import Ledger

ME = '[spaces]\nname = "Husam"\n'
SPACE = "Reports"
DAILY, QUARTER, CHARTS = "Maintain daily report pipeline", "Complete Q4 revenue analysis", "Give Sarah charts"


class Reporter:
    """An agent that proposes a goal once somebody speaks of charts."""

    def __init__(self) -> None:
        self.proposes = {"text": CHARTS, "priority": 3}

    def __call__(self, body: Any) -> dict[str, Any]:
        last = body["messages"][-1]
        if "charts, please" in str(last["content"]):
            return calls(("goal", self.proposes))
        return {"text": f"done; the tool said: {last['content']}" if last["role"] == "tool" else "done"}


@pytest.fixture(params=["sqlite", variant("postgres")])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    ledger = ""
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        server.make_roles()
        administrated = server.new_database()
        Ledger.open(administrated).close()
        name = administrated.partition("?")[0].rpartition("/")[2]
        ledger = f'[ledger]\nurl = "{server.url(name, "ana")}"\n'  # on a server the role is the person's name
    with stage(tmp_path, Reporter()) as made:
        made.settings(QUICK + PRICED + ME + ledger)
        assert made.run("space", "create", SPACE, "--agent", "Dora", "--allow", "auto").status == 0
        yield made


def goal(place: Stage, *words: str) -> dict[str, Any]:
    done = place.run("space", "goal", "Dora", *words, "--json")
    assert done.status == 0, done.stderr
    return done.result


def block(place: Stage) -> list[str]:
    """The lines of the newest block GOALS in the newest request."""
    messages = place.server.requests[-1].body["messages"]
    text = "\n".join(str(one["content"]) for one in messages if one["role"] == "user")
    _, found, rest = text.rpartition("GOALS:\n")
    lines = takewhile(lambda line: line.startswith("  - "), rest.splitlines() if found else ())
    return [line.removeprefix("  - ") for line in lines]


def work(place: Stage, words: str) -> None:
    assert place.run("space", "post", SPACE, words).status == 0
    place.run("serve", "--once")


def test_an_agent_has_goals_that_its_owner_sets_and_those_of_its_own_that_they_accept(place: Stage) -> None:
    goal(place, "add", QUARTER, "--priority", "2")
    made = goal(place, "add", DAILY, "--priority", "1", "--long-term")
    assert made["done"] == "added" and made["agent"]["name"] == "Dora"
    keys = ("id", "text", "priority", "long_term", "by", "done")
    assert [tuple(one[key] for key in keys) for one in made["goals"]] == [
        ("g2", DAILY, 1, True, "person", None),
        ("g1", QUARTER, 2, False, "person", None),
    ]
    work(place, "good morning")
    assert block(place) == [f"{DAILY} (long-term, priority: 1)", f"{QUARTER} (priority: 2)"]

    work(place, "charts, please")
    (run,) = place.run("runs", "list", "--state", "waiting_reply", "--json").result["runs"]
    (question,) = place.run("runs", "show", run["id"], "--json").result["questions"]
    assert question["what"] == f"goal {CHARTS}" and "every later run" in question["why"], question
    assert f"goal: {CHARTS} (priority: 3)" in question["detail"] and "Dora" in question["detail"], question
    assert len(goal(place, "list")["goals"]) == 2, "nobody has accepted it"
    assert f"to answer: nexus runs resume {run['id']}\n" in place.run("runs", "show", run["id"]).text
    place.run("runs", "resume", run["id"], "--answer", "yes")
    place.run("serve", "--once")
    assert [one["id"] for one in goal(place, "list")["goals"]] == ["g2", "g1", "g3"]
    assert goal(place)["goals"][-1]["by"] == "agent"

    goal(place, "done", "g1")
    work(place, "how is it going?")
    assert block(place) == [f"{DAILY} (long-term, priority: 1)", f"{CHARTS} (priority: 3)"]
    assert place.run("schedule", "add", "the report", "--in", "1h", "--agent", "Dora", "--name", "R").status == 0
    place.run("schedule", "run", "R")
    assert block(place)[0] == f"{DAILY} (long-term, priority: 1)"
    shown = place.run("space", "goal", "Dora").text
    assert "g2" in shown and "long-term" in shown and QUARTER in shown, shown


def test_a_goal_that_the_owner_declines_is_none(place: Stage) -> None:
    work(place, "charts, please")
    (run,) = place.run("runs", "list", "--json").result["runs"]
    place.run("runs", "resume", run["id"], "--answer", "no")
    assert goal(place, "list")["goals"] == []
    told = place.server.requests[-1].body["messages"][-1]
    assert told["role"] == "tool" and told["content"].startswith("Declined by "), told


def test_the_goals_of_a_run_are_bounded_and_the_least_important_ones_stay_away(place: Stage) -> None:
    for number in range(20):
        goal(place, "add", f"goal {number} " + "word " * 30, "--priority", str(9 - number // 3))
    assert place.run("space", "goal", "Dora", "add", "one more").status == 2
    assert place.run("space", "goal", "Dora", "add", "x" * 5000).status == 2
    work(place, "good morning")
    lines = block(place)
    assert lines[0].startswith("goal 18 ") and "goal 0 " not in "\n".join(lines)
    assert lines[-1].startswith("[") and "more: recall(" in lines[-1] and len(" ".join(lines).split()) < 400
