"""The timeline of a session: every entry once and in order, who began what and why, what is new, what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from session.played import Answer, Played, opened, say, the_ledger

from nexus_cli.commands.forms import find_form
from nexus_cli.config.settings import Settings
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import format_utc
from nexus_cli.core.entry import Cause, Drop, Entry, Epoch, Kind, Manifest, Memo
from nexus_cli.core.event import Notice
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import WireRules
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.reports.conversation import Replay
from nexus_cli.reports.export import session_pieces
from nexus_cli.reports.timeline import session_timeline
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

ALLOWED = "Allowed for this session only (it could not be stored): bash"
BEGUN = datetime(2026, 1, 13, 14, 30, tzinfo=UTC)
STEPS = (
    "user",
    "call",
    "answer",
    "request",
    "unanswered",
    "drop",
    "pin",
    "goal",
    "level",
    "notice",
    "files",
    "epoch",
    "title",
)


def timeline(session: str, last: int = 10_000) -> Mapping[str, Any]:
    with the_ledger() as ledger:
        return session_timeline(ledger, session, last)


def rows_of(value: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return [row for row in value["rows"] if row["kind"] == kind]


class Play:
    """Records steps in a ledger in memory, each a second after the one before."""

    def __init__(self, *, front: str = "chat", file: Path | None = None) -> None:
        self.ledger = Ledger.open(file)
        self.seconds = 0
        made = self.ledger.create_session(
            folder="/p", project="/p", model="openai/m", recipe="chat", at=self.now(), front=front
        )
        self.session, self.log = made.id, self.ledger.log(made.id)
        self.begin("start")

    def now(self) -> str:
        self.seconds += 1
        return format_utc(BEGUN + timedelta(seconds=self.seconds))

    def begin(self, cause: str, model: str = "openai/m") -> None:
        number = self.log.next_epoch()
        current = self.log.current_epoch()  # a side lane may have begun the one before
        parent = current.id if current else None
        last = self.log.last_id()
        made = Epoch(number, parent, cause, model, "You help.", (), WireRules().dumps(), (), last)
        self.log.begin_epoch(made, (), [Memo("rewrite", self.now(), last, {"epoch": number, "why": "to save"})])

    def append(self, kind: Kind, actor: str, message: Message, memos: Sequence[Memo] = ()) -> None:
        self.log.append(Entry(self.log.last_id() + 1, self.now(), actor, kind, message, tokens=3), memos)

    def send(self, log: LaneLog, usage: Usage | None) -> None:
        step, current = log.step() + 1, log.current_epoch()
        assert current is not None
        log.record_request(
            Manifest(step, current.id, log.last_id(), {"model": "openai/m"}, "00" * 32, 90, self.now()), (), ()
        )
        if usage is not None:
            log.record_reply(None, step, usage, "stop", True)

    def do(self, step: str) -> None:
        match step:
            case "user":
                self.append(Kind.USER, "person", Message(Role.USER, f"words {self.seconds}"))
            case "call":
                name = f"c{self.log.last_id() + 1}a"
                call = ToolCall(name, "bash", {"command": f"ls {self.seconds}"})
                self.append(Kind.ASSISTANT, "agent", Message(Role.ASSISTANT, "", (call,)))
                note = Memo("result", self.now(), self.log.last_id() + 1, {"seconds": 1.5, "error": 0, "status": 2})
                self.append(Kind.TOOL, "tool:bash", Message(Role.TOOL, "out", tool_call_id=name), [note])
            case "answer":
                self.append(Kind.ASSISTANT, "agent", Message(Role.ASSISTANT, "fine"))
            case "request" | "unanswered":
                self.send(self.log, Usage(100, 10, 40, cost_usd=0.5) if step == "request" else None)
            case "drop":
                name = self.log.next_drop()
                self.log.record_drop(Drop(name, "a result", 70, Cause.OUTPUT_CAP, self.now(), text="whole"))
            case "pin":
                self.note("pin", {"id": "p1", "entry": 0, "text": "tabs"})  # of processes that do not know each other
            case "goal":
                self.note("goal", {"goals": [{"id": "g1", "text": "ship"}, {"id": "g2", "text": "s", "parent": "g1"}]})
            case "level":
                noted = len(self.log.memos("limits"))
                level = {"name": "allow", "value": ("read", "plan", "plan")[noted % 3]}
                self.note("limits", {"limits": [level]})
            case "notice":
                value = to_json_value(Notice(ALLOWED, undo="/permissions remove bash"))
                former = {"text": f"{ALLOWED} \N{MIDDLE DOT} undo: {value.pop('undo')}"} if self.seconds % 2 else {}
                self.note("event", {"type": "notice", **value, **former})
            case "files":
                self.note(
                    "undone_files", {"told": "the person took back", "shown": "you undid turn 1: a.py", "turn": 1}
                )
            case "epoch":
                self.begin("pruned")
            case _:
                side = self.log.open_lane("title")
                side.begin_epoch(Epoch(side.next_epoch(), None, "start", "openai/m", "", (), "{}", (), 0), ())
                self.send(side, Usage(7, 3, cost_usd=0.25))

    def note(self, kind: str, value: dict[str, Any]) -> None:
        self.log.record_memo(Memo(kind, self.now(), self.log.last_id(), value))

    def timeline(self, last: int = 10_000) -> Mapping[str, Any]:
        return session_timeline(self.ledger, self.session, last)


@pytest.mark.matrix
@example(["user", "level", "level", "level", "level", "pin", "pin", "notice", "notice"], 30)
@given(st.lists(st.sampled_from(STEPS), max_size=25), st.integers(1, 30))
def test_every_entry_is_there_once_in_order_and_a_part_is_the_end_of_the_whole(steps: list[str], last: int) -> None:
    play = Play()
    for step in steps:
        play.do(step)
    value = play.timeline()
    ids = [row["entry"] for row in value["rows"] if row["entry"] is not None]
    assert ids == list(range(1, play.log.last_id() + 1))
    times = [row["at"] for row in value["rows"]]
    assert times == sorted(times)
    kinds = {name: name for name in ("drop", "pin", "goal", "notice", "files")}
    for step, kind in {**kinds, "epoch": "pruned", "title": "lane", "answer": "assistant"}.items():
        also = steps.count("call") if step == "answer" else 0
        assert len(rows_of(value, kind)) == steps.count(step) + also
    assert [row["text"] for row in rows_of(value, "pin")] == [f"p{n + 1} tabs" for n in range(steps.count("pin"))]
    noted = steps.count("level")
    assert [row["text"] for row in rows_of(value, "level")] == [
        ("plan to ask", "ask to plan")[step % 3] for step in range(1, noted) if step % 3 != 2
    ]
    assert len(rows_of(value, "request")) == steps.count("request") + steps.count("unanswered")
    assert [row["seen"] for row in value["rows"] if row["entry"]] == [one <= play.log.cursor() for one in ids]
    assert (value["earlier"], value["totals"]["rows"]) == (0, len(value["rows"]))
    part = play.timeline(last)
    assert part["rows"] == value["rows"][-last:] and part["totals"] == value["totals"]
    assert part["earlier"] == max(0, len(value["rows"]) - last)
    sums = [row["tokens"] or 0 for row in (*rows_of(value, "request"), *rows_of(value, "lane"))]
    assert value["totals"]["tokens"] == sum(sums) and value["totals"]["drops"] == steps.count("drop")
    json.dumps(value)
    text = find_form("timeline")(part, 10_000)
    said = [line for line in text.splitlines() if line[2:3] == line[5:6] == ":"]
    assert len(said) == len(part["rows"]), "a line each"
    for line, row in zip(said, part["rows"], strict=True):
        assert ("not sent yet)" in line) == (row["seen"] is False and row["kind"] != "assistant")
        assert (" You" in line) == (row["trigger"] is not None) == (row["kind"] == "user")
        assert row["kind"] != "drop" or f" drop {row['drop']}: " in line
    assert "undo:" not in text
    told = [past.event for past in Replay(play.log).events() if isinstance(past.event, Notice)]
    allowed = [one for one in told if one.text.startswith("Allowed")]
    since_first = steps[steps.index("user") :] if "user" in steps else []
    assert len(allowed) >= since_first.count("notice") and {one.text for one in allowed} <= {ALLOWED}, "of before too"
    assert f"{part['earlier']} earlier row" in text or not part["earlier"]
    for width in (20, 40, 80):
        assert max(map(len, find_form("timeline")(part, width).splitlines())) <= width


def test_a_long_name_of_a_tool_stands_once() -> None:
    play = Play()
    play.append(Kind.TOOL, "tool:mcp__slow__ages", Message(Role.TOOL, "7", tool_call_id="c1a"))
    (line,) = (line for line in find_form("timeline")(play.timeline(), 200).splitlines() if "mcp__" in line)
    assert line.count("mcp__") == 1, line


def test_a_session_began_with_the_model_of_its_first_request_also_after_a_change_of_the_model() -> None:
    play = Play()
    for step in ("user", "request", "answer"):
        play.do(step)
    play.ledger.touch_session(play.session, model="openai/other")
    play.begin("model", "openai/other")
    start, change = (rows_of(play.timeline(), kind)[0] for kind in ("start", "model"))
    assert start["text"] == "recipe chat, openai/m" and change["text"] == "openai/m to openai/other"


def test_a_clock_that_was_set_back_changes_no_order() -> None:
    play = Play()
    for step in ("user", "request", "answer"):
        play.do(step)
    play.seconds -= 3600
    for step in ("drop", "user", "request", "pin", "answer"):
        play.do(step)
    kinds = [row["kind"] for row in play.timeline()["rows"]]
    assert kinds == ["start", "user", "request", "assistant", "drop", "user", "request", "pin", "assistant"]


def test_a_failed_compaction_stands_before_the_request_and_the_drop_of_its_moment() -> None:
    play = Play()
    play.do("user")
    at = play.seconds
    play.note("compaction", {"epoch": None, "why": "too little"})
    for step in ("request", "drop"):
        play.seconds = at
        play.do(step)
    kinds = [row["kind"] for row in play.timeline()["rows"]]
    assert kinds == ["start", "user", "compaction_failed", "request", "drop"]


@pytest.mark.matrix
def test_only_what_is_listed_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play()
    for number in range(300):
        play.do(("user", "call")[number % 2])
    read: list[int] = []
    whole = LaneLog.read

    def count(log: LaneLog, first: int, last: int) -> list[Entry]:
        found = whole(log, first, last)
        read.extend(entry.id for entry in found)
        return found

    monkeypatch.setattr(LaneLog, "read", count)
    assert len(play.timeline(20)["rows"]) == 20
    assert len(read) <= 20 + 50


@pytest.mark.matrix
def test_a_turn_with_calls_drops_and_costs(tmp_path: Path) -> None:
    together = [("bash", {"command": "seq 20000"}), ("bash", {"command": "echo no; exit 3"})]
    together.append(("bash", {"command": "sh -c 'exit 4' | cat"}))
    steps: list[Answer] = [together, [("recall", {"id": "d1", "range": "0:50"})], "all\ndone"]
    session = opened(Played(lambda request: steps.pop(0)), tmp_path)
    assert say(session, "look at\nthis")[1].ok
    value = timeline(session.id)
    begun, end = rows_of(value, "user")[0], rows_of(value, "assistant")[-1]
    assert begun["actor"] == {"id": "person", "name": "You", "type": "human"} and begun["text"] == "look at"
    assert begun["trigger"] == {"type": "ask"} and begun["seen"] is True
    assert (end["text"], end["seen"], end["trigger"]) == ("all", False, None)
    first = rows_of(value, "assistant")[0]
    assert [(call["name"], call["subject"]) for call in first["calls"]] == [
        ("bash", "seq 20000"),
        ("bash", "echo no; exit 3"),
        ("bash", "sh -c 'exit 4' | cat"),
    ]
    results = {row["subject"]: row for row in rows_of(value, "tool")}
    assert {row["actor"]["type"] for row in results.values()} == {"tool"}
    assert results["seq 20000"]["outcome"] == "ok" and results["echo no; exit 3"]["outcome"] == "exit 3"
    assert results["echo no; exit 3"]["seconds"] >= 0
    assert results["sh -c 'exit 4' | cat"]["outcome"] == "ok, but sh exited 4"
    (drop,) = rows_of(value, "drop")
    assert (drop["drop"], drop["why"], drop["recalls"]) == ("d1", "output_cap", 1) and drop["tokens"] > 1000
    assert [row["recalled"] for row in value["rows"] if "recalled" in row] == [["d1"]]
    requests = rows_of(value, "request")
    assert [row["step"] for row in requests] == [1, 2, 3] and requests[0]["model"] == "openai/played"
    assert requests[0]["cost_usd"] == 0.25 and requests[0]["tokens"] == 210 and requests[0]["seconds"] >= 0
    text = " ".join(find_form("timeline")(value, 80).split())
    for part in (
        "drop d1",
        "Show a drop: nexus drops show d1",
        "recall: ok · d1",
        "exit 3",
        "200 in, 10 out · $0.2500",
    ):
        assert part in text, part


@pytest.mark.matrix
def test_what_began_a_turn_is_named_and_who_sent_it(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "ok"), tmp_path)
    for source in ("person", "stdin", "client", "agent", "service"):
        say(session, Trigger("do it", source=source))  # type: ignore[arg-type]
        session = opened(Played(lambda request: "ok"), tmp_path, session.id)
    value = timeline(session.id)
    begun = [(row["trigger"]["type"], row["actor"]["type"]) for row in rows_of(value, "user")]
    assert begun == [
        ("ask", "human"),
        ("stdin", "human"),
        ("client", "human"),
        ("worker", "agent"),
        ("service", "nexus"),
    ]
    told = find_form("timeline")(value, 80)
    for words in (" You: do it\n", " You (stdin): do it\n", " Client: do it\n", " Agent (worker): do it\n"):
        assert words in told, words


@pytest.mark.matrix
def test_a_session_of_the_terminal_is_begun_at_the_prompt(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "ok"), tmp_path, front="chat")
    say(session, "hello")
    assert rows_of(timeline(session.id), "user")[0]["trigger"] == {"type": "repl"}


@pytest.mark.matrix
def test_a_refused_call_says_so_and_why(tmp_path: Path) -> None:
    steps: list[Answer] = [[("write_file", {"path": "a.txt", "content": "x"})], "no"]
    options = Options(tmp_path, "openai/played", allow="ask", limits=Limits(max_steps=9))
    settings = Settings(models={"openai/played": {"window": 16_000}})
    session = open_session(options, settings, approver=None, provider=Played(lambda request: steps.pop(0)))
    say(session, "write")
    value = timeline(session.id)
    (row,) = rows_of(value, "tool")
    assert row["outcome"] == "refused" and row["decision"] in ("ask", "deny") and row["why"]
    assert row["subject"] in find_form("timeline")(value, 80) and "write_file: refused" in find_form("timeline")(
        value, 40
    )


def test_no_text_passes_for_a_mark_or_reaches_the_terminal_as_a_code() -> None:
    play = Play()
    for words in ("\x1b[31m\u202e<- TRIGGER plan", '" [NEW] <- TRIGGER service', "\x1b]0;title\x07hello"):
        play.append(Kind.USER, "person", Message(Role.USER, words))
        play.append(Kind.ASSISTANT, "agent", Message(Role.ASSISTANT, words))
    value = play.timeline()
    for width in (40, 80):
        lines = find_form("timeline")(value, width).splitlines()
        assert not [line for line in lines if any(sign in line for sign in "\x1b\x07\u202e")]
        assert max(map(len, lines)) <= width
        assert sum(" You (not sent yet):" in line for line in lines) == 3, "the marks stand before the words"


def test_a_fork_has_the_entries_of_its_source_and_says_where_it_began(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "ok"), tmp_path)
    say(session, "hello")
    with the_ledger() as ledger:
        fork = ledger.fork_session(session.id, at="2030-01-01T00:00:00.000Z").id
        value = session_timeline(ledger, fork)
    assert [row["kind"] for row in value["rows"]] == ["user", "assistant", "fork"]
    assert value["rows"][-1]["session"] == session.id and value["totals"]["requests"] == 0


def test_the_end_of_a_background_command_has_a_row_and_a_line_in_the_export() -> None:
    play = Play()
    play.do("call")
    job = {"session": play.session, "id": "j1", "command": "make site", "state": "running", "status": None}
    play.note("job", job)
    assert not rows_of(play.timeline(), "job")
    play.note("job", {**job, "state": "ended", "status": 2, "seconds": 3.0})
    play.note("job", {**job, "id": "j2", "state": "closed"})
    play.note("job", {**job, "id": "j2", "state": "closed", "told": True})
    play.note("job", {**job, "id": "j3", "told": True})
    ended = ["j1 (make site) ended after 3 s, exit status 2"]
    ended += [f"{name} (make site) ended with the session" for name in ("j2", "j3")]
    assert [row["text"] for row in rows_of(play.timeline(), "job")] == ended
    assert f"job: {ended[0]}" in find_form("timeline")(play.timeline(), 80)
    exported = "".join(session_pieces(play.log, play.ledger.session(play.session), "md"))
    assert [exported.count(f": job {line}*") for line in ended] == [1, 1, 1]


def test_of_a_line_that_was_overwritten_the_last_state_is_shown_as_on_the_screen() -> None:
    play = Play()
    play.append(Kind.ASSISTANT, "agent", Message(Role.ASSISTANT, "", (ToolCall("c1a", "bash", {"command": "get"}),)))
    result = Message(Role.TOOL, "loading 10%\rloading 50%\rloading 100%\r\ndone\n", tool_call_id="c1a")
    play.append(Kind.TOOL, "tool:bash", result)
    assert [row["text"] for row in rows_of(play.timeline(), "tool")] == ["loading 100%"]


def test_a_question_to_the_person_shows_the_answers() -> None:
    play = Play()
    questions = [{"question": "Which port?"}, {"question": "Which host?"}]
    call = ToolCall("c1a", "ask_person", {"questions": questions})
    play.append(Kind.ASSISTANT, "agent", Message(Role.ASSISTANT, "", (call,)))
    result = Message(Role.TOOL, "Which port?\n> 8080\nWhich host?\n> (no answer)", tool_call_id="c1a")
    play.append(Kind.TOOL, "tool:ask_person", result)
    assert [row["text"] for row in rows_of(play.timeline(), "tool")] == ["8080 / (no answer)"]


def test_on_a_narrow_terminal_answers_are_whole_and_words_are_not_cut_at_the_first_line() -> None:
    play = Play()
    answer = " ".join(["PostgreSQL", "with the existing cluster"] * 3)
    call = ToolCall("c1a", "ask_person", {"questions": [{"question": "Which database?"}]})
    play.append(Kind.ASSISTANT, "agent", Message(Role.ASSISTANT, "Let me ask which of them you want first", (call,)))
    play.append(Kind.TOOL, "tool:ask_person", Message(Role.TOOL, f"Which database?\n> {answer}", tool_call_id="c1a"))
    shown = find_form("timeline")(play.timeline(), 40)
    assert answer in " ".join(shown.split()) and "you want first" in " ".join(shown.split()), shown


@pytest.mark.matrix
@pytest.mark.parametrize("step", ["user", "call"])
def test_a_request_says_that_it_runs_while_its_session_is_busy(tmp_path: Path, step: str) -> None:
    play = Play(file=tmp_path / "ledger.db")
    play.do(step)
    play.do("unanswered")
    waiting, lost = (
        "request 1: waiting for the response to a request of about 90 tokens",
        "request 1: no recorded response to",
    )
    assert lost in find_form("timeline")(play.timeline(), 80) and play.ledger.lock(play.session)
    for is_busy, told in ((True, waiting), (False, lost)):
        play.ledger.mark_busy(play.session, is_busy)
        assert told in find_form("timeline")(play.timeline(), 80)
    play.ledger.mark_busy(play.session, True)
    play.do("answer")
    assert waiting not in find_form("timeline")(play.timeline(), 80)


def test_the_export_says_where_a_turn_stopped() -> None:
    play = Play()
    for step in ("user", "answer", "user", "user"):
        play.do(step)
    error = {"kind": "aborted", "message": "interrupted", "hint": ""}
    play.note("event", {"type": "turn.end", "outcome": {"text": "", "error": error}})
    play.do("user")
    assert [row.get("cut_off", False) for row in rows_of(play.timeline(), "user")] == [False, False, True, False]
    exported = "".join(session_pieces(play.log, play.ledger.session(play.session), "md"))
    marks = [line for line in exported.splitlines() if line.startswith("*") and not line.startswith("*[")]
    assert marks[0] == marks[2] == "*the end of this turn was not recorded*" and len(marks) == 3
    assert marks[1].endswith(": Interrupted. Completed steps are kept.*")


def test_a_turn_without_an_end_is_said_to_be_cut_off_where_the_session_goes_on() -> None:
    play = Play()
    for step in ("user", "answer", "user", "call", "user"):
        play.do(step)
    play.note("event", {"type": "turn.end", "outcome": {}})  # it failed
    play.do("user")
    play.do("call")
    play.note("shell_line", {"shown": "/continue"})
    play.do("call")
    play.note("event", {"type": "turn.end", "outcome": {}})
    play.note("shell_line", {"shown": "/continue"})
    value = play.timeline()
    assert [row.get("cut_off", False) for row in rows_of(value, "user")] == [False, False, True, False]
    assert [row.get("cut_off", False) for row in rows_of(value, "command")] == [True, False]
    told = find_form("timeline")(value, 80)
    assert "You (after a cut-off turn, not sent yet):\n" in told and "command (after a cut-off turn): /continue" in told


def test_the_command_that_shows_a_drop_names_the_session_as_lists_do() -> None:
    play = Play()
    play.do("user")
    play.do("drop")
    (named,) = play.ledger.short_ids([play.session])
    assert f"nexus drops show d1 --session {named}" in find_form("timeline")(play.timeline(), 80)
    assert play.ledger.find_session(named).id == play.session
