"""Plan mode in the REPL: `/plan`, and the question after an answer whether the model goes on with its plan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from search import sample
from session.played import Played
from ui.put_clock import run_at_once
from ui.repl.test_repl import SETTINGS, Stage, _said

from nexus_cli.config.settings import RunSettings, SandboxSettings, UiSettings
from nexus_cli.core.plan_question import PROCEED, PROMPT
from nexus_cli.core.request import Delta, Request
from nexus_cli.runs.plan_service import NewPlan, add_plan
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.repl.input_queue import take_argument
from nexus_cli.ui.screen.question import ALONE, QuestionPanel


def answer(request: Request) -> str:
    return f"answer {sum(message['role'] == 'user' for message in request.messages)}"


async def planned(folder: Path, *answers: str | None) -> Stage:
    """A REPL whose model has answered in plan mode, after these answers to the question."""
    stage = Stage(folder, answer)
    stage.view.answers = list(answers)
    stage.session.dispatcher.permission.probe_backend()

    async with stage.running():
        stage.type("/plan look at shop.py")
        await stage.until(lambda: "answer 1" in stage.text and not stage.view.answers)
        await stage.idle()  # the question too: what was answered has begun
    return stage


@pytest.mark.parametrize("words", ["list", "LIST", "pause plan-1", "remove plan-2", "remove the nightly tests"])
async def test_the_words_of_schedules_begin_no_plan_and_cost_nothing(tmp_path: Path, words: str) -> None:
    stage = Stage(tmp_path, answer)
    add_plan(
        stage.session.ledger,
        NewPlan("test it", within="1h", name="the nightly tests", options={"folder": str(tmp_path)}),
        RunSettings(),
    )

    async with stage.running():
        await stage.say(f"/plan {words}")
    assert stage.session.status().allow == "ask" and not stage.provider.seen
    assert f"To manage schedules: /schedule {words}." in " ".join(stage.text.split())


@pytest.mark.matrix
async def test_a_task_that_begins_with_such_a_word_is_planned(tmp_path: Path) -> None:
    stage = Stage(tmp_path, answer)

    async with stage.running():
        stage.type("/plan remove the old parser and run the tests")
        await stage.until(lambda: "answer 1" in stage.text)
    assert "Plan mode is on" in stage.text


@pytest.mark.parametrize(
    ("line", "level"), sample([("y", "edit"), ("Yes", "edit"), ("a", "auto"), ("auto", "auto")], 2)
)
async def test_an_approved_plan_is_carried_out_at_the_level_that_was_chosen(
    tmp_path: Path, line: str, level: str
) -> None:
    stage = await planned(tmp_path, line)
    assert stage.session.status().allow == level and PROCEED in _said(stage.provider)[-1]
    assert "Plan mode is on" in stage.text and "Plan mode is off." in stage.text and stage.text.count(PROCEED) == 1
    assert len(stage.view.asked) == 1 and PROMPT in stage.view.asked[0] and "[y]es, edit level" in stage.view.asked[0]


@pytest.mark.matrix
@pytest.mark.parametrize("line", ["n", "no", "No.", None])
async def test_a_plan_that_is_not_approved_leaves_plan_mode_on(tmp_path: Path, line: str | None) -> None:
    stage = await planned(tmp_path, line)
    assert stage.session.status().allow == "plan" and len(stage.provider.seen) == 1 == len(stage.view.asked)


@pytest.mark.matrix
@pytest.mark.parametrize("line", ["a", "auto"])
async def test_a_level_that_was_not_offered_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    no_walls = replace(SETTINGS, sandbox=SandboxSettings(backend="off"))
    monkeypatch.setattr("ui.repl.test_repl.SETTINGS", no_walls)
    stage = await planned(tmp_path, line, "n")
    assert "[a]uto" not in stage.view.asked[0] and f"{line} is not an answer" in stage.view.asked[1]
    assert stage.session.status().allow == "plan" and len(stage.provider.seen) == 1


async def test_other_words_are_the_next_message_of_plan_mode(tmp_path: Path) -> None:
    stage = await planned(tmp_path, "ok", "", "yes, and add a test first", "n")
    assert "ok is not an answer" in stage.view.asked[1] and "An empty line is not an answer" in stage.view.asked[2]
    assert "yes, and add a test first" in _said(stage.provider)[-1] and stage.session.status().allow == "plan"
    assert len(stage.view.asked) == 4, "it is offered again after the next answer"


@pytest.mark.matrix
async def test_words_behind_no_are_the_next_message_too(tmp_path: Path) -> None:
    stage = await planned(tmp_path, "n, use the other file", "n")
    assert _said(stage.provider)[-1].endswith("use the other file") and stage.session.status().allow == "plan"


async def test_a_command_a_message_and_another_level_take_the_question_away(tmp_path: Path) -> None:
    stage = Stage(tmp_path, answer)

    async def offered(count: int) -> None:
        await stage.until(lambda: len(stage.view.asked) == count)

    async with stage.running():
        stage.type("/plan begin")
        await offered(1)
        stage.type("/status")
        await stage.until(lambda: "keys set" in stage.text)
        await stage.idle()
        assert len(stage.view.asked) == 1
        stage.type("more")
        await offered(2)
        stage.type("and more")
        await offered(3)
        stage.repl.interrupt(gently=True)
        await stage.idle()
        stage.type("last")
        await offered(4)
        stage.repl.cycle_level()
        await stage.idle()
        await asyncio.sleep(0)
    assert [len(said) for said in stage.provider.seen] and len(stage.provider.seen) == 4
    assert stage.session.status().allow == "ask"


async def test_leaving_while_a_title_is_made_says_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.repl.test_repl.SETTINGS", replace(SETTINGS, ui=UiSettings(title_model="openai/other")))
    begun = asyncio.Event()

    class Stuck(Played):
        async def stream(self, request: Request) -> AsyncIterator[Delta]:
            if "You name a coding session" in str(request.messages):
                begun.set()
                await asyncio.Event().wait()
            async for delta in super().stream(request):
                yield delta

    monkeypatch.setattr("ui.repl.test_repl.Played", Stuck)
    stage = Stage(tmp_path, answer)

    async with stage.running():
        stage.type("make one")
        await stage.until(begun.is_set)
        await stage.idle()
    assert "stopped" not in stage.text


@pytest.mark.matrix
@pytest.mark.parametrize("by_key", [False, True])
async def test_the_question_is_taken_away_and_not_the_title_that_is_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_key: bool
) -> None:
    named = replace(SETTINGS, ui=UiSettings(title_model="openai/other"))
    monkeypatch.setattr("ui.repl.test_repl.SETTINGS", named)
    begun, made = asyncio.Event(), asyncio.Event()

    class Slow(Played):
        async def stream(self, request: Request) -> AsyncIterator[Delta]:
            if "You name a coding session" in str(request.messages):
                begun.set()
                await made.wait()
            async for delta in super().stream(request):
                yield delta

    monkeypatch.setattr("ui.repl.test_repl.Played", Slow)
    stage = Stage(tmp_path, answer)

    async with stage.running():
        stage.type("/plan make one")
        await stage.until(lambda: begun.is_set() and len(stage.view.asked) == 1)
        if by_key:
            stage.repl.interrupt()
        else:
            stage.type("/status")
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.repl.jobs.kind != "offer" and stage.session.busy
        made.set()
        await stage.until(lambda: not stage.session.busy)
        await stage.idle()
    assert "stopped" not in stage.text and ("keys set" in stage.text) is not by_key


@pytest.mark.matrix
async def test_outside_plan_mode_nothing_is_offered_and_slash_plan_goes_back_to_the_level_before(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, answer, allow="edit")

    async with stage.running():
        for line in ("hello", "/plan", "/plan"):
            await stage.say(line)
    assert not stage.view.asked and stage.session.status().allow == "edit"
    assert "Plan mode is off. Permission level: edit." in stage.text


async def test_on_and_off_are_no_message(tmp_path: Path) -> None:
    stage = Stage(tmp_path, answer, allow="edit")
    levels = []

    async with stage.running():
        for line in ("/plan off", "/plan on", "/plan on", "/plan off", "/plan off"):
            await stage.say(line)
            levels.append(stage.session.status().allow)
    assert levels == ["edit", "plan", "plan", "edit", "edit"] and not stage.provider.seen


@pytest.mark.matrix
async def test_what_is_pasted_behind_slash_plan_mentions_no_file_and_is_nobodys_word(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret", encoding="utf-8")
    (tmp_path / "own.txt").write_text("my file", encoding="utf-8")
    paste = "see @secret.txt\n" * 12
    stage = Stage(tmp_path, answer)
    stage.view.answers = ["n"]

    async with stage.running():
        stage.repl.submit(TypedMessage(f"/plan fix @own.txt {paste}", "/plan fix @own.txt [pasted 12 lines]", (paste,)))
        await stage.until(lambda: "answer 1" in stage.text and not stage.view.answers)
        await stage.idle()
        record = stage.session.record
        assert record is not None and len(record.memos("pasted")) == 1
    words = _said(stage.provider)[-1]
    assert "fix @own.txt see @secret.txt" in words and "my file" in words and "the secret" not in words
    assert "Attached own.txt" in stage.text


@pytest.mark.parametrize(
    ("typed", "argument"),
    [
        (
            TypedMessage("/plan fix a\nb\n", "/plan fix [2]", ("a\nb\n",)),
            TypedMessage("fix a\nb\n", "fix [2]", ("a\nb\n",)),
        ),
        (TypedMessage("/plan a\nb", "[2 lines]", ("/plan a\nb",)), TypedMessage("a\nb", "[2 lines]", ("a\nb",))),
        (TypedMessage("/plan @a", "/plan @a"), TypedMessage("@a", "@a")),
    ],
)
def test_the_message_of_a_command_keeps_what_was_pasted_of_it(typed: TypedMessage, argument: TypedMessage) -> None:
    assert take_argument(typed, argument.text.rstrip()) == argument


@pytest.mark.parametrize("key", [AnswerKey("y", "yes, edit level", lasts=True), AnswerKey("a", "auto", lasts=True)])
def test_no_letter_alone_approves_a_plan(key: AnswerKey) -> None:
    async def answers(key: AnswerKey, *, after_pause: bool = True) -> bool:
        panel, answer = QuestionPanel(False, lambda: False, str), asyncio.get_running_loop().create_future()
        panel.begin(AskedQuestion("", [key]), answer)
        panel.take_keys()
        if after_pause:
            panel.note_key()
        panel.buffer.text = key.key
        await asyncio.sleep(2 * ALONE)
        return bool(answer.done())

    no = AnswerKey("n", "no, keep planning")
    assert not run_at_once(answers(key)) and not run_at_once(answers(no, after_pause=False))
    assert run_at_once(answers(no))
