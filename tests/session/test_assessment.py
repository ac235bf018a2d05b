"""A model that assesses a task first restricts its turn, and never loosens it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL, Played, opened, say

from nexus_cli.config.settings import AssessSettings, Settings
from nexus_cli.core.event import Notice, ToolResultEvent
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.session.assessment import parse_assessment
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

SETTINGS = Settings(models={MODEL: {"window": 32_000}}, assess=AssessSettings(MODEL))


def turn(folder: Path, assessment: str, **limits: Any) -> tuple[list[str], list[str]]:
    """Results of calls and notices of a turn that would call a tool in each of three steps."""

    def script(request: Request) -> Any:
        if "You assess a task" in str(request.messages[0]["content"]):
            assert "list it" in str(request.messages[-1]["content"]) and not request.tools
            return assessment
        made = sum(bool(message.get("tool_calls")) for message in request.messages)
        return [("glob", {"pattern": f"*{made}"})] if made < 3 else "done"

    options = Options(folder, MODEL, allow="all", limits=Limits(max_steps=9, **limits))
    events, outcome = say(open_session(options, SETTINGS, approver=None, provider=Played(script)), "list it")
    assert outcome.ok, outcome.error
    done = [event.result.text for event in events if isinstance(event, ToolResultEvent)]
    return done, [event.text for event in events if isinstance(event, Notice)]


def test_an_assessment_lowers_the_steps_that_may_call_tools(tmp_path: Path) -> None:
    done, notices = turn(tmp_path, 'Sure: {"recommended_iterations": 2, "recommended_mode": "react_loop"}')
    assert [("set by the task assessment" in one) for one in done] == [False, False, True]
    assert notices == [f"assessed by {MODEL}: mode react_loop, max_iterations 2"]


def test_an_assessment_never_loosens_a_limit(tmp_path: Path) -> None:
    done, _ = turn(tmp_path, json.dumps({"recommended_iterations": 50}), max_iterations=2)
    assert ["not run" in one for one in done] == [False, False, True]


def test_no_model_assesses_a_task_unless_the_settings_name_one(tmp_path: Path) -> None:
    provider = Played(lambda request: "done")
    assert not Settings().assess.model
    assert say(opened(provider, tmp_path), "list it")[1].ok
    assert len(provider.seen) == 1 and "You assess a task" not in str(provider.seen)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "answer", sample(["", "no JSON", "{broken", "[1]", '{"recommended_iterations": true}', "{" * 9999], 3)
)
def test_an_answer_of_no_use_restricts_nothing(answer: str, tmp_path: Path) -> None:
    assert parse_assessment(answer) == Limits()
    assert all("not run" not in one for one in turn(tmp_path, answer or " ")[0])


def test_an_assessment_may_want_changes_confirmed() -> None:
    said = {"recommend_confirm_dangerous": True, "recommended_mode": "wild", "other": 1}
    assert parse_assessment(json.dumps(said)) == Limits(confirm=True)
