"""Permission of calls in a session: level, rules and walls together, with and without a person."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from guide_files import find_skills
from project_files import write_files
from search import sample, variant
from session.played import MODEL, Person, Played, say, the_ledger

from nexus_cli.commands.forms import find_form
from nexus_cli.config import trust
from nexus_cli.config.paths import places
from nexus_cli.config.settings import SandboxSettings, Settings
from nexus_cli.config.worktree_record import WorktreeRecord, worktrees_of
from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import ApprovalRequest, Event, Notice, ToolResultEvent
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.limits import PLAN
from nexus_cli.core.memo_kinds import DECISION
from nexus_cli.core.message import ToolResult
from nexus_cli.core.request import Request
from nexus_cli.core.tool import SIGPIPE
from nexus_cli.guides.skills import GuideKind, find_guides
from nexus_cli.ledger import LaneLog
from nexus_cli.permission.call_decision import CheckedCall
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.reports.decisions import decision_report
from nexus_cli.reports.event_texts import describe_notice
from nexus_cli.rules import rule_set
from nexus_cli.sandbox import probe, session_network
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.landlock import landlock_abi
from nexus_cli.sandbox.session_network import SessionNetwork, make_network
from nexus_cli.sections.contributors.permission import ONLY_READING
from nexus_cli.sections.find_recipe import find_agents
from nexus_cli.session import section_sources
from nexus_cli.session.factory import open_session
from nexus_cli.session.limits_record import PLAN_ENDS, describe_ended_answers
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.tools.builtin.bash import _format_result
from nexus_cli.tools.pipe_statuses import describe_failed_part
from nexus_cli.tools.process import ProcessResult
from nexus_cli.tools.registry import discover_tools
from nexus_cli.ui.render.question_text import question_text
from nexus_cli.ui.render.theme import choose_theme

SETTINGS = Settings(models={MODEL: {"window": 16_000}})
OFF = replace(SETTINGS, sandbox=SandboxSettings(backend="off"))
Call = tuple[str, dict[str, Any]]

FREE: Call = ("bash", {"command": "ls"})
WRITES: Call = ("bash", {"command": "touch made"})
DENIED: Call = ("bash", {"command": "touch never"})
NETWORK: Call = ("bash", {"command": "touch net", "network": True})
OUTSIDE: Call = ("bash", {"command": "touch ../outside", "outside": "it belongs there"})
CALLS = (FREE, WRITES, DENIED, NETWORK, OUTSIDE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def write_settings(text: str) -> Path:
    path = places().settings
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def opened(
    folder: Path,
    *steps: Call | list[Call] | str,
    person: Person | None = None,
    settings: Settings = SETTINGS,
    **options: Any,
) -> Session:
    """A session whose model asks for one call, or several, in each step, and is done."""

    def script(request: Request) -> Any:
        done = sum(1 for message in request.messages if message["role"] == "assistant")
        step = steps[done] if done < len(steps) else "done"
        return [step] if isinstance(step, tuple) else step

    return open_session(Options(folder, MODEL, **options), settings, approver=person, provider=Played(script))


def results(events: list[Event]) -> list[ToolResult]:
    return [event.result for event in events if isinstance(event, ToolResultEvent)]


def notices(events: list[Event]) -> list[str]:
    return [describe_notice(event, at_terminal=True) for event in events if isinstance(event, Notice)]


def decisions(session: Session) -> list[Mapping[str, Any]]:
    """The newest recorded decision on each call."""
    with the_ledger() as ledger:
        memos = LaneLog(ledger.db, session.id).memos(DECISION)
        return [*{memo.value["id"]: memo.value for memo in memos}.values()]


ASKED: dict[str, tuple[Call, ...]] = {
    "plan": (),
    "ask": (WRITES, NETWORK, OUTSIDE),
    "edit": (WRITES, NETWORK, OUTSIDE),
    "auto": (NETWORK, OUTSIDE),
    "all": (),
}
RUNS: dict[str, tuple[Call, ...]] = {
    "plan": (FREE,),
    "ask": (FREE,),
    "edit": (FREE,),
    "auto": (FREE, WRITES),
    "all": (FREE, WRITES, NETWORK, OUTSIDE),
}
PROFILES = {"ls": "read", "touch made": "write", "touch net": "net", "touch ../outside": "none"}
NEEDED = {"touch made": "auto", "touch never": None, "touch net": None, "touch ../outside": None}
PLANNED = {**NEEDED, "touch net": "all", "touch ../outside": "all"}
"""No option leaves plan mode."""


@pytest.mark.matrix
@pytest.mark.parametrize("level", sample(ASKED, 3))
@pytest.mark.parametrize("has_person", [True, False])
def test_each_kind_of_command_at_each_level(project: Path, level: str, has_person: bool) -> None:
    write_settings('[rules]\ndeny = ["bash(touch never)"]\n')
    person = Person()
    session = opened(project, list(CALLS), person=person if has_person else None, allow=level)
    events, outcome = say(session, "go")
    asked = ASKED[level] if has_person else ()
    ran = [call for call in CALLS if call in RUNS[level] or call in asked]
    assert [one.call.arguments for one in person.asked] == [call[1] for call in asked]
    done = results(events)
    assert [call for call, result in zip(CALLS, done, strict=True) if result.ran] == ran, done
    made = {path.name for path in project.iterdir()} - {".git"}
    wanted = {call[1]["command"].split("/")[-1].split()[-1] for call in ran} - {"ls", "outside"}
    assert made == wanted and (project.parent / "outside").exists() == (OUTSIDE in ran)
    refused = {row["subject"]: row for row in outcome.denied}
    assert set(refused) == {call[1]["command"] for call in CALLS if call not in ran}
    needed = PLANNED if level == "plan" else NEEDED
    assert {name: row["level"] for name, row in refused.items()} == {name: needed[name] for name in refused}
    assert "deny bash(touch never) (" in refused["touch never"]["why"]
    for call, value in zip(CALLS, decisions(session), strict=True):
        profile = "none" if level == "all" else PROFILES.get(call[1]["command"])
        assert value["level"] == level and (call is DENIED or value["profile"] == profile)
        assert value.get("answer") == ("yes" if call in asked else None)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_a_project_whose_settings_never_end_holds_nothing_up(kind: str, project: Path) -> None:
    (project / ".nexus").mkdir()
    file = project / ".nexus" / "config.toml"
    os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")
    (project / "a").write_text("here")
    events, _ = say(opened(project, ("read_file", {"path": "a"}), WRITES, allow="auto"), "go")
    assert all(result.ran for result in results(events))


@pytest.mark.matrix
def test_a_command_runs_in_the_profile_that_was_decided(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles: list[tuple[str, bool]] = []
    made, decided = CallPermission.make_sandbox, CallPermission.decide

    def decide(self: CallPermission, *given: Any, **named: Any) -> Any:
        found = decided(self, *given, **named)
        (project / "a").unlink(missing_ok=True)
        (project / "a").symlink_to("/etc/hostname")
        return found

    def make_sandbox(self: CallPermission, profile: Any, *, asks: bool, **more: bool) -> Any:
        profiles.append((profile, asks))
        return made(self, profile, asks=asks, **more)

    monkeypatch.setattr(CallPermission, "decide", decide)
    monkeypatch.setattr(CallPermission, "make_sandbox", make_sandbox)
    (project / "a").write_text("x")
    session = opened(project, ("bash", {"command": "cat a"}))
    say(session, "go")
    assert profiles == [("read", False)], "nobody can be asked here"
    assert [value["profile"] for value in decisions(session)] == ["read"]


@pytest.mark.matrix
def test_a_command_runs_in_the_profile_of_the_level_that_was_set_while_the_ledger_was_away(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles: list[str] = []
    made = CallPermission.make_sandbox

    async def save(self: LaneLog, error: NexusError | None = None, *, waits: bool = True) -> bool:
        if session.dispatcher.step.decisions:  # the call was allowed already
            session.set_level("auto")
        return True

    def make_sandbox(self: CallPermission, profile: Any, **named: Any) -> Any:
        profiles.append(profile)
        return made(self, profile, **named)

    monkeypatch.setattr(LaneLog, "save", save)
    monkeypatch.setattr(CallPermission, "make_sandbox", make_sandbox)
    session = opened(project, WRITES, allow="all")
    assert results(say(session, "go")[0])[0].ran
    assert profiles == [value["profile"] for value in decisions(session)] == ["write"]


@pytest.mark.matrix
def test_a_path_rule_holds_in_a_project_that_is_named_by_a_link(project: Path) -> None:
    write_settings('[rules]\ndeny = ["read_file(.env)"]\n')
    (project / ".env").write_text("x")
    linked = project.with_name("linked")
    linked.symlink_to(project)
    [result] = results(say(opened(linked, ("read_file", {"path": ".env"})), "go")[0])
    assert result.denied


def test_a_search_of_a_folder_leaves_out_what_a_deny_rule_names(project: Path) -> None:
    write_settings('[rules]\ndeny = ["read_file(.env)", "grep(secrets/**)", "glob(secrets/**)"]\n')
    (project / "secrets" / "deep").mkdir(parents=True)
    for name in (".env", "secrets/deep/key", "open"):
        (project / name).write_text("password\n")
    search = {"pattern": "password"}
    calls = [("grep", search | path) for path in ({}, {"path": "secrets"}, {"path": ".env"})]
    session = opened(project, *calls, ("glob", {"pattern": "**"}), ("glob", {"pattern": "secrets/deep/key"}))
    first, folder, file, listed, named = results(say(session, "go")[0])
    assert first.text.splitlines()[0] == "open" and "key" not in first.text and ".env" not in first.text
    assert folder.denied and "deny rule" in file.text and "password" not in file.text
    assert set(listed.text.splitlines()) == {".env", "open"} and named.text == "no files"


@pytest.mark.matrix
@pytest.mark.parametrize("backend", sample(["bwrap", "landlock"], 2))
def test_a_command_cannot_read_what_a_deny_rule_names_in_a_folder_that_it_reads_whole(
    project: Path, backend: str
) -> None:
    found = probe.find_backend(backend, own=places(), project=project)
    if found.backend == "none":
        pytest.skip(found.why)
    write_settings('[rules]\ndeny = ["read_file(.env)", "read_file(secret/**)"]\n')
    (project / "secret" / "deep").mkdir(parents=True)
    (project / "app").mkdir()
    for name in (".env", "secret/deep/key", "app/.env", "app/open"):
        (project / name).write_text("hunter2\n")
    script = "import os\nprint([open(os.path.join(p, n)).read() for p, _, ns in os.walk('.') for n in ns])"
    (project / "look.py").write_text(script)
    reads = [("bash", {"command": line}) for line in ("grep -r hunter2 app", "grep -rs hunter2 .", "python3 look.py")]
    makes = [
        ("bash", {"command": line})
        for line in ("echo new > made; mkdir app/deep && echo x > app/deep/x", "cat made app/deep/x; rm made")
    ]
    settings = replace(SETTINGS, sandbox=SandboxSettings(backend=backend))
    session = opened(project, *reads, *makes, allow="auto", settings=settings)
    one, whole, script, _, made = (result.text for result in results(say(session, "go")[0]))
    assert "app/open:hunter2" in one and "app/.env:hunter2" not in one
    assert "./app/open:hunter2" in whole and ".env:hunter2" not in whole and "key" not in whole
    assert script.count("hunter2") <= 1 and (backend == "bwrap" or "[sandbox: a deny rule hides " in script)
    assert made.startswith("new\nx\n") and not (project / "made").exists(), "it stays a project to work in"
    write_files(project, {"later/.env": "hunter2\n"})
    later = opened(project, ("bash", {"command": "cat later/*"}), person=Person(), settings=settings)
    assert "hunter2" not in results(say(later, "go")[0])[0].text


@pytest.mark.matrix
def test_without_a_sandbox_a_deny_rule_for_files_hides_nothing_from_a_command_that_the_person_allows(
    project: Path,
) -> None:
    write_settings('[rules]\ndeny = ["read_file(.env)"]\n')
    (project / ".env").write_text("hunter2\n")
    session = opened(project, ("bash", {"command": "grep -r hunter2 ."}), person=Person(), settings=OFF)
    assert "hunter2" in results(say(session, "go")[0])[0].text


@pytest.mark.matrix
def test_a_question_says_what_runs_where_which_parts_ask_and_what_always_stores(project: Path) -> None:
    write_settings('[rules]\nask = ["bash(ls *)"]\n')
    person = Person()
    events, _ = say(opened(project, [("bash", {"command": "pwd; touch made"}), FREE], person=person), "go")
    asks = [to_json_value(event)["question"] for event in events if isinstance(event, ApprovalRequest)]
    first, second = asks
    assert (first["profile"], first["rule"], first["stores"]) == ("write", "", ["bash(touch *)"])
    assert first["parts"] == [
        {"command": ["pwd"], "decision": "allow", "rule": None, "from": "built in"},
        {"command": ["touch", "made"], "decision": "ask", "rule": None, "from": "level ask"},
    ]
    assert second["rule"].startswith("ask bash(ls *) (") and "config.toml line 2" in second["rule"]
    assert second["stores"] == [] and second["parts"][0]["rule"] == "bash(ls *)", "no allow rule would win over it"


@pytest.mark.matrix
def test_of_a_line_of_very_many_parts_those_that_ask_are_recorded_and_the_others_counted(project: Path) -> None:
    person = Person(Deny())
    line = "; ".join(["pwd"] * 300 + ["touch made"] + ["ls"] * 200)
    session = opened(project, ("bash", {"command": line}), person=person)
    events, _ = say(session, "go")
    [asked] = [to_json_value(event)["question"] for event in events if isinstance(event, ApprovalRequest)]
    [value] = decisions(session)
    for one in (asked, value):
        assert len(one["parts"]) == 50 and one["more_parts"] == 451
        assert one["parts"][-1]["command"] == ["touch", "made"] and one["parts"][0]["command"] == ["pwd"]
    assert len(json.dumps(value)) < 10_000
    shown = question_text(person.asked[0], 200, choose_theme("auto", colour=False))
    assert "needs approval: touch made" in shown and "more" not in shown
    with the_ledger() as ledger:
        log = LaneLog(ledger.db, session.id)
        assert "and 451 more" in find_form("decision")(decision_report(log, value["id"]) or {}, 80)


@pytest.mark.matrix
def test_the_question_says_that_a_deny_rule_only_may_match(project: Path) -> None:
    write_settings('[rules]\ndeny = ["bash(touch never)"]\n')
    person = Person(Deny())
    say(opened(project, ("bash", {"command": "touch $x"}), person=person), "go")
    shown = question_text(person.asked[0], 200, choose_theme("auto", colour=False))
    assert "\N{MIDDLE DOT} may match deny bash(touch never) (" in shown, shown


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("line", "named"),
    sample(
        [
            ("until [ -e go ]; do sleep 0.05; done; echo 2 failed", "a possibly endless loop"),
            ("while read -r f; do touch made; done", "a possibly endless loop; read -r f; touch made"),
            ("case x in x) pwd;; esac", "a case statement"),
            ("pwd > made; touch other", "a redirect to 'made'; touch other"),
            ("pwd; touch made", "touch made"),
            ("touch made", ""),
        ],
        3,
    ),
)
def test_the_question_names_what_asks_and_not_what_only_stands_in_it(project: Path, line: str, named: str) -> None:
    person = Person(Deny())
    say(opened(project, ("bash", {"command": line}), person=person), "go")
    shown = question_text(person.asked[0], 200, choose_theme("auto", colour=False)).splitlines()[-1]
    assert shown.partition(" \N{MIDDLE DOT} ")[2] == (f"needs approval: {named}" if named else "")


def test_a_reader_that_cannot_write_says_so_and_runs_again_only_when_the_model_asks_for_it(project: Path) -> None:
    line, person = "awk 'BEGIN {print 1 > \"made\"}'", Person()
    again = ("bash", {"command": line, "write": True})
    session = opened(project, ("bash", {"command": line}), "waits", person=person)
    events, _ = say(session, "go")
    [refused] = results(events)
    assert (
        "[nexus: ran read-only: no writes, no network; write=true asks the person for write access]" in refused.output
    )
    assert not person.asked and not (project / "made").exists()
    events, _ = say(opened(project, again, person=person), "go")
    assert [question.call.arguments["command"] for question in person.asked] == [line]
    assert line in question_text(person.asked[0], 200, choose_theme("auto", colour=False))
    assert "ran read-only" not in results(events)[0].output and (project / "made").read_text() == "1\n"


@pytest.mark.matrix
@pytest.mark.parametrize("is_refused", [False, True])
def test_under_landlock_the_first_command_has_a_loopback_where_the_system_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    if not landlock_abi():
        pytest.skip("Landlock is not in this kernel")
    asked: list[Backend] = []

    def make(backend: Backend, project: Path) -> tuple[SessionNetwork | None, str]:
        asked.append(backend)
        return (None, "no user namespaces") if is_refused else make_network(backend, project)

    monkeypatch.setattr(session_network, "make_network", make)
    permission = CallPermission(tmp_path, tmp_path, sandbox=SandboxSettings(backend="landlock"))
    with closing(permission):
        made = [permission.make_sandbox("write", asks=False) for _ in range(2)]
        reader = permission.make_sandbox("read")
        assert asked == [Backend.LANDLOCK], "once in a session"
        if is_refused or permission.network is None:
            assert not any(one.notes for one in made)
            assert "not even loopback" in made[0].describe_denial("make", "connection refused", 1)
            return
        assert [one.confinement and one.confinement.network for one in (*made, reader)] == [
            *[permission.network] * 2,
            None,
        ]
        assert "not even loopback" not in made[0].describe_denial("make", "connection refused", 1)


@pytest.mark.matrix
def test_a_failed_reader_says_once_a_turn_that_it_ran_read_only_but_no_search_without_a_match(project: Path) -> None:
    lines = ("grep -r nowhere .", "diff <(echo a) <(echo b)", "grep -r x nowhere", "grep -r x elsewhere")
    found = results(say(opened(project, *(("bash", {"command": line}) for line in lines)), "go")[0])
    assert ["ran read-only" in one.output for one in found] == [False, False, True, False]
    permission = CallPermission(project, project, sandbox=SandboxSettings())
    sandbox = permission.make_sandbox("read")
    refused, log = b"mkdir: cannot create directory: Read-only file system\n", b"yesterday: permission denied\n"
    pipes: tuple[tuple[str, bytes, tuple[int, ...], bool], ...] = (
        ("mkdir /etc/x 2>&1 | cat", refused, (1, 0), True),
        ("false | cat log", log, (1, 0), False),
        ("cat log | tail", log, (0, 0), False),
        ("grep -r y . 2>&1 | head -1", log, (SIGPIPE, 0), False),
    )
    for line, output, pipe, is_told in pipes:
        permission.begin_turn()
        failed = describe_failed_part(line, pipe, passes_answers=True)
        done = ProcessResult(output, 0, 0, timed_out=False, killed=0)
        text = _format_result(line, done, 120, sandbox, pipe, failed)
        assert ("ran read-only" in text) is is_told, line
    permission.begin_turn()
    describe = sandbox.describe_denial
    assert describe("grep x .", "", 2) and not describe("grep y .", "", 2)
    assert describe("sed -n 'w x' y", "couldn't open file x: Read-only file system", 4)
    permission.begin_turn()
    assert describe("grep x .", "", 2)
    permission.close()


@pytest.mark.matrix
def test_always_stores_a_rule_that_holds_at_once_and_in_the_next_session(project: Path) -> None:
    person = Person(Allow(always=True, stored=True))
    another = ("bash", {"command": "touch another"})
    session = opened(project, WRITES, another, person=person)
    events, outcome = say(session, "go")
    assert outcome.ok and [one.stores for one in person.asked] == [("bash(touch *)",)]
    [line] = notices(events)
    assert line.endswith("bash(touch *) · undo: nexus rules remove 'bash(touch *)'")
    assert places().settings.read_text() == f'[rules]\n[rules."{project}"]\nallow = ["bash(touch *)"]\n'
    asked, covered = decisions(session)
    assert asked["answer"] == "always" and "answer" not in covered
    assert (covered["rule"], covered["profile"]) == ("allow bash(touch *)", "write")
    assert covered["from"].endswith("config.toml line 3")
    third = ("bash", {"command": "touch third"})
    assert results(say(opened(project, third), "go")[0])[0].ran
    elsewhere = project.with_name("elsewhere")
    (elsewhere / ".git").mkdir(parents=True)
    assert not results(say(opened(elsewhere, third), "go")[0])[0].ran
    places().settings.write_text("")
    assert not results(say(opened(project, third), "go")[0])[0].ran


@pytest.mark.matrix
def test_a_rule_that_cannot_be_stored_holds_for_the_session_and_that_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("nexus_cli.config.settings_file.replace_private_file", full)
    person = Person(Allow(always=True, stored=True))
    events, outcome = say(opened(project, WRITES, WRITES, person=person), "go")
    assert outcome.ok and len(person.asked) == 1 and (project / "made").exists()
    [line] = notices(events)
    assert line.startswith("Allowed for this session only") and "No space left" in line
    assert line.endswith("bash(touch *) · undo: /permissions remove bash(touch *)")


@pytest.mark.parametrize("level", ["plan", "ask", "all"])
def test_a_deny_rule_for_files_holds_at_every_level_and_nobody_is_asked(project: Path, level: str) -> None:
    write_settings('[rules]\ndeny = ["read_file(secret/**)", "write_file"]\n')
    write_files(project, {"secret/a.txt": "one\n"})
    (project / "link").symlink_to("secret/a.txt")
    person = Person()
    calls = [
        ("read_file", {"path": "secret/a.txt"}),
        ("read_file", {"path": "link"}),
        ("write_file", {"path": "b.txt", "content": "x"}),
    ]
    events, outcome = say(opened(project, calls, person=person, allow=level), "go")
    assert not person.asked and not any(result.ran for result in results(events))
    assert [row["allow"] for row in outcome.denied] == [None, None, None]
    assert all("config.toml line 2" in row["why"] for row in outcome.denied)


@pytest.mark.matrix
@pytest.mark.parametrize("rule", ["read_file(secret/**)", "read_file"])
def test_no_edit_shows_or_moves_what_a_deny_rule_keeps_from_reading(project: Path, rule: str) -> None:
    write_settings(f'[rules]\ndeny = ["{rule}"]\n')
    (project / "secret").mkdir()
    key = project / "secret" / "key"
    key.write_text("TOPSECRET=1\nlast\n")
    patches = ("*** Update File: secret/key\n*** Move to: open", "*** Delete File: secret/key")
    calls: list[Call] = [("apply_patch", {"input": f"*** Begin Patch\n{one}\n*** End Patch"}) for one in patches]
    calls.append(("edit_file", {"path": "secret/key", "edits": [{"old": "TOPSECRET=2", "new": "x"}]}))
    events, outcome = say(
        opened(project, *calls, ("write_file", {"path": "secret/new", "content": "x"}), allow="edit"), "go"
    )
    *hidden, new = results(events)
    assert [one.denied for one in hidden] == [True] * 3 and "TOPSECRET" not in "".join(one.text for one in hidden)
    assert all("config.toml line 2" in row["why"] for row in outcome.denied)
    assert key.read_text() == "TOPSECRET=1\nlast\n" and new.ran and (project / "secret" / "new").exists()


@pytest.mark.matrix
def test_a_rule_may_name_a_tool_that_is_called_by_the_name_of_another_program(project: Path) -> None:
    write_settings('[rules]\ndeny = ["apply_patch(src/**)"]\n')
    add = "*** Begin Patch\n*** Add File: {}/new\n+x\n*** End Patch"
    calls: list[Call] = [
        ("apply_patch", {"input": add.format("src")}),
        ("apply_patch", {"input": add.format("lib")}),
    ]
    src, lib = results(say(opened(project, *calls, allow="edit"), "go")[0])
    assert src.denied and lib.ran and not (project / "src").exists(), (src, lib)


@pytest.mark.matrix
def test_an_allow_rule_for_files_leaves_the_project_only_where_it_names_the_place(project: Path) -> None:
    outside, secret = project.parent / "outside.txt", Path(os.environ["HOME"]) / ".netrc"
    secret.write_text("password hunter2\n")
    inside = ("write_file", {"path": "a.txt", "content": "x"})
    out = ("write_file", {"path": str(outside), "content": "x"})
    notes = ("write_file", {"path": "NEXUS.md", "content": "x"})
    keys = ("read_file", {"path": str(secret)})

    def ran(*rules: str) -> list[bool]:
        write_settings(f"[rules]\nallow = {list(rules)!r}\n")
        for path in (project / "a.txt", project / "NEXUS.md", outside):
            path.unlink(missing_ok=True)
        return [result.ran for result in results(say(opened(project, [inside, out, notes, keys]), "go")[0])]

    assert ran() == [False, False, False, False]
    assert ran("write_file", "read_file") == [True, False, False, False]
    assert ran(f"write_file({outside})", "write_file(NEXUS.md)") == [False, True, True, False]
    assert ran(f"read_file({secret})") == [False, False, False, True]


@pytest.mark.matrix
@pytest.mark.parametrize("answers_late", [True, False])
def test_a_question_that_plan_mode_finds_open_is_withdrawn_and_its_call_does_not_run(
    project: Path, answers_late: bool
) -> None:
    sessions: list[Session] = []

    class Plans(Person):
        async def ask(self, question: Question) -> Answer:
            self.asked.append(question)
            sessions[0].set_level(PLAN)
            if answers_late:
                await asyncio.Event().wait()
            return Allow()

    sessions.append(opened(project, [WRITES, ("write_file", {"path": "a.txt", "content": "x"})], person=Plans()))
    events, outcome = say(sessions[0], "go")
    assert outcome.ok and {path.name for path in project.iterdir()} == {".git"}
    assert all(result.denied and "plan mode" in result.text for result in results(events))
    assert [(one["decision"], one["level"], one.get("answer")) for one in decisions(sessions[0])] == [
        ("deny", PLAN, None)
    ] * 2


@pytest.mark.matrix
def test_a_deny_rule_that_is_added_while_a_question_is_open_refuses_its_call(project: Path) -> None:
    sessions: list[Session] = []

    class Denies(Person):
        async def ask(self, question: Question) -> Answer:
            sessions[0].dispatcher.permission.add_rule("deny bash(touch *)")
            sessions[0].dispatcher.withdraw_questions()
            return await super().ask(question)

    sessions.append(opened(project, WRITES, person=Denies()))
    [result] = results(say(sessions[0], "go")[0])
    assert result.denied and "deny bash(touch *)" in result.text and not (project / "made").exists()


@pytest.mark.matrix
@pytest.mark.parametrize("level", ["ask", "all"])
def test_rules_are_read_and_walls_tried_beside_the_event_loop(
    project: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings('[rules]\nask = ["bash(ls *)", "read_file(a)"]\n')
    (project / "a").write_text("one")
    threads: list[threading.Thread] = []

    def noted(function: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            threads.append(threading.current_thread())
            return function(*given, **named)

        return call

    monkeypatch.setattr(probe, "find_backend", noted(probe.find_backend))
    monkeypatch.setattr(rule_set, "read_rules", noted(rule_set.read_rules))
    sessions: list[Session] = []

    class Changes(Person):
        async def ask(self, question: Question) -> Answer:
            sessions[0].set_level("ask")
            return await super().ask(question)

    calls = [("read_file", {"path": "a"}), FREE, ("read_file", {"path": str(places().keys)})]
    sessions.append(opened(project, *calls, person=Changes(), allow=level))
    sessions[0].dispatcher.permission._forget_rules()
    threads.clear()
    say(sessions[0], "go")
    assert threads and threading.main_thread() not in threads


@pytest.mark.matrix
@pytest.mark.parametrize("rule", sample(["red_file(.env)", "read_file()", "bash(touch *; ls)", "agent(x"], 3))
def test_a_deny_rule_that_cannot_be_read_is_told_at_the_start_and_nothing_runs_unguarded(
    project: Path, rule: str
) -> None:
    write_settings(f"[rules]\nask = []\ndeny = ['{rule}']\n")
    session = opened(project, FREE)
    [line] = session.take_notices()
    assert "config.toml line 3: deny " in line and ("Did you mean read_file?" in line or "red" not in rule)
    with pytest.raises(NexusError) as refused:
        session.set_level("all")
    with pytest.raises(NexusError) as error:
        opened(project, FREE, allow="all")
    assert error.value.kind == refused.value.kind == "config" and "config.toml line 3" in error.value.message
    events, _ = say(session, "go")
    assert not notices(events) and session.status().allow == "ask"


def test_a_deny_rule_that_becomes_unreadable_ends_a_turn_in_which_nothing_would_ask(project: Path) -> None:
    session = opened(project, WRITES, allow="all")
    write_settings("[rules]\ndeny = ['bash(touch)', 'bahs(rm *)']\n")
    _, outcome = say(session, "go")
    assert outcome.error is not None and outcome.error["kind"] == "config" and not (project / "made").exists()


@pytest.mark.matrix
def test_rules_that_another_process_changes_hold_from_the_next_turn_on(project: Path) -> None:
    (project / "a").write_text("one")
    session = opened(
        project,
        [WRITES, ("read_file", {"path": "a"})],
        "done",
        [WRITES, ("read_file", {"path": "a"})],
        "done",
        [WRITES],
        "done",
        WRITES,
    )

    def turns(*settings: str) -> list[list[bool]]:
        async def play() -> list[list[bool]]:
            ran, lines = [], list[str]()
            for text in settings:
                write_settings(text)
                events = [event async for event in session.run("go")]
                ran.append([result.ran for result in results(events)])
                lines.append(" ".join(notices(events)))
            await session.aclose()
            assert (
                "previous rules remain active" in lines[2]
                and "config.toml" in lines[2]
                and not lines[0] + lines[1] + lines[3]
            )
            return ran

        return asyncio.run(play())

    added = '[rules]\nallow = ["bash(touch *)"]\ndeny = ["read_file(a)"]\n'
    assert turns("", added, "[rules]\nallow = [", "") == [[False, True], [True, False], [True], [False]]


@pytest.mark.matrix
@pytest.mark.parametrize("level", ["ask", variant("auto")])
def test_no_program_reads_what_a_rule_denies_also_where_it_denies_writing(project: Path, level: str) -> None:
    write_settings("[rules]\ndeny = ['read_file(secrets/**)', 'write_file(secrets/**)', 'read_file(*.pem)']\n")
    for name in ("secrets/token", "secrets/deep/key", "a.pem", "free"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"SECRET of {name}\n")
    read = 'python3 -c "import sys; [print(open(n).read()) for n in sys.argv[1:]]"'
    named = ["free", "sec''rets/token", "sec''rets/deep/key", "a.pe''m"]
    calls = [("bash", {"command": f"{read} {name}", "write": True}) for name in named]
    found = [one.output for one in results(say(opened(project, calls, person=Person(Allow()), allow=level), "go")[0])]
    assert [name for name, output in zip(named, found, strict=True) if "SECRET of" in output] == ["free"]


@pytest.mark.matrix
@pytest.mark.parametrize(("answer", "told"), [(Allow(always=True), True), (Allow(), False)])
def test_what_was_allowed_for_a_session_is_said_to_end_with_it(project: Path, answer: Allow, told: bool) -> None:
    session = opened(project, WRITES, person=Person(answer))
    say(session, "go")
    line = "Calls that you allowed for this session need approval again."
    resumed = opened(project, resume=session.id)
    assert describe_ended_answers(resumed) == (line if told else "")
    asyncio.run(resumed.aclose())


@pytest.mark.matrix
def test_what_a_command_makes_is_hidden_from_the_next_one_of_the_turn_if_a_rule_denies_it(project: Path) -> None:
    write_settings("[rules]\ndeny = ['read_file(*.key)']\n")
    made = "python3 -c \"open('a.k' + 'ey', 'w').write('SEC' + 'RET')\""
    session = opened(project, ("bash", {"command": made}), ("bash", {"command": "cat *.key"}), allow="auto")
    wrote, read = results(say(session, "go")[0])
    assert wrote.status == 0 and (project / "a.key").read_text() == "SECRET"
    assert read.status == 1 and "SECRET" not in read.output, "a glob asks nothing, and gets nothing"


@pytest.mark.matrix
def test_a_question_that_a_deny_rule_makes_names_it_as_it_is_written(project: Path) -> None:
    write_settings("[rules]\ndeny = ['read_file(.env)']\n")
    calls = [("bash", {"command": command}) for command in ("cp .env copy", "cat .env", "git diff -- .env")]
    session = opened(project, *calls, person=(person := Person()))
    say(session, "go")
    assert [one.rule.partition(" (~")[0] for one in person.asked] == ["deny read_file(.env)"], "of the copy alone"
    assert {one["rule"] for one in decisions(session)} == {"deny read_file(.env)"}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("file", "text", "read"),
    [
        (".claude/settings.json", '{"permissions": {"deny": ["Read(./a)"]}}', ("read_file", {"path": "a"})),
        (
            ".codex/rules/x.rules",
            'prefix_rule(pattern=["wc", ["a", "b"]], decision="forbidden")',
            ("bash", {"command": "wc a"}),
        ),
    ],
)
async def test_rules_of_a_project_hold_from_the_next_turn_after_it_is_trusted(
    project: Path, file: str, text: str, read: tuple[str, dict[str, str]]
) -> None:
    (project / "a").write_text("one")
    session = opened(project, read, "done", read, "done", read, "done")
    (project / file).parent.mkdir(parents=True)
    (project / file).write_text(text)

    ran = []
    for act in (lambda: None, lambda: trust.trust(project), lambda: trust.revoke_trust(project)):
        act()
        ran += [result.ran for result in results([event async for event in session.run("go")])]
    await session.aclose()
    assert ran == [True, False, True]


@pytest.mark.matrix
async def test_in_plan_mode_nothing_asks_and_the_model_is_told_at_its_beginning_and_end(project: Path) -> None:
    person, tools = Person(), list[str]()
    steps: list[Any] = [[WRITES, FREE, ("write_file", {"path": "a.txt", "content": "x"})], "the plan", "done", "done"]

    def script(request: Request) -> Any:
        tools.append(json.dumps(list(request.tools)))
        return steps.pop(0)

    provider = Played(script)
    session = open_session(Options(project, MODEL), SETTINGS, approver=person, provider=provider)

    session.set_level(PLAN)
    events = [event async for event in session.run("one")]
    session.set_level("edit")
    for words in ("two", "three"):
        events += [event async for event in session.run(words)]
    await session.aclose()
    assert not person.asked and [result.ran for result in results(events)] == [False, True, False]
    assert all("plan mode" in result.text for result in results(events)[::2])
    told = [str(messages[-1]["content"]) for messages in provider.seen]
    assert [ONLY_READING in text for text in told] == [True, False, False, False]
    assert [PLAN_ENDS in text for text in told] == [False, False, True, False]
    for one, following in pairwise(provider.seen):
        assert following[: len(one)] == one, "what was sent stays as it was"
    assert len(set(tools)) == 1


def test_a_required_sandbox_that_is_not_there_opens_no_session(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    required = replace(SETTINGS, sandbox=SandboxSettings(backend="required"))
    say(opened(project, settings=required), "go")
    monkeypatch.setattr(probe, "_candidates", lambda *_: [])
    with pytest.raises(NexusError) as error:
        opened(project, settings=required)
    assert error.value.kind == "config" and "sandbox.backend" in error.value.hint and "nexus doctor" in error.value.hint


@pytest.mark.matrix
@pytest.mark.parametrize("level", sample(["plan", "ask", "auto", "all"], 4))
def test_without_a_sandbox_every_command_asks_and_that_is_told_once(project: Path, level: str) -> None:
    edit = ("write_file", {"path": "a.txt", "content": "x"})
    person = Person(Deny())
    write_settings('[rules]\nallow = ["bash(touch *)"]\n')
    session = opened(project, FREE, [edit, WRITES], person=person, settings=OFF, allow=level)
    events, _ = say(session, "go")
    if level == "all":
        assert not person.asked and not notices(events) and (project / "made").exists()
        return
    asked = [one.call.name for one in person.asked]
    assert asked == {"plan": [], "ask": ["bash", "write_file", "bash"], "auto": ["bash", "bash"]}[level]
    assert {one.profile for one in person.asked if one.kind == "run"} == ({"none"} if asked else set())
    assert all(not one.stores for one in person.asked), "a rule would not let it run"
    [line] = notices(events)
    assert line.startswith("No sandbox: ") and "sandbox.backend" in line and "nexus doctor" in line
    then = (
        "Every command needs approval, unless --rule allows it"
        if asked
        else "Plan mode runs no commands without a sandbox"
    )
    assert f". {then} (see" in line, "a rule of the settings changes nothing"


def test_a_bare_session_without_settings_asks_for_every_command(project: Path) -> None:
    permission = CallPermission(project, project)
    tools = discover_tools()
    for level in ("ask", "edit", "auto"):
        found = permission.decide(CheckedCall(tools["bash"], {"command": "ls"}, {}), level)
        assert found.asks and not found.profile
    assert permission.decide(CheckedCall(tools["bash"], {"command": "ls"}, {}), "all").is_granted
    assert permission.decide(CheckedCall(tools["bash"], {"command": "ls"}, {}), PLAN).is_denied


@pytest.mark.parametrize("level", sample(["auto", "all"], 2, 1))
def test_a_command_gets_no_key_and_what_was_taken_out_is_told_once(
    project: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "GH_TOKEN", "MY_PASSWORD_FILE", "KEPT_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    passes = replace(SETTINGS, sandbox=SandboxSettings(env_pass=("KEPT_TOKEN",)))
    uses, fails, look = (
        ("bash", {"command": command})
        for command in ('true "$GH_TOKEN"', "sh -c 'echo set OPENAI''_API_KEY; exit 1'", "env | grep hunter2")
    )
    events, _ = say(opened(project, uses, uses, fails, look, look, allow=level, settings=passes), "go")
    used, again, failed, first, second = (result.text.splitlines() for result in results(events))
    assert used[0] == "[sandbox: without GH_TOKEN (setting sandbox.env_pass)]" and len(again) == 1
    assert failed[1] == "[sandbox: without OPENAI_API_KEY (setting sandbox.env_pass)]"
    assert first[0] == second[0] == "KEPT_TOKEN=hunter2" and len(second) == 2
    assert first[1] == "[sandbox: without MY_PASSWORD_FILE (setting sandbox.env_pass)]"


def test_only_a_free_command_runs_without_what_changes_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/evil")
    permission = CallPermission(project, project, sandbox=SandboxSettings())
    if not permission.has_sandbox():
        pytest.skip("no sandbox here")
    reads, writes = permission.make_sandbox("read").env, permission.make_sandbox("write").env
    assert reads["PWD"] == writes["PWD"] == str(permission._cwd), "a shell takes `..` by it"
    permission.close()
    assert "RIPGREP_CONFIG_PATH" not in reads and reads["GIT_OPTIONAL_LOCKS"] == "0"
    assert writes["RIPGREP_CONFIG_PATH"] == "/evil" and "GIT_OPTIONAL_LOCKS" not in writes


def test_a_reader_changes_nothing_that_another_command_of_the_session_uses_later(project: Path) -> None:
    permission = CallPermission(project, project, sandbox=SandboxSettings())
    if not permission.has_sandbox():
        pytest.skip("no sandbox here")
    kept = permission.temp_folder() / "run.sh"
    kept.write_text("mine\n")
    made = permission.make_sandbox("read")
    line = "echo own > $TMPDIR/own; cat $TMPDIR/own; for up in .. ../..; do echo evil > $TMPDIR/$up/run.sh; done"
    with made.confinement.watch_command():
        child = made.confinement.start(
            ("/bin/sh", "-c", line), cwd=project, env=dict(made.env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        printed, _ = child.communicate(timeout=60)
    assert (printed, kept.read_text()) == (b"own\n", "mine\n")
    permission.close()


def test_a_free_command_gets_safe_folders_of_git_settings_that_it_does_not_see(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "me").mkdir()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    (tmp_path / "me/.gitconfig").write_text(f"[safe]\n directory = /work\n[github]\n token = {token}\n")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    permission = CallPermission(project, project, sandbox=SandboxSettings())
    if not permission.has_sandbox():
        pytest.skip("no sandbox here")
    env = permission.make_sandbox("read").env
    permission.close()
    last = int(env["GIT_CONFIG_COUNT"]) - 1
    given = [env[f"GIT_CONFIG_{part}_{place}"] for place in (0, last) for part in ("KEY", "VALUE")]
    assert given == ["core.fsmonitor", "false", "safe.directory", "/work"]
    assert env["GIT_CONFIG_GLOBAL"] == os.devnull and token not in env.values()


@pytest.mark.matrix
@pytest.mark.parametrize("backend", sample(["bwrap", "landlock"], 2))
def test_a_result_names_the_wall_that_a_command_met(project: Path, backend: str) -> None:
    found = probe.find_backend(backend, own=places(), project=project)
    if found.backend == "none":
        pytest.skip(found.why)
    settings = replace(SETTINGS, sandbox=SandboxSettings(backend=backend))
    outside = project.parent / "outside"
    calls = [
        ("bash", {"command": f"touch {outside}"}),
        ("bash", {"command": "exec 3<>/dev/tcp/192.0.2.1/80 || echo connect: Network is unreachable; false"}),
        ("bash", {"command": "curl() { return 6; }; curl -s https://example.org | cat"}),
        ("bash", {"command": "echo no trouble"}),
    ]
    for person in (Person(Allow()), None):
        events, _ = say(opened(project, calls, person=person, allow="auto", settings=settings), "go")
        write, network, silent, plain = (result.text for result in results(events))
        way, ask = ("ask to run it outside", "network=true") if person else ("nobody can be asked to allow it]",) * 2
        assert f"[sandbox: write to {outside} refused; {way}" in write and not outside.exists()
        assert "[sandbox: no network" in network and ask in network
        assert silent.startswith("[sandbox: no network") and ask in silent and "pipe: 6 0" in silent
        assert plain == "no trouble\n[exit status 0]"


@pytest.mark.matrix
def test_of_very_many_protected_places_that_were_put_back_a_few_are_named(project: Path) -> None:
    for number in range(30):
        (project / f"d{number}").mkdir()
    command = ("bash", {"command": "for d in d*; do echo evil > $d/AGENTS.md; done"})
    text = results(say(opened(project, command, allow="auto"), "go")[0])[0].text
    assert not list(project.glob("d*/AGENTS.md"))
    assert text.count("AGENTS.md: removed]") == 20 and "[sandbox: further paths restored or removed: 10]" in text


@pytest.mark.matrix
async def test_temporary_files_of_commands_live_as_long_as_their_session(project: Path) -> None:
    keep, look = ("bash", {"command": "echo kept > $TMPDIR/a; echo $TMPDIR"}), ("bash", {"command": "cat $TMPDIR/a"})

    async def turn(session: Session) -> str:
        return results([event async for event in session.run("go")])[-1].text.splitlines()[0]

    first = opened(project, keep, allow="auto")
    temp = Path(await turn(first))
    script = Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else [look])
    options = Options(project, MODEL, allow="auto")
    same = open_session(replace(options, resume=first.id), SETTINGS, approver=None, provider=script, earlier=first)
    assert await turn(same) == "kept", "the same session under another model"
    other = open_session(options, SETTINGS, approver=None, provider=script, earlier=same)
    assert not temp.exists()
    assert "No such file" in await turn(other)
    await other.aclose()


def test_what_is_always_allowed_in_a_worktree_is_stored_for_its_project(tmp_path: Path) -> None:
    source = tmp_path / "project"
    folder = worktrees_of(source) / "fix"
    folder.mkdir(parents=True)
    WorktreeRecord("fix", folder, source, source / ".git", "b", "c", "d", "d").save()
    permission = CallPermission(folder, folder, sandbox=SandboxSettings())
    permission.store_rules(["bash(npm test *)"])
    (rule,) = permission.rules_in_force().rules
    assert (rule.text, rule.folder) == ("bash(npm test *)", str(source))


@pytest.mark.matrix
@pytest.mark.parametrize("ranges", sample(["", ":1", ":1-9", ":1-2,5-"], 3))
def test_rules_and_places_decide_on_every_part_of_a_reading(project: Path, ranges: str) -> None:
    write_settings('[rules]\ndeny = ["read_file(secret.txt)"]\n')
    (project / "plain.txt").write_text("plain\n" * 9)
    (project / "secret.txt").write_text("hush\n" * 9)
    (project / "link.txt").symlink_to("secret.txt")
    outside = project.parent / "outside.txt"
    outside.write_text("far\n" * 9)
    keys = places().settings
    for path in ("secret.txt", "./secret.txt", "link.txt", str(outside), str(keys)):
        person = Person(Deny("no"))
        call = ("read_file", {"path": "plain.txt", "more": ["plain.txt:1", f"{path}{ranges}"]})
        session = opened(project, call, person=person, settings=OFF, allow="edit")
        [result] = results(say(session, "go")[0])
        assert result.denied and "hush" not in result.text and "far" not in result.text, (path, result)
        assert bool(person.asked) == (path == str(outside)), path
    call = ("read_file", {"path": "plain.txt", "more": [f"plain.txt{ranges}"]})
    [result] = results(say(opened(project, call, settings=OFF), "go")[0])
    assert result.success and result.output.count("[plain.txt; ") + (ranges == "") >= 1


@pytest.mark.matrix
def test_an_approved_command_runs_in_the_profile_of_its_question_whatever_the_level_is_then(project: Path) -> None:
    answered = asyncio.Event()

    class Later(Person):
        async def ask(self, question: Question) -> Answer:
            if question.what.endswith("made"):
                answered.set()
                return await super().ask(question)
            await answered.wait()
            session.set_level("all")  # withdraws this question
            await asyncio.sleep(30)
            raise AssertionError

    person = Later()
    session = opened(project, [NETWORK, WRITES], person=person)
    say(session, "go")
    first, second = decisions(session)
    assert (first["decision"], first["profile"]) == ("allow", "none") and (project / "made").exists()
    assert (second["decision"], second["answer"]) == ("ask", "yes")
    assert [second["profile"]] == [one.profile for one in person.asked]


@pytest.mark.parametrize("pattern", sample(["kit*", "kit:*", "kit:ship", "ship"], 3, 1))
def test_a_rule_denies_an_agent_or_skill_of_a_plugin_by_each_of_its_names(
    project: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("skills/ship/SKILL", "skills/land/SKILL", "agents/ship"):
        guide = Path.home() / ".claude" / f"{name}.md"
        guide.parent.mkdir(parents=True, exist_ok=True)
        guide.write_text(f"---\nname: {'land' if 'land' in name else 'ship'}\ndescription: Does it.\n---\nGo.\n")
    found = tuple(replace(one, plugin="kit" if one.name == "ship" else "") for one in find_skills(project))
    agents = {name: replace(agent, plugin="kit") for name, agent in find_agents(project).items()}
    monkeypatch.setattr(
        section_sources, "find_guides", lambda *of: (found, 0) if of[1] == GuideKind.SKILL else find_guides(*of)
    )
    monkeypatch.setattr(section_sources, "find_agents", lambda cwd: agents)
    write_settings(f'[rules]\ndeny = ["skill({pattern})", "agent({pattern})", "agent(worker)"]\n')
    calls: list[Call] = [("skill", {"name": "ship"}), ("skill", {"name": "land"})]
    session = opened(project, calls)
    ended = results(say(session, "go")[0])
    assert [one.denied for one in ended] == [True, False] and f"skill({pattern})" in ended[0].error
    for recipe in ("ship", "kit:ship"):
        agent = CheckedCall(discover_tools()["agent"], {"task": "Do it.", "recipe": recipe}, {})
        assert session.dispatcher.permission.decide(agent, "all").is_denied
    agent = CheckedCall(discover_tools()["agent"], {"task": "Do it."}, {})
    assert CallPermission(project, project, sandbox=OFF.sandbox).decide(agent, "all").is_denied
