"""Runs that wait and go on: in a fresh invocation, in another process and folder, exactly once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from runs.stage import MODEL, Played, Reply, end_cache, last, opened, queue, run_due, say, sent, stored, waiting

from nexus_cli.config.paths import places
from nexus_cli.core.request import Request
from nexus_cli.ledger import Ledger


@pytest.fixture
def folder(_isolated: Path) -> Path:
    made = _isolated / "project"
    made.mkdir(exist_ok=True)
    return made


@pytest.mark.matrix
def test_a_queued_run_is_done_and_reports(folder: Path) -> None:
    run = queue("make a report", folder)
    provider = Played(lambda request: "here it is")
    (done,) = run_due(provider)
    assert (done.state, done.report, done.cost_usd) == ("done", "here it is", 0.25)
    assert "make a report" in sent(provider.seen[0]) and run_due(provider) == []
    assert stored(run.key).session


@pytest.mark.matrix
def test_a_session_that_waits_for_a_file_goes_on_in_another_process_and_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    end_cache(monkeypatch)
    (folder / "ci.log").write_text("running\n")
    provider = Played(waiting(("wait_for", {"file": "ci.log", "timeout": "2 hours"})))
    outcome = say(opened(provider, folder), "Tell me how CI ends.")
    assert outcome.error is not None and (outcome.error["kind"], outcome.exit) == ("waiting", 3)
    assert "run-1" in outcome.error["message"] and "ci.log changes" in outcome.error["message"]
    assert run_due(provider) == [] and stored(1).state == "waiting_reply"
    time.sleep(1.1)
    (folder / "ci.log").write_text("passed\n")
    monkeypatch.chdir(tmp_path)
    (run,) = run_due(provider)
    assert (run.state, run.report, run.resumes) == ("done", "all is done", 1)
    recap = (
        str(provider.seen[-1].messages[1]["content"])
        if provider.seen[-1].messages[0]["role"] == "system"
        else str(provider.seen[-1].messages[0]["content"])
    )
    assert 'Person: "Tell me how CI ends."' in recap
    assert 'You: called wait_for("ci.log", timeout: "2 hours") -> This run is now waiting: ci.log changes' in recap
    assert "After 0 s" not in last(provider.seen[-1]) and 'waited: "0 s"' not in last(provider.seen[-1])
    assert recap.endswith("<- RESUME") and "has changed" in recap and sent(provider.seen[-1]).count("<- RESUME") == 1
    assert not any(message.get("tool_calls") for message in provider.seen[-1].messages), "a dangling call"
    assert run_due(provider) == []


@pytest.mark.matrix
def test_after_a_wait_of_seconds_the_conversation_continues_as_it_was_sent(folder: Path) -> None:
    made: list[list[str]] = []

    def reply(request: Request) -> Reply:
        made.append([str(message) for message in request.messages])
        if len(made) == 1:
            return [("glob", {"pattern": "*.log"})]
        return [("wait_for", {"file": "ci.log", "event": "appears"})] if len(made) == 2 else "all is done"

    provider = Played(reply)
    say(opened(provider, folder), "Tell me how CI ends.")
    (folder / "ci.log").write_text("passed\n")
    (run,) = run_due(provider)
    assert (run.state, run.report) == ("done", "all is done")
    assert made[2][: len(made[1])] == made[1], "the provider has it in its cache"
    assert "You waited for this: ci.log appears" in made[2][-1] and "<- RESUME" in made[2][-1]
    assert "stopped before your answer" not in made[2][-1], "the turn ended because the run waits"


@pytest.mark.matrix
def test_what_holds_already_is_not_waited_for(folder: Path) -> None:
    (folder / "there").write_text("x")
    provider = Played(
        lambda request: (
            "good" if "no need to wait" in sent(request) else [("wait_for", {"file": "there", "event": "appears"})]
        )
    )
    assert say(opened(provider, folder), "wait").ok
    ledger = Ledger.open(places().ledger)
    assert ledger.runs.list_runs() == []
    ledger.close()
    assert MODEL
