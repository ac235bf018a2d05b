"""The goals of an agent: texts of its settings and an older ledger, numbers, and how many are kept."""

from __future__ import annotations

import pytest
from spaces.conftest import Team

from nexus_cli.commands.forms import find_form
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import AGENT
from nexus_cli.spaces.agent_goals import MAX_DONE, MAX_GOALS, add_goal, finish_goals, goals_report
from nexus_cli.spaces.run_facts import run_facts


def test_goals_of_the_settings_are_goals_like_others(team: Team) -> None:
    agent = team.ledger.spaces.entity("Dora", AGENT, {"goals": ["Keep it green", "Reply fast"]})
    assert [(one["id"], one["text"], one["priority"]) for one in agent.goals] == [
        ("g1", "Keep it green", 3),
        ("g2", "Reply fast", 3),
    ]
    agent = add_goal(team.ledger, agent, "Ship\n it", 1)
    assert [one["id"] for one in agent.goals] == ["g3", "g1", "g2"] and agent.goals[0]["text"] == "Ship it"
    assert add_goal(team.ledger, agent, "Ship it", 9).goals == agent.goals, "it has this one"
    agent = finish_goals(team.ledger, agent, ["g1", "g3"])
    assert [one["id"] for one in agent.goals if not one["done"]] == ["g2"]
    with pytest.raises(NexusError, match="there is no such open goal"):
        finish_goals(team.ledger, agent, ["g1"])
    assert find_form("agent_goals")(goals_report(agent), 80).splitlines()[1].split() == ["g2", "3", "Reply", "fast"]
    assert "done" not in goals_report(agent) and goals_report(agent, "finished")["done"] == "finished"


@pytest.mark.matrix
def test_open_goals_are_bounded_and_done_ones_are_forgotten_without_reusing_a_number(team: Team) -> None:
    agent = team.analyst
    for number in range(3 * MAX_GOALS):
        agent = add_goal(team.ledger, agent, f"goal {number}")
        agent = finish_goals(team.ledger, agent, [f"g{number + 1}"])
    assert len(agent.goals) == MAX_DONE
    for number in range(MAX_GOALS):
        agent = add_goal(team.ledger, agent, f"more {number}")
    assert len({one["id"] for one in agent.goals}) == len(agent.goals) == MAX_GOALS + MAX_DONE
    with pytest.raises(NexusError, match="20 open goals"):
        add_goal(team.ledger, agent, "one more")


def test_only_open_goals_of_its_agent_are_facts_of_a_run(team: Team) -> None:
    add_goal(team.ledger, team.analyst, "Complete Q4 revenue analysis", 2)
    add_goal(team.ledger, team.designer, "Draw")
    add_goal(team.ledger, team.analyst, "Old")
    finish_goals(team.ledger, team.analyst, ["g2"])
    run = team.start()
    assert [one["text"] for one in run_facts(team.ledger, run)["goals"]] == ["Complete Q4 revenue analysis"]
    assert "goals" not in run.options, "a run has those of today, not those of when it was queued"
