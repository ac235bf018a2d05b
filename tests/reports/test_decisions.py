"""What was decided on a call can be looked up: the rule with file and line, the level or limit with who set it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, say, the_ledger
from workers.crew import Person

from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.reports.decisions import (
    NEWEST,
    decision_report,
    decisions_report,
    describe_verdict,
)
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

RULES = """[rules]
allow = ["bash(touch marked *)"]
deny = [
    "bash(git push *)",
    "read_file(secrets/**)",
]
"""


def run(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


def played(folder: Path, *steps: Any, person: Person | None = None, allow: str = "ask", **settings: Any) -> Session:
    """A session in which the model asked for the calls of each of `steps`, one request each."""
    (folder / ".git").mkdir(exist_ok=True)

    def script(request: Any) -> Any:
        done = sum(1 for message in request.messages if message["role"] == "assistant")
        return (list(steps[done]) or "done") if done < len(steps) else "done"

    made = Settings(models={MODEL: {"window": 16_000}}, **settings)
    session = open_session(Options(folder, MODEL, allow=allow), made, approver=person, provider=Played(script))
    say(session, "go")
    return session


def decided(session: Session) -> list[Any]:
    with the_ledger() as ledger:
        value = decisions_report(ledger.log(session.id))
    for width in (20, 80, 2**30):
        find_form("decisions")(value, width)
    rows: list[Any] = [*value["decisions"]]
    return rows


def explained(session: Session, call_id: str) -> Mapping[str, Any]:
    with the_ledger() as ledger:
        value: Mapping[str, Any] = decision_report(ledger.log(session.id), call_id) or {}
    for width in (20, 80) if value else ():
        find_form("decision")(value, width)
    return value


def test_a_rule_that_decided_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    places().settings.parent.mkdir(parents=True, exist_ok=True)
    places().settings.write_text(RULES)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "a").write_text("x")
    step = [run("git push origin"), ("read_file", {"path": "secrets/a"}), run("touch marked by me"), run("ls")]
    session = played(tmp_path, step)
    push, secret, marked, listing = decided(session)
    assert (push["decision"], push["rule"], push["ran"]) == ("deny", "deny bash(git push *)", False)
    assert push["from"].endswith("config.toml line 4") and push["parts"][0]["from"] == push["from"]
    assert (secret["decision"], secret["rule"]) == ("deny", "deny read_file(secrets/**)")
    assert secret["from"].endswith("config.toml line 5") and secret["profile"] is None and secret["parts"] == []
    assert (marked["decision"], marked["profile"]) == ("allow", "write") and marked["from"].endswith("line 2")
    assert (listing["decision"], listing["profile"], listing["from"]) == ("allow", "read", "built in")
    assert {"id", "tool", "subject", "at", "level", "answer"} <= push.keys() and push["subject"] == "git push origin"
    text = find_form("decision")(explained(session, push["id"]), 200)
    assert "refused" in text and "deny bash(git push *)" in text and "config.toml line 4" in text
    assert "sandboxed: can write in the project" in find_form("decision")(explained(session, marked["id"]), 200)


@pytest.mark.matrix
def test_the_answer_of_the_person_and_the_layer_of_the_level_are_named(tmp_path: Path) -> None:
    person = Person(lambda question: Deny("not that") if "chmod b" in question.what else Allow(always=True))
    step = [run("touch one"), run("chmod b")]
    session = played(tmp_path, step, [run("touch one")], person=person, allow="edit")
    first, second, again = decided(session)
    assert (first["decision"], first["answer"], first["ran"]) == ("ask", "session", True)
    assert (first["from"], first["bound_by"], first["level"]) == ("level edit", "command line", "edit")
    assert (second["answer"], second["said"], second["ran"]) == ("no", "not that", False)
    assert (again["decision"], again["from"], again["answer"]) == ("allow", "allowed for this session", None)
    assert "you said no" in find_form("decision")(explained(session, second["id"]), 80)


@pytest.mark.matrix
def test_a_call_that_nobody_could_be_asked_about_says_so(tmp_path: Path) -> None:
    (row,) = decided(session := played(tmp_path, [run("touch one")]))
    assert (row["decision"], row["answer"], row["ran"], row["from"]) == ("ask", None, False, "level ask")
    assert "nobody could be asked" in find_form("decision")(explained(session, row["id"]), 80)


def test_an_answer_that_a_level_gave_is_not_taken_for_one_of_the_person(tmp_path: Path) -> None:
    sessions: list[Session] = []

    class Waits:
        async def ask(self, question: Question) -> Answer:
            sessions[0].set_level("auto")
            await asyncio.sleep(60)
            return Deny()

    (tmp_path / ".git").mkdir()

    def script(request: Any) -> Any:
        return "done" if len(request.messages) > 2 else [run("touch one")]

    asked = Options(tmp_path, MODEL, allow="ask")
    settings = Settings(models={MODEL: {"window": 16_000}})
    sessions.append(open_session(asked, settings, approver=Waits(), provider=Played(script)))
    say(sessions[0], "go")
    (row,) = decided(sessions[0])
    assert (row["decision"], row["answer"]) == ("allow", None)
    assert (row["from"], row["bound_by"]) == ("level auto", "this session")


@pytest.mark.matrix
def test_a_limit_that_refused_a_call_is_named_with_its_layer(tmp_path: Path) -> None:
    limits = Limits(tools=frozenset({"glob"}))
    session = played(tmp_path, [run("ls"), ("glob", {"pattern": "*"})], limits=limits)
    (row,) = (one for one in decided(session) if one["tool"] == "bash")
    assert (row["decision"], row["from"], row["bound_by"]) == ("deny", "limit tools", "settings")
    assert "limit tools (from settings)" in find_form("decision")(explained(session, row["id"]), 80)


def test_calls_that_the_level_granted_are_listed_and_one_that_could_not_run_is_explained(tmp_path: Path) -> None:
    session = played(tmp_path, [("glob", {"pattern": "*"}), ("read_file", {"path": "gone"}), ("nothing", {})])
    listed = sorted((row["tool"], row["decision"], row["from"], row["bound_by"]) for row in decided(session))
    assert listed == [(name, "allow", "level ask", "command line") for name in ("glob", "read_file")]
    with the_ledger() as ledger:
        calls = [call.id for entry in ledger.log(session.id).read(1, 2) for call in entry.message.tool_calls]
    glob, _, unknown = (explained(session, call) for call in calls)
    assert (glob["decision"], glob["from"], glob["subject"], glob["bound_by"]) == (
        "allow",
        "level ask",
        "*",
        "command line",
    )
    assert unknown["decision"] is None and "no tool 'nothing'" in unknown["why"]
    assert "not decided" in find_form("decision")(unknown, 80)


@pytest.mark.matrix
def test_an_id_may_be_a_prefix_that_only_one_call_has(tmp_path: Path) -> None:
    session = played(tmp_path, [run("ls"), run("pwd")])
    first, second = (row["id"] for row in decided(session))
    assert explained(session, second[: len(second)])["id"] == second
    with pytest.raises(NexusError, match="several call ids begin with this"):
        explained(session, first[0])
    assert explained(session, "zzz") == {}


def test_a_call_that_failed_its_check_tells_nothing_of_questions_before() -> None:
    told = describe_verdict({"decision": "ask", "answer": None, "ran": True})
    assert told == "needs approval; no answer is recorded" and "anybody" not in told


@pytest.mark.matrix
def test_reads_that_the_level_allowed_push_no_refusal_out_of_the_list(tmp_path: Path) -> None:
    calls = [("read_file", {"path": f"f{n}"}) for n in range(NEWEST + 2)]
    session = played(tmp_path, [("write_file", {"path": "x", "content": "x"}), *calls])
    rows = decided(session)
    assert len(rows) == NEWEST and [row["tool"] for row in rows[:2]] == ["write_file", "read_file"]
    refused = [("write_file", {"path": f"x{n}", "content": "x"}) for n in range(NEWEST)]
    rows = decided(played(tmp_path, [*refused, *calls[:6]]))
    assert [row["tool"] for row in rows] == ["write_file"] * 15 + ["read_file"] * 5, "the newest five in any case"
