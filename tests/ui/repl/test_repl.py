"""The REPL over a real session, with a face that keeps what it is given: what lines become, what waits, what stops."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from images import png
from programs import need
from search import sample
from session.played import MODEL, Answer, Played, the_ledger

from nexus_cli.commands import discover
from nexus_cli.commands.command import Choice, Command, Search
from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings, UiSettings
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import local_now
from nexus_cli.core.errors import FORK, NexusError, ProviderError, UsageError
from nexus_cli.core.memo_kinds import COMMAND, WAITING_TEXTS
from nexus_cli.core.request import Delta, Request, TextDelta
from nexus_cli.core.typed_text import CONTINUE_MESSAGE
from nexus_cli.core.usage import Usage
from nexus_cli.reports.context import live_report
from nexus_cli.reports.text.lines import short
from nexus_cli.reports.transcript import session_transcript
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.tools.process_tree import RUNNING
from nexus_cli.ui.asked_question import AskedQuestion, write_question
from nexus_cli.ui.input.paste import Attachment, TypedMessage
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.render.question_text import question_text
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.repl import repl
from nexus_cli.ui.repl.job_runner import JobRunner
from nexus_cli.ui.repl.local_session import LocalSession
from nexus_cli.ui.repl.pager import PAGED
from nexus_cli.ui.repl.repl import Repl
from nexus_cli.ui.repl.view import ReplController
from nexus_cli.ui.screen.line_view import choose_by_number

T = TypeVar("T")
PATIENCE = 90.0
SETTINGS = Settings(models={MODEL: {"window": 16_000}, "openai/other": {"window": 32_000}})


class Kept:
    """A face that keeps all that is put, and answers questions from a list."""

    width = 80
    height = 24
    echoes = False

    def __init__(self) -> None:
        self.text = ""
        self.box = ""
        self.asked: list[str] = []
        self.answers: list[str | None] = []
        self.called: list[tuple[str, bool]] = []
        self._end = asyncio.Event()

    def put(self, text: str) -> None:
        assert text.endswith("\n"), "what is put ends in a newline"
        self.text += text

    def invalidate(self) -> None:
        """Nothing is painted."""

    def fill(self, text: str) -> None:
        self.box = text

    async def question(self, asked: AskedQuestion) -> str | None:
        self.asked.append(f"{asked.text}\n{write_question(asked, 1_000)}")

        while not self.answers:  # noqa: ASYNC110  (a test adds them at any time)
            await asyncio.sleep(0.005)
        return self.answers.pop(0)

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        return await choose_by_number(title, choices, self.width, self.question, search)

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        return await work()

    async def run(self, controller: ReplController) -> None:
        await self._end.wait()

    def interrupt(self) -> None:
        """Nobody sends signals here."""

    def notify(self, text: str, *, waits: bool = False) -> None:
        self.called.append((text, waits))

    def leave(self) -> None:
        self._end.set()


class Stage:
    """A REPL with its view, over a model that is a function."""

    def __init__(self, folder: Path, script: Callable[[Request], Answer], **options: Any) -> None:
        self.view = Kept()
        self.provider = Played(script)
        theme = choose_theme("dark", False)
        approver = PersonApprover(
            self.view, lambda question, number: question_text(question, self.view.width, theme, number)
        )
        opening = Options(folder, MODEL, interactive=True, recipe="chat", **options)

        began = local_now()  # the clock stands still: two requests of a test are in the same minute

        def open_(options: Options, settings: Settings, earlier: Session | None = None) -> Session:
            parts: Any = {"approver": approver, "provider": self.provider, "clock": lambda: began}
            return open_session(options, settings, earlier=earlier, **parts)

        renderer = RichRenderer(self.view.put, lambda: self.view.width, theme)
        session = open_(opening, SETTINGS)
        self.backend = LocalSession(session, opening, SETTINGS, open_, lambda raw: None)
        self.repl = Repl(self.backend, self.view, renderer, theme)
        self.backend.connect(self.repl)
        self.repl.draft = lambda: self.view.box

    @property
    def session(self) -> Session:
        """The session that is open now."""
        return self.backend.session

    def type(self, text: str) -> None:
        self.repl.submit(TypedMessage(text, text))

    async def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.view.text
            await asyncio.sleep(0.005)

    async def idle(self) -> None:
        await self.until(lambda: self.repl.jobs.current is None)

    async def say(self, text: str) -> None:
        """Submit `text` and wait until the REPL is idle."""
        self.type(text)
        await self.idle()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The REPL runs; afterwards it has left and its session is closed."""
        running = asyncio.create_task(self.repl.run())
        try:
            yield
        finally:
            self.repl.request_exit()
            await asyncio.wait_for(running, PATIENCE)
            await self.session.aclose()

    @property
    def text(self) -> str:
        return self.view.text


def _said(provider: Played, number: int = -1) -> list[str]:
    return [str(message["content"]) for message in provider.seen[number] if message["role"] == "user"]


async def test_an_own_command_that_is_typed_before_it_was_read_is_found(tmp_path: Path) -> None:
    folder = places().config / "commands"
    folder.mkdir(parents=True)
    (folder / "tidy.md").write_text("---\ndescription: Tidy up\n---\nTidy the desk.\n")
    stage = Stage(tmp_path, lambda request: "tidied")

    async with stage.running():
        stage.backend.read_own_commands()
        stage.type("/tidy")
        stage.type("/nosuch")
        await stage.until(lambda: "tidied" in stage.text and "/nosuch: there is no such command" in stage.text)
    assert "/tidy: there" not in stage.text and "Tidy the desk." in _said(stage.provider)[-1]


async def test_words_become_a_turn_and_the_answer_is_put(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "the **answer**")

    async with stage.running():
        stage.type("the question")
        assert stage.repl.running
        await stage.idle()
    assert "the question" in stage.text and "the answer" in stage.text and "**" not in stage.text
    assert stage.repl.outcome is not None and stage.repl.outcome.ok


async def test_a_notice_of_the_session_names_commands_as_they_are_typed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, lambda request: "answer")
    monkeypatch.setattr(stage.session, "take_notices", lambda: ["unknown window. To set it: nexus config set a.b 1"])

    async with stage.running():
        stage.backend.refresh()
    assert "! unknown window. To set it: /config set a.b 1" in stage.text


async def test_a_terminal_without_live_lines_names_a_command_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repl, "LONG", 0.0)
    answers: list[Answer] = [[("bash", {"command": "until [ -e go ]; do sleep 0.01; done"})], "done"]
    steps = iter(answers)
    stage = Stage(tmp_path, lambda request: next(steps), allow="all")
    stage.view.echoes = True

    async with stage.running():
        stage.type("wait")
        await stage.until(lambda: "bash until [ -e go ]" in stage.text)
        stage.type("/fork later")
        assert "queued: /fork later" in stage.text
        (tmp_path / "go").touch()
        await stage.idle()
    assert stage.text.count("bash until") == 1


async def test_a_stream_that_breaks_offers_the_command_that_resumes_the_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")
    whole = stage.provider.stream
    lost = [ProviderError("network", "the connection was lost", "Check the connection", started=True)]

    async def breaks(request: Request) -> AsyncIterator[Delta]:
        if lost:
            yield TextDelta("half of it")
            raise lost.pop()
        async for delta in whole(request):
            yield delta

    stage.provider.stream = breaks  # type: ignore[method-assign]

    async with stage.running():
        await stage.say("begin")
        assert "half of it" in stage.text and "the connection was lost" in stage.text
        assert stage.text.endswith("· This turn was cut short. /continue to resume it.\n")
        await stage.say("/continue")
        before = len(stage.text)
        stage.backend.show_conversation()
        assert "· continued\n" in stage.text[before:] and CONTINUE_MESSAGE not in stage.text
        transcript = find_form("transcript")(session_transcript(stage.session), 80)
        assert " continued\n" in transcript and CONTINUE_MESSAGE not in transcript
        assert CONTINUE_MESSAGE in str(stage.provider.seen[-1]) and stage.text[:before].count("/continue") == 2


async def test_a_turn_that_ends_because_another_process_has_its_session_offers_no_continue(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        why = f"another process has taken over session {stage.session.id}"
        raise NexusError("ledger", "the connection to the ledger was lost", why, FORK)

    stage = Stage(tmp_path, answer)

    async with stage.running():
        await stage.say("begin")
        assert "another process has taken over" in " ".join(stage.text.split()) and "Fork it" in stage.text
        assert "/continue" not in stage.text


@pytest.mark.matrix
async def test_the_end_of_a_resumed_turn_counts_the_files_of_its_beginning(tmp_path: Path) -> None:
    written: list[Answer] = [[("write_file", {"path": "a.txt", "content": "1\n2\n"})]]
    stage = Stage(tmp_path, lambda request: written.pop() if written else "done", allow="edit")
    whole = stage.provider.stream

    async def breaks(request: Request) -> AsyncIterator[Delta]:
        if request.messages[-1]["role"] == "tool" and len(stage.provider.seen) == 1:
            stage.provider.seen.append([])
            raise ProviderError("auth", "the key was refused", "Check the key")
        async for delta in whole(request):
            yield delta

    stage.provider.stream = breaks  # type: ignore[method-assign]

    async with stage.running():
        for words in ("begin", "/continue"):
            await stage.say(words)
    assert "  whole turn: 1 file (+2 -0) · /undo to revert" in stage.text


@pytest.mark.matrix
async def test_a_question_and_the_end_of_a_turn_call_the_person(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        return "fine" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "touch a"})]

    stage = Stage(tmp_path, script)

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: stage.view.asked)
        assert stage.view.called == [(f"bash is waiting for your answer in {tmp_path.name}", True)]
        stage.view.answers.append("y")
        await stage.idle()
    (_, nothing, (done, waits)) = stage.view.called
    assert nothing == ("", False)
    assert done.startswith("done after ") and done.endswith(f" in {tmp_path.name}") and not waits


async def test_words_during_a_turn_steer_it_and_queued_ones_come_afterwards(tmp_path: Path) -> None:
    stage: list[Stage] = []

    def script(request: Request) -> Answer:
        return "done" if len(stage[0].provider.seen) > 1 else [("bash", {"command": "sleep 0.3"})]

    stage.append(Stage(tmp_path, script, allow="all"))
    one = stage[0]

    async with one.running():
        one.type("begin")
        await one.until(lambda: one.provider.seen)
        one.type("and faster")
        one.repl.enqueue(TypedMessage("afterwards", "afterwards"))
        await one.until(lambda: one.session.undelivered)
        assert one.repl.queued() == ["sending after this step: and faster", "queued: afterwards"]
        await one.until(lambda: len(one.provider.seen) == 3)
        await one.idle()
        assert one.repl.queued() == []
    second = [str(m["content"]) for m in one.provider.seen[1] if m["role"] == "user"]
    assert second[-1].endswith("and faster") and _said(one.provider)[-1].endswith("afterwards")


@pytest.mark.matrix
async def test_what_waits_is_taken_back_newest_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: [("bash", {"command": "sleep 5"})], allow="all")

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: stage.provider.seen)
        stage.type("one")
        await stage.until(lambda: len(stage.session.undelivered) == 1)
        stage.type("two")
        await stage.until(lambda: len(stage.session.undelivered) == 2)
        stage.repl.enqueue(TypedMessage("later", "later"))
        assert [stage.repl.take_back() for _ in range(4)] == ["later", "two", "one", ""]
        stage.repl.interrupt()
        await stage.idle()


async def test_a_stopped_turn_keeps_its_work_and_what_waits_goes_on_waiting(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        return [("bash", {"command": "echo so' 'far; sleep 30"})] if len(request.messages) < 3 else "fine"

    stage = Stage(tmp_path, script, allow="all")

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: "so far" in "\n".join(stage.repl.live(8)[1:]))
        stage.type("steering words")
        await stage.until(lambda: stage.session.undelivered)
        stage.repl.enqueue(TypedMessage("queued words", "queued words"))
        stage.view.box = "half typed"
        stage.repl.interrupt()
        await stage.idle()
        assert stage.view.box == "half typed", "the draft is nobody's business"
        assert stage.repl.queued() == ["queued: steering words", "queued: queued words"]
        assert len(stage.provider.seen) == 1 and stage.session.is_open(), "the model was not told yet"
        assert stage.repl.outcome is not None and stage.repl.outcome.error
        assert stage.repl.outcome.error["kind"] == "aborted"
        # It says how long it took if that was a second or more.
        shown = re.search(r"bash echo so' 'far; sleep 30 · stopped( · [\d.]+ s)?\n    so far\n", stage.text)
        assert shown and "✗" not in stage.text
        stage.type("go on")
        await stage.until(lambda: len(stage.provider.seen) == 3)
        await stage.idle()
        assert stage.repl.queued() == []
    first, second = (_said(stage.provider, number) for number in (1, 2))
    assert first[-2].endswith("go on") and first[-1].endswith("steering words"), "the next turn gets both"
    assert second[-1].endswith("queued words")
    result = next(message for message in stage.provider.seen[1] if message["role"] == "tool")
    assert "so far" in str(result["content"]) and "interrupted while it ran" in str(result["content"])


async def test_a_second_ctrl_c_kills_what_it_stops_and_no_background_job(tmp_path: Path) -> None:
    calls: Answer = [
        ("bash", {"command": "echo ready; exec sleep 60", "background": True}),
        ("bash", {"command": "trap '' TERM; echo be'gun'; while :; do sleep 0.05; done"}),
    ]
    stage = Stage(tmp_path, lambda request: calls, allow="all")

    async with stage.running():
        stage.type("serve it, and test")
        await stage.until(lambda: "begun" in "\n".join(stage.repl.live(8)))
        stage.repl.interrupt()
        await stage.until(lambda: any(stop.is_pressed for stop in tuple(RUNNING.values())))
        stage.repl.interrupt()
        await stage.idle()
        assert "still stopping" in stage.text and "ended" not in stage.text
        stage.type("/jobs")
        await stage.until(lambda: "running for" in stage.text)


async def test_a_shell_line_moves_to_the_background_unless_it_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, lambda request: "it is up")

    async with stage.running():
        stage.type("!!exec sleep 60")
        await stage.until(lambda: "esc to stop" in stage.repl.spinner())
        assert "ctrl+b" not in stage.repl.spinner()
        stage.repl.release_workers()
        stage.repl.interrupt()
        await stage.idle()
        assert "job" not in stage.text
        stage.type("!echo rea'dy'; exec sleep 60")
        await stage.until(lambda: "ready" in "\n".join(stage.repl.live(8)) and "ctrl+b" in stage.repl.spinner())
        with monkeypatch.context() as patch:
            patch.setattr("nexus_cli.session.session_jobs.MOST", 0)
            stage.repl.release_workers()
            await stage.until(lambda: "jobs are running (the maximum): stop a job" in stage.text)
        stage.type("is it up?")
        stage.repl.release_workers()
        await stage.until(lambda: "it is up" in stage.text)
        assert "job j1 runs in the background" in _said(stage.provider)[-1]
        assert "1 job j1" in stage.repl.status(100)


async def test_a_continued_turn_gets_what_it_was_told_before_it_was_stopped(tmp_path: Path) -> None:
    answers: list[Answer] = [[("bash", {"command": "sleep 30"})]]
    stage = Stage(tmp_path, lambda request: answers.pop() if answers else "done", allow="all")

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: "sleep" in "\n".join(stage.repl.live(8)))
        stage.type("only three")
        await stage.until(lambda: stage.session.undelivered)
        stage.repl.interrupt()
        await stage.idle()
        stage.type("/continue")
        await stage.until(lambda: len(stage.provider.seen) == 2 and stage.repl.jobs.current is None)
        assert _said(stage.provider)[-1].endswith("only three") and stage.repl.queued() == []


@pytest.mark.matrix
async def test_words_of_a_stopped_turn_stay_queued_if_the_next_one_is_stopped_before_it_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, lambda request: "done")
    repl, words = stage.repl, TypedMessage("only three", "only three")

    async def stopped(typed: TypedMessage) -> None:
        assert repl.take_back() == "", "it is on its way: Up does not take it too"
        raise asyncio.CancelledError

    async with stage.running():
        repl.input_queue.unused.append(words)
        monkeypatch.setattr(repl, "_message", stopped)
        with pytest.raises(asyncio.CancelledError):
            await repl._begin_turn(Trigger("go on"))
        assert [*repl.input_queue.unused] == [words] and not stage.provider.seen


@pytest.mark.matrix
@pytest.mark.parametrize("by_line", [False, True])
async def test_a_message_that_stays_queued_says_what_becomes_of_it(by_line: bool, tmp_path: Path) -> None:
    answers: list[Answer] = [[("bash", {"command": "sleep 30"})]]
    stage = Stage(tmp_path, lambda request: answers.pop() if answers else "done", allow="all")
    stage.view.echoes = by_line

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: "sleep" in "\n".join(stage.repl.live(8)))
        stage.repl.enqueue(TypedMessage("later", "later"))
        stage.repl.interrupt(gently=True)
        await stage.idle()
        way = "sent after your next message" if by_line else "sent after your next message; Up to edit"
        assert f"1 message still queued ({way})" in stage.text
        stage.type("next")
        await stage.until(lambda: len(stage.provider.seen) == 3 and stage.repl.jobs.current is None)
        assert _said(stage.provider)[-1].endswith("later")


@pytest.mark.matrix
@pytest.mark.parametrize("sent", ["second", "second, as I said"])
async def test_a_message_that_is_taken_back_and_sent_as_it_was_stays_behind_those_before_it(
    tmp_path: Path, sent: str
) -> None:
    answers: list[Answer] = [[("bash", {"command": "sleep 30"})]]
    stage = Stage(tmp_path, lambda request: answers.pop() if answers else "done", allow="all")

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: "sleep" in "\n".join(stage.repl.live(8)))
        for text in ("first", "second"):
            stage.repl.enqueue(TypedMessage(text, text))
        stage.repl.interrupt(gently=True)
        await stage.idle()
        assert stage.repl.take_back() == "second"
        stage.type(sent)
        await stage.until(lambda: len(stage.provider.seen) == 3 and stage.repl.jobs.current is None)
        newest = [text.rpartition("\n")[2] for text in _said(stage.provider)[-2:]]
        assert newest == (["first", sent] if sent == "second" else [sent, "first"]), "other words are the next message"


@pytest.mark.matrix
async def test_a_queued_clear_comes_when_the_turn_is_stopped_and_older_words_go_to_no_other_session(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, lambda request: [("bash", {"command": "sleep 30"})], allow="all")

    async def stopped(*queued: str) -> str:
        before = stage.session.id
        stage.type("begin")
        await stage.until(lambda: stage.repl.renderer.moving and "sleep" in "\n".join(stage.repl.live(8)))
        for text in queued:
            stage.repl.enqueue(TypedMessage(text, text))
        stage.repl.interrupt(gently=True)
        await stage.idle()
        return before

    async with stage.running():
        first = await stopped("/clear")
        assert stage.session.id != first and stage.repl.queued() == []
        second = await stopped("/review", "/clear")
        assert stage.session.id == second and "2 messages still queued" in stage.text, "a review is work"
        assert stage.repl.take_back() == "/clear" and stage.repl.take_back() == "/review"
        await stopped("words for the old one")
        sent = len(stage.provider.seen)
        await stage.say("/clear")
        assert stage.session.id != second and len(stage.provider.seen) == sent
        assert stage.repl.queued() == []
        await stage.say(f"/resume {second}")
        assert stage.repl.take_back() == "words for the old one"
        third = await stopped("/clear", "words for the new one")
        assert stage.session.id != third and stage.repl.queued() == ["queued: words for the new one"]
        for command in ("/effort low", "/rename prices", "/resume no-such-one"):
            stage.repl.take_back()
            await stopped(command, f"words behind {command}")
            await stage.say("/clear")
            assert stage.repl.queued() == [], command
    assert "kept for when you resume the previous session: words for the old one" in stage.text
    assert "kept for when you resume the previous session: words behind /rename prices" in stage.text


async def test_a_question_of_a_verb_is_answered_by_a_key_as_in_a_shell(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        stage.type("hello")
        await stage.until(lambda: "fine" in stage.text)
        await stage.idle()
        first = stage.session.id
        await stage.say("/clear")
        for answer in ("n", None, "y"):
            stage.view.answers.append(answer)
            await stage.say(f"/sessions delete {first}")
    asks = "Delete it permanently? [y]es \N{MIDDLE DOT} [N]o:"
    assert len(stage.view.asked) == 3 and all(asked.endswith(asks) for asked in stage.view.asked)
    no, cancelled = stage.text.index("Nothing was deleted."), stage.text.index("/sessions delete: cancelled")
    assert no < cancelled < stage.text.rindex("was deleted")


@pytest.mark.matrix
async def test_words_that_are_typed_while_a_turn_is_stopping_begin_the_next_one(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        return [("bash", {"command": "sleep 30"})] if len(request.messages) < 3 else "fine"

    stage = Stage(tmp_path, script, allow="all")

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: "sleep" in "\n".join(stage.repl.live(8)))
        stage.repl.enqueue(TypedMessage("before", "before"))
        stage.repl.interrupt()
        stage.type("do it differently")
        await stage.until(lambda: len(stage.provider.seen) == 3)
        await stage.idle()
    assert [_said(stage.provider, number)[-1] for number in (1, 2)] == ["do it differently", "before"]


async def test_what_was_stopped_is_named_and_a_stopped_goal_stays(tmp_path: Path) -> None:
    class Slow(Played):
        """Takes its time with everything but the first answer."""

        async def stream(self, request: Request) -> AsyncIterator[Any]:
            async for delta in super().stream(request):
                if len(self.seen) > 1:
                    await asyncio.sleep(30)
                yield delta

    stage = Stage(tmp_path, lambda request: "fine")
    stage.session.engine.provider = Slow(stage.provider.script)

    async with stage.running():
        await stage.say("begin")
        for line, told in (
            ("/reflect", "reflecting stopped: completed steps are kept"),
            ("/goal a parser", "Stopped: the goal is saved without steps."),
        ):
            stage.type(line)
            await stage.until(lambda: stage.repl.jobs.kind == "busy" and stage.session.busy)
            await asyncio.sleep(0.05)
            stage.repl.interrupt()
            await stage.idle()
            assert told in " ".join(stage.text.split()), stage.text
        assert "[ ] g1 a parser" in stage.text and "the turn was interrupted" not in stage.text


@pytest.mark.matrix
async def test_a_new_session_says_what_its_first_request_would_take(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("Answer in rhyme.\n" * 40)
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        assert "- of" in stage.repl.status(80), "nobody knows it yet"
        stage.repl.refresh_status()
        await stage.until(lambda: "- of" not in stage.repl.status(80))
        used = int(live_report(stage.session)["budget"]["used"]["total"])
        assert used > 1000 and f"{short(used)} of" in stage.repl.status(80)
        assert not stage.text and stage.session.status().used == 0, "nothing was sent or written"
        await stage.say("begin")
        assert stage.session.status().used > 0


async def test_leaving_before_it_is_known_tells_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        stage.repl.refresh_status()
    assert stage.text == ""


class Kill:
    """A kill of the process that plays a stage: `now` keeps the data as they are, `undo_later` takes back the rest."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "killed"

    def now(self) -> None:
        shutil.copytree(places().data, self._kept)

    def undo_later(self) -> None:
        shutil.rmtree(places().data)
        shutil.move(self._kept, places().data)


async def test_what_was_typed_during_a_turn_is_queued_again_after_leaving_and_after_a_kill(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: [("bash", {"command": "sleep 30"})], allow="all")
    kill, session = Kill(tmp_path), stage.session.id

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: stage.provider.seen)
        stage.backend.attach("<block/>", "a block")
        stage.type("use blue")
        stage.repl.enqueue(TypedMessage("then green", "[pasted 1 line]", ("then green",)))
        stage.repl.enqueue(TypedMessage("or not", "or not"))
        assert stage.repl.take_back() == "or not"
        await stage.until(lambda: stage.session.undelivered)
        stage.backend.attach("<second/>", "a second block")
        kill.now()
    for kept in ("use blue", "then green", "a second block"):
        assert f"kept for when you resume: {kept}" in stage.text
    assert "not sent" not in stage.text
    waiting = [
        "queued: use blue",
        "queued: [pasted 1 line]",
        "attached: a second block",
    ]

    def look() -> None:
        stage.view.echoes = True
        stage.backend.show_conversation()
        assert stage.repl.queued() == waiting and all(line in stage.text for line in waiting)

    stage = Stage(tmp_path, lambda request: "fine", resume=session)
    async with stage.running():
        look()
    kill.undo_later()
    stage = Stage(tmp_path, lambda request: "fine", resume=session)
    async with stage.running():
        look()
        stage.type("go on")
        await stage.until(lambda: len(stage.provider.seen) == 3)
        await stage.idle()
    first, second, third = (_said(stage.provider, number)[-1] for number in range(3))
    assert first.endswith("\n\ngo on\n\n<second/>"), "what a message took along stays with it"
    assert second == "use blue\n\n<block/>" and third == "then green"
    waiting.clear()
    stage = Stage(tmp_path, lambda request: "fine", resume=session)
    async with stage.running():
        look()


@pytest.mark.matrix
async def test_a_message_that_the_session_does_not_have_yet_survives_a_kill(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")
    kill, session, run = Kill(tmp_path), stage.session.id, stage.backend.run

    async def begin_late(trigger: Trigger) -> None:
        await asyncio.sleep(30)  # as behind a hook, or before an MCP server answers
        await run(trigger)

    async with stage.running():
        await stage.say("begin")
        stage.backend.attach("<block/>", "a block")
        stage.backend.run = begin_late  # type: ignore[method-assign]
        stage.type("one")
        await stage.until(lambda: not stage.repl.input_queue.attached)
        stage.repl.enqueue(TypedMessage("two", "two"))
        kill.now()
        stage.repl.interrupt()
        await stage.idle()
        assert stage.view.box == "one" and stage.repl.queued() == ["queued: two", "attached: a block"]
    kill.undo_later()
    stage = Stage(tmp_path, lambda request: "fine", resume=session)

    async with stage.running():
        assert stage.repl.queued() == ["queued: one", "queued: two"]
        stage.type("go on")
        await stage.until(lambda: len(stage.provider.seen) == 3)
        await stage.idle()
    assert [_said(stage.provider, number)[-1] for number in range(3)] == ["go on", "one\n\n<block/>", "two"]


def _work_first(request: Request) -> Answer:
    """Run a command of a second, then answer."""
    return "fine" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "sleep 1"})]


async def test_a_queued_command_that_has_run_is_not_queued_again_after_a_kill(tmp_path: Path) -> None:
    stage = Stage(tmp_path, _work_first, allow="all")
    kill, session = Kill(tmp_path), stage.session.id

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: stage.provider.seen)
        stage.type("!!echo ran-$((40+2))")
        stage.type("/rename mine")
        await stage.until(lambda: "Renamed" in stage.text)
        await stage.idle()
        kill.now()
    assert "ran-42" in stage.text
    kill.undo_later()
    assert not Stage(tmp_path, lambda request: "fine", resume=session).repl.queued()


async def test_a_message_sent_just_before_a_kill_is_not_queued_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, _work_first, allow="all")
    kill, session = Kill(tmp_path), stage.session.id

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: stage.provider.seen)
        stage.type("!echo along-$((40+2))")
        await stage.until(lambda: stage.repl.input_queue.attached)
        for words in ("same words", "same words"):
            stage.repl.enqueue(TypedMessage(words, words))
        stage.backend.store_queue = lambda *, only=None: True  # type: ignore[method-assign]
        await stage.until(lambda: len(_said(stage.provider)) > 1)
        kill.now()
    kill.undo_later()
    assert Stage(tmp_path, lambda request: "fine", resume=session).repl.queued() == ["queued: same words"]


async def test_the_queue_is_kept_if_another_session_cannot_be_opened(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")
    kill, session = Kill(tmp_path), stage.session.id

    async with stage.running():
        await stage.say("begin")
        stage.repl.input_queue.postponed.append(TypedMessage("later", "later"))

        def refuse(*given: object) -> Session:
            raise UsageError("it", "is open elsewhere")

        stage.backend._reopen = refuse
        with pytest.raises(NexusError):
            await stage.backend.reopen(replace(stage.backend.options, resume=""))
        kill.now()
    kill.undo_later()
    assert Stage(tmp_path, lambda request: "fine", resume=session).repl.queued() == ["queued: later"]


@pytest.mark.matrix
async def test_output_that_is_detached_is_not_stored(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("begin")
        await stage.say("!echo detached-$((40+2))")
        assert stage.repl.detach()
        newest = stage.session.engine.conversation.memos(WAITING_TEXTS)[-1]
        assert newest.value["texts"] == [] and newest.value["memos"] == {}


@pytest.mark.parametrize("runs", [False, True])
async def test_messages_that_were_typed_just_before_leaving_are_kept(tmp_path: Path, runs: bool) -> None:
    stage = Stage(tmp_path, lambda request: [("bash", {"command": "sleep 30"})] if runs else "fine", allow="all")
    last = ["use blue", "use red"] if runs else ["use blue"]

    async with stage.running():
        stage.type("hello")
        await stage.until(lambda: stage.provider.seen if runs else stage.repl.jobs.current is None)
        for words in last:
            stage.type(words)
    kept = [line.partition("kept for when you resume: ")[2] for line in stage.text.splitlines()]
    assert [words for words in kept if words] == last, stage.text
    resumed = Stage(tmp_path, lambda request: "fine", resume=stage.session.id)

    async with resumed.running():
        assert resumed.repl.queued() == [f"queued: {words}" for words in last]


async def test_leaving_waits_for_work_in_the_background_that_keeps_something() -> None:
    kept = []

    async def work() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            await asyncio.sleep(0)
            kept.append("it")

    runner = JobRunner(lambda text, role: None, lambda job: None, lambda: False)
    runner.start_background(work())
    await asyncio.sleep(0)
    await runner.settle()
    assert kept


async def test_output_that_waits_for_the_next_message_is_named_when_the_person_leaves(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("!echo seen")
    assert "not sent: output of `echo seen" in stage.text


async def test_output_that_waits_when_the_person_leaves_waits_again_when_they_resume(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("hello")
        await stage.say("!echo seen-$((40+2)); exit 3")
    assert "kept for when you resume: output of `echo seen" in stage.text
    session = stage.session.id
    stage = Stage(tmp_path, lambda request: "fine", resume=session)

    async with stage.running():
        assert stage.repl.queued() == ["attached: output of `echo seen-$((40+2)); exit 3`"]
        await stage.say("!echo taken back")
        assert stage.repl.take_back() == "" and stage.repl.detach()
        for other in ("/clear", "/fork"):
            await stage.say(other)
            assert stage.repl.queued() == [] and stage.session.id != session
            await stage.say(f"/resume {session}")
            assert len(stage.repl.queued()) == 1 and stage.session.id == session
        await stage.say("look")
        memos = stage.session.context.conversation.memos(COMMAND)
        assert [(memo.value["status"], memo.value["error"]) for memo in memos] == [(3, "seen-42")]
    assert "seen-42" in _said(stage.provider)[-1] and "not sent" not in stage.text
    assert stage.text.count("kept for when you resume the previous session: output of `echo seen") == 2
    stage = Stage(tmp_path, lambda request: "fine", resume=session)

    async with stage.running():
        assert stage.repl.queued() == [], "it was sent"


async def test_a_shell_line_is_shared_with_the_next_message_and_a_private_one_is_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("!echo shared-$((40+2))")
        await stage.say("!!echo private-$((40+1))")
        await stage.say("!seq 90000")
        first, long = stage.repl.queued()
        assert first == "attached: output of `echo shared-$((40+2))`"
        assert re.fullmatch(r"attached: output of `seq 90000`, [\d,]+ tokens left out: /drops d1", long)
        await stage.say("look")
        assert stage.repl.queued() == []
    assert "shared-42" in stage.text and "private-41" in stage.text
    said = "\n".join(_said(stage.provider))
    assert "shared-42" in said and "private-41" not in said
    assert re.search(r"look\n\n<shell command=.echo shared", said)


async def test_the_value_of_a_key_in_a_shell_line_is_seen_by_the_person_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "GH_TOKEN": "hunter2-hunter2",
        "LONG_API_KEY": "hunter2-hunter2-more",
        "PIN_SECRET": "1234",
        "A": "plain-value",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("!echo of hunter2-hunter2; env | grep -e hunter2 -e 1234 -e plain-v | sort")
        await stage.say("look")
    assert "GH_TOKEN=hunter2-hunter2\n" in stage.text and "The model sees [GH_TOKEN], [LONG_API_KEY]" in stage.text
    said = "\n".join(_said(stage.provider))
    assert "GH_TOKEN=[GH_TOKEN]" in said and "LONG_API_KEY=[LONG_API_KEY]" in said and "of [GH_TOKEN]; env" in said
    assert "PIN_SECRET=1234" in said and "A=plain-value" in said and "hunter2-hunter2" not in said
    kept = b"".join(path.read_bytes() for path in places().data.glob("ledger.db*"))
    assert b"[LONG_API_KEY]" in kept and b"hunter2-hunter2" not in kept


async def test_a_shell_line_stands_in_the_record_of_the_work_once_the_model_is_told_of_it(tmp_path: Path) -> None:
    calls: Iterator[Answer] = iter([[("bash", {"command": "exit 4"})], "done"])
    stage = Stage(tmp_path, lambda request: next(calls, "fine"), allow="all")
    engine = stage.session.engine

    def commands() -> list[str]:
        for _ in engine.work.read(engine.conversation):
            pass
        return [item.text for item in engine.compactor.make_record().items if item.kind != "file"]

    async with stage.running():
        await stage.say("run it")
        for line in ("!echo 'error: no rule'; exit 2", "!!exit 3", "!exit 4", "!echo taken back", "!sleep 60"):
            stage.type(line)
            if line == "!sleep 60":
                await stage.until(lambda: stage.repl.running and stage.repl.jobs.kind == "shell")
                stage.repl.interrupt()
            await stage.idle()
            if "taken back" in line:
                stage.repl.detach()
        assert commands() == ["- exit 4 -> exit 4"], "the model's own"
        await stage.say("look")
        assert sorted(commands()) == [
            "- echo 'error: no rule'; exit 2 (run by the person) -> exit 2: error: no rule",
            "- exit 4 (run by the person) -> exit 4",
            "- sleep 60 (run by the person) -> no exit status: stopped by the person",
        ]


@pytest.mark.matrix
async def test_what_a_shell_line_gave_counts_as_part_of_the_next_request(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("hello")
        repl = stage.repl
        before, line = stage.session.status().used, repl.status(80)
        await stage.say("!seq 1000 2000")
        used = stage.session.status().used
        assert used > before + 500 and repl.status(80) != line and f"{short(used)} of" in repl.status(80)
        await stage.say("/context")
        assert (
            f"{used:,} of" in stage.text and "1 attachment (" in stage.text and "with your next message" in stage.text
        )
        repl.detach()
        assert stage.session.status().used == before and f"{short(before)} of" in repl.status(80)


async def test_a_shell_line_is_stopped_like_a_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        stage.type("!echo so-far-$((40+2)); sleep 60")
        await stage.until(lambda: "so-far-42" in "".join(stage.repl.live(5)) and stage.repl.spinner())
        assert stage.repl.running
        stage.repl.interrupt()
        await stage.idle()
        assert stage.repl.queued() == ["attached: output of `echo so-far-$((40+2)); sleep 60`"]
    assert "stopped" in stage.text and "so-far-42" in stage.text


async def test_a_misspelt_command_names_the_nearest_and_a_path_is_a_message(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("/contxt")
        assert "/context" in stage.text and not stage.provider.seen
        await stage.say("/usr/bin/env is what?")
    assert _said(stage.provider)[-1].endswith("/usr/bin/env is what?")


@pytest.mark.matrix
async def test_a_command_that_wants_rest_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        lambda request: "fine" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "sleep 0.3"})],
        allow="all",
    )

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: stage.provider.seen)
        before = stage.session.id
        stage.type("/clear")
        assert stage.repl.queued() == ["queued: /clear"] and stage.session.id == before
        await stage.until(lambda: stage.session.id != before)
        await stage.idle()


@pytest.mark.matrix
async def test_a_call_is_allowed_by_an_answer_and_refused_with_words(tmp_path: Path) -> None:
    answers: dict[str, str] = {}

    def script(request: Request) -> Answer:
        last = request.messages[-1]
        if last["role"] == "tool":
            answers[str(last["tool_call_id"])] = str(last["content"])
            return "done"
        return [("bash", {"command": "echo ran-$((1+1))"})]

    stage = Stage(tmp_path, script)

    async with stage.running():
        stage.view.answers = ["", "ok", "y"]
        await stage.say("run it")
        stage.view.answers = ["not this one"]
        await stage.say("run it again")
        stage.view.answers = [None]
        await stage.say("and again")
    yes, words, nothing = answers.values()
    assert "ran-2" in yes and "not this one" in words
    assert nothing == "not run: the question was closed without an answer"
    assert "✗ not run: the question was closed without an answer\n" in stage.text
    assert "✗ Declined: not this one\n" in stage.text and "refused" not in stage.text
    assert len(stage.view.asked) == 5 and "echo ran-" in stage.view.asked[0]


async def test_leaving_while_a_turn_runs_settles_it_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: [("bash", {"command": "sleep 30"})], allow="all")

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: "sleep" in "".join(stage.repl.live(5)))
    assert stage.repl.outcome is not None and not stage.repl.outcome.ok
    assert len(stage.provider.seen) == 1, "it did not wait for the command"


@pytest.mark.parametrize(
    "text", sample(["[/bold]", "{}", "%s %d", "\ud800 lone", "a\x00b", "\x1b[31mred", "/ ", "!", "!!"], 3, 2)
)
async def test_odd_words_are_no_odd_case(tmp_path: Path, text: str) -> None:
    stage = Stage(tmp_path, lambda request: f"you said {text}")

    async with stage.running():
        await stage.say(text)
    assert "\x1b" not in stage.text and "Traceback" not in stage.text and "bug" not in stage.text


async def test_a_file_that_is_mentioned_goes_along(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("forty-two\n")
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("read @notes.txt please")
    assert 'read @notes.txt please\n\n<file path="notes.txt">\nforty-two\n</file>' in _said(stage.provider)[-1]


@pytest.mark.matrix
async def test_what_waits_goes_on_behind_a_command_that_does_not_exist(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        stage.type("first")
        for words in ("/nosuch", "second", "/nosuch either", "third"):
            stage.repl.enqueue(TypedMessage(words, words))
        await stage.until(lambda: len(stage.provider.seen) == 3)
        await stage.idle()
        assert stage.repl.queued() == []
    assert stage.text.count("no such command") == 2 and _said(stage.provider)[-1].endswith("third")


@pytest.mark.matrix
async def test_words_for_a_session_that_cannot_be_opened_go_to_no_other(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        stage.type("first")
        for words in ("/resume nosuch", "for that one"):
            stage.repl.enqueue(TypedMessage(words, words))
        await stage.until(lambda: "1 message still queued" in stage.text)
        await stage.idle()
        assert stage.repl.queued() == ["queued: for that one"] and len(stage.provider.seen) == 1
        assert stage.repl.take_back() == "for that one"


@pytest.mark.matrix
async def test_words_with_a_file_are_taken_back_as_they_were_typed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("forty-two\n" * 5000)
    (tmp_path / "dot.png").write_bytes(png())
    stage = Stage(tmp_path, lambda request: [("bash", {"command": "sleep 30"})], allow="all")

    async with stage.running():
        await stage.say("!echo shared")
        stage.type("begin")
        await stage.until(lambda: stage.provider.seen)
        stage.type("!echo again")
        stage.type("read @notes.txt")
        await stage.until(lambda: stage.session.undelivered)
        stage.type("see @dot.png")
        await stage.until(lambda: len(stage.repl.queued()) == 3)
        now, *later = stage.repl.queued()
        assert now == "sending after this step: read @notes.txt"
        assert later == ["queued: !echo again", "queued: see @dot.png"]
        taken = [stage.repl.take_back() for _ in range(4)]
        assert taken == ["see @dot.png", "!echo again", "read @notes.txt", ""]
        stage.repl.interrupt()
        await stage.idle()
    assert "forty-two" not in stage.text


async def test_what_a_message_took_along_waits_again_when_it_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(png())
    stage = Stage(tmp_path, lambda request: [("bash", {"command": "sleep 30"})], allow="all")

    async with stage.running():
        stage.type("begin")
        await stage.until(lambda: stage.provider.seen)
        stage.repl.input_queue.attached.append(Attachment("<block/>", "a block"))
        stage.type("see @dot.png")
        await stage.until(lambda: stage.repl.queued() == ["queued: see @dot.png"])
        assert stage.repl.take_back() == "see @dot.png"
        assert stage.repl.queued() == ["attached: a block"]
        stage.repl.interrupt()
        await stage.idle()


async def test_words_that_never_reached_the_session_stand_in_the_box_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        stage.repl.input_queue.attached.append(Attachment("<block/>", "a block"))
        stage.type("words")
        stage.repl.interrupt()
        await stage.idle()
        assert stage.view.box == "words" and stage.repl.queued() == ["attached: a block"]
    assert not stage.provider.seen


async def test_a_call_that_runs_when_the_repl_ends_says_that_the_session_was_closed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: [("bash", {"command": "sleep 60"})], allow="all")

    async with stage.running():
        stage.type("run it")
        await stage.until(lambda: stage.session.dispatcher.started_here)
    assert "the session was closed" in stage.session.engine.conversation.items[-1].message.content


async def test_the_answer_of_an_earlier_session_is_not_that_of_the_next(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "the first answer")

    async with stage.running():
        await stage.say("one")
        assert stage.backend.last_answer == "the first answer"
        await stage.say("/clear")
        assert stage.backend.last_answer == ""


@pytest.mark.matrix
async def test_a_long_output_is_printed_by_its_end_and_kept_whole(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("!!seq 1 30000")
    assert "\n30000\n" in stage.text and "\n29900\n" not in stage.text
    assert "[showing the end of 30,001 lines; all: /transcript]" in stage.text
    assert stage.repl.renderer.last_output is not None and "\n1234\n" in stage.repl.renderer.last_output[1]


async def test_control_o_shows_the_newest_output_and_then_the_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pager, paged = tmp_path / "pager", tmp_path / "paged"
    pager.write_text(f"#!/bin/sh\ncat >> {paged}; echo PAGE >> {paged}\n")
    pager.chmod(0o755)
    monkeypatch.setenv("PAGER", str(pager))
    monkeypatch.setenv("TERM", "xterm")
    stage = Stage(tmp_path, lambda request: "fine")

    def pages() -> list[str]:
        return paged.read_text().split("PAGE\n")[:-1] if paged.exists() else []

    async with stage.running():
        stage.repl.show_last_output()
        await stage.until(lambda: "No messages in this session yet." in stage.text)
        await stage.say("!!seq 100 200")
        await stage.say("hello")
        for number in (1, 2, 3):
            stage.repl.show_last_output()
            await stage.until(lambda number=number: len(pages()) == number and not PAGED)  # type: ignore[misc]
        await stage.say("!!seq 300 400")
        stage.repl.show_last_output()
        await stage.until(lambda: len(pages()) == 4)
        await stage.until(lambda: not PAGED)  # it has written, and is about to end
        stage.type("/transcript")
        await stage.until(lambda: len(pages()) == 5)
    first, again, more, newest, command = pages()
    assert "\n150\n" in first and "hello" not in first
    assert again == more and "    150\n" in again and "> hello\n\nfine" in again
    assert "\n350\n" in newest and "hello" not in newest
    assert "    150\n" in command and "> hello" in command and "    350\n" in command


@pytest.mark.matrix
async def test_what_belongs_to_one_session_does_not_go_to_the_next(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("/permissions all")
        await stage.say("!echo of-the-first")
        await stage.say("hello")
        await stage.say("!echo of-the-first-too")
        assert stage.session.status().allow == "all"
        await stage.say("/clear")
        assert stage.repl.queued() == [] and stage.session.status().allow == "all"
        await stage.say("hello again")
    kept = "kept for when you resume the previous session: output of `echo of-the-first-too"
    assert kept in " ".join(stage.text.split())
    assert "of-the-first" not in str(stage.provider.seen[-1])


@pytest.mark.matrix
async def test_who_gives_no_clear_answer_has_not_said_no(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        lambda request: "done" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "touch a"})],
    )

    async with stage.running():
        stage.view.answers = ["", "", "", "", ""]
        await stage.say("run it")
    assert stage.provider.seen[-1][-1]["content"] == "not run: the question was closed without an answer"
    assert "✗ not run: the question was closed without an answer" in stage.text and "eclined" not in stage.text


@pytest.mark.matrix
async def test_always_says_how_far_it_goes(tmp_path: Path) -> None:
    calls = iter(
        [
            ("bash", {"command": "touch a"}),
            ("bash", {"command": "make"}),
            ("write_file", {"path": "b.txt", "content": "x"}),
        ]
    )
    stage = Stage(tmp_path, lambda request: [next(calls)] if len(request.messages) < 8 else "done")

    async with stage.running():
        stage.view.answers = ["n not that", "n not that", "n not that"]
        await stage.say("run it")
    stored, run, write = stage.view.asked
    assert "Run this? [y]es · [s]ession: touch * · [a]lways here · [n]o" in stored
    assert "Run this? [y]es · [s]ession: this exact command · [n]o" in run
    assert "Make this change? [y]es · [s]ession: edits in this project · [n]o" in write


@pytest.mark.matrix
async def test_n_alone_stops_the_turn_and_the_next_words_go_on(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        lambda request: (
            "done" if "instead" in str(request.messages[-1]["content"]) else [("bash", {"command": "touch a"})]
        ),
    )

    async with stage.running():
        stage.view.answers = ["n"]
        await stage.say("run it")
        await stage.say("use make instead")
    assert "Stopped. Type what to do instead" in stage.view.text and "/continue to resume" not in stage.view.text
    assert len(stage.view.asked) == 1 and stage.repl.outcome is not None and stage.repl.outcome.ok


async def test_mentions_say_what_went_along_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        await stage.say("@a.py @missing/b.py check, @property")
    assert "No file missing/b.py; sent as text" in stage.text
    assert "Attached a.py, 2 lines" in stage.text and "property:" not in stage.text


async def test_a_dragged_file_goes_along_with_its_message(tmp_path: Path) -> None:
    (tmp_path / "a b.py").write_text("one\ntwo\n")
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        mention = f'@"{tmp_path}/a b.py"'
        stage.repl.submit(TypedMessage(f"{mention} what?", "[Image #1] what?", (), (mention,)))
        await stage.idle()
    assert "[Image #1] what?" in stage.text and "Attached" in stage.text
    assert '@"' in _said(stage.provider)[-1] and "\none\ntwo\n</file>" in _said(stage.provider)[-1]


async def test_a_menu_breaks_between_words_and_says_which_answers_count(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")
    stage.view.width = 24

    async with stage.running():
        stage.view.answers = ["7", "2"]
        choices = [Choice("a", "the first of the choices"), Choice("b", "second")]
        assert await stage.backend.choose("Which one of them is it?", choices) == "b"
        asked = stage.view.asked
        stage.view.asked, stage.view.answers = [], ["THE f"]
        assert await stage.backend.choose("Which one of them is it?", choices) == "a", "by the beginning of its label"
    assert asked == [
        "Which one of them is it?\n  1  the first of the\n     choices\n  2  second\nNumber (Enter to cancel):",
        "'7' is not one of these:\ntype a number from 1 to\n2\nNumber (Enter to cancel):",
    ]


async def test_what_a_command_does_beside_the_session_is_stopped_too() -> None:
    shown: list[str] = []
    runner = JobRunner(lambda text, role: shown.append(text))
    runner.start("command", "/rewind", runner.run_busy("rewinding", asyncio.sleep(600)))
    await asyncio.sleep(0)
    assert runner.kind == "busy"
    runner.stop()
    for _ in range(9):
        await asyncio.sleep(0)
    assert shown == ["stopped"] and not runner.kind


async def test_words_at_a_menu_are_searched_for_among_what_it_does_not_list(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")
    every = [Choice(f"k{number}", f"session {number}") for number in range(40)]

    def search(words: str) -> tuple[list[Choice], int]:
        found = [choice for choice in every if words in choice.label]
        return found[:30], len(found)

    async with stage.running():
        for answers, key in ((["n 39"], "k39"), (["n 3", "2"], "k30")):
            stage.view.answers.extend(answers)
            assert await stage.backend.choose("Which?", every[:30], search) == key
    assert "... and 20 more" in stage.view.asked[0] and "  1  session 3\n  2  session 30" in stage.view.asked[2]


@pytest.mark.matrix
async def test_an_answer_that_means_nothing_is_told(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        lambda request: "done" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "make a\nmake b"})],
    )

    async with stage.running():
        stage.view.answers = ["sure", "y"]
        await stage.say("run it")
    first, second = stage.view.asked
    assert "Please answer y, s or n" in second and first.count("  make a\n") == 1


@pytest.mark.parametrize("words", ["exit", " Quit "])
async def test_a_word_that_leaves_a_shell_leaves(tmp_path: Path, words: str) -> None:
    stage = Stage(tmp_path, lambda request: "never")

    async with stage.running():
        stage.type(words)
        await asyncio.wait_for(stage.view._end.wait(), PATIENCE)
    assert not stage.provider.seen


async def test_keys_change_the_level_and_edit_the_last_message_without_a_word(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "answer", allow="all")

    async with stage.running():
        await stage.say("first")
        before = stage.text
        for level in ("ask", "edit", "auto", "plan", "ask"):
            stage.repl.cycle_level()
            await stage.until(lambda: stage.session.status().allow == level)  # noqa: B023
        assert stage.text == before
        stage.view.answers = ["1"]
        stage.repl.edit_last()
        await stage.idle()
        assert stage.view.box == "first" and re.search(r"too:\s/resume \w+, then /rewind", stage.text)
        await stage.say("other")
        assert _said(stage.provider) == [words for words in _said(stage.provider) if "other" in words]
        assert stage.session.status().allow == "ask"


async def test_escape_asks_a_turn_to_stop_once_and_the_spinner_names_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "never")

    async with stage.running():
        stage.type("!sleep 60")
        await stage.until(lambda: "esc to stop" in stage.repl.spinner())
        for _ in range(4):
            stage.repl.interrupt(gently=True)
        assert "stopping" in stage.repl.spinner() or stage.repl.jobs.current is None
        await stage.idle()
        assert not stage.view._end.is_set() and "still stopping" not in stage.text
        stage.view.width = 20
        stage.type("!sleep 60")
        await stage.until(stage.repl.spinner)
        assert len(stage.repl.spinner()) < 20 and "esc" not in stage.repl.spinner()
        stage.view.width = 24
        assert stage.repl.spinner().endswith(" · esc"), "the key at least, where there is room for no more"
        stage.repl.interrupt()
        await stage.idle()


@pytest.mark.matrix
async def test_a_session_is_named_once_by_the_model_for_titles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = replace(SETTINGS, ui=UiSettings(title_model="openai/other"))
    monkeypatch.setattr(sys.modules[__name__], "SETTINGS", named)
    asked: list[str] = []

    def answer(request: Request) -> Answer:
        asked.append("title" if "You name a coding session" in str(request.messages) else "turn")
        return "Fix the page" if asked[-1] == "title" else "fine"

    stage = Stage(tmp_path, answer)

    async with stage.running():
        stage.type("the page is broken")
        await stage.until(lambda: "title" in asked and not stage.session.busy)
        stage.type("go on")
        await stage.until(lambda: asked.count("turn") == 2)
        await stage.idle()
    with the_ledger() as ledger:
        assert [info.name for info in ledger.sessions()] == ["Fix the page"]
    assert asked == ["turn", "title", "turn"] and "Fix the page" not in stage.text


async def test_words_of_ours_are_sent_with_what_waits_and_are_not_shown_as_the_persons(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "looked")

    async with stage.running():
        await stage.say("!echo seen-$((40+2))")
        stage.type("/init see @no.py")
        await stage.until(lambda: "looked" in stage.text)
        await stage.idle()
        before = len(stage.text)
        stage.backend.show_conversation()
        assert "▌ /init see @no.py\n" in stage.text[before:], "resumed it looks the same"
        ledger, record = stage.session.ledger, stage.session.record
        assert ledger and record and ledger.session(stage.session.id).first_text == "/init see @no.py"
        assert session_transcript(stage.session)["events"][0]["text"] == "/init see @no.py"
        assert "at the root" in record.read(1, 1)[0].message.content
        stage.view.answers = ["1"]
        stage.repl.edit_last()
        await stage.idle()
        assert stage.view.box == "/init see @no.py"
    said = _said(stage.provider)[-1]
    assert "NEXUS.md at the root" in said and "see @no.py" in said and "seen-42" in said
    assert "/init see @no.py" in stage.text and "at the root" not in stage.text and "No file" not in stage.text


async def test_words_of_ours_that_never_reached_the_session_do_not_stand_in_the_box(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "never")

    async with stage.running():
        stage.repl.start_next("words of ours")
        stage.type("/help")
        await stage.until(lambda: stage.repl.jobs.kind == "turn")
        stage.repl.interrupt()
        await stage.idle()
    assert "words of ours" not in stage.view.box + stage.text


async def test_the_commands_are_imported_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, lambda request: "fine")
    threads: list[threading.Thread] = []
    offered: list[bool] = []

    def note_thread() -> dict[str, Command]:
        threads.append(threading.current_thread())
        return discover()

    monkeypatch.setattr("nexus_cli.ui.repl.local_session.discover", note_thread)

    async with stage.running():
        stage.repl.offer_commands = lambda: offered.append(True)
        stage.backend.read_own_commands()
        await stage.until(lambda: offered)
    assert threads and threading.main_thread() not in threads


def test_the_footer_reads_its_dollars_again_when_a_worker_has_spent_some() -> None:
    nothing = cast(Any, None)
    local = LocalSession(nothing, nothing, nothing, nothing, nothing)
    spent = e.StepEnd(1, "stop", Usage(cost_usd=0.0192))
    for event, is_read in ((e.AgentEvent("w1", "01", e.Text("x")), False), (e.AgentEvent("w1", "01", spent), True)):
        local._status = cast(Any, "figures")
        local.note(event)
        assert (local._status is None) is is_read


@pytest.mark.matrix
async def test_the_model_of_before_is_in_force_again_after_a_turn_that_failed_unexpectedly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, lambda request: "fine")
    ran: list[str] = []

    async def broken(session: Session, trigger: object) -> AsyncIterator[object]:
        raise RuntimeError("a bug")
        yield

    async def after() -> None:
        ran.append("switched back")

    monkeypatch.setattr(Session, "run", broken)
    async with stage.running():
        cast(Any, stage.repl.backend).after_turn = after
        stage.type("hello")
        await stage.until(lambda: "a bug" in stage.text)
        await stage.idle()
        assert ran == ["switched back"]


@pytest.mark.matrix
async def test_a_person_is_asked_for_the_port_of_a_job_and_sees_its_address(tmp_path: Path) -> None:
    need("bwrap")
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    serve = {"command": f"exec python3 -m http.server {port} --bind 127.0.0.1", "background": True}
    steps: list[Answer] = [[("bash", serve), ("wait_for", {"url": f"tcp://127.0.0.1:{port}"})], "it runs"]
    stage = Stage(tmp_path, lambda request: steps.pop(0), allow="ask")

    async with stage.running():
        stage.view.answers = ["y", "y"]
        stage.type("serve the page")
        await stage.until(lambda: "it runs" in stage.text)
        await stage.idle()
        assert f"1 job j1 http://127.0.0.1:{port}" in stage.repl.status(200)
    ran, forwarded = stage.view.asked
    assert "http.server" in ran and f"port {port} of j1 to 127.0.0.1 for your browser" in forwarded, stage.view.asked
    assert f"j1 is open at http://127.0.0.1:{port} until j1 ends" in stage.text.replace("\n  ", " "), stage.text


async def test_keys_of_providers_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-hidden")
    stage = Stage(tmp_path, lambda request: "fine")

    async with stage.running():
        stage.type("/key")
        await stage.until(lambda: "MISTRAL_API_KEY" in stage.text)
    assert "sk-hidden" not in stage.text


@pytest.mark.matrix
async def test_help_lists_the_keys_of_ones_own(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda request: "fine")
    stage.repl.keys = (*stage.repl.keys, ("F5", "redraw"))

    async with stage.running():
        stage.type("/help all")
        await stage.until(lambda: "F5" in stage.text and "!COMMAND" in stage.text)
        stage.type("/help")
        await stage.until(lambda: "? for keys" in " ".join(stage.text.split()))
        shown = len(stage.text)
        stage.view.echoes = True
        stage.type("/help")
        await stage.until(lambda: "nexus docs WORDS" in " ".join(stage.text[shown:].split()))
        stage.type("/help all")
        await stage.until(lambda: "!COMMAND" in stage.text[shown:])
        listed = stage.text[shown:]
        assert "? for keys" not in listed and "F5" not in listed and "Shift+Tab" not in listed and "Ctrl+D" in listed
