"""Ledgers that are newer, full or shared: the answer still comes, and nothing that was there is lost."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pexpect
import pytest
from program.stage import PRICED, SECONDS, Done, Seen, Stage, calls, clean, end, play, stage
from program.terminal_run import TerminalRun
from program.test_exit_status import replays

from nexus_cli.ledger import Ledger
from nexus_cli.ledger.schema import APPLICATION, STEPS

CROWD = 24
"""Runs that begin at once."""
NOISE = {"command": "head -c 200000 /dev/urandom | base64 -w 0"}
"""Output that no compression makes small."""


def newer(root: Path) -> dict[str, Any]:
    with stage(root) as place:
        place.ledger.parent.mkdir(parents=True)
        connection = sqlite3.connect(place.ledger)
        connection.execute("CREATE TABLE tomorrow (what)")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(STEPS) + 7}")
        connection.close()
        before = place.ledger.read_bytes()
        runs = [place.ask("hi"), place.ask("--json", "--require-save", "hi"), place.run("sessions", "list")]
        failing = place.ask("hi", env={"OPENAI_API_BASE": "http://127.0.0.1:9/v1"})
        same = place.ledger.read_bytes() == before
        return {"runs": runs, "same": same, "sent": len(place.server.requests), "failing": failing}


def begun_on_full_disk(place: Stage) -> str:
    """Ask once, and return Python that leaves the ledger of a later run 40 KiB."""
    last = {"when": {"last_role": "tool"}, "then": "done all the same"}
    place.ask("first")
    place.script({"rules": [last], "default": calls(("bash", NOISE))})
    limit = place.ledger.stat().st_size + 40 * 1024
    return f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"


def full(root: Path) -> dict[str, Any]:
    with stage(root, {"default": "before"}) as place:
        full_disk = begun_on_full_disk(place)
        runs = []
        for options in ([], ["--require-save"]):
            sent = len(place.server.requests)
            done = place.ask("--json", "--allow", "all", *options, "hi", bug=full_disk)
            runs.append((done, len(place.server.requests) - sent))
        connection = sqlite3.connect(place.ledger)
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0]
        connection.close()
        after = place.ask("--allow", "all", "and now?")
        return {"runs": runs, "sound": sound, "replays": replays(place), "after": after}


def stopped_on_full_disk(root: Path) -> dict[str, Any]:
    with stage(root, {"default": "before"}) as place:
        full_disk = begun_on_full_disk(place)
        session = place.run("sessions", "list", "--all", "--json").result["sessions"][0]["id"]
        stopped = place.ask("-r", session, "--allow", "all", "--max-steps", "1", "hi", bug=full_disk)
        plain = place.env({"TERM": "dumb"})
        with TerminalRun("-r", session, "--allow", "all", env=plain, cwd=place.folder, code=full_disk) as run:
            run.expect("> ")
            run.sendline("hi")
            run.expect("done all the same")
            run.sendline("/exit")
            run.expect(pexpect.EOF)
            left = str(run.before)
        return {"stopped": stopped, "left": left}


def one_session(root: Path) -> dict[str, Any]:
    waits = calls(("bash", {"command": "for i in $(seq 600); do [ -e go ] && break; sleep 0.05; done"}))
    rules = [{"when": {"contains": "slow"}, "then": waits}, {"when": {"last_role": "tool"}, "then": "late"}]
    with stage(root, {"rules": rules}) as place:
        place.settings(PRICED)
        place.ask("hi")
        first = place.begin("ask", "-c", "--allow", "all", "slow")
        try:
            assert place.server.wait_for(lambda server: len(server.requests) == 2, 120)
            second = place.ask("-c", "me too")
            session = second.told[-1].split()[-1].rstrip(".")
            fork = place.run("sessions", "fork", session)
            forked = place.ask("-r", fork.text.strip(), "me too")
            deleted = place.run("sessions", "delete", "--yes", session)
            (place.folder / "go").touch()
            stdout, stderr = first.communicate(timeout=120)
        finally:
            end(first)
        return {
            "first": Done(first.returncode, stdout, stderr),
            "second": second,
            "fork": fork,
            "forked": forked,
            "deleted": deleted,
            "replays": replays(place),
        }


def locked(root: Path) -> dict[str, Any]:
    with stage(root) as place:
        place.ask("hi")
        other = sqlite3.connect(place.ledger, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        impatient = "from nexus_cli.ledger import database; database.BUSY_SECONDS = 0.1"
        runs = [place.ask("--json", *options, "hi", bug=impatient) for options in ([], ["--require-save"])]
        other.close()
        return {"runs": runs, "replays": replays(place)}


def crowd(root: Path) -> dict[str, Any]:
    with stage(root, {"default": {"text": "answer"}}) as place:
        children = [place.begin("ask", f"task {number}") for number in range(CROWD)]
        try:
            streams = [child.communicate(timeout=SECONDS) for child in children]
        finally:
            for child in children:
                end(child)
        runs = [Done(child.returncode, *both) for child, both in zip(children, streams, strict=True)]
        ledger = Ledger.open(place.ledger)
        kept = sorted((info.first_text, info.entries) for info in ledger.sessions(None, 2 * CROWD))
        ledger.close()
        return {"runs": runs, "kept": kept}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scenes = (newer, full, stopped_on_full_disk, one_session, locked, crowd)
    return play(tmp_path_factory.mktemp, *scenes)


@pytest.mark.matrix
def test_a_newer_ledger_is_left_alone_and_the_answer_comes_from_memory(seen: Seen) -> None:
    kept, required, listed = seen["newer"]["runs"]
    assert (kept.status, kept.stdout) == (0, b"answer (1)\n") and len(kept.told) == 1
    assert "a newer nexus wrote the ledger" in kept.told[0] and "kept in memory" in kept.told[0]
    assert (required.status, required.kind, required.result["session"]) == (1, "ledger", None) and clean(required)
    assert listed.status == 1 and clean(listed) and "Upgrade nexus" in listed.told[0]
    assert seen["newer"]["same"] and seen["newer"]["sent"] == 1


@pytest.mark.matrix
def test_nobody_is_told_to_resume_what_was_never_saved(seen: Seen) -> None:
    failing = seen["newer"]["failing"]
    assert failing.status == 1 and not any(line.startswith("Resume") for line in failing.told), failing.told


def test_a_full_disk_costs_one_warning_and_the_turn_goes_on(seen: Seen) -> None:
    done, sent = seen["full"]["runs"][0]
    assert done.status == 0 and done.result["text"] == "done all the same" and sent == 2, done
    assert sum("kept in memory only" in line for line in done.told) == 1 and clean(done)


def test_a_full_disk_ends_a_run_that_must_be_saved_before_the_next_request(seen: Seen) -> None:
    done, sent = seen["full"]["runs"][1]
    assert (done.status, done.kind, sent) == (1, "ledger", 1) and clean(done), done
    assert done.told[-1].startswith("Resume with: ")


@pytest.mark.matrix
def test_a_session_whose_later_work_was_not_saved_still_says_how_to_resume_what_is_saved(seen: Seen) -> None:
    stopped, left = seen["stopped_on_full_disk"]["stopped"], seen["stopped_on_full_disk"]["left"]
    assert any("kept in memory only" in line for line in stopped.told) and stopped.status == 3, stopped
    assert stopped.told[-1].startswith("Resume with: nexus ask -r ")
    assert "Resume with: nexus -r " in left, left


def test_the_ledger_is_sound_after_a_full_disk(seen: Seen) -> None:
    shown = seen["full"]
    assert shown["sound"] == "ok" and all(shown["replays"]) and len(shown["replays"]) == 4
    assert shown["after"].status == 0 and shown["after"].text == "done all the same\n"


@pytest.mark.matrix
def test_a_session_that_is_open_elsewhere_is_told_and_may_be_forked(seen: Seen) -> None:
    shown = seen["one_session"]
    assert shown["second"].status == 2 and len(shown["second"].told) == 1
    assert "open elsewhere" in shown["second"].told[0] and "nexus sessions fork" in shown["second"].told[0]
    assert shown["fork"].status == 0 and shown["forked"].status == 0 and shown["forked"].stderr == b""
    assert shown["deleted"].status == 2 and "open in another process" in shown["deleted"].told[0]
    assert (shown["first"].status, shown["first"].stdout, shown["first"].stderr) == (0, b"late\n", b"")
    assert all(shown["replays"]) and len(shown["replays"]) == 2


@pytest.mark.matrix
def test_a_ledger_that_stays_locked_is_told_and_a_run_that_must_be_saved_fails(seen: Seen) -> None:
    kept, required = seen["locked"]["runs"]
    assert (kept.status, kept.result["text"]) == (0, "answer (2)") and len(kept.told) == 1 and clean(kept)
    assert "another process kept the ledger locked for" in kept.told[0] and "kept in memory" in kept.told[0]
    assert (required.status, required.kind) == (1, "ledger") and clean(required)
    assert seen["locked"]["replays"] == [True]


@pytest.mark.matrix
def test_a_crowd_that_asks_at_once_is_saved_to_the_last_one(seen: Seen) -> None:
    shown = seen["crowd"]
    assert [(done.status, done.stdout) for done in shown["runs"]] == [(0, b"answer\n")] * CROWD
    assert all(clean(done) and b"memory" not in done.stderr for done in shown["runs"])
    assert shown["kept"] == sorted((f"task {number}", 2) for number in range(CROWD))


def test_the_ledger_is_the_persons_alone(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.ask("hi")
        files = {oct(path.stat().st_mode & 0o777) for path in place.ledger.parent.iterdir() if path.is_file()}
        assert os.name == "posix" and files == {"0o600"}
        assert oct(place.ledger.parent.stat().st_mode & 0o777) == "0o700"
