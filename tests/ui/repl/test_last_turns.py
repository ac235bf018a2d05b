"""A resumed session is shown as it was seen live, the last screenful at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rpc.serving import until
from session.played import MODEL, Played, opened, say, the_ledger
from workers.crew import Crew, crewed, handing, run

from nexus_cli.commands.forms import find_form
from nexus_cli.config.settings import Settings
from nexus_cli.core import event as e
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.request import Delta, OpaqueDelta, Request, ThinkingDelta
from nexus_cli.core.usage import Usage
from nexus_cli.reports.conversation import newest_turns
from nexus_cli.reports.export import session_pieces
from nexus_cli.reports.page.session_page import session_page
from nexus_cli.reports.transcript import session_transcript
from nexus_cli.session.factory import open_session
from nexus_cli.session.limits_record import describe_former_level
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.text.cells import cells, without_codes
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.last_turns import Screenful, describe_session, last_screenful
from nexus_cli.ui.repl.shell_line import Shell, ShellLine

DARK, PLAIN = Theme(), Theme(colour=False)
BAR = PLAIN.signs.person
WORDS = "make it <b>bold</b>"
STEPS: list[Any] = [
    [("write_file", {"path": "made.py", "content": "x = 1\n"}), ("read_file", {"path": "missing.py"})],
    [("edit_file", {"path": "made.py", "edits": [{"old": "x = 1", "new": "x = 22"}]})],
    [("run_command", {"command": "echo by another name"})],
    [("bash", {"command": "seq 9; echo to stderr >&2; exit 3"})],
    "It is **done**.\n\n```py\nx = 22\n```\n",
]


def worked(folder: Path) -> tuple[Session, list[e.Event]]:
    """A session with a turn of many kinds of results, and the events of the turn."""
    steps = iter(STEPS)
    session = opened(Played(lambda request: next(steps)), folder)
    events = say(session, WORDS)[0]
    return opened(Played(lambda request: "nothing"), folder, session.id), events


def live(events: list[e.Event], words: str, width: int, theme: Theme) -> str:
    """What a person saw."""
    put: list[str] = []
    renderer = RichRenderer(put.append, lambda: width, theme)
    renderer.show_user_message(words)
    for one in events:
        renderer.feed(one)
    return "".join(put)


def without_times(events: list[e.Event]) -> list[e.Event]:
    """Return the events as if no call took time: from a second on it is shown, and rounded where it is stored."""
    return [replace(one, seconds=0.0) if isinstance(one, e.ToolResultEvent) else one for one in events]


def rows_of(text: str) -> list[str]:
    return text.strip("\n").split("\n")


@pytest.mark.matrix
def test_a_turn_is_shown_again_as_it_was_seen(tmp_path: Path) -> None:
    session, events = worked(tmp_path)
    for width, theme in product((60, 100, 160), (DARK, PLAIN)):
        shown = last_screenful(map(without_times, newest_turns(session)), 200, width, theme, drawn=True)
        assert list(shown.lines) == rows_of(live(without_times(events), WORDS, width, theme))
    text = without_codes("\n".join(shown.lines))
    for part in ("made.py", "+1 -1", "22", "missing.py", "exit 3", "to stderr", "It is done."):
        assert part in text
    assert "is bash here" not in text, "a note for the model alone"
    assert shown.turns == 1 and shown.output is not None and "to stderr" in shown.output[1]


def begun(folder: Path, script: Callable[[], Any], session: str = "", **options: Any) -> Session:
    """A session that asks for what is not allowed, which nobody answers."""
    asked = Options(folder, MODEL, resume=session, allow="ask", limits=Limits(max_steps=9), **options)
    settings = Settings(models={MODEL: {"window": 16_000}})
    return open_session(asked, settings, approver=None, provider=Played(lambda request: script()))


def shown_again(folder: Path, session: str, width: int = 80) -> list[str]:
    resumed = begun(folder, lambda: "nothing", session)
    try:
        turns = map(without_times, newest_turns(resumed))
        return list(last_screenful(turns, 500, width, PLAIN, drawn=True).lines)
    finally:
        asyncio.run(resumed.aclose())


def test_a_drop_a_recall_a_refusal_and_a_notice_are_shown_again(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("a line of text\n" * 9_000)
    steps = iter(
        [
            [("read_file", {"path": "long.txt"})],
            [("recall", {"id": "d1", "range": "0:50"}), ("bash", {"command": "touch made"})],
            "It was refused.",
        ]
    )

    def script() -> Any:
        session.engine.control.emit(e.Notice("a note of nexus", warning=False))
        return next(steps)

    session = begun(tmp_path, script)
    events = without_times(say(session, WORDS + " x" * 90_000)[0])
    seen = rows_of(live(events, WORDS + " x" * 90_000, 80, PLAIN))
    again = shown_again(tmp_path, session.id)
    for part in ("left out as d1", "recalled d", "a note of nexus", "1 call was refused: bash touch made", " steps "):
        assert any(part in row for row in seen), (part, seen[-20:])
        assert any(part in row for row in again), part
    said = next(place for place, row in enumerate(seen) if not row.startswith((BAR, "  x")))
    assert again[-(len(seen) - said) :] == seen[said:]


@pytest.mark.matrix
@pytest.mark.parametrize("last", ["", "look at one", "look at two"])
def test_the_figures_and_the_report_of_a_worker_are_shown_again(tmp_path: Path, last: str) -> None:
    async def look(request: Request) -> str:
        if last and any(last in str(message["content"]) for message in request.messages):
            await until(lambda: session.engine.conversation.last == 3)  # the other one's result
        return "I have looked.\nAll is well."

    crew = Crew({"make it": handing("look at one", "look at two"), "look at": look})
    session = crewed(crew, tmp_path)
    events = run(session, WORDS)[0]
    seen = [re.sub(r"\d\.\d s", "x s", row) for row in rows_of(live(without_times(events), WORDS, 80, PLAIN))]
    resumed = crewed(crew, tmp_path, session.id)
    turns = map(without_times, newest_turns(resumed))
    again = last_screenful(turns, 500, 80, PLAIN, drawn=True).lines
    asyncio.run(resumed.aclose())
    assert sum("All is well." in row for row in seen) == 2 and any("2 steps" in row for row in seen)
    assert [re.sub(r"\d\.\d s", "x s", row) for row in again] == seen


THOUGHTS = "The file is small.\nSo I read it whole."


@dataclass
class Thinking(Played):
    """A provider that thinks before each answer; signed, if it is sent back."""

    signed: bool = False
    stops: bool = False
    cuts: int = 0
    asks_again = True

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        for piece in THOUGHTS.splitlines(keepends=True):
            yield ThinkingDelta(piece)
            if self.signed:
                yield OpaqueDelta("thinking_blocks", [{"type": "thinking", "thinking": piece}])
        if self.signed:
            yield OpaqueDelta("thinking_blocks", [{"type": "thinking", "thinking": "", "signature": "s1"}])
        if self.stops:
            raise ProviderError("network", "the connection was lost", transient=False)
        if self.cuts:
            self.cuts -= 1
            raise ProviderError("network", "the stream was cut", transient=False, cut=True)
        async for delta in super().stream(request):
            yield delta


@pytest.mark.parametrize(("signed", "stops"), [(False, False), (True, False), (False, True)])
def test_thinking_is_shown_again_and_sent_only_if_it_was_signed(tmp_path: Path, signed: bool, stops: bool) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    steps: Iterator[Any] = iter([[("read_file", {"path": "a.py"})], "It sets x.", "Again."])
    played = Thinking(lambda request: next(steps), signed=signed, stops=stops)
    session = opened(played, tmp_path)
    events = without_times(say(session, WORDS)[0])
    resumed = opened(played, tmp_path, session.id)
    again = last_screenful(map(without_times, newest_turns(resumed)), 200, 80, PLAIN, drawn=True)
    assert list(again.lines) == rows_of(live(events, WORDS, 80, PLAIN))
    assert again.thought and again.thought.text == THOUGHTS and any("9 words, Ctrl+T" in row for row in again.lines)
    thoughts = THOUGHTS.replace("\n", "\n    ")
    transcript = "\n".join(find_form("transcript")(session_transcript(resumed), 80).splitlines())
    assert transcript.count(f"* thought (9 words)\n    {thoughts}") == (1 if stops else 2)
    with the_ledger() as ledger:
        pieces = [session_pieces(ledger.log(session.id), ledger.session(session.id), "md")]
        pieces += [session_page(ledger, ledger.session(session.id), Settings())]
        assert all(
            "So I read it whole." in (text := "".join(piece)) and "thought (9 words)" in text for piece in pieces
        )
        assert ledger.usage_sum(session.id).usage.output == (0 if stops else 20), "what the provider reported alone"
    played.stops = False
    say(resumed, "and now?")
    assert ("So I read it whole" in str(played.seen[-1])) is signed


def test_a_reply_that_was_cut_while_it_thought_is_shown_apart_from_the_next(tmp_path: Path) -> None:
    session = opened(Thinking(lambda request: "It sets x.", cuts=1), tmp_path)
    seen = rows_of(live(without_times(say(session, WORDS)[0]), WORDS, 80, PLAIN))
    resumed = opened(Played(lambda request: "nothing"), tmp_path, session.id)
    again = last_screenful(map(without_times, newest_turns(resumed)), 200, 80, PLAIN, drawn=True)
    assert sum("9 words" in row for row in seen) == 2 and any("cut off: the stream was cut" in row for row in seen)
    assert [row for row in again.lines if row] == [row for row in seen if row]


@pytest.mark.parametrize("act", ["command", "pin", "files"])
def test_what_happened_behind_an_answer_is_shown_behind_it(act: str) -> None:
    line = "!ls" if act == "command" else "it happened"
    events: list[e.Event] = [
        e.TurnStart("one"),
        e.Text("An answer"),
        e.SessionAct(act, line, "person", line, output="out"),
    ]
    shown = list(last_screenful([[*events, e.SteeringMessage("two")]], 50, 80, PLAIN, drawn=True).lines)
    places = [next(place for place, row in enumerate(shown) if part in row) for part in ("An answer", line, "two")]
    assert places == sorted(places), shown


def test_an_act_that_is_not_shown_parts_no_drops() -> None:
    cut: list[e.Event] = [
        e.ContextDrop(Drop(f"d{n}", "part of a result", 9, Cause.TRUNCATION, "")) for n in range(1, 7)
    ]
    together, parted = (
        last_screenful([[e.TurnStart("one"), *events]], 50, 80, PLAIN, drawn=True).lines
        for events in (
            [*cut, e.Text("An answer")],
            [*cut[:3], e.SessionAct("hook", "ran"), *cut[3:], e.Text("An answer")],
        )
    )
    assert together == parted


@pytest.mark.matrix
def test_shell_lines_are_shown_again_where_they_were_typed_with_the_same_end(tmp_path: Path) -> None:
    played = Played(lambda request: "fine")
    session = opened(played, tmp_path)
    pieces: list[str] = []
    renderer = RichRenderer(pieces.append, lambda: 80, PLAIN)
    view = SimpleNamespace(put=pieces.append, invalidate=lambda: None)
    attached: list[str] = []

    def show_output(line: str, output: str) -> None:
        renderer.feed(e.SessionAct("command", line, "person", line, output=output))

    shell = Shell(cast(Any, view), show_output, lambda text, what: attached.append(text))

    async def type_line(text: str) -> None:
        renderer.show_user_message(text)
        line = ShellLine.of(text)
        assert line is not None
        await shell.run(line, tmp_path, session)

    async def scene() -> None:
        await type_line("!echo before the first message")
        for words in ("one", "two"):
            renderer.show_user_message(words)
            async for event in session.run("\n\n".join([words, *attached])):
                renderer.feed(next(iter(without_times([event]))))
            attached.clear()
            await type_line(f"!seq 1 70; echo after {words}; exit 3")
        session.attached_texts.store([{"text": text, "what": "output"} for text in attached], [])
        await session.aclose()

    asyncio.run(scene())
    resumed = opened(played, tmp_path, session.id)
    again = last_screenful(map(without_times, newest_turns(resumed)), 500, 80, PLAIN, drawn=True)
    seen = "".join(pieces)
    for part in ("before the first message", "[showing the end of 72 lines; all: /transcript]", "\n70\nafter two\n"):
        assert part in seen
    assert [row for row in again.lines if row] == [row for row in rows_of(seen) if row]
    assert again.output and again.output[0] == "!seq 1 70; echo after two; exit 3"
    transcript = find_form("transcript")(session_transcript(resumed), 80)
    assert transcript.count("after one") == 2 and transcript.count("* !seq 1 70; echo after two; exit 3\n    1\n") == 1
    assert "".join(session_pieces(resumed.record, resumed.record.session, "md")).count("seq 1 70; echo after two") == 1
    asyncio.run(resumed.aclose())


async def stopped(session: Session) -> list[e.Event]:
    """The events of a turn that the person stops while its command runs."""
    events: list[e.Event] = []
    async for one in session.run("sleep"):
        events.append(one)
        if isinstance(one, e.ToolCallEvent):
            session.cancel("person")
    async for one in session.run(""):
        events.append(one)
    await session.aclose()
    return events


@pytest.mark.matrix
def test_a_turn_that_was_stopped_and_went_on_is_shown_with_both_ends(tmp_path: Path) -> None:
    steps = iter([[("grep", {"pattern": "x"})], "Here it is."])
    session = begun(tmp_path, lambda: next(steps))
    events = without_times(asyncio.run(stopped(session)))
    seen, again = rows_of(live(events, "sleep", 80, PLAIN)), shown_again(tmp_path, session.id)
    assert "Interrupted. Completed steps are kept." in "\n".join(seen) and "Here it is." in seen
    assert again == seen


@pytest.mark.matrix
def test_a_compaction_is_shown_again_where_it_was(tmp_path: Path) -> None:
    session = begun(tmp_path, lambda: "word " * 900)

    async def scene() -> list[e.Event]:
        events: list[e.Event] = []
        for words in ("one", "two", "three"):
            events = [one async for one in session.run(words)]
        events += await session.compact()
        await session.aclose()
        return events

    events = asyncio.run(scene())
    rows = [row for row in live(without_times(events), "three", 80, PLAIN).split("\n") if "compacted" in row]
    assert rows and [row for row in shown_again(tmp_path, session.id) if "compacted" in row] == rows


@pytest.mark.matrix
def test_a_session_that_continues_at_another_level_says_so(tmp_path: Path) -> None:
    """`opened` works at the level `all`."""
    played = Played(lambda request: "ok")
    session = opened(played, tmp_path)
    say(session, "hello")

    def resumed(level: str | None, then: str = "", words: str = "") -> str:
        asked = Options(tmp_path, MODEL, resume=session.id, allow=level)
        made = open_session(asked, Settings(models={MODEL: {"window": 16_000}}), approver=None, provider=played)
        told = describe_former_level(made)
        if then:
            made.set_level(then)
        if words:
            say(made, words)
        asyncio.run(made.aclose())
        return told

    told = "This session's level was {}; it continues at ask. To restore the level: /permissions {}"
    assert resumed(None) == told.format("all", "all")
    assert resumed("all") == resumed("edit", then="auto") == "", "who names a level needs no line"
    assert resumed(None) == told.format("auto", "auto"), "it was set, and no turn followed"
    resumed(None, words="a turn at ask")
    resumed(None, then="auto")
    resumed(None, words="another one")
    assert resumed(None) == "", "the newest turn was at ask"


def turns(count: int, lines: int) -> Iterator[list[e.Event]]:
    """Turns, the newest first, each with an answer of so many lines."""
    for number in range(count, 0, -1):
        call, result = ToolCall("c1", "bash", {"command": "ls"}), ToolResult("out\n[exit status 0]", status=0)
        answer = "\n\n".join(f"answer {number} line {line}" for line in range(lines))
        yield [
            e.TurnStart(f"words {number}"),
            e.ToolCallEvent(call, "ls"),
            e.ToolResultEvent(call, result, 3, 0.0),
            e.Text(answer),
            e.TurnEnd(e.Outcome(True, 0, answer, "stop", None, 0, Usage(), 0.0)),
        ]


def screenful(count: int, lines: int, rows: int) -> Screenful:
    return last_screenful(turns(count, lines), rows, 60, PLAIN, drawn=True)


def test_only_turns_that_fit_are_shown_and_the_older_ones_are_not_even_drawn() -> None:
    drawn: list[int] = []

    def counted() -> Iterator[list[e.Event]]:
        for one in turns(500, 1):
            drawn.append(1)
            yield one

    shown = last_screenful(counted(), 20, 60, PLAIN, drawn=True)
    assert len(shown.lines) <= 20 and shown.turns == 3 and len(drawn) <= 4
    assert shown.lines[-1] == "answer 500 line 0" and shown.lines[0] == f"{BAR} words 498"


def test_of_a_turn_that_is_too_long_the_words_and_the_end_are_shown() -> None:
    shown = screenful(3, 100, 16)
    assert len(shown.lines) <= 17 and shown.turns == 1
    assert shown.lines[0] == f"{BAR} words 3" and shown.lines[-1] == "answer 3 line 99"
    assert any("more lines: /transcript" in line for line in shown.lines)


@pytest.mark.parametrize("width", [20, 40, 160])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    shown = last_screenful(turns(4, 3), 30, width, DARK, drawn=True)
    assert shown.lines and all(cells(without_codes(line)) <= width for line in shown.lines)


def test_the_head_names_the_session_and_the_way_to_the_rest() -> None:
    value = {
        "session": "01J5ZK",
        "short": "01J",
        "name": "page",
        "entries": 9,
        "turns": 12,
        "at": "2026-01-02T03:04:05Z",
    }
    head = describe_session(value, 3)
    assert "session 01J, page" in head and "9 earlier turns: /transcript" in head and "UTC" not in head
    assert "transcript" not in describe_session(value, 12)
    assert "no messages yet" in describe_session({**value, "entries": 0}, 0)


@pytest.mark.matrix
def test_a_session_of_an_older_version_is_shown_without_what_it_did_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = worked(tmp_path)
    assert session.record is not None
    read: Callable[..., Any] = session.record.memos

    def without_results(*kinds: str, **more: Any) -> list[Any]:
        return [memo for memo in read(*kinds, **more) if memo.kind != "result"]

    monkeypatch.setattr(session.record, "memos", without_results)
    text = "\n".join(last_screenful(newest_turns(session), 200, 80, PLAIN, drawn=True).lines)
    assert "made.py" in text and "It is done." in text
