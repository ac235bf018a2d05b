"""Signals and kills: one line, the right status, what was done is kept, nothing is left running."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, Done, Seen, Stage, calls, clean, end, play, stage, together, until

from nexus_cli.engine.requests.control import STOPPED_BY
from nexus_cli.ledger import Ledger
from nexus_cli.reports.check_replay import check

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SLEEPER = {"command": "echo $$ > pids; sleep 300 & echo $! >> pids; echo begun; wait"}


def sound(place: Stage) -> bool:
    """The ledger is whole, and every session in it can be rebuilt."""
    if not place.ledger.exists():
        return True
    connection = sqlite3.connect(place.ledger)
    whole = connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()
    ledger = Ledger.open(place.ledger)
    try:
        return whole and all(check(ledger, info.id)["ok"] for info in ledger.sessions(None, 50))
    finally:
        ledger.close()


def alive(pid: int) -> bool:
    """Whether a process runs (one that only waits to be collected does not)."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def stopped(place: Stage, number: signal.Signals, *arguments: str, when: Any) -> Done:
    """A run that gets a signal as soon as `when` holds."""
    child = place.begin("ask", *arguments)
    try:
        assert until(when, 120), "it never got so far"
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=120)
    finally:
        end(child)
    return Done(child.returncode, stdout, stderr)


def in_a_command(root: Path) -> dict[signal.Signals, dict[str, Any]]:
    def one(number: signal.Signals) -> dict[str, Any]:
        script = {"rules": [{"when": {"contains": "SLEEP"}, "then": calls(("bash", SLEEPER), ("bash", SLEEPER))}]}
        with stage(root / number.name, script) as place:
            file = place.folder / "pids"

            def begun() -> bool:
                return file.exists() and len(file.read_text().split()) == 2

            done = stopped(place, number, "--json", "--allow", "all", "SLEEP", when=begun)
            pids = [int(pid) for pid in file.read_text().split()]
            gone = until(lambda: not any(map(alive, pids)), 120)
            for pid in filter(alive, pids):
                os.kill(pid, signal.SIGKILL)
            safe = sound(place)
            again = place.ask("-c", "go on")
            messages = place.server.requests[-1].body["messages"]
            results = [message["content"] for message in messages if message["role"] == "tool"]
            rows = [row for row in place.run("timeline", "--json").result["rows"] if row["kind"] == "tool"]
            why = [one for one in place.run("why", "--json").result["decisions"] if one["id"] == rows[0]["call"]]
            told: dict[str, Any] = {"outcomes": [row["outcome"] for row in rows], "why": why}
            (place.folder / "later").write_text("of the person\n")
            told["diff"] = place.run("diff", "--turn", "1").text
            if number == signal.SIGKILL:  # as an earlier version left the ledger
                with closing(sqlite3.connect(place.ledger)) as connection, connection:
                    connection.execute("DELETE FROM memos WHERE kind = 'decision'")
                told["without"] = place.run("why", rows[0]["call"]).text
            return {"done": done, "gone": gone, "sound": safe, "again": again, "results": results, **told}

    numbers = (*STATUS, signal.SIGKILL)
    return dict(zip(numbers, together(one, numbers, 2), strict=True))


def in_a_stream(root: Path) -> dict[signal.Signals, dict[str, Any]]:
    def one(number: signal.Signals) -> dict[str, Any]:
        slow = {"rules": [{"when": {"contains": "hi"}, "then": {"text": "word ", "repeat": 4000, "pace": 0.02}}]}
        with stage(root / number.name, slow) as place:

            def streaming() -> bool:
                return bool(place.server.requests) and place.server.requests[0].sent > 2000

            done = stopped(place, number, "hi", when=streaming)
            left = place.server.wait_for(lambda server: server.requests[0].closed_early)
            return {"done": done, "left": left, "sound": sound(place)}

    return dict(zip(STATUS, together(one, STATUS, 2), strict=True))


def in_a_request(root: Path) -> dict[str, Any]:
    slow = {"rules": [{"when": {"contains": "hi"}, "then": {"text": "word ", "repeat": 4000, "pace": 0.02}}]}
    with stage(root, slow) as place:
        place.settings(PRICED)
        stopped(
            place, signal.SIGKILL, "hi", when=lambda: place.server.requests and place.server.requests[0].sent > 2000
        )
        text, before = place.run("usage").text, place.run("usage", "--json").result["total"]
        told = [place.run("timeline").text]
        place.script(["hello"])
        place.ask("-c", "go on")
        after = place.run("usage", "--json").result["total"]
        told.append(place.run("timeline").text)
        (session,) = place.run("sessions", "list", "--all", "--json").result["sessions"]
        return {"told": told, "text": text, "before": before, "after": after, "session": session}


def handles_signals(pid: int) -> bool:
    """Return whether the program handles signals: no longer the interpreter alone, which a machine that does other
    things too starts slowly. Always true where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def at_random(root: Path) -> list[tuple[Done, bool]]:
    """Kills at moments from the first import to the end of a turn of several steps."""
    moments = random.Random(7).choices(range(20, 2600), k=6)
    kinds = [signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP]
    step = calls(("bash", {"command": "echo one; echo two"}), ("write_file", {"path": "a.txt", "content": "x\n" * 500}))
    script = {"rules": [{"when": {"contains": "hi"}, "then": step}, {"when": {"contains": "two"}, "then": step}]}

    def one(item: tuple[int, signal.Signals]) -> tuple[Done, bool]:
        moment, number = item
        with stage(root / f"{moment}", script) as place:
            child = place.begin("ask", "--allow", "all", "hi", installed=True)
            try:
                assert number == signal.SIGKILL or until(lambda: handles_signals(child.pid))
                time.sleep(moment / 1000)
                child.send_signal(number)
                stdout, stderr = child.communicate(timeout=120)
            finally:
                end(child)
            halves = [path.name for path in place.folder.iterdir() if path.name != "a.txt"]
            file = place.folder / "a.txt"
            whole = not file.exists() or file.read_text() == "x\n" * 500
            return Done(child.returncode, stdout, stderr), sound(place) and whole and (number == 9 or not halves)

    return together(one, zip(moments, kinds, strict=True), 2)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, in_a_command, in_a_stream, in_a_request, at_random)


@pytest.mark.parametrize("number", STATUS)
def test_a_signal_during_a_command_leaves_nothing_running(seen: Seen, number: signal.Signals) -> None:
    shown = seen["in_a_command"][number]
    done: Done = shown["done"]
    assert done.status == STATUS[number] and clean(done), done
    assert (done.kind, done.result["exit"]) == ("aborted", STATUS[number])
    assert len(done.told) == 2 and done.told[-1] == f"Resume with: nexus ask -r {done.result['session']}"
    assert shown["gone"], "a process was left running"


@pytest.mark.parametrize("number", STATUS)
def test_what_was_stopped_is_settled_and_the_session_goes_on(seen: Seen, number: signal.Signals) -> None:
    shown = seen["in_a_command"][number]
    assert shown["sound"] and shown["again"].status == 0 and len(shown["results"]) == 2
    assert "interrupted" in shown["results"][0] and "not run" in shown["results"][1], shown["results"]
    who = STOPPED_BY["person" if number == signal.SIGINT else "end"]
    assert all(text.endswith(who) for text in shown["results"]), shown["results"]


def test_a_kill_during_a_command_leaves_nothing_running(seen: Seen) -> None:
    shown = seen["in_a_command"][signal.SIGKILL]
    assert shown["done"].status == -signal.SIGKILL and shown["gone"], "a process was left running"


def test_a_command_that_ran_when_the_process_was_killed_is_never_silently_run_again(seen: Seen) -> None:
    shown = seen["in_a_command"][signal.SIGKILL]
    assert shown["sound"] and shown["again"].status == 0
    assert "outcome unknown" in shown["results"][0] and "not run" in shown["results"][1], shown["results"]
    assert shown["outcomes"] == ["outcome unknown", "not run"]
    assert [(one["decision"], one["ran"], one["from"]) for one in shown["why"]] == [("allow", True, "level all")]
    assert "unknown: the decision was not recorded: nexus ended while the call ran" in shown["without"]
    assert "+++ b/pids" in shown["diff"] and "later" not in shown["diff"], "changed after the session was resumed"


@pytest.mark.matrix
@pytest.mark.parametrize("number", STATUS)
def test_a_signal_during_the_answer_closes_the_request_and_prints_nothing(seen: Seen, number: signal.Signals) -> None:
    shown = seen["in_a_stream"][number]
    done: Done = shown["done"]
    assert (done.status, done.stdout) == (STATUS[number], b"") and clean(done), done
    assert len(done.told) == 2 and done.told[0].startswith("nexus: stopped: ")
    assert done.told[1].startswith("Resume with: ") and shown["left"] and shown["sound"]


@pytest.mark.matrix
def test_a_kill_at_any_moment_leaves_a_sound_ledger_and_no_half_file(seen: Seen) -> None:
    for done, safe in seen["at_random"]:
        assert safe and clean(done), done
        # Before a line of ours runs a signal ends the process as it ends any other; a shell says 130, 143 or 129.
        assert done.status in (-signal.SIGKILL, -signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP, 130, 143, 129, 0), done


def test_a_request_whose_process_was_killed_costs_an_unknown_sum(seen: Seen) -> None:
    shown = seen["in_a_request"]
    before, after, session = shown["before"], shown["after"], shown["session"]
    assert (before["requests"], before["unpriced"], before["unfinished"], before["cost_usd"]) == (1, 1, 1, None)
    assert before["input"] > 1000, "our estimate"
    assert "1 request (1 without an answer) in 1 session" in shown["text"] and "$0.0000" not in shown["text"]
    assert "price" not in shown["text"], "that of the model is known"
    assert ["no recorded response to a request of about" in text and "None" not in text for text in shown["told"]] == [
        True,
        True,
    ]
    assert (after["requests"], after["unpriced"], after["unfinished"], after["cost_usd"]) == (2, 1, 1, None)
    assert after["known_usd"] > 0 and session["cost_usd"] is None and after["input"] > 2 * before["input"]
