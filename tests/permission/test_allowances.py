"""What an answer covers, how it is taken back, and what a no without words does."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from permission.test_call_permission import SETTINGS, Call, notices, opened, results, write_settings
from search import sample
from session.played import MODEL, Person, Played, say

from nexus_cli.config.paths import places
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.core.approval import Allow, Deny, Question
from nexus_cli.core.limits import PLAN
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Spaces
from nexus_cli.ledger import Ledger
from nexus_cli.permission.approvals import remove_allowance, scope_name
from nexus_cli.permission.call_decision import CheckedCall
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.permission.folder_rules import parse_condition, read_granted
from nexus_cli.permission.permission import resolve_targets
from nexus_cli.runs.plan_service import plans_report
from nexus_cli.service_list import PLANS, WORKERS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMaker, ServiceMakers
from nexus_cli.session.session import Session
from nexus_cli.tools.registry import rule_tools
from nexus_cli.ui.render.question_text import answer_keys, question_text
from nexus_cli.ui.render.theme import Theme

SESSION, STORED = Allow(always=True), Allow(always=True, stored=True)
LATER: Call = ("plan", {"action": "add", "prompt": "Look at the build\nand report it", "cron": "0 3 * * *"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def quick_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a `pytest` that does nothing first on the PATH: starting the real one takes a second."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "pytest").write_text("#!/bin/sh\n")
    (folder / "pytest").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def run(command: str) -> Call:
    return "bash", {"command": command}


def names(session: Session) -> list[str]:
    dispatcher = session.dispatcher
    return sorted(scope_name(scope, dispatcher.project_root) for scope in dispatcher.always)


@pytest.mark.matrix
@pytest.mark.usefixtures("quick_pytest")
@pytest.mark.parametrize("answer", [SESSION, STORED])
def test_session_and_always_cover_the_same_commands_and_the_way_back_works(project: Path, answer: Allow) -> None:
    person = Person(answer)
    steps = [run("pytest -q"), run("pytest -q tests/x.py"), run("touch a"), run("pytest -x")]
    session = opened(project, *steps, person=person)
    events, _ = say(session, "go")
    assert [one.what for one in person.asked] == ["bash pytest -q", "bash touch a"]
    assert person.asked[0].always == "pytest *"
    labels = [one.label for one in answer_keys(person.asked[0], 1)]
    assert labels == ["yes", "session: pytest *", "always here", "no"]
    told = next(line for line in notices(events) if "pytest" in line)
    undo = "/permissions remove bash(pytest *)" if answer is SESSION else "nexus rules remove 'bash(pytest *)'"
    assert told.endswith(f"bash(pytest *) \N{MIDDLE DOT} undo: {undo}")
    dispatcher = session.dispatcher
    assert ("bash(pytest *)" in names(session)) == (answer is SESSION)
    if not remove_allowance(dispatcher.always, "bash(pytest *)", dispatcher.project_root):
        dispatcher.permission.remove_rule("bash(pytest *)")
    again = Person()
    dispatcher.approver = again
    call = CheckedCall(dispatcher.registry.tools()[0], {"command": "pytest -q"}, {})
    found = dispatcher.permission.decide(call, "ask")
    assert not found.rule and not names(session)[1:]


@pytest.mark.matrix
def test_what_no_rule_can_say_is_allowed_for_the_session_and_taken_back_by_its_name(project: Path) -> None:
    person = Person(SESSION)
    write: Call = ("write_file", {"path": "a.txt", "content": "x"})
    session = opened(
        project, run("rm -r build | tee x"), write, ("write_file", {"path": "b.txt", "content": "x"}), person=person
    )
    events, _ = say(session, "go")
    assert [one.always for one in person.asked] == ["this exact command", "edits in this project"]
    assert "s" in {one.key for one in answer_keys(person.asked[1], 1)}
    assert names(session) == ["bash: rm -r build | tee x", "edits"]
    assert any(line.endswith("edits \N{MIDDLE DOT} undo: /permissions remove edits") for line in notices(events))
    dispatcher = session.dispatcher
    root = dispatcher.project_root
    assert remove_allowance(dispatcher.always, "edits", root)
    assert remove_allowance(dispatcher.always, "bash: rm  -r build | tee x", root) and not names(session)
    assert not remove_allowance(dispatcher.always, "edits", root)


@pytest.mark.matrix
def test_reads_outside_the_project_are_allowed_by_folder(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "repository"
    (other / ".git").mkdir(parents=True)
    (other / "src").mkdir()
    for name in ("one.txt", "src/two.txt"):
        (other / name).write_text("needle\n")
    calls: list[Call] = [
        ("read_file", {"path": str(other / "src" / "two.txt")}),
        ("read_file", {"path": str(other / "one.txt")}),
        ("grep", {"pattern": "needle", "path": str(other)}),
        ("write_file", {"path": str(other / "new.txt"), "content": "x"}),
        ("read_file", {"path": str(tmp_path / "other" / "beside.txt")}),
    ]
    for answer in (SESSION, STORED):
        person = Person(answer)
        session = opened(project, *calls[:3], person=person)
        events, _ = say(session, "go")
        assert [one.call.name for one in person.asked] == ["read_file"], "the whole repository, for all that reads"
        assert person.asked[0].always == f"{other}/**" and person.asked[0].stores == (f"read_file({other}/**)",)
        assert any("remove " in line and f"read_file({other}/**)" in line for line in notices(events))
    person = Person(Deny("no"))
    say(opened(project, *calls[3:], person=person), "go")
    assert [one.call.name for one in person.asked] == ["write_file", "read_file"]


@pytest.mark.matrix
def test_a_folder_that_is_allowed_opens_no_credentials_in_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    (home / "work").mkdir(parents=True)
    (home / ".netrc").write_text("secret\n")
    (home / "notes.txt").write_text("notes\n")
    write_settings(f'[rules]\nallow = ["read_file({home}/**)"]\n')
    person = Person(SESSION)
    read: list[Call] = [("read_file", {"path": str(home / name)}) for name in ("notes.txt", ".netrc")]
    notes, secret = results(say(opened(project, *read, person=person), "go")[0])
    assert notes.ran and secret.denied and "credentials" in secret.text
    write_settings(f'[rules]\nallow = ["read_file({home}/.netrc)"]\n')
    notes, secret = results(say(opened(project, *read, person=person), "go")[0])
    assert secret.ran
    assert person.asked[0].stores == (), "the home folder is never offered"


@pytest.mark.matrix
def test_a_no_without_words_stops_the_turn_and_one_with_words_goes_on(project: Path) -> None:
    for answer, said in ((Deny(stops=True), ""), (Deny("use make"), "done")):
        session = opened(project, [run("touch a"), run("touch b")], "done", person=Person(answer))
        events, outcome = say(session, "go")
        assert outcome.ok == bool(said) and outcome.was_declined == (not said) and outcome.steps == 1 + bool(said)
        assert [one.denied for one in results(events)] == [True, True]
    assert outcome.text == "done"


@pytest.mark.matrix
def test_what_the_person_allowed_in_the_step_runs_before_a_no_stops_the_turn(project: Path) -> None:
    class Picks(Person):
        async def ask(self, question: Question) -> Any:
            return Deny(stops=True) if "b" in question.what.split() else Allow()

    session = opened(project, [run("touch a"), run("touch b"), run("touch c")], "done", person=Picks())
    _, outcome = say(session, "go")
    assert outcome.error and outcome.error["kind"] == "denied" and "bash touch b" in outcome.error["message"]
    assert outcome.exit == 3 and {path.name for path in project.iterdir()} == {".git", "a", "c"}
    _, outcome = say(session, "go on")
    assert outcome.ok, "the refusal is in the window, and the person's next words are the request"


@pytest.mark.matrix
@pytest.mark.parametrize("answers", [(Deny("use make"), Deny(stops=True)), (Deny(stops=True), Deny("use make"))])
def test_words_for_one_call_reach_the_model_though_another_call_is_declined_without(
    answers: tuple[Deny, Deny], project: Path
) -> None:
    class Picks(Person):
        async def ask(self, question: Question) -> Any:
            return answers["b" in question.what.split()]

    session = opened(project, [run("touch a"), run("touch b")], "done", person=Picks())
    events, outcome = say(session, "go")
    assert outcome.ok and outcome.text == "done" and outcome.steps == 2
    assert ["use make" in one.text for one in results(events)] == [bool(answer.why) for answer in answers]


def test_a_new_file_beside_a_job_is_asked_about_together_with_the_other_calls(project: Path) -> None:
    together = list[int]()

    class Slow(Person):
        async def ask(self, question: Question) -> Any:
            self.asked.append(question)
            for _ in range(9):
                await asyncio.sleep(0)
            together.append(len(self.asked))
            return Deny("no")

    write: Call = ("write_file", {"path": "b", "content": "b\n"})
    job: Call = ("bash", {"command": "touch c", "background": True})
    say(opened(project, [run("touch a"), write, job], person=Slow()), "go")
    assert together == [3, 3, 3]


def planning(
    folder: Path, *steps: Any, person: Person | None, services: ServiceMakers = (PLANS,), **options: Any
) -> Session:
    def script(request: Any) -> Any:
        done = sum(1 for message in request.messages if message["role"] == "assistant")
        return [steps[done]] if done < len(steps) else "done"

    return open_session(
        Options(folder, MODEL, **options), SETTINGS, approver=person, provider=Played(script), services=services
    )


def plans() -> list[Any]:
    return list(plans_report(Ledger.open(places().ledger))["plans"])


def test_a_plan_is_asked_for_at_the_lowest_level_and_shown_whole(project: Path) -> None:
    person = Person(Deny("not at night"))
    events, _ = say(planning(project, LATER, ("plan", {"action": "list"}), person=person), "go")
    assert [one.kind for one in person.asked] == ["later"] and not plans()
    text = question_text(person.asked[0], 80, Theme(colour=False))
    for shown in ("0 3 * * *", "Look at the build", "and report it", "level: ask", "$0.5 per run", "first at"):
        assert shown in text
    assert results(events)[0].text == "Declined: not at night"
    say(planning(project, LATER, person=Person()), "go")
    assert len(plans()) == 1


@pytest.mark.matrix
def test_a_long_prompt_of_a_plan_is_shown_to_its_last_line(project: Path) -> None:
    person = Person(Deny("no"))
    prompt = "\n".join(f"line {number}" for number in range(500))
    diff = f"--- a\n+++ b\n@@ -1 +1 @@\n{prompt}"
    say(planning(project, ("plan", {"action": "add", "prompt": diff, "in": "1 hour"}), person=person), "go")
    text = question_text(person.asked[0], 80, Theme(colour=False))
    assert all(f"line {number}" in text for number in range(500)) and "@@ -1 +1 @@" in text


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("level", "rules", "made"),
    sample(
        [
            ("ask", "", 0),
            ("edit", "", 1),
            ("ask", 'allow = ["plan"]', 1),
            ("all", 'deny = ["plan"]', 0),
            (PLAN, "", 0),
        ],
        3,
    ),
)
def test_level_and_rules_decide_on_plans_where_nobody_is_there(
    project: Path, level: str, rules: str, made: int
) -> None:
    write_settings(f"[rules]\n{rules}\n")
    session = planning(project, LATER, person=None, allow=level)
    events, outcome = say(session, "go")
    assert len(plans()) == made
    assert results(events)[0].denied == (not made)
    if (level, made) == ("ask", 0):
        assert outcome.denied[0]["allow"] == "edit", "the level that lets it run is named"


@pytest.mark.matrix
def test_work_in_the_background_asks_and_work_that_is_waited_for_does_not(project: Path) -> None:
    person = Person(Deny("no"))
    later: Call = ("agent", {"task": "look\nat it", "wait": False, "limits": {"max_steps": 3}})
    services = (WORKERS,)
    session = planning(project, later, person=person, services=services)
    tool = session.dispatcher.registry.get("agent")
    assert tool is not None
    say(session, "go")
    assert [one.kind for one in person.asked] == ["later"]
    shown = person.asked[0].detail
    assert "look\nat it" in shown and "max_steps: 3" in shown and "level: ask" in shown
    assert not tool.works_later({"task": "x"}) and not tool.works_later({"task": "x", "wait": True})


@pytest.mark.matrix
@pytest.mark.parametrize(
    "call",
    [("send_message", {"text": "@Ana look\nat it"}), ("send_reply", {"message_id": "msg-1", "text": "yes"})],
)
def test_a_message_to_people_asks_at_the_lowest_level_and_is_shown_whole(project: Path, call: Call) -> None:
    sent: list[str] = []

    def note(text: str) -> ToolResult:
        sent.append(text)
        return ToolResult("posted")

    spaces: Any = SimpleNamespace(
        send=lambda call_id, text, space, wait: note(text), reply=lambda call_id, message, text: note(text)
    )
    services = (ServiceMaker(Spaces, lambda session: spaces),)
    person = Person(Deny("not yet"))
    events, _ = say(planning(project, call, person=person, services=services), "go")
    assert [one.kind for one in person.asked] == ["send"] and not sent and results(events)[0].denied
    assert all(line in question_text(person.asked[0], 80, Theme(colour=False)) for line in call[1]["text"].split("\n"))
    session = planning(project, call, call, person=(person := Person(SESSION)), services=services)
    say(session, "go")
    assert (len(person.asked), len(sent), names(session)) == (1, 2, [call[0]])
    for level, options in (("ask", {"answers": True}), ("edit", {}), ("ask", {})):
        nobody = planning(project, call, person=None, services=services, allow=level, **options)
        told = results(say(nobody, "go")[0])[0]
        assert told.denied == (level == "ask" and not options), "a run in a space answers without asking"
    assert say(planning(project, call, person=Person(), services=services, allow=PLAN), "go")[1].denied


@pytest.mark.matrix
def test_an_address_may_be_allowed_with_all_of_its_host(project: Path) -> None:
    person = Person(STORED)
    urls = ("http://127.0.0.1:9/a", "http://127.0.0.1:9/b", "http://127.0.0.1:8/", "https://*/", "http://[::1]:9/")
    asked: list[Call] = [("wait_for", {"url": url, "status": "none: it goes on"}) for url in urls]
    say(opened(project, *asked, person=person), "go")
    rules = ["wait_for(http://127.0.0.1:9)", "wait_for(http://127.0.0.1:8)"]
    assert [one.stores for one in person.asked] == [(rules[0],), (rules[1],), (), ()]
    text = places().settings.read_text()
    assert all(rule in text for rule in rules) and "*" not in text


def test_what_a_guide_permits_is_what_claude_would_permit_and_no_more() -> None:
    granted, problems = read_granted(
        "Bash(git add:*), Bash(git status), Read, Write, mcp__notes__add, Odd, WebFetch(x)"
    )
    assert granted == ["bash(git add *)", "bash(git status)", "read_file", "write_file", "mcp__notes__add"]
    assert problems == [
        "Odd has no effect: nexus has no such tool",
        "WebFetch(x) has no effect: nexus does not support this pattern",
    ]


@pytest.mark.parametrize("written", ["Bash(git add:*", "Bash (git add:*)", "Bash(", "Read, Bash(git add"])
def test_a_pattern_that_cannot_be_read_does_not_permit_the_whole_tool(written: str) -> None:
    granted, problems = read_granted(written)
    assert "bash" not in granted and "expected TOOL or TOOL(PATTERN)" in problems[0]


@pytest.mark.parametrize(
    ("written", "name", "path", "verdict"),
    [
        ("Read(~/.ssh/**)", "read_file", "~/.ssh/id_rsa", "deny"),
        ("Write(~/**)", "write_file", "~/.bashrc", "ask"),
        ("Write(.git/**)", "write_file", ".git/hooks/pre-commit", "ask"),
        ("Edit(.claude/**)", "edit_file", ".claude/settings.json", "ask"),
        ("Write(src/**)", "write_file", "src/a", "allow"),
    ],
)
def test_a_guide_opens_no_credentials_and_no_files_that_programs_obey(
    project: Path, written: str, name: str, path: str, verdict: str
) -> None:
    key = Path.home() / ".ssh" / "id_rsa"
    key.parent.mkdir(parents=True, exist_ok=True)
    key.touch()
    tool, permission = rule_tools()[name], CallPermission(project, project, (), SandboxSettings())
    call = CheckedCall(tool, {"path": path}, resolve_targets(tool, {"path": path}, project))
    assert permission.decide(call, "ask", granted=tuple(read_granted(written)[0])).verdict == verdict


@pytest.mark.parametrize("name", ["edit_file", "apply_patch"])
def test_a_condition_for_edits_names_each_tool_that_a_hook_knows_as_edit(project: Path, name: str) -> None:
    tool, permission = rule_tools()[name], CallPermission(project, project, (), SandboxSettings())
    for path, is_named in (("src/a", True), ("b", False)):
        call = CheckedCall(tool, {}, {path: project / path})
        assert permission.names_call(parse_condition("Edit(src/**)"), call) is is_named
        assert not permission.names_call(parse_condition("Write(src/**)"), call)
