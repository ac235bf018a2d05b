"""A message is a script: after an edit that failed or was refused, its later commands do not run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from permission.test_call_permission import SETTINGS, Call, opened, results, write_settings
from session.played import MODEL, Person, Played, say

from nexus_cli.core.approval import Allow, Answer, Defer, Deny, Question
from nexus_cli.core.event import ApprovalAnswer, ApprovalRequest, ToolResultEvent
from nexus_cli.core.message import ToolResult
from nexus_cli.core.request import Request
from nexus_cli.engine.calls.dispatch import FAILED
from nexus_cli.mcp.server_entries import ServerFiles
from nexus_cli.mcp.server_tools import Catalogue
from nexus_cli.mcp.server_values import ServerEntry, ServerOffer, ServerTool
from nexus_cli.mcp.tool_cache import make_list
from nexus_cli.permission.run_limits import AFTER_FAILED_EDIT, END_AT
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.tools.registry import discover_tools

WRONG: Call = ("edit_file", {"path": "a.txt", "edits": [{"old": "not there", "new": "x"}]})
TEST: Call = ("bash", {"command": "touch ran"})
SKIPPED = "[nexus: not run: the edit of a.txt before it failed]"
DENIED_FOLDER = '[rules]\ndeny = ["write_file(kept/**)"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def make_project(root: Path) -> Path:
    folder = root / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "a.txt").write_text("one\n")
    return folder


def played(project: Path, *calls: Call, person: Any = None, **options: Any) -> list[ToolResult]:
    """The results of one message of calls."""
    return results(say(opened(project, list(calls), person=person, **{"allow": "all"} | options), "go")[0])


class Teller(Person):
    """A person who answers each question by the path or command that it names."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        super().__init__()
        self.answers = answers

    async def ask(self, question: Question) -> Answer:
        return next((answer for name, answer in self.answers.items() if name in question.what), Allow())


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("edit", "how"),
    [
        (WRONG, "of a.txt before it failed"),
        (("edit_file", {"path": "a.txt"}), "of a.txt before it failed"),
        (("edit_file", {}), "the edit before it failed"),
        (("edit_file", {"path": "gone.txt", "edits": [{"old": "one", "new": "x"}]}), "of gone.txt before it failed"),
        (("write_file", {"path": "kept/b.txt", "content": "x"}), "of kept/b.txt before it was refused"),
    ],
)
def test_a_command_behind_an_edit_that_failed_does_not_run(edit: Call, how: str, project: Path) -> None:
    write_settings(DENIED_FOLDER)
    first, second = played(project, edit, TEST)
    assert first.error and not (project / "ran").exists()
    assert second.text.startswith(AFTER_FAILED_EDIT) and second.text.endswith(f"{how}]"), second
    assert not second.ran and not second.denied


@pytest.mark.matrix
def test_later_reads_and_edits_run_and_a_failing_command_stops_nothing(project: Path) -> None:
    write = ("write_file", {"path": "b.txt", "content": "x"})
    found = played(project, ("bash", {"command": "exit 1"}), TEST, WRONG, ("read_file", {"path": "a.txt"}), write)
    assert (project / "ran").exists() and (project / "b.txt").read_text() == "x"
    assert [one.ran for one in found] == [True] * 5 and "one" in found[3].text


@pytest.mark.matrix
def test_an_edit_behind_a_command_that_did_not_run_does_not_let_later_ones_run(project: Path) -> None:
    right = ("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    found = played(project, WRONG, TEST, right, TEST)
    assert (project / "a.txt").read_text() == "two\n" and not (project / "ran").exists()
    assert [one.text for one in found if not one.ran] == [SKIPPED] * 2


@pytest.mark.matrix
def test_bad_arguments_of_a_call_that_did_not_run_are_told_with_it(project: Path) -> None:
    unreadable: Any = ("bash", "ls")
    raw, missing = played(project, WRONG, unreadable, ("bash", {}))[1:]
    assert raw.text == f'{SKIPPED}\narguments are not a JSON object: "ls"' and not raw.ran
    assert missing.text == f"{SKIPPED}\nbad arguments for bash: `command` is required" and not missing.ran


@pytest.mark.matrix
def test_the_next_message_runs_its_commands(project: Path) -> None:
    events, _ = say(opened(project, [WRONG, TEST], [TEST], allow="all"), "go")
    assert [one.ran for one in results(events)] == [True, False, True] and (project / "ran").exists()


def test_a_declined_edit_withdraws_the_question_about_the_command_behind_it(project: Path) -> None:
    class Slow(Teller):
        async def ask(self, question: Question) -> Answer:
            if "touch" in question.what:
                await asyncio.Event().wait()
            return await super().ask(question)

    write = ("write_file", {"path": "b.txt", "content": "x"})
    person = Slow({"b.txt": Deny("leave it")})
    events, outcome = say(opened(project, [write, TEST], person=person, allow="ask"), "go")
    declined, second = results(events)
    assert declined.denied and second.text == "[nexus: not run: the edit of b.txt before it was refused]"
    assert [row["tool"] for row in outcome.denied] == ["write_file"], "what did not run is no refusal"
    asked = [one.question.call.id for one in events if isinstance(one, ApprovalRequest)]
    answers = [one for one in events if isinstance(one, ApprovalAnswer)]
    assert {one.call_id for one in answers} == set(asked)
    assert answers[-1].answer == Deny("an earlier edit was not approved", said=False)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "edit", [WRONG, ("edit_file", {"path": "a.txt"}), ("write_file", {"path": "kept/b", "content": ""})]
)
def test_nobody_is_asked_about_a_command_behind_an_edit_that_cannot_be_made(edit: Call, project: Path) -> None:
    write_settings(DENIED_FOLDER)
    write, later = (("write_file", {"path": name, "content": "x"}) for name in ("b.txt", "c.txt"))
    events, _ = say(opened(project, [write, edit, TEST, later], person=Person(), allow="ask"), "go")
    assert [one.ran and not one.error for one in results(events)] == [True, False, False, True]
    asked = [one.question.what for one in events if isinstance(one, ApprovalRequest)]
    assert len(asked) == 2 and "b.txt" in asked[0] and "c.txt" in asked[1], "each once"


@pytest.mark.matrix
def test_a_command_is_asked_about_once_the_edit_before_it_could_be_made(project: Path) -> None:
    first = ("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    second = ("edit_file", {"path": "a.txt", "edits": [{"old": "two", "new": "three"}]})
    events, _ = say(opened(project, [first, second, TEST], person=Person(), allow="ask"), "go")
    assert (project / "a.txt").read_text() == "three\n" and (project / "ran").exists()
    assert len([one for one in events if isinstance(one, ApprovalRequest)]) == 3


@pytest.mark.matrix
def test_a_deferred_approval_between_them_changes_nothing(project: Path) -> None:
    """The resumed turn finds the edit that failed in the window."""
    write = ("write_file", {"path": "b.txt", "content": "x"})
    session = opened(project, [WRONG, write, TEST], person=Teller({"b.txt": Defer()}), allow="ask")
    say(session, "go")
    provider = Played(lambda request: "done")
    again = open_session(
        Options(project, MODEL, resume=session.id, allow="ask"), SETTINGS, approver=Person(), provider=provider
    )
    written, skipped = results(say(again, "")[0])
    assert written.ran and (project / "b.txt").exists()
    assert skipped.text == SKIPPED and not (project / "ran").exists()


@pytest.mark.matrix
def test_what_did_not_run_counts_neither_as_a_call_that_could_not_run_nor_as_a_repeated_one(project: Path) -> None:
    seen: list[str] = []

    def script(request: Request) -> Any:
        seen.append(str(request.messages[-1]["content"]))
        number = len(seen)
        edit = {"path": "a.txt", "edits": [{"old": f"not there {number}", "new": "x"}]}
        return [("edit_file", edit), TEST, TEST] if number <= END_AT else "done"

    _, outcome = say(
        open_session(Options(project, MODEL, allow="all"), SETTINGS, approver=None, provider=Played(script)), "go"
    )
    assert outcome.ok, outcome.error
    assert not any("in a row" in one for one in seen) and FAILED.format(2) not in "".join(seen)


@pytest.mark.matrix
def test_an_edit_that_fails_the_same_way_each_time_still_ends_the_turn(project: Path) -> None:
    _, outcome = say(opened(project, *[[WRONG, TEST]] * 9, allow="all"), "go")
    assert outcome.error is not None and outcome.error["kind"] == "limit" and "edit_file" in str(outcome.error)


KINDS: dict[str, Call] = {
    "edit": ("write_file", {"path": "new{}.txt", "content": "x"}),
    "wrong": WRONG,
    "unread": ("write_file", {"path": "a.txt", "content": "x"}),
    "refused": ("write_file", {"path": "kept/{}.txt", "content": "x"}),
    "broken": ("edit_file", {"path": "a.txt", "edits": "no list"}),
    "run": ("bash", {"command": "touch ran{}"}),
    "run badly": ("bash", {"command": "touch ran{}; exit 1"}),
    "read": ("glob", {"pattern": "*"}),
    "read nothing": ("read_file", {"path": "none{}.txt"}),
    "note": ("todo", {"items": [{"text": "a", "state": "open"}]}),
}
FAILING = {"wrong", "unread", "refused", "broken"}


def call_of(kind: str, number: int) -> Call:
    name, arguments = KINDS[kind]
    filled = {key: one.format(number) if isinstance(one, str) else one for key, one in arguments.items()}
    return name, filled


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=7))
def test_over_any_mix_of_calls_only_commands_behind_a_failed_edit_are_left_out(kinds: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        project = make_project(Path(root))
        write_settings(DENIED_FOLDER)
        session = opened(project, [call_of(kind, number) for number, kind in enumerate(kinds)], allow="all")
        events, outcome = say(session, "go")
        done = {one.call.id: one.result for one in events if isinstance(one, ToolResultEvent)}
        failed = False
        for number, (kind, result) in enumerate(zip(kinds, map(done.get, sorted(done)), strict=True)):
            assert result is not None and result.text.startswith(AFTER_FAILED_EDIT) == (
                failed and kind.startswith("run")
            ), (
                kinds,
                number,
                result,
            )
            if kind.startswith("run"):
                assert (project / f"ran{number}").exists() != failed
            if kind == "edit":
                assert (project / f"new{number}.txt").exists()
            failed = failed or kind in FAILING
        assert len(outcome.denied) == kinds.count("refused")


def test_each_tool_that_runs_sends_or_hands_over_needs_the_edits_before_it() -> None:
    found = {name for name, tool in discover_tools().items() if tool.needs_edits}
    assert found == {"bash", "agent", "send_message", "send_reply"}


def test_a_tool_of_a_server_needs_them_unless_the_server_says_that_it_only_reads() -> None:
    tools = (ServerTool("find", "", {}, {"readOnlyHint": True}), ServerTool("send", "", {}))
    made = Catalogue(ServerFiles({"db": ServerEntry("db")}), {"db": make_list(ServerOffer(tools))}).tools()
    assert {tool.name: tool.needs_edits for tool in made} == {
        "mcp__db__find": False,
        "mcp__db__send": True,
    }
