"""Workers in worktrees of their own: side by side, beside the person's tree, held while they run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from search import sample
from workers.crew import Crew, Person, Reply, calls_made, crewed, doing, handing, results, run
from worktrees.repository import git, make_project

from nexus_cli.config.paths import places
from nexus_cli.core.approval import Allow
from nexus_cli.core.event import ToolResultEvent
from nexus_cli.core.memo_kinds import WORK
from nexus_cli.core.message import ToolResult
from nexus_cli.core.request import Request
from nexus_cli.ledger import Ledger
from nexus_cli.reports.workers import recorded_workers
from nexus_cli.worktrees.apply_worktree import apply_worktree
from nexus_cli.worktrees.worktrees import WorktreeStay, enter_worktree, is_in_use, list_worktrees, remove_worktree


def writing(text: str) -> Any:
    return doing([("write_file", {"path": "shared.txt", "content": text})], "written")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.mark.matrix
def test_two_workers_change_one_file_and_neither_sees_the_other(project: Path) -> None:
    (project / "app.py").write_text("dirty\n")
    before = git(project, "status", "--porcelain")
    tasks = [{"task": name, "worktree": True} for name in ("ONE", "TWO")]
    crew = Crew({"ONE": writing("one\n"), "TWO": writing("two\n"), "root": handing(*tasks)})
    session = crewed(crew, project)
    events, outcome = run(session, "root")
    assert outcome.ok and all("worktree" in text for text in results(events)), results(events)
    assert git(project, "status", "--porcelain") == before and not (project / "shared.txt").exists()
    first, second = list_worktrees(project)
    assert [(one.folder / "shared.txt").read_text() for one in (first, second)] == ["one\n", "two\n"]
    assert (first.folder / "app.py").read_text() == "dirty\n" and not is_in_use(first)
    assert not apply_worktree(first).conflicts and (project / "shared.txt").read_text() == "one\n"
    assert [one.path for one in apply_worktree(second).conflicts] == ["shared.txt"]


@pytest.mark.matrix
def test_a_worker_that_only_reads_leaves_no_worktree(project: Path) -> None:
    held: list[bool] = []

    def look(request: Request) -> str:
        held.extend(map(is_in_use, list_worktrees(project)))
        return "looked"

    crew = Crew({"ONE": look, "root": handing({"task": "ONE", "worktree": True})})
    assert run(crewed(crew, project), "root")[1].ok
    assert held == [True] and list_worktrees(project) == [] and git(project, "branch").split() == ["*", "main"]


@pytest.mark.matrix
def test_a_worker_of_a_session_in_a_worktree_begins_with_what_that_one_has(project: Path) -> None:
    outer = enter_worktree(project, "outer")
    (outer.record.folder / "app.py").write_text("outer\n")
    crew = Crew({"ONE": writing("inner\n"), "root": handing({"task": "ONE", "worktree": True})})
    run(crewed(crew, outer.record.folder), "root")
    (inner,) = list_worktrees(outer.record.folder)
    assert (inner.folder / "app.py").read_text() == "outer\n" and list_worktrees(project) == [outer.record, inner]
    assert not apply_worktree(inner).conflicts
    assert (outer.record.folder / "shared.txt").exists() and not (project / "shared.txt").exists()


def test_where_no_worktree_can_be_made_the_worker_says_so(tmp_path: Path) -> None:
    crew = Crew({"ONE": writing("x"), "root": handing({"task": "ONE", "worktree": True})})
    events, outcome = run(crewed(crew, tmp_path), "root")
    (text,) = results(events)
    assert outcome.ok and "w1 failed:" in text and "not in a git repository" in text
    assert [role for role, _ in crew.seen] == ["root", "root"] and not (tmp_path / "shared.txt").exists()


@pytest.mark.matrix
def test_a_worktree_that_another_session_has_entered_is_not_said_to_be_gone(project: Path) -> None:
    stays: list[WorktreeStay] = []

    def look(request: Request) -> str:
        stays.extend(enter_worktree(project, record.name) for record in list_worktrees(project))
        return "looked"

    crew = Crew({"ONE": look, "root": handing({"task": "ONE", "worktree": True})})
    events, _ = run(crewed(crew, project), "root")
    assert "in use by another session" in results(events)[0] and list_worktrees(project) == [stays[0].record]
    assert stays[0].leave() == "" and list_worktrees(project) == []


def _applied(project: Path, change: Callable[[Path], object], *rules: str) -> str:
    """What a model is told that applies a change of a worker at the level `edit`, with these rules of the person."""

    def manage(request: Request) -> Reply:
        steps = handing({"task": "ONE", "worktree": True})(request), [("agents", {"action": "apply"})], "done"
        if calls_made(request) == 1:
            (record,) = list_worktrees(project)
            change(record.folder)
            for rule in rules:
                session.dispatcher.permission.add_rule(rule)
        return steps[calls_made(request)]

    session = crewed(Crew({"ONE": writing("x"), "root": manage}), project, allow="edit")
    return results(run(session, "root")[0], "agents")[0]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("target", "why"),
    sample(
        [
            ("/etc/passwd", "not a plain relative path"),
            ("../../..", "outside the project"),
            ("sub/../../x", "not a plain relative path"),
            (".git", "the call writes to .git"),
            ("./sub/NEXUS.md", "an instruction file"),
            ("hidden.txt", "hidden.txt"),
        ],
        3,
    ),
)
def test_a_link_is_applied_only_if_an_edit_of_its_target_would_run(project: Path, target: str, why: str) -> None:
    said = _applied(project, lambda folder: (folder / "lk").symlink_to(target), "deny edit_file(hidden.txt)")
    assert f"not applied: lk is a link to {target}: " in said and why in said.partition(target)[2], said
    assert not (project / "lk").is_symlink() and not (project / "shared.txt").exists()


@pytest.mark.matrix
def test_links_and_programs_inside_the_project_are_applied(project: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "new").mkdir()
        (folder / "new" / "lk").symlink_to("../app.py")
        (folder / "app.py").chmod(0o755)

    said = _applied(project, change)
    assert "applied new/lk" in said and (project / "new" / "lk").resolve() == project / "app.py", said
    assert (project / "app.py").stat().st_mode & 0o100


@pytest.mark.matrix
@pytest.mark.parametrize(
    "rule", sample(["deny write_file(shared.txt)", "ask write_file", "deny edit_file(shared.txt)"], 3)
)
def test_what_a_rule_of_any_editing_tool_is_against_is_not_applied(project: Path, rule: str) -> None:
    said = _applied(project, lambda folder: None, rule)
    assert "not applied: " in said and rule.partition(" ")[2].partition("(")[0] in said, said
    assert not (project / "shared.txt").exists()


def _managed(project: Path, *steps: Reply) -> list[ToolResult]:
    """Results of the calls of `agents` with which a parent manages a worker that writes, then adds when it is told."""

    def work(request: Request) -> Reply:
        made = calls_made(request)
        name, text = ("shared.txt", "one\n") if made == 0 else ("more.txt", "two\n")
        is_told = made == 1 and any("say more" in str(one.get("content")) for one in request.messages)
        return [("write_file", {"path": name, "content": text})] if made == 0 or is_told else "done"

    def manage(request: Request) -> Reply:
        start = handing({"task": "ONE", "worktree": True})(request)
        return [start, *steps, "done"][calls_made(request)]

    events, outcome = run(crewed(Crew({"ONE": work, "root": manage}), project), "root")
    assert outcome.ok, outcome
    return [one.result for one in events if isinstance(one, ToolResultEvent) and one.call.name == "agents"]


@pytest.mark.matrix
def test_a_second_look_shows_what_has_changed_since_the_first(project: Path) -> None:
    look: Reply = [("agents", {"action": "diff"})]
    steer: Reply = [("agents", {"action": "steer", "text": "say more"})]
    whole: Reply = [("agents", {"action": "diff", "path": "."})]
    one: Reply = [("agents", {"action": "diff", "path": "shared.txt"})]
    first, steered, second, third, all_of_it, part = _managed(project, look, steer, look, look, whole, one)
    assert first.output.startswith("diff --git a/shared.txt") and first.counts == {"files": 1, "added": 1, "removed": 0}
    assert not steered.error, steered.error
    assert second.output.startswith(
        '[changes since your last diff; to see all changes: `path` "."]\ndiff --git a/more.txt'
    )
    assert "shared.txt" not in second.output and second.counts["files"] == 1
    for result in (third, all_of_it):  # nothing is new: all of it again
        assert result.output.startswith("diff --git") and result.counts["files"] == 2, result
    assert "more.txt" not in part.output and part.counts["files"] == 1


@pytest.mark.matrix
def test_an_apply_with_conflicts_warns_the_person(project: Path) -> None:
    def act(request: Request) -> Reply:
        if calls_made(request) == 1:
            (project / "shared.txt").write_text("mine\n")
        start = handing({"task": "ONE", "worktree": True})(request)
        return [start, [("agents", {"action": "apply"})], "done"][calls_made(request)]

    events, _ = run(crewed(Crew({"ONE": writing("one\n"), "root": act}), project), "root")
    (result,) = [one.result for one in events if isinstance(one, ToolResultEvent) and one.call.name == "agents"]
    assert result.warning == "conflicts in 1 file, not written" and not result.error, result


@pytest.mark.matrix
def test_applied_or_removed_work_is_not_listed_as_open(project: Path) -> None:
    listing: Reply = [("agents", {"action": "list"})]

    def manage(request: Request) -> Reply:
        made, start = calls_made(request), handing({"task": "ONE", "worktree": True})(request)
        if made == 4:
            (record,) = list_worktrees(project)
            remove_worktree(record)
        looks: list[Reply] = [[("agents", {"action": action})] for action in ("diff", "apply")]
        return [start, listing, looks[1], listing, listing, *looks, "done"][made]

    session = crewed(Crew({"ONE": writing("one\n"), "root": manage}), project)
    events, _ = run(session, "root")
    said = [one.result for one in events if isinstance(one, ToolResultEvent) and one.call.name == "agents"]
    with closing(Ledger.open(places().data / "ledger.db")) as ledger:
        work = [memo.value for memo in ledger.log(session.id).memos(WORK)]
    assert {"by": "w1", "files": [str(project / "shared.txt")]} in work, "the record names the file in the project"
    before, applied, after, removed, *failed = said
    assert "`apply` it" in before.output and applied.output == "applied shared.txt"
    assert "all changes are applied; `steer` w1 continues there" in after.output, after.output
    assert "`apply` it" not in after.output + removed.output
    for text in (removed.output, *(one.error or "" for one in failed)):
        assert "applied or discarded, worktree removed; `steer` w1 makes a new worktree" in text, text


@pytest.mark.matrix
def test_a_worker_steered_after_its_worktree_was_removed_is_told_so(project: Path) -> None:
    def manage(request: Request) -> Reply:
        made, start = calls_made(request), handing({"task": "ONE", "worktree": True})(request)
        if made == 1:
            remove_worktree(list_worktrees(project)[0], force=True)
        return [start, [("agents", {"action": "steer", "text": "add the new one"})], "done"][made]

    def work(request: Request) -> Reply:
        if "add the new one" not in str(request.messages):
            return doing([("write_file", {"path": "shared.txt", "content": "x"})], "done")(request)
        return doing([], [("write_file", {"path": "new.txt", "content": "x"})], "done")(request)

    crew = Crew({"ONE": work, "root": manage})
    events, outcome = run(crewed(crew, project), "root")
    assert outcome.ok, outcome
    (report,) = results(events, "agents")
    told = next(
        str(one.messages) for role, one in crew.seen if role == "ONE" and "add the new one" in str(one.messages)
    )
    assert "your worktree was removed after your last report" in told, told
    assert "limits have changed" not in told and told.count("Your budget:") == 2, told
    assert "changed new.txt" in report and "shared.txt" not in report, report


@pytest.mark.matrix
def test_a_question_of_a_worker_in_a_worktree_names_it(project: Path) -> None:
    person = Person(lambda question: Allow())
    crew = Crew({"ONE": writing("one\n"), "root": handing({"task": "ONE", "worktree": True})})
    run(crewed(crew, project, approver=person, allow="ask"), "root")
    asked = next(one for one in person.asked if one.agent)
    assert asked.always == "edits in its worktree, not in your files", asked


@pytest.mark.matrix
def test_what_a_killed_worker_changed_is_offered_for_review(project: Path) -> None:
    def dies(request: Request) -> Reply:
        if calls_made(request):
            os.kill(os.getpid(), signal.SIGKILL)
        return [("write_file", {"path": "shared.txt", "content": "half\n"})]

    child = os.fork()
    if not child:
        try:
            run(crewed(Crew({"ONE": dies, "root": handing({"task": "ONE", "worktree": True})}), project), "root")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with closing(Ledger.open(places().ledger)) as ledger:
        (root,) = ledger.sessions()
        (row,) = recorded_workers(ledger, root.id)
    assert row["state"] == "unknown" and row["to_review"]

    def resumes(request: Request) -> Reply:
        return [("agents", {"action": "diff"})] if calls_made(request) < 2 else "done"

    events, _ = run(crewed(Crew({"root": resumes}), project, root.id), "")
    assert "is kept: see its `diff`" in results(events)[0] and "+half" in results(events, "agents")[0]
    remove_worktree(list_worktrees(project)[0], force=True)
    with closing(Ledger.open(places().ledger)) as ledger:
        assert not recorded_workers(ledger, root.id)[0]["to_review"]
    session = crewed(Crew({"root": lambda request: "done"}), project, root.id)
    run(session, "go on")
    assert session.workers and [row["to_review"] for row in session.workers.rows()] == [False]
