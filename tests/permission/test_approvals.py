"""Asking the person: what is asked, when, for how long an answer holds, and what makes a question go away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, say

from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.core.event import ApprovalAnswer, ApprovalRequest, Event, ToolCallEvent, ToolResultEvent
from nexus_cli.engine.calls.call_changes import CallChanges
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

Calls = list[tuple[str, dict[str, Any]]]
SETTINGS = Settings(models={MODEL: {"window": 16_000}})


class Person:
    """Answers as `answer` says; keeps what was asked, and how many questions waited at once."""

    def __init__(self, answer: Callable[[Question], Any] = lambda question: Allow()) -> None:
        self.answer = answer
        self.asked: list[Question] = []
        self.waiting = self.most = 0

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await asyncio.sleep(0.01)
            answer: Any = self.answer(question)
            given: Answer = await answer if asyncio.iscoroutine(answer) else answer
            return given
        finally:
            self.waiting -= 1


def opened(folder: Path, person: Person, *steps: Calls, allow: str = "ask") -> Session:
    """A session whose model asks for the calls of each of `steps` (none: it ends the turn), then is done."""

    def script(request: Any) -> Any:
        done = sum(1 for message in request.messages if message["role"] == "assistant")
        return (list(steps[done]) or "done") if done < len(steps) else "done"

    return open_session(Options(folder, MODEL, allow=allow), SETTINGS, approver=person, provider=Played(script))


def run(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


def results(events: list[Event]) -> list[str]:
    return [event.result.text for event in events if isinstance(event, ToolResultEvent)]


def subjects(person: Person) -> list[str]:
    return [question.what for question in person.asked]


@pytest.mark.matrix
def test_a_line_that_no_rule_can_say_is_allowed_as_it_is_and_no_other(tmp_path: Path) -> None:
    person = Person(lambda question: Allow(always=True))
    one, two = "echo x > a", "echo x > b"
    session = opened(tmp_path, person, [run(one)], [run(one)], [run(two)], [run(f"{one} ")])
    say(session, "go")
    assert subjects(person) == [f"bash {one}", f"bash {two}", f"bash {one}"]
    assert person.asked[0].always == "this exact command" and person.asked[0].kind == "run"


@pytest.mark.matrix
def test_always_covers_both_tools_that_edit_and_outside_the_project_the_same_path(tmp_path: Path) -> None:
    person = Person(lambda question: Allow(always=True))
    project, outside = tmp_path / "project", tmp_path / "outside.txt"
    (project / ".git").mkdir(parents=True)
    (project / "a.txt").write_text("one\n")

    def write(path: str, content: str = "x\n") -> tuple[str, dict[str, Any]]:
        return "write_file", {"path": path, "content": content}

    edit = ("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    out = ("edit_file", {"path": str(outside), "edits": [{"old": "x", "new": "y"}]})
    session = opened(project, person, [write("b.txt")], [edit], [write(str(outside))], [out], [write("NEXUS.md")])
    say(session, "go")
    assert (project / "a.txt").read_text() == "two\n" and outside.read_text() == "y\n"
    assert [(one.call.name, one.kind) for one in person.asked] == [
        ("write_file", "edit"),
        ("write_file", "outside"),
        ("write_file", "protected"),
    ]
    assert person.asked[0].always == "edits in this project" and str(outside) in person.asked[1].always


@pytest.mark.matrix
def test_an_edit_that_cannot_apply_fails_and_nobody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    person = Person()
    wrong: Calls = [
        ("edit_file", {"path": "a.txt", "edits": [{"old": "nothing like it", "new": "two"}]}),
        ("edit_file", {"path": "gone.txt", "edits": [{"old": "a", "new": "b"}]}),
        ("write_file", {"path": "a.txt", "content": "not read yet"}),
    ]
    events, outcome = say(opened(tmp_path, person, wrong), "go")
    assert not person.asked and not outcome.denied and (tmp_path / "a.txt").read_text() == "one\n"
    first, second, third = results(events)
    assert "does not occur" in first and "gone.txt" in second and "read it first" in third


@pytest.mark.matrix
def test_of_a_file_outside_the_project_no_error_tells_what_it_holds_before_the_person_allows_it(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "secret.txt"
    (project / ".git").mkdir(parents=True)
    outside.write_text("the secret is 42\n")
    person = Person(lambda question: Deny())
    call = ("edit_file", {"path": str(outside), "edits": [{"old": "the secret was 42", "new": "x"}]})
    events, _ = say(opened(project, person, [call]), "go")
    assert len(person.asked) == 1 and results(events) == ["Declined by the person."]


@pytest.mark.matrix
def test_the_questions_of_a_step_are_asked_together_before_any_of_its_calls_runs(tmp_path: Path) -> None:
    ran: list[bool] = []

    def answer(question: Question) -> Answer:
        ran.append((tmp_path / "made").exists())
        return Deny("not that") if "b" in question.what.split() else Allow()

    person = Person(answer)
    step: Calls = [run("echo a > made"), ("glob", {"pattern": "*"}), run("touch b"), run("cat made | tee copy")]
    events, outcome = say(opened(tmp_path, person, step), "go")
    assert person.most == 3 and ran == [False, False, False]
    names = [(type(event), getattr(event, "call_id", "")) for event in events]
    first_answer = next(number for number, (kind, _) in enumerate(names) if kind is ApprovalAnswer)
    asks = [number for number, (kind, _) in enumerate(names) if kind is ApprovalRequest]
    assert len(asks) == 3 and max(asks) < first_answer
    calls = [event.call.id for event in events if isinstance(event, ToolCallEvent)]
    assert len(calls) == len(set(calls)) == 4, "each call is announced once"
    texts = results(events)
    assert texts[2] == "Declined: not that" and texts[3].startswith("a\n") and len(outcome.denied) == 1


@pytest.mark.matrix
def test_an_edit_of_what_an_earlier_call_of_the_step_makes_is_asked_for_when_its_turn_comes(tmp_path: Path) -> None:
    person = Person()
    edit = ("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    events, _ = say(opened(tmp_path, person, [("write_file", {"path": "a.txt", "content": "one\n"}), edit]), "go")
    assert (tmp_path / "a.txt").read_text() == "two\n", results(events)
    assert person.most == 1 and [one.call.name for one in person.asked] == ["write_file", "edit_file"]
    assert "+two" in person.asked[1].detail


@pytest.mark.matrix
def test_always_answers_the_other_questions_of_the_step_that_it_covers(tmp_path: Path) -> None:
    writes: Calls = [("write_file", {"path": f"{name}.txt", "content": name}) for name in "abc"]

    async def answer(question: Question) -> Answer:
        if "a.txt" not in question.what:
            await asyncio.Event().wait()
        return Allow(always=True)

    events, outcome = say(opened(tmp_path, Person(answer), writes), "go")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt", "c.txt"] and outcome.ok
    answers = [event.answer for event in events if isinstance(event, ApprovalAnswer)]
    assert answers == [Allow(always=True), Allow(), Allow()]


@pytest.mark.matrix
def test_always_that_is_given_at_once_answers_questions_that_were_not_even_begun(tmp_path: Path) -> None:
    class Quick(Person):
        async def ask(self, question: Question) -> Answer:
            self.asked.append(question)
            return Allow(always=True)

    writes: Calls = [("write_file", {"path": f"{name}.txt", "content": name}) for name in "ab"]
    events, outcome = say(opened(tmp_path, Quick(), writes), "go")
    assert outcome.ok and sum(isinstance(event, ApprovalAnswer) for event in events) == 2


@pytest.mark.matrix
def test_a_level_that_allows_the_call_answers_the_question_and_holds_on(tmp_path: Path) -> None:
    sessions: list[Session] = []

    async def answer(question: Question) -> Answer:
        sessions[0].set_level("edit")
        await asyncio.Event().wait()
        return Deny()

    person = Person(lambda question: answer(question) if question.kind == "edit" else Deny("no commands"))
    step = [("write_file", {"path": "a.txt", "content": "a"}), run("touch c")]
    sessions.append(opened(tmp_path, person, step, [("write_file", {"path": "b.txt", "content": "b"})]))
    _, outcome = say(sessions[0], "go")
    assert outcome.ok and sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]
    assert subjects(person) == ["write_file a.txt", "bash touch c"], "the command is still asked about, the edit not"
    assert sessions[0].status().allow == "edit"
    assert any(bound.name == "allow" and bound.bound_by == "this session" for bound in sessions[0].dispatcher.bounds)


async def test_the_model_is_told_once_of_a_level_that_was_changed_to_and_fro(tmp_path: Path) -> None:
    provider = Played(lambda request: "fine")
    session = open_session(Options(tmp_path, MODEL), SETTINGS, approver=None, provider=provider)

    for levels in ((), ("edit", "all", "edit"), ("all", "edit")):
        for level in levels:
            session.set_level(level)
        _ = [event async for event in session.run("go")]
    await session.aclose()
    first, second, third = (str(messages[-1]["content"]) for messages in provider.seen)
    assert "level edit" not in first + third and second.count("level edit") == 1 and "level all" not in second


def test_a_turn_that_is_stopped_takes_every_question_along(tmp_path: Path) -> None:
    sessions: list[Session] = []

    async def answer(question: Question) -> Answer:
        sessions[0].cancel("person")
        await asyncio.Event().wait()
        return Allow()

    person = Person(answer)
    sessions.append(opened(tmp_path, person, [run("touch a"), run("touch b")]))
    events, outcome = say(sessions[0], "go")
    assert outcome.error is not None and outcome.error["kind"] == "aborted" and person.waiting == 0
    assert not list(tmp_path.iterdir()) and all("not run" in text for text in results(events))


def test_what_was_said_to_one_question_is_kept_when_the_next_one_is_stopped(tmp_path: Path) -> None:
    sessions: list[Session] = []

    async def answer(question: Question) -> Answer:
        if "touch a" in question.what:
            return Deny("use make for that")
        sessions[0].cancel("person")
        await asyncio.Event().wait()
        return Allow()

    sessions.append(opened(tmp_path, Person(answer), [run("touch a"), run("touch b")]))
    events, _ = say(sessions[0], "go")
    first, second = results(events)
    assert first == "Declined: use make for that" and "not run" in second


def answering(act: Callable[[], Any]) -> Person:
    """A person who says yes after `act` has happened."""

    def answer(_: Question) -> Answer:
        act()
        return Allow()

    return Person(answer)


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": path, "edits": [{"old": old, "new": new}]}


def test_an_edit_is_not_applied_to_other_content_than_the_person_was_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\nkeep\n")
    person = answering(lambda: path.write_text("one\nDROP TABLE\n"))
    events, _ = say(opened(tmp_path, person, [edit("a.txt", "one", "two")]), "go")
    assert results(events) == ["a.txt: changed since the person was asked: read it again\nNothing was changed."]
    assert path.read_text() == "one\nDROP TABLE\n"


@pytest.mark.matrix
@pytest.mark.parametrize("appears", ["", "other\n"])
def test_a_new_file_is_not_written_where_one_appeared_meanwhile(tmp_path: Path, appears: str) -> None:
    path = tmp_path / "new.txt"
    person = answering(lambda: path.write_text(appears))
    events, _ = say(opened(tmp_path, person, [("write_file", {"path": "new.txt", "content": "ours\n"})]), "go")
    assert "read" in results(events)[0] and path.read_text() == appears


@pytest.mark.matrix
def test_a_file_that_cannot_be_shown_as_a_diff_is_compared_too(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_text("one\n" + "x" * 2_000_000)
    person = answering(lambda: path.write_text("one\n" + "y" * 2_000_000))
    events, _ = say(opened(tmp_path, person, [edit("large.txt", "one", "two")]), "go")
    assert "changed since the person was asked" in results(events)[0]


@pytest.mark.matrix
def test_edits_of_one_file_that_are_asked_about_together_are_all_applied(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    person = Person()
    calls = [edit("a.txt", "one", "1"), edit("./a.txt", "two", "2"), edit("a.txt", "2", "3")]
    events, outcome = say(opened(tmp_path, person, calls), "go")
    assert (tmp_path / "a.txt").read_text() == "1\n3\n", results(events)
    assert len(person.asked) == 3 and not outcome.denied


def test_always_for_a_path_outside_holds_for_the_file_and_not_for_the_name(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    for name in ("first", "second"):
        (tmp_path / name).write_text(f"{name}\n")
    link = project / "link"
    link.symlink_to(tmp_path / "first")
    person = Person(lambda question: Allow(always=True))
    read = ("read_file", {"path": "link"})
    session = opened(project, person, [read], [("read_file", {"path": str(tmp_path / "first")})], [], [read])
    say(session, "go")
    assert len(person.asked) == 1 and str(tmp_path / "first") in person.asked[0].always
    link.unlink()
    link.symlink_to(tmp_path / "second")
    say(session, "again")
    led = [Path(one.why.rpartition(" -> ")[2]).name for one in person.asked]
    assert led == ["first", "second"]


@pytest.mark.matrix
def test_a_link_that_is_turned_while_the_person_is_asked_is_not_followed(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.txt"
    (project / ".git").mkdir(parents=True)
    outside.write_text("old\n")
    notes = project / "NEXUS.md"
    notes.write_text("old\n")

    def turn() -> None:
        notes.unlink()
        notes.symlink_to(outside)

    events, _ = say(opened(project, answering(turn), [edit("NEXUS.md", "old", "new")]), "go")
    assert "link" in results(events)[0] and outside.read_text() == "old\n"


def test_credentials_are_refused_and_the_person_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / ".netrc").write_text("password hunter2\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    person = Person()
    calls = [("read_file", {"path": "~/.netrc"}), ("grep", {"pattern": "pass", "path": "../.netrc"})]
    events, outcome = say(opened(project, person, calls, allow="edit"), "go")
    assert not person.asked and [row["allow"] for row in outcome.denied] == [None, None]
    assert [row["rule"] for row in outcome.denied] == [f"{name}({tmp_path}/.netrc)" for name in ("read_file", "grep")]
    first, second = sorted(results(events), key=lambda text: "grep(" in text)  # they ran together
    assert "hunter2" not in first + second
    assert f'allow = ["read_file({tmp_path}/.netrc)"]' in first and "credentials" in second


@pytest.mark.matrix
@pytest.mark.parametrize("path", ["src//a.txt", "./src/a.txt", "src/../src/a.txt"])
def test_the_diff_of_a_question_is_that_of_its_result_however_the_path_is_spelled(tmp_path: Path, path: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.txt").write_text("one\n")
    person = Person()
    events, _ = say(opened(tmp_path, person, [edit(path, "one", "two")]), "go")
    shown = [event.result.diff for event in events if isinstance(event, ToolResultEvent)]
    assert shown == [person.asked[0].detail] and "--- a/src/a.txt" in shown[0]


@pytest.mark.matrix
def test_what_was_declined_stays_so_when_a_later_answer_covers_it(tmp_path: Path) -> None:
    declined = asyncio.Event()

    async def answer(question: Question) -> Answer:
        if question.what.endswith("b.txt"):
            declined.set()
            return Deny("not b")
        await declined.wait()
        await asyncio.sleep(0.01)
        return Allow(always=True)

    session = opened(
        tmp_path, Person(answer), [("write_file", {"path": name, "content": "x"}) for name in ("a.txt", "b.txt")]
    )
    events, outcome = say(session, "go")
    assert results(events)[1] == "Declined: not b" and [row["subject"] for row in outcome.denied] == ["b.txt"]
    assert (tmp_path / "a.txt").exists() and not (tmp_path / "b.txt").exists()


@pytest.mark.matrix
def test_a_question_that_a_level_has_answered_is_asked_again_if_the_level_goes_back(tmp_path: Path) -> None:
    sessions: list[Session] = []

    async def answer(question: Question) -> Answer:
        if question.what.endswith("a"):
            return Allow()
        if subjects(person).count(question.what) > 1:
            return Deny("not now")
        sessions[0].set_level("all")
        try:
            await asyncio.sleep(30)
        finally:
            sessions[0].set_level("ask")
        raise AssertionError

    person = Person(answer)
    sessions.append(opened(tmp_path, person, [run("touch a"), run("touch b")]))
    events, _ = say(sessions[0], "go")
    assert subjects(person) == ["bash touch a", "bash touch b", "bash touch b"]
    assert results(events)[1] == "Declined: not now" and not (tmp_path / "b").exists()


def test_what_undo_does_not_cover_is_not_run_because_another_question_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find_uncovered(*_: Any) -> str:
        return "undo cannot take it back"

    async def answer(question: Question) -> Answer:
        if question.what.endswith("b"):
            await asyncio.sleep(0.05)
            return Deny("not b")
        session.dispatcher.withdraw_questions()
        return Allow()

    monkeypatch.setattr(CallChanges, "find_uncovered", find_uncovered)
    person = Person(answer)
    session = opened(tmp_path, person, [run("touch a"), run("touch b")], allow="all")
    session.dispatcher.call_changes.requires = True
    events, _ = say(session, "go")
    assert subjects(person) == ["bash touch a", "bash touch b"]
    assert {one.why for one in person.asked} == {"undo cannot take it back (setting undo.require)"}
    assert results(events)[1] == "Declined: not b" and not (tmp_path / "b").exists()
