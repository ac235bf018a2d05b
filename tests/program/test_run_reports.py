"""What a report of unattended work says beside the words of its model: facts of the record, for failed runs too."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage
from project_files import commit_all

from nexus_cli.ledger import Ledger

ALL = QUICK + PRICED + '[runs]\nallow = "all"\n'
LIE = "All tests pass. Committed as 1234567."


def git(folder: Path, *arguments: str, **more: str) -> str:
    alone = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **more}
    named = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org", *arguments)
    return subprocess.run(["git", *named], cwd=folder, env=alone, check=True, capture_output=True, text=True).stdout


def bash(*commands: str) -> list[dict[str, Any]]:
    return [calls(("bash", {"command": command})) for command in commands]


COMMIT = "git -c user.name=nexus -c user.email=n@example.org commit -qam"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.settings(ALL)
        (made.folder / "slug.py").write_text("x = 1\n")
        (made.folder / "README.md").write_text("One.\n")
        commit_all(made.folder, "Start")
        yield made


def night(place: Stage, *steps: Any, **options: str) -> dict[str, Any]:
    """The run of work that was scheduled with `options`, as `nexus runs show --json` has it."""
    place.script([*steps])
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    added = place.run("schedule", "add", "mend it", "--in", "1h", "--allow", "all", "--name", "night", *words)
    assert added.status == 0, added
    place.run("schedule", "run", "night")
    return place.run("runs", "show", "run-1", "--json").result


def test_a_report_has_the_facts_of_the_record_beside_the_words(place: Stage) -> None:
    (place.folder / "README.md").write_text("Half a sent")
    edit = calls(("edit_file", {"path": "slug.py", "old": "x = 1", "new": "x = 2"}))
    look = calls(("read_file", {"path": "slug.py"}))
    value = night(place, look, edit, *bash("ls", "echo broken; exit 7"), LIE)
    assert (value["state"], value["branch"], value["commits"]) == ("done", "main", [])
    assert value["files_changed"] == value["uncommitted"] == ["slug.py"], "README.md was the person's"
    assert value["failed_commands"] == [{"command": "echo broken; exit 7", "status": 7}]
    assert (
        value["usage"]["input"] > 0
        and value["usage"]["cost_usd"] == pytest.approx(value["cost_usd"])
        and value["seconds"] > 0
    )
    text = place.run("runs", "show", "run-1", env={"COLUMNS": "200"}).text
    for line in ("branch main: no commit", "uncommitted: slug.py", "failed: echo broken; exit 7 (exit 7)", LIE):
        assert line in text, text
    assert text.index("uncommitted") < text.index(LIE)
    listed = place.run("runs", env={"COLUMNS": "200"}).text
    assert "1 file changed · 1 file uncommitted · 1 command failed" in listed, listed


def test_a_failed_run_says_what_it_did_and_how_to_continue(place: Stage) -> None:
    branch = "git switch -q -c nightly"
    done = f"echo 'x = 3' > slug.py && {COMMIT} 'Count to three'"
    fault = {"fault": {"status": 400, "message": "strange parameter"}}
    value = night(place, *bash(branch, done, "echo more > left.txt"), fault)
    assert (value["state"], value["branch"], value["uncommitted"]) == ("failed", "nightly", ["left.txt"])
    assert {"slug.py", "left.txt"} <= set(value["files_changed"]), "files that commands changed count too"
    (commit,) = value["commits"]
    assert commit == git(place.folder, "log", "-1", "--format=%h %s").strip() and value["steps"] == 3
    text = place.run("runs", "show", "run-1", env={"COLUMNS": "200"}).text
    assert f"branch nightly: {commit}" in text and "To continue: nexus runs resume run-1" in text, text


def test_the_model_of_a_run_is_told_branch_and_dirty_files(place: Stage) -> None:
    (place.folder / "README.md").write_text("Half a sent")
    night(place, "done")
    told = str(place.server.requests[0].body["messages"])
    assert 'Git: branch "main"; uncommitted: 1 file ("README.md"); newest commits: ' in told


def test_a_look_back_counts_as_requests_of_the_run(place: Stage) -> None:
    learn = calls(("search_memory", {"query": "habits", "slot": "agent"}))
    place.script({"steps": [*bash("echo y >> slug.py", "exit 3"), "done"], "default": learn})
    place.run("schedule", "add", "mend", "--in", "1h", "--allow", "all", "--name", "night", "--max-steps", "5")
    place.run("schedule", "run", "night")
    assert len(place.server.requests) == 5
    value = place.run("runs", "show", "run-1", "--json").result
    assert (value["state"], value["steps"]) == ("done", 5)


@pytest.mark.matrix
def test_a_run_without_a_repository_has_figures_alone(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.settings(ALL)
        value = night(place, "done")
        assert (value["steps"], value["branch"], value["uncommitted"]) == (1, None, [])
        with closing(Ledger.open(place.ledger)) as ledger:
            assert "dirty" not in ledger.runs.get(1).options["began"]


def test_scheduled_work_is_done_once_its_command_passes(place: Stage) -> None:
    mend = bash("echo 'x = 2' > slug.py")
    value = night(place, "All is done.", *mend, "Now it is.", until="grep -q 2 slug.py")
    assert (value["state"], value["last_words"], value["steps"]) == ("done", "Now it is.", 3)
    assert (value["until"]["passed"], value["until"]["rounds"]) == (True, 2)
    assert "exits 0 after 2 rounds" in place.run("runs", "show", "run-1").text
    (plan,) = place.run("schedule", "list", "--json").result["plans"]
    assert plan["until"] == "grep -q 2 slug.py"


@pytest.mark.matrix
def test_scheduled_work_whose_command_never_passes_has_failed_with_its_last_lines(place: Stage) -> None:
    value = night(place, *["All is done."] * 9, until="echo 3 tests failed; exit 1")
    assert value["state"] == "failed" and "repeated earlier results" in value["error"]
    assert (value["until"]["passed"], value["until"]["left"][0]) == (False, "3 tests failed")
    text = place.run("runs", "show", "run-1", env={"COLUMNS": "200"}).text
    assert "exits 1 after 3 rounds\n| 3 tests failed" in text, text
    place.script(bash("true") + ["Sorry."] * 4)
    assert place.run("runs", "resume", "run-1").status == 3, "the command binds a resumed run too"


@pytest.mark.matrix
def test_a_command_to_work_for_whose_pipe_fails_is_not_said_to_exit_with_0_alone(place: Stage) -> None:
    value = night(place, *["All is done."] * 9, until="false | cat")
    assert (value["state"], value["until"]["status"]) == ("failed", 0)
    assert "exits 0, but a command in its pipeline fails after" in place.run("runs", "show", "run-1").text


def test_a_command_to_work_for_needs_a_level_that_runs_it(place: Stage) -> None:
    refused = place.run("schedule", "add", "mend it", "--in", "1h", "--until", "make test")
    assert refused.status == 2 and "--allow auto" in refused.told[0] and len(refused.told) == 1


def test_a_night_in_a_worktree_leaves_the_persons_half_sentence_alone(place: Stage) -> None:
    (place.folder / "README.md").write_text("Half a sent")
    add = place.run("schedule", "add", "mend it", "--in", "1h", "--allow", "all", "--name", "night")
    assert add.status == 0 and "1 file here is uncommitted: with --worktree" in add.text, add
    place.run("schedule", "remove", "night")
    mend = bash(f"echo 'x = 2' > slug.py && git add -A && {COMMIT} 'Count to two'", "echo more > left.txt")
    place.script([*mend, "Done."])
    words = ("mend it", "--in", "1h", "--allow", "all", "--name", "apart", "--worktree")
    made = place.run("schedule", "add", *words)
    assert made.status == 0 and "its own worktree" in made.text and "uncommitted" not in made.text, made
    place.run("schedule", "run", "apart")
    value = place.run("runs", "show", "run-1", "--json").result
    name = value["worktree"]
    assert (value["state"], value["folder"], value["uncommitted"]) == ("done", str(place.folder), ["left.txt"])
    assert name.startswith("run-1-") and value["branch"] == f"worktree-{name}" and "Count to two" in value["commits"][0]
    shown = place.run("runs", "show", "run-1", env={"COLUMNS": "200"}).text
    assert f"nexus worktree apply {name}" in shown, shown
    assert (place.folder / "README.md").read_text() == "Half a sent" and git(place.folder, "log", "--format=%s") == (
        "Start\n"
    )
    assert git(place.folder, "log", "-1", "--format=%s", f"worktree-{name}") == "Count to two\n"
    assert place.run("worktree", "apply", name).status == 0
    assert (place.folder / "slug.py").read_text() == "x = 2\n" and (place.folder / "left.txt").exists()
    assert place.run("worktree", "remove", "--force", name).status == 0
    assert place.run("runs", "show", "run-1", "--json").result["worktree"] is None
    assert "nexus worktree" not in place.run("runs", "show", "run-1").text


@pytest.mark.matrix
def test_a_run_in_a_worktree_that_waits_continues_there_and_an_empty_one_is_removed(place: Stage) -> None:
    away = {"fault": {"status": 503}}
    place.script({"steps": [*bash("echo half > half.txt")], "default": away})
    words = ("mend it", "--in", "1h", "--allow", "all", "--name", "apart", "--worktree")
    assert place.run("schedule", "add", *words).status == 0
    place.run("schedule", "run", "apart")
    assert place.run("runs", "show", "run-1", "--json").result["state"] == "waiting_reply"
    place.script([*bash("rm half.txt"), "Nothing to do."])
    done = place.run("runs", "resume", "run-1", "--json").result
    assert (done["state"], done["failed_commands"], done["uncommitted"]) == ("done", [], [])
    assert place.run("worktree", "list", "--json").result["worktrees"] == []


@pytest.mark.matrix
def test_a_worktree_needs_a_repository_when_the_work_is_scheduled(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.settings(ALL)
        refused = place.run("schedule", "add", "mend it", "--in", "1h", "--worktree")
        assert refused.status == 2 and "not in a git repository" in refused.told[0] and len(refused.told) == 1


def test_a_provider_that_goes_in_the_middle_of_an_answer_lets_the_run_wait(place: Stage) -> None:
    place.script({"steps": [*bash("true"), {"fault": "empty"}], "default": {"fault": {"status": 503}}})
    place.run("schedule", "add", "mend it", "--in", "1h", "--allow", "all", "--name", "night", "--worktree")
    place.run("schedule", "run", "night")
    value = place.run("runs", "show", "run-1", "--json").result
    assert (value["state"], value["waits_for"]) == ("waiting_reply", "provider"), value
    assert (
        f"worktree {value['worktree']}; to show its changes: nexus worktree diff"
        in place.run("runs", "show", "run-1").text
    )


@pytest.mark.matrix
def test_a_command_is_judged_by_its_last_run_however_its_output_was_cut(place: Stage) -> None:
    broken = "cat NOTES 2>&1 | tail -3"
    value = night(
        place, *bash("cat slug.txt 2>&1 | tail -12", broken, "echo 1 > slug.txt", "cat slug.txt | head -1"), "ok"
    )
    assert value["failed_commands"] == [{"command": broken, "status": 1}]
    assert f"failed: {broken} (exit 1)" in place.run("runs", "show", "run-1", env={"COLUMNS": "200"}).text


@pytest.mark.matrix
def test_a_report_says_what_became_of_the_files_that_the_person_had_not_committed(place: Stage) -> None:
    (place.folder / "README.md").write_text("Half a sent")
    (place.folder / "new.md").write_text("Mine.")
    value = night(place, *bash(f"echo x = 2 > slug.py; {COMMIT} Two"), "Committed slug.py.")
    assert (value["no_longer_uncommitted"], value["uncommitted"]) == (["README.md"], [])
    assert "\nno longer uncommitted: README.md\n" in place.run("runs", "show", "run-1").text
    assert "1 file no longer uncommitted" in place.run("runs", env={"COLUMNS": "200"}).text


def test_commits_of_others_while_a_run_waited_are_not_in_its_report(place: Stage) -> None:
    place.script({"steps": bash(f"echo x = 2 > slug.py; {COMMIT} Two"), "default": {"fault": {"status": 503}}})
    place.run("schedule", "add", "mend it", "--in", "1h", "--allow", "all", "--name", "night", "--until", "true")
    place.run("schedule", "run", "night")
    (place.folder / "README.md").write_text("Two.\n")
    later = {"GIT_COMMITTER_DATE": "2090-01-01T00:00:00Z"}
    git(place.folder, "commit", "-qam", "By Ana", **later)
    other = git(place.folder, "log", "-1", "--format=%h").strip()
    place.script([*bash(f"echo x = 3 > slug.py; {COMMIT} Three"), "Done."])
    value = place.run("runs", "resume", "run-1", "--json").result
    assert [line.split()[1] for line in value["commits"]] == ["Three", "Two"], value
    told = str(place.server.requests[-1].body["messages"])
    assert f"Committed by others while you waited: {other}." in told


@pytest.mark.matrix
def test_a_run_that_a_limit_stopped_is_told_its_new_budget_when_it_is_resumed(place: Stage) -> None:
    again = bash("echo again")
    value = night(place, *bash("ls"), {**again[0], "text": "One more."}, max_steps="2", until="true")
    assert value["state"] == "failed" and "answered its last request with tool calls" in value["error"]
    assert "until: true has not run\n" in place.run("runs", "show", "run-1").text
    place.script(["Done."])
    assert place.run("runs", "resume", "run-1").status == 0
    told = str(place.server.requests[-1].body["messages"][-1]["content"])
    assert "A person resumed this run after it had failed (" in told, told
    assert "Your budget: 2 requests" in told and told.index("no more calls will run") < told.index("A person resumed")


def test_equal_rows_of_the_list_are_one_and_a_missed_event_is_named(place: Stage) -> None:
    place.script({"default": {"text": "Nothing to do."}})
    place.run("schedule", "add", "look", "--in", "1h", "--name", "night")
    for _ in range(3):
        assert place.run("schedule", "run", "night").status == 0
    place.script({"default": {"text": "Something else."}})
    assert place.run("schedule", "run", "night").status == 0
    rows = [line for line in place.run("runs", env={"COLUMNS": "200"}).text.splitlines() if line.startswith("run-")]
    assert [row.split(" · ")[0] for row in rows] == ["run-4", "run-3"], rows
    assert "and 2 similar since run-1" in rows[1] and "similar" not in rows[0]
    assert len(place.run("runs", "list", "--json").result["runs"]) == 4
    with closing(Ledger.open(place.ledger)) as ledger:
        value = {"wait": 0, "delivery": "d1", "why": "check_run.conclusion is success"}
        ledger.runs.signal(4, "missed", value, "2026-02-18T15:06:55.000Z", is_taken=True)
    shown = place.run("runs", "show", "run-4", env={"COLUMNS": "200"}).text
    assert "an event that the run did not wait for: check_run.conclusion is success" in shown, shown
