"""Plans as scripts use them: `nexus plan`, `nexus serve --once`, and what a run that nobody watches may do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, end, stage

from nexus_cli.ledger import Ledger

LINE = {"calls": [{"name": "bash", "arguments": {"command": "echo once >> ran.txt"}}]}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.settings(QUICK + PRICED)
        yield made


def make_due(place: Stage, plan: int = 1, seconds: float = 1.0) -> None:
    """Let the time of a plan have come so many seconds ago."""
    with closing(Ledger.open(place.ledger)) as ledger:
        ledger.plans.change(plan, next_at=time.time() - seconds)


def once(place: Stage, **more: Any) -> dict[str, Any]:
    done = place.run("serve", "--once", "--json", **more)
    assert done.status == done.result["exit"], done
    return done.result


def sent(place: Stage) -> str:
    return json.dumps([request.body for request in place.server.requests])


def test_a_plan_is_made_fires_once_and_reports(place: Stage) -> None:
    place.script(["All quiet."])
    made = place.run(
        "plan",
        "add",
        "Look after the build",
        "--cron",
        "0 9 * * *",
        "--zone",
        "Europe/Berlin",
        "--name",
        "Daily Report",
        "--json",
    ).result
    (plan,) = made["plans"]
    assert (made["done"], plan["id"], plan["state"], plan["by"]) == ("added", "plan-1", "active", "person")
    assert (plan["recipe"], plan["allow"], plan["zone"]) == ("tick_autonomous", "read", "Europe/Berlin")
    assert once(place) == {"version": 1, "ok": True, "exit": 0, "runs": [], "held_back": None}
    make_due(place)
    (run,) = once(place)["runs"]
    assert (run["state"], run["type"], run["title"]) == ("done", "plan", "Daily Report") and run["cost_usd"] > 0
    assert once(place)["runs"] == []
    (listed,) = place.run("plan", "list", "--json").result["plans"]
    assert listed["last_run"]["id"] == run["id"] and listed["next_at"] > listed["last_at"]
    assert "Look after the build" in sent(place) and len(place.server.requests) == 1
    assert 'TRIGGER:\\n  type: plan\\n  plan: \\"Daily Report\\" (id: plan-1)\\n  instruction: ' in sent(place)
    shown = place.run("plan", "list").text
    assert "Daily Report" in shown and "0 9 * * * Europe/Berlin" in shown


def test_several_processes_fire_a_plan_once(place: Stage) -> None:
    place.script({"rules": [{"when": {"last_role": "tool"}, "then": {"text": "done"}}], "default": LINE})
    assert place.run("plan", "add", "Append a line", "--in", "1 hour", "--allow", "all").status == 2
    place.settings(QUICK + PRICED + '[runs]\nallow = "all"\n')
    assert place.run("plan", "add", "Append a line", "--in", "1 hour", "--allow", "all").status == 0
    make_due(place)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: once(place), range(4)))
    assert sum(len(one["runs"]) for one in results) == 1 and all(one["ok"] for one in results)
    assert (place.folder / "ran.txt").read_text() == "once\n"
    (plan,) = place.run("plan", "list", "--json").result["plans"]
    assert plan["state"] == "done" and plan["next_at"] is None


@pytest.mark.matrix
def test_a_prompt_that_is_too_long_is_refused_in_one_short_line(place: Stage) -> None:
    done = place.run("plan", "add", "y" * 100_001, "--in", "1h")
    assert done.status == 2 and len(done.told) == 1 and len(done.told[0]) < 500 and not done.stdout


@pytest.mark.matrix
def test_what_cannot_run_is_a_failed_run_and_status_1(place: Stage) -> None:
    gone = place.folder / "gone"
    gone.mkdir()
    assert place.run("plan", "add", "x", "--in", "1h", "-C", str(gone), "--name", "folder").status == 0
    assert place.run("plan", "add", "x", "--in", "1h", "-m", "anthropic/claude-sonnet-5", "--name", "key").status == 0
    gone.rmdir()
    for plan in (1, 2):
        make_due(place, plan)
    done = place.run("serve", "--once", "--json")
    runs = {run["title"]: run for run in done.result["runs"]}
    assert done.status == 1 and not done.result["ok"] and {run["state"] for run in runs.values()} == {"failed"}
    assert str(gone) in runs["folder"]["error"] and "ANTHROPIC_API_KEY" in runs["key"]["error"]
    assert once(place)["runs"] == []


@pytest.mark.matrix
def test_a_plan_whose_folder_is_gone_fails_once_and_is_paused(place: Stage) -> None:
    gone = place.folder / "gone"
    gone.mkdir()
    place.run("plan", "add", "x", "--cron", "@hourly", "-C", str(gone), "--name", "folder")
    gone.rmdir()
    make_due(place)
    done = place.run("serve", "--once")
    assert done.status == 1 and f"plan-1 is paused: folder {gone} no longer exists" in done.stderr.decode(), done
    assert place.run("plan", "list", "--json").result["plans"][0]["state"] == "paused"
    assert "paused: folder no longer exists" in place.run("plan", "list").text
    gone.mkdir()
    assert place.run("plan", "resume", "folder").status == 0
    make_due(place)
    place.script({"default": {"text": "well"}})
    assert place.run("serve", "--once").status == 0


@pytest.mark.matrix
def test_nothing_due_is_fast_and_loads_no_engine(place: Stage) -> None:
    place.run("plan", "add", "x", "--in", "1h")
    program = (
        "import sys; from nexus_cli.cli.app import run; status = run(['serve', '--once']);"
        "print(status, [name for name in sys.modules if name in"
        " ('litellm', 'aiohttp', 'nexus_cli.session.factory', 'nexus_cli.runs.runner', 'cronsim')])"
    )
    done = subprocess.run([sys.executable, "-c", program], env=place.env(), cwd=place.folder, capture_output=True)
    assert done.stdout == b"0 []\n", done


@pytest.mark.matrix
def test_nothing_asks_into_the_void(place: Stage) -> None:
    place.script({"rules": [{"when": {"last_role": "tool"}, "then": {"text": "done"}}], "default": LINE})
    added = place.run("plan", "add", "Append a line", "--in", "1 hour", "--ask").text
    assert "approval of calls beyond level ask (see `nexus runs list`)." in " ".join(added.split())
    make_due(place)
    (run,) = once(place)["runs"]
    assert run["state"] == "waiting_reply" and "echo once" in run["waits_for"]
    assert not (place.folder / "ran.txt").exists() and once(place)["runs"] == []


def test_what_the_level_does_not_cover_is_refused_and_stands_in_the_report(place: Stage) -> None:
    place.script({"rules": [{"when": {"last_role": "tool"}, "then": {"text": "Could not."}}], "default": LINE})
    place.run("plan", "add", "Append a line", "--in", "1 hour")
    make_due(place)
    (run,) = once(place)["runs"]
    assert run["state"] == "done" and not (place.folder / "ran.txt").exists()
    report = place.run("runs", "show", run["id"], "--json").result["report"]
    assert report.startswith("Could not.\n\nRefused calls:\n- bash echo once >> ran.txt: not permitted: ")
    assert "nobody here can approve it" in str(place.server.requests[-1].body["messages"][-1])


@pytest.mark.matrix
def test_a_run_that_is_cut_at_its_steps_has_failed_with_status_3(place: Stage) -> None:
    place.script({"default": {"calls": [{"name": "glob", "arguments": {"pattern": "*.py"}}]}})
    place.run("plan", "add", "Look", "--in", "1 hour", "--max-steps", "2")
    make_due(place)
    done = place.run("serve", "--once", "--json")
    (run,) = done.result["runs"]
    assert (done.status, done.result["exit"], run["state"]) == (3, 3, "failed") and len(place.server.requests) == 2
    assert run["error"].startswith("the run reached a limit: "), run
    assert "last request" in str(place.server.requests[-1].body["messages"][-1])


@pytest.mark.matrix
def test_a_run_that_changed_a_file_and_was_cut_is_not_done_after_its_look_back(place: Stage) -> None:
    edit = {"calls": [{"name": "write_file", "arguments": {"path": "made", "content": "x"}}]}
    place.script({"steps": [edit, "REPORT: not finished"], "default": "nothing learned"})
    place.run("plan", "add", "do", "--in", "1 hour", "--max-steps", "2", "--allow", "edit")
    make_due(place)
    done = place.run("serve", "--once", "--json")
    (run,) = done.result["runs"]
    assert (done.status, run["state"], run["error"]) == (3, "failed", "the run reached a limit: limits.max_steps")
    assert (place.folder / "made").exists()


@pytest.mark.matrix
def test_the_steps_of_a_run_are_counted_over_its_answers(place: Stage) -> None:
    place.script({"default": LINE})
    place.run("plan", "add", "lines", "--in", "1 hour", "--max-steps", "3", "--ask")
    make_due(place)
    once(place)
    statuses = [place.run("runs", "resume", "run-1", "--answer", "yes").status for _ in range(3)]
    assert len(place.server.requests) == 3 and statuses[:2] == [3, 3], statuses
    (run,) = place.run("runs", "list", "--json").result["runs"]
    assert run["state"] == "failed" and run["error"].startswith("the run reached a limit"), run
    assert (place.folder / "ran.txt").read_text().count("once") == 2


def test_an_answer_to_a_run_that_asks_nothing_leaves_its_pause(place: Stage) -> None:
    with closing(Ledger.open(place.ledger)) as ledger:
        ledger.runs.queue("plan", "t", {"type": "plan"}, {"paused": True}, "2026-02-18T15:06:55.000Z")
    assert place.run("runs", "resume", "run-1", "--answer", "yes").status == 2
    (run,) = place.run("runs", "list", "--json").result["runs"]
    assert run["paused"]


@pytest.mark.matrix
def test_a_run_of_one_request_that_answers_is_done(place: Stage) -> None:
    place.script(["finished"])
    place.run("plan", "add", "say it", "--in", "1 hour", "--max-steps", "1")
    make_due(place)
    assert [run["state"] for run in once(place)["runs"]] == ["done"]


@pytest.mark.matrix
def test_work_whose_run_waits_is_not_run_by_hand_either(place: Stage) -> None:
    place.script({"default": LINE})
    place.run("plan", "add", "lines", "--in", "1 hour", "--ask")
    assert place.run("plan", "run", "plan-1").status == 0
    again = place.run("plan", "run", "plan-1")
    assert again.status == 2 and again.told == [
        "nexus: plan-1: run-1 is still waiting. To resume it: nexus runs resume run-1. "
        "To cancel it: nexus runs cancel run-1."
    ]


@pytest.mark.matrix
def test_a_run_that_reports_with_its_last_request_was_stopped_at_its_limit(place: Stage) -> None:
    look = {"calls": [{"name": "glob", "arguments": {"pattern": "*.py"}}]}
    place.script([look, look, "Half of it."])
    place.run("plan", "add", "Look", "--in", "1 hour", "--max-steps", "3")
    make_due(place)
    done = place.run("serve", "--once", "--json")
    (run,) = done.result["runs"]
    assert (done.status, run["state"], run["error"]) == (3, "failed", "the run reached a limit: limits.max_steps")
    assert place.run("runs", "show", run["id"], "--json").result["report"] == "Half of it."


@pytest.mark.matrix
def test_a_plan_whose_run_waits_is_not_started_again_and_says_so(place: Stage) -> None:
    place.script({"rules": [{"when": {"last_role": "tool"}, "then": {"text": "done"}}], "default": LINE})
    place.run("plan", "add", "Append a line", "--cron", "0 3 * * *", "--ask")
    make_due(place)
    assert [run["state"] for run in once(place)["runs"]] == ["waiting_reply"]
    make_due(place)
    done = place.run("serve", "--once")
    assert done.status == 0 and not done.stdout and len(place.server.requests) == 1
    assert done.told == ["nexus: plan-1 was not started: run-1 is still waiting. To resume it: nexus runs resume run-1"]
    assert place.run("runs", "resume", "run-1", "--answer", "yes").status == 0
    assert (place.folder / "ran.txt").read_text() == "once\n"


def wait_for(holds: Any) -> None:
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < 60
        time.sleep(0.05)


@pytest.mark.matrix
def test_serve_runs_plans_and_services_beside_its_agents(place: Stage) -> None:
    service = '[services.ci]\ninstruction = "Note why it failed."\n[services."a/b"]\ninstruction = "x"\n'
    place.settings(QUICK + PRICED + service)
    place.script({"default": {"text": "noted"}})
    place.run("plan", "add", "Look after the build", "--in", "1 hour")
    child = place.begin("serve", "--json")
    try:
        assert child.stdout is not None
        printed = json.loads(child.stdout.readline())
        (listed,) = printed["services"]
        assert listed["name"] == "ci" and listed["url"] == f"{printed['url']}/trigger/ci"
        file = Path(listed["token_file"])
        assert file.stat().st_mode & 0o777 == 0o600
        headers = {"Authorization": f"Bearer {file.read_text().strip()}", "Content-Type": "application/json"}
        request = urllib.request.Request(listed["url"], b'{"issue": "PROJ-123"}', headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert answer.status == 202 and json.loads(answer.read()) == {"run": "run-1"}
        make_due(place)

        def states() -> list[str]:
            with closing(Ledger.open(place.ledger)) as ledger:
                return sorted(f"{run.type} {run.state} {run.report}" for run in ledger.runs.list_runs())

        wait_for(lambda: states() == ["plan done noted", "service done noted"])
        assert once(place)["runs"] == []
        child.send_signal(signal.SIGTERM)
        _, stderr = child.communicate(timeout=120)
        assert child.returncode == 143 and b"'a/b'" in stderr and b"Traceback" not in stderr
    finally:
        end(child)
    assert "PROJ-123" in sent(place) and file.exists()


@pytest.mark.matrix
def test_a_plan_that_is_run_by_hand_and_held_back_says_so(place: Stage) -> None:
    place.settings(QUICK + PRICED + "[runs]\nmax_cost_day = 0.02\n")
    place.script({"default": {"text": "x" * 4000}})
    place.run("plan", "add", "x", "--in", "1h", "--name", "daily")
    first, second = (place.run("plan", "run", "daily") for _ in range(2))
    assert first.status == 0 and first.text.startswith("run-1 done")
    assert second.status == 0 and second.text == "run-2 queued plan daily\n"
    assert len(second.told) == 1 and "of 0.02 USD" in second.told[0]
