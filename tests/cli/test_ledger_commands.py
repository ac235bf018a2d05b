"""`sessions`, `drops`, `context`, `replay` over a real ledger: exact originals, and nothing made by looking."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from session.recorded_usage import spend

from nexus_cli.config.paths import places
from nexus_cli.core.entry import Cause, Drop, Entry, Kind
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.session.logger import LogConfig, SessionLogger

Run = Callable[..., subprocess.CompletedProcess[bytes]]
ORIGINAL = "first line\n\x1b[31mhé漢\U0001f600\nlast line without an end"
AT = "2026-01-02T03:04:05.000Z"


@pytest.fixture
def session(tmp_path: Path) -> str:
    """The id of a session of this folder with one message and one drop."""
    places().data.mkdir(parents=True)
    logger = SessionLogger(LogConfig(path=places().ledger, folder=tmp_path, model="openai/gpt-5.6", recipe="ask"))
    logger.append(Entry(1, AT, "person", Kind.USER, Message(Role.USER, "please \x1b[2J fix")))
    logger.record_drop(Drop(logger.next_drop(), "tool result of c1 (bash)", 9000, Cause.OUTPUT_CAP, AT, text=ORIGINAL))
    found = logger.session.id
    logger.close()
    return found


def test_the_original_of_a_drop_is_printed_exactly(nexus: Run, session: str) -> None:
    assert nexus("drops", "show", "d1").stdout.decode() == ORIGINAL
    assert nexus("drops", "show", "d1", "--session", session[:12]).stdout.decode() == ORIGINAL


@pytest.mark.matrix
def test_in_a_pipe_no_line_of_a_session_or_of_its_drops_is_cut(nexus: Run, tmp_path: Path) -> None:
    places().data.mkdir(parents=True)
    logger = SessionLogger(LogConfig(path=places().ledger, folder=tmp_path, model="m", recipe="ask"))
    words, command = "fix it " * 25 + "please", "pytest " + "tests/a_long_name.py " * 20
    call = ToolCall("c2a", "bash", {"command": command})
    logger.append(Entry(1, AT, "person", Kind.USER, Message(Role.USER, words)))
    logger.append(Entry(2, AT, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, "", (call,))))
    logger.record_drop(Drop(logger.next_drop(), f"result of {command}", 9000, Cause.OUTPUT_CAP, AT, text="x"))
    found = logger.session.id
    logger.close()
    shown = nexus("sessions", "show", found).stdout.decode()
    assert f"{words}\n" in shown and f"-> bash {command.strip()}\n" in shown
    drops = nexus("drops").stdout.decode()
    assert f"result of {command.strip()}\n" in drops
    assert nexus("sessions", "list").stdout.decode().endswith(f"  {words}\n")
    for listed in (("drops",), ("sessions", "list")):
        assert max(map(len, nexus(*listed, env={"COLUMNS": "60"}).stdout.decode().splitlines())) <= 60


@pytest.mark.parametrize("cut", [0, 18, 19, 500])
def test_joined_ranges_are_the_original(nexus: Run, session: str, cut: int) -> None:
    first = nexus("drops", "show", "d1", "--range", f":{cut}").stdout.decode()
    assert first == ORIGINAL[:cut]
    assert first + nexus("drops", "show", "d1", "--range", f"{cut}:").stdout.decode() == ORIGINAL


def test_drops_are_listed(nexus: Run, session: str) -> None:
    (drop,) = json.loads(nexus("drops", "--json").stdout)["drops"]
    assert (drop["id"], drop["tokens"], drop["cause"]) == ("d1", 9000, "output_cap")
    assert b"`nexus drops show d1`" in nexus("drops").stdout
    named = nexus("drops", "--session", session).stdout.decode()
    (command,) = [part for part in named.split("`") if part.startswith("nexus drops show")]
    assert nexus(*command.split()[1:], cwd="/").stdout.decode() == ORIGINAL


def test_sessions_are_listed_shown_forked_renamed_and_deleted(nexus: Run, session: str) -> None:
    listed = json.loads(nexus("sessions", "list", "--json").stdout)["sessions"]
    assert [one["id"] for one in listed] == [session]
    assert session.encode() in nexus("sessions", "list").stdout
    assert b"fix" in nexus("sessions", "show", session[:10]).stdout
    fork = nexus("sessions", "fork", session, "--name", "copy").stdout.decode().strip()
    assert len(fork) == 26 and fork != session
    for arguments in (["rename", session, "copy"], ["fork", session, "--name", "copy"]):
        done = nexus("sessions", *arguments)
        told = f'nexus: the name "copy" is taken: session {fork} has this name. Choose another name.\n'
        assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", told)
    assert nexus("sessions", "rename", "copy", "other").returncode == 0
    assert nexus("sessions", "delete", "other").returncode == 0
    assert len(json.loads(nexus("sessions", "list", "--json").stdout)["sessions"]) == 1


def test_in_a_subfolder_the_folder_of_the_projects_session_is_named(nexus: Run, session: str, tmp_path: Path) -> None:
    for folder in (".git", "sub"):
        (tmp_path / folder).mkdir()
    done = nexus("undo", cwd=tmp_path / "sub")
    assert (done.returncode, done.stderr.decode().split("project: ")[-1]) == (2, f"cd {tmp_path}.\n")


LOOKS = [
    ["sessions", "list"],
    ["sessions", "search", "x"],
    ["memory", "list"],
    ["memory", "search", "x"],
    ["drops"],
]


@pytest.mark.matrix
@pytest.mark.parametrize("looks", LOOKS, ids=" ".join)
def test_a_ledger_that_cannot_be_opened_is_not_told_as_an_empty_one(nexus: Run, looks: list[str]) -> None:
    assert nexus(*looks).returncode == (2 if looks == ["drops"] else 0)
    assert not places().data.exists()
    places().data.parent.mkdir(parents=True, exist_ok=True)
    places().data.write_text("a file where the folder should be")
    done = nexus(*looks)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
    assert f"the ledger {places().ledger} cannot be opened" in done.stderr.decode()
    assert b"NEXUS_HOME" in done.stderr and b"--no-save" not in done.stderr, "these commands do not have it"


def no_room() -> None:
    """No file of this process can grow: a disk that is full, for whoever runs the tests."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.matrix
def test_reports_need_no_room_on_the_disk_and_what_writes_says_that_there_is_none(nexus: Run, session: str) -> None:
    told = {
        ("drops", "show", "d1"): ORIGINAL,
        ("replay",): "has not sent a request",
        ("sessions", "list"): "please",
        ("memory", "list"): "No facts about this project yet",
    }
    for arguments, text in told.items():
        done = nexus(*arguments, preexec_fn=no_room)
        assert (done.returncode, done.stderr) == (0, b"") and text in done.stdout.decode()
    done = nexus("sessions", "rename", session, "other", preexec_fn=no_room)
    assert done.returncode == 1 and b"cannot be opened" in done.stderr and done.stderr.count(b"\n") == 1


def test_replay_of_nothing_sent_passes(nexus: Run, session: str) -> None:
    done = nexus("replay", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["requests"] == 0


@pytest.mark.matrix
def test_other_folders_have_their_own_newest_session(nexus: Run, session: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    done = nexus("drops", cwd=tmp_path / "other")
    assert done.returncode == 2 and b"no session" in done.stderr
    assert json.loads(nexus("sessions", "list", "--json", cwd=tmp_path / "other").stdout)["sessions"] == []
    assert session.encode() in nexus("sessions", "list", "--all", cwd=tmp_path / "other").stdout


def test_looking_makes_no_ledger(nexus: Run) -> None:
    assert nexus("sessions", "list").returncode == 0
    assert nexus("drops").returncode == 2
    assert not os.path.exists(os.environ["NEXUS_HOME"])


@pytest.mark.matrix
def test_the_context_of_a_new_session_needs_no_model(nexus: Run) -> None:
    value = json.loads(nexus("context", "--json").stdout)
    assert value["budget"]["window"] == 128_000 and value["pending"] and value["request_sha256"] is None
    assert b"tokens used" in nexus("context").stdout


@pytest.mark.parametrize("text", ["FIX", "please \x1b[2J", "fix"])
def test_words_are_found_in_the_sessions_of_the_folder(nexus: Run, session: str, tmp_path: Path, text: str) -> None:
    value = json.loads(nexus("sessions", "search", text, "--json").stdout)
    assert [(hit["session"], hit["entry"], hit["at"]) for hit in value["hits"]] == [(session, 1, AT)]
    assert "fix" in value["hits"][0]["snippet"] and value["more"] is False
    shown = nexus("sessions", "search", text).stdout
    assert session.encode() in shown and b"1 match." in shown
    (tmp_path / "other").mkdir()
    elsewhere = tmp_path / "other"
    assert not json.loads(nexus("sessions", "search", text, "--json", cwd=elsewhere).stdout)["hits"]
    assert json.loads(nexus("sessions", "search", text, "--all", "--json", cwd=elsewhere).stdout)["hits"]


@pytest.mark.matrix
@pytest.mark.parametrize("text", ["100%", "_", 'it\'s "it"', "[/bold]", "--", "%s{}"])
def test_what_looks_like_a_pattern_is_plain_text(nexus: Run, session: str, text: str) -> None:
    done = nexus("sessions", "search", "--json", "--", text)
    assert done.returncode == 0 and json.loads(done.stdout)["hits"] == []


def test_a_session_is_exported_to_stdout_or_a_new_file(nexus: Run, session: str, tmp_path: Path) -> None:
    text = nexus("sessions", "export", session).stdout.decode()
    assert text.startswith("# please") and "please \x1b[2J fix" in text
    rows = [json.loads(line) for line in nexus("sessions", "export", session, "--format", "jsonl").stdout.splitlines()]
    assert [row["type"] for row in rows] == ["session", "entry", "drop"] and rows[2]["text"] == ORIGINAL
    assert nexus("sessions", "export", session, "--output", "out.jsonl").returncode == 0
    written = (tmp_path / "out.jsonl").read_bytes()
    assert [json.loads(line) for line in written.splitlines()] == rows
    again = nexus("sessions", "export", session, "-o", "out.jsonl")
    assert again.returncode == 2 and b"exists" in again.stderr and (tmp_path / "out.jsonl").read_bytes() == written


def test_the_new_commands_can_be_completed_in_a_shell(nexus: Run) -> None:
    def completed(words: str) -> set[bytes]:
        env = {"_NEXUS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return set(nexus(env=env).stdout.split())

    assert {b"search", b"export"} <= completed("nexus sessions ")
    assert completed("nexus model ") == {b"list", b"show", b"use"} and b"edit" in completed("nexus config ")


@pytest.mark.matrix
def test_completion_reads_the_ledger_and_leaves_it_as_it_is(nexus: Run, tmp_path: Path) -> None:
    def complete(line: str) -> bytes:
        env = {"_NEXUS_COMPLETE": "complete_bash", "COMP_WORDS": f"nexus {line}", "COMP_CWORD": "3"}
        done = nexus(env=env)
        assert done.stderr == b"", done
        return done.stdout.strip()

    assert complete("sessions show ") == b"" and not places().ledger.exists()
    places().data.mkdir(parents=True)
    ledger = Ledger.open(places().ledger)
    spend(ledger, tmp_path, "openai/gpt-5", (AT, Usage(1000, 100)))
    (session,) = ledger.sessions()
    ledger.db.run("UPDATE sessions SET entries = 1")
    ledger.close()
    assert (named := complete("sessions show ").decode()) and session.id.endswith(named)
    places().ledger.write_bytes(b"no database" * 400)
    assert complete("sessions show ") == b"" and places().ledger.read_bytes() == b"no database" * 400


def test_usage_sums_all_sessions_for_a_script_and_for_a_person(nexus: Run, tmp_path: Path) -> None:
    none = nexus("usage")
    assert none.stdout == b"No session has sent a request yet.\n" and not places().ledger.exists()
    assert json.loads(nexus("usage", "--json").stdout)["total"]["requests"] == 0
    places().data.mkdir(parents=True)
    ledger = Ledger.open(places().ledger)
    for project in (tmp_path, tmp_path / "other"):
        spend(ledger, project, "openai/gpt-5", (AT, Usage(1000, 100, cost_usd=0.5)))
    ledger.close()
    value = json.loads(nexus("usage", "--json", "--since", "2026-01-02").stdout)
    assert (value["version"], value["zone"], value["since"]) == (1, "UTC", "2026-01-02T00:00:00.000Z")
    assert value["total"]["cost_usd"] == 1.0 and [one["day"] for one in value["days"]] == ["2026-01-02"]
    assert {one["project"] for one in value["projects"]} == {str(tmp_path), str(tmp_path / "other")}
    assert json.loads(nexus("usage", "--json", "--since", "2026-01-02T03:04:05.001Z").stdout)["total"]["sessions"] == 0
    text = nexus("usage").stdout.decode()
    assert text.startswith("$1.00 for 2 requests in 2 sessions: 2,000 tokens in") and "by project:" in text
    wrong = nexus("usage", "--since", "last week")
    assert wrong.returncode == 2 and b"--since last week" in wrong.stderr and b"YYYY-MM-DD" in wrong.stderr


def test_the_timeline_is_plain_lines_and_json_with_the_same_facts(nexus: Run, session: str) -> None:
    value = json.loads(nexus("timeline", "--json").stdout)
    assert (value["version"], value["session"], value["earlier"]) == (1, session, 0)
    assert [row["kind"] for row in value["rows"]] == ["start", "user", "drop"]
    assert all(
        set(row) >= {"at", "kind", "entry", "actor", "text", "why", "seen", "trigger", "tokens", "cost_usd", "seconds"}
        for row in value["rows"]
    )
    done = nexus("timeline", "--session", session[:12])
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"") and "\x1b" not in text
    assert " You (not sent yet): " in text and "9,000 tokens (output_cap)" in text
    narrow = nexus("timeline", env={"COLUMNS": "40"}).stdout.decode()
    assert max(map(len, narrow.splitlines())) <= 40 and " You (not sent yet):" in narrow
    last = nexus("timeline", "--last", "1").stdout.decode()
    assert "2 earlier rows not shown (--last 3" in last and last.count("\n20") == 1


def test_the_timelines_of_a_space_and_of_a_run_are_read_by_name_and_id(nexus: Run, session: str) -> None:
    with closing(Ledger.open(places().ledger)) as ledger:
        members = [ledger.spaces.entity("Husam", "human"), ledger.spaces.entity("Nexus", "agent")]
        space = ledger.spaces.create("Project Alpha", AT, members=members)
        ledger.spaces.post(space, members[0], "pull the numbers", AT)
    value = json.loads(nexus("timeline", "--space", "project alpha", "--json").stdout)
    assert value["rows"][0]["runs"][0]["source"] == "auto" and value["rows"][0]["seen"] is True
    text = nexus("timeline", "--space", "Project Alpha", "--as", "nexus").stdout.decode()
    assert " Husam (new): [msg-1] · " in text and "Nexus (auto): run-1 queued" in text
    assert "queued" in nexus("timeline", "--run", "run-1").stdout.decode()
    assert json.loads(nexus("timeline", "--run", "1", "--json").stdout)["run"]["state"] == "queued"
