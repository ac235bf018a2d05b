"""Runs that wait as scripts use them: exit 3 and one line, `nexus serve --once`, `nexus runs`, approvals by answer."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, QUICK, Stage, calls, end, stage, until
from program.terminal_run import TerminalRun
from search import sample

from nexus_cli.core.run import Wait
from nexus_cli.ledger import Ledger
from nexus_cli.runs.run_approvals import answer_run

WAIT = calls(("wait_for", {"file": "ci.log", "timeout": "2 hours"}))
AT = "2026-02-18T15:06:55.000Z"


def script(*rules: tuple[str, Any], default: Any) -> dict[str, Any]:
    return {"rules": [{"when": {"contains": words}, "then": then} for words, then in rules], "default": default}


def ledger_of(place: Stage) -> Ledger:
    return Ledger.open(place.ledger)


def test_an_ask_that_waits_ends_with_news_and_goes_on_in_serve_once(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.settings(QUICK)
        place.script(script(("Continue from here", {"text": "CI has passed"}), default=WAIT))
        asked = place.ask("--json", "tell me how CI ends")
        error = asked.result["error"]
        assert asked.status == 3 and (error["kind"], asked.result["exit"]) == ("waiting", 3)
        assert error["message"] == "run-1 waits: ci.log changes" and "nexus runs resume run-1" in error["hint"]
        assert [line for line in asked.stderr.decode().splitlines() if "waits" in line] == [
            "nexus: run-1 waits: ci.log changes. `nexus serve` or `nexus serve --once` resumes the run when the wait "
            "is over; to resume it now: nexus runs resume run-1."
        ]
        (listed,) = place.run("runs", "list", "--json").result["runs"]
        assert (listed["id"], listed["state"], listed["waits_for"]) == ("run-1", "waiting_reply", "ci.log changes")
        assert listed["wake_at"] and listed["session"] == asked.result["session"]
        assert place.run("serve", "--once", "--json").result["runs"] == [] and len(place.server.requests) == 1
        (place.folder / "ci.log").write_text("passed")
        done = place.run("serve", "--once", "--json", cwd=tmp_path)
        assert done.status == 0 and [one["state"] for one in done.result["runs"]] == ["done"]
        shown = place.run("runs", "show", "1", "--json").result
        assert (shown["report"], shown["resumes"], shown["trigger"]["type"]) == ("CI has passed", 1, "ask")
        assert [(one["kind"], one["taken"]) for one in shown["signals"]] == [("file", True)]
        for width in ("80", "40"):
            text = place.run("runs", "show", "run-1", env={"COLUMNS": width}).stdout.decode()
            assert "CI has passed" in text and max(map(len, text.splitlines())) <= int(width)


def test_a_person_resumes_without_waiting_on_and_cancels(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.settings(QUICK)
        place.script(script(("Continue from here", {"text": "I looked at it as it is"}), default=WAIT))
        assert place.ask("wait").status == place.ask("wait").status == 3
        resumed = place.run("runs", "resume", "run-1", "--json")
        assert (resumed.status, resumed.result["state"], resumed.result["report"]) == (
            0,
            "done",
            "I looked at it as it is",
        )
        cancelled = place.run("runs", "cancel", "2")
        assert cancelled.status == 0 and b"run-2 was cancelled (waiting: ci.log changes)." in cancelled.stdout
        for words in (["cancel", "2"], ["resume", "run-1"], ["show", "9"], ["show", "x\n"], ["list", "--state", "x"]):
            bad = place.run("runs", *words)
            assert bad.status == 2 and len(bad.stderr.decode().splitlines()) == 1, words
        assert place.run("runs", "resume", "run-1", "--answer", "maybe").status == 2
        of_all = place.run("runs", "resume", "--all", "--answer", "yes")
        assert of_all.status == 2 and b"--answer yes: the run id is missing" in of_all.stderr


@pytest.mark.parametrize("answer", sample(["yes", "no"], 2))
def test_an_approval_of_a_run_that_nobody_watches_waits_for_an_answer(answer: str, tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.settings(f'{QUICK}[spaces]\nname = "Ana"\n')
        edit = calls(("write_file", {"path": "made", "content": "x"}))
        place.script({"rules": [{"when": {"last_role": "user"}, "then": edit}], "default": {"text": "over"}})
        with closing(ledger_of(place)) as ledger:
            options = {"folder": str(place.folder), "model": MODEL, "allow": "ask", "ask": True}
            ledger.runs.queue("plan", "make it", {"type": "plan", "instruction": "make it"}, options, AT)
        first = place.run("serve", "--once", "--json")
        assert first.status == 0 and not (place.folder / "made").exists()
        (listed,) = place.run("runs", "list", "--state", "waiting_reply", "--json").result["runs"]
        assert "write_file made" in listed["waits_for"]
        assert place.run("serve", "--once", "--json").result["runs"] == []
        asks = place.run("runs", "resume", "run-1")
        assert asks.status == 2 and b"--answer yes" in asks.stderr and b"write_file made" in asks.stderr
        if answer == "yes":
            resume = partial(TerminalRun, "runs", "resume", "run-1", env=place.environment, cwd=place.folder)
            with resume() as child:
                child.expect("run-1 asks.*what to do instead")
                assert place.run("serve", "--once", "--json").result["runs"] == [], "nobody takes it from the person"
                child.send("\x1b")
                child.finish()
                assert child.exitstatus == 3
            with resume() as child:
                child.expect("what to do instead")
                child.send("y")
                child.finish()
                assert child.exitstatus == 0
        else:
            done = place.run("runs", "resume", "run-1", "--answer", answer, "--json")
            assert (done.status, done.result["state"], done.result["report"]) == (0, "done", "over")
            assert f"nexus: {answer}: write_file made".encode() in done.stderr
        assert (place.folder / "made").exists() == (answer == "yes")
        assert f"Ana said {answer}" in place.run("runs", "show", "run-1").text
        assert f"Ana said {answer}" in place.run("timeline", "--run", "run-1").text
        told = str(place.server.requests[-1].body["messages"][-1]["content"])
        assert ("Declined by Ana" in told) == (answer == "no"), told
        assert json.loads(place.server.requests[-1].body["messages"][-2]["tool_calls"][0]["function"]["arguments"])


@pytest.mark.matrix
def test_a_run_whose_process_was_killed_is_said_to_have_broken_off_until_it_is_resumed(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.settings(QUICK)
        place.script({"default": {"text": "All is well", "delay": 60}})
        assert place.run("schedule", "add", "look around", "--in", "1h", "--name", "Nightly").status == 0
        break_off(place, signal.SIGKILL, "schedule", "run", "Nightly")
        listed = place.run("runs", "list")
        assert listed.text.startswith("run-1 · interrupted · ") and "nexus runs resume run-1" in listed.text, listed
        (value,) = place.run("runs", "list", "--json").result["runs"]
        assert (value["state"], value["broken_off"]) == ("running", True)
        assert "run-1 interrupted" in place.run("schedule", "list", env={"COLUMNS": "160"}).text
        status, cut = break_off(place, signal.SIGINT, "runs", "resume", "run-1")
        assert "run-1 interrupted · plan Nightly" in cut and "another process" not in cut, cut
        assert status == 130
        place.script({"default": {"text": "All is well"}})
        resumed = place.run("runs", "resume", "run-1")
        assert resumed.status == 0 and "run-1 done" in resumed.text and "resumed 2 times" in resumed.text, resumed


def test_a_run_that_broke_off_is_not_said_to_have_been_running_when_it_is_cancelled(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        with closing(ledger_of(place)) as ledger:
            key = ledger.runs.queue("plan", "make it", {"type": "plan"}, {"folder": str(place.folder)}, AT)
            assert ledger.runs.claim(key or 0, "here:7", 60.0, AT) is not None
        assert place.run("runs", "cancel", "1").text.startswith("run-1 was cancelled (it was interrupted).")


@pytest.mark.matrix
def test_a_run_whose_answer_nobody_has_taken_up_yet_is_listed_as_answered(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.script({"default": {"text": "over"}})
        with closing(ledger_of(place)) as ledger:
            key = ledger.runs.queue("plan", "make it", {"type": "plan"}, {"folder": str(place.folder)}, AT)
            run = ledger.runs.claim(key or 0, "here:7", 60.0, AT)
            assert run is not None
            asked = {"call": "c1", "what": "bash make", "why": "it runs", "detail": ""}
            ledger.runs.wait(run, Wait("approval", "approval: bash make", {"questions": [asked]}), AT)
            assert "waiting for approval: bash make" in place.run("runs", "list").text
            asking = place.run("runs", "show", "1").text
            assert asking.count("bash make") == 1 and "to answer: nexus runs resume run-1" in asking, asking
            answer_run(ledger, ledger.runs.get(run.key), ["no"], ["use ninja"], by="Ana")
        listed = place.run("runs", "list").text
        assert "Ana said no: use ninja; the run continues when nexus serve runs" in listed and "waits" not in listed, (
            listed
        )
        assert place.run("runs", "list", "--json").result["runs"][0]["came"] == "Ana said no: use ninja"
        shown = place.run("runs", "show", "1").text
        assert "Ana said no: use ninja, not processed yet" in shown and "waits:" not in shown, shown


def break_off(place: Stage, number: int, *arguments: str) -> tuple[int | None, str]:
    """Ends the program with a signal while it waits for the model; its exit status and what it printed."""
    before = len(place.server.requests)
    child = place.begin(*arguments)
    try:
        assert until(lambda: len(place.server.requests) > before)
        assert "running" in place.run("runs", "list").text
        child.send_signal(number)
        printed = child.communicate(timeout=60)[0] or b""
        return child.returncode, printed.decode()
    finally:
        end(child)
