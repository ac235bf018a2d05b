"""The slash command of a noun: what it says, takes, waits for and permits follows from the declaration of its verbs."""

from __future__ import annotations

import asyncio
import os
import pty
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from commands.conftest import FakeContext

from nexus_cli.cli.print_report import print_original
from nexus_cli.commands import find
from nexus_cli.commands.command import Choice, CommandContext
from nexus_cli.commands.slash_command import make_slash_command
from nexus_cli.commands.verb import Act, Authority, Noun, Report, Source, Verb, report_act, report_text
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.option import Argument, Option

SECONDS = 30


async def give(context: FakeContext, verbs: Sequence[Verb], line: str = "") -> None:
    """Type the slash command of a noun with these verbs."""
    await make_slash_command(Noun("zebra", "run", tuple(verbs))).invoke(context, line)


async def stop(context: FakeContext, verb: Verb, begun: threading.Event) -> None:
    """Type the command and press Ctrl+C once it has begun."""
    running = asyncio.create_task(give(context, [verb]))
    assert await asyncio.to_thread(begun.wait, SECONDS)
    running.cancel()
    await running


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_verb_says_is_shown_while_it_runs(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A login prints its address and then waits for the browser: the person reads it meanwhile."""
    seen = threading.Event()

    def log_in(source: Source) -> Act:
        source.say("open http://login")
        if not seen.wait(SECONDS):
            raise AssertionError("the address was not shown while the login waited")
        if fails:
            raise UsageError("the login", "it was refused")
        return report_act("")

    def say(text: str) -> None:
        context.said.append(text)
        seen.set()

    monkeypatch.setattr(context, "say", say)
    if fails:
        with pytest.raises(NexusError, match="refused"):
            asyncio.run(give(context, [Verb(log_in)]))
    else:
        asyncio.run(give(context, [Verb(log_in)]))
    assert context.said == ["Open http://login"]


async def test_ctrl_c_ends_the_wait_for_a_verb_but_not_what_one_has_begun_to_change(context: FakeContext) -> None:
    begun, goes_on, done = threading.Event(), threading.Event(), []

    def work(source: Source) -> Report[Any]:
        begun.set()
        assert goes_on.wait(SECONDS)
        done.append(True)
        return Report("", {}, line="changed")

    with pytest.raises(asyncio.CancelledError):
        await stop(context, Verb(work), begun)
    assert not (context.said or done)
    begun.clear()
    asyncio.get_running_loop().call_later(0.2, goes_on.set)
    await stop(context, Verb(work, authority=Authority.ACTS, busy="changing"), begun)
    assert context.said == ["changed"] and done


async def test_ctrl_c_closes_the_question_of_a_verb(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, closed, begun = threading.Event(), threading.Event(), threading.Event()

    async def choose(title: str, choices: Sequence[Choice], search: object = None) -> str | None:
        asked.set()
        try:
            await asyncio.sleep(SECONDS)
        finally:
            closed.set()
        return None

    def work(source: Source) -> Report[Any]:
        assert source.confirm is not None
        begun.set()
        source.confirm("Go on?")
        raise AssertionError("nobody has answered")

    monkeypatch.setattr(context, "choose", choose)
    running = asyncio.create_task(give(context, [Verb(work)]))
    assert await asyncio.to_thread(asked.wait, SECONDS)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(closed.wait, SECONDS)
    assert begun.is_set() and not context.said


async def test_a_stopped_verb_asks_nothing_any_more(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stopped, ended, asked = threading.Event(), threading.Event(), threading.Event(), threading.Event()

    async def choose(title: str, choices: Sequence[Choice], search: object = None) -> str | None:
        asked.set()
        return None

    def work(source: Source) -> Report[Any]:
        assert source.confirm is not None
        begun.set()
        assert stopped.wait(SECONDS)
        try:
            source.confirm("Go on?")
        finally:
            ended.set()
        raise AssertionError("nobody has answered")

    monkeypatch.setattr(context, "choose", choose)
    running = asyncio.create_task(give(context, [Verb(work)]))
    assert await asyncio.to_thread(begun.wait, SECONDS)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    stopped.set()
    assert await asyncio.to_thread(ended.wait, SECONDS)
    assert not asked.is_set()


def test_a_text_a_line_and_a_note_are_shown(context: FakeContext) -> None:
    acts = [report_act("changed x.", "x"), report_act("", "x", line="x"), report_act("")]
    reports: list[Report[Any]] = [report_text("x", "a\nb\n"), *acts]

    def tell(source: Source) -> Report[Any]:
        return reports.pop(0)

    for _ in range(len(reports)):
        asyncio.run(give(context, [Verb(tell)]))
    assert context.shown == [("text", {"version": 1, "name": "x", "text": "a\nb\n"})]
    assert context.said == ["Changed x.", "x"]


def test_pieces_of_a_text_are_one_text(capfd: pytest.CaptureFixture[str]) -> None:
    print_original(("a", "b\n", "c\x1b"))
    assert capfd.readouterr().out == "ab\nc\x1b"


@pytest.mark.parametrize(
    ("pieces", "shown"), [(("a", "b\n", "c\x1b]0;x\x07"), b"ab\r\nc"), (("a\n",), b"a\r\n"), ((), b"")]
)
def test_pieces_in_a_terminal_end_in_one_newline(
    pieces: tuple[str, ...], shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, terminal = pty.openpty()
    kept = os.dup(1)
    try:
        os.dup2(terminal, 1)
        print_original(pieces)
        os.write(1, b"END")
    finally:
        os.dup2(kept, 1)
    read = b""
    while not read.endswith(b"END"):
        read += os.read(controller, 1000)
    for one in (controller, terminal, kept):
        os.close(one)
    assert read.startswith(shown) and b"\x1b" not in read
    assert read == b"END" or (read.endswith(b"\r\nEND") and not read.endswith(b"\n\r\nEND"))


def take(
    source: Source,
    place: Annotated[str, Argument("PLACE")] = "",
    step: Annotated[int | None, Option("N", is_positional=True)] = None,
    part: Annotated[str, Option("A:B", is_positional=True)] = "",
    folder: Annotated[str, Option("DIR", permits=True)] = "",
    full: Annotated[bool, Option()] = False,
) -> Report[Any]:
    """Take what is given."""
    given = {"place": place, "step": step, "part": part, "folder": folder, "full": full}
    return Report("settings", {"settings": {}, "path": "", "given": {k: v for k, v in given.items() if v}})


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("7", {"step": 7}),
        ("#7 here", {"step": 7, "place": "here"}),
        ("here 2:5", {"place": "here", "part": "2:5"}),
        ("here full 2:5", {"place": "here", "part": "2:5", "full": True}),
        ("here --part 2:5 full", {"place": "here", "part": "2:5", "full": True}),
        ("--folder=/tmp here", {"folder": "/tmp", "place": "here"}),
        ('"7" --step 3', {"step": 3, "place": "7"}),
        (r'"a \"b\" \d"', {"place": r'a "b" \d'}),
        ('"a \\\nb"', {"place": "a \\\nb"}),
    ],
)
def test_words_go_to_the_parameters_that_take_them(context: FakeContext, line: str, given: dict[str, Any]) -> None:
    asyncio.run(give(context, [Verb(take)], line))
    assert context.shown[-1][1]["given"] == given


def test_an_option_that_permits_is_the_persons_alone(context: FakeContext) -> None:
    command = make_slash_command(Noun("zebra", "run", (Verb(take), Verb(take, "list", Authority.ACTS))))
    effects = {
        "here 2:5": Authority.READS,
        "here --folder /tmp": Authority.PERMITS,
        "list here": Authority.ACTS,
        "list --folder=/tmp": Authority.PERMITS,
    }
    assert {line: command.authority_of(line) for line in effects} == effects
    assert [line for line in effects if command.at_once(line)] == ["here 2:5"]


def test_a_report_on_another_session_does_not_wait_for_the_turn(context: FakeContext) -> None:
    sessions = find("sessions", context.commands)
    assert sessions.idle
    assert sessions.at_once("show 12") and sessions.at_once("list")
    assert sessions.at_once("--nonsense"), "what is wrong is told at once"
    for line in ("", "a title", "delete 12", "stop 12"):
        assert not sessions.at_once(line), line


async def aim(
    context: CommandContext,
    text: Annotated[str, Argument("TEXT", is_text=True)] = "",
    size: Annotated[int, Option("SIZE", is_positional=True)] = 9,
    until: Annotated[str, Option("COMMAND", is_text=True)] = "",
    level: Annotated[str, Option("LEVEL", values=("low", "high"))] = "",
    is_dry: Annotated[bool, Option(None, "", "--dry -d")] = False,
) -> None:
    """Aim at what is given."""
    given = {"text": text, "size": size, "until": until, "level": level, "dry": is_dry}
    context.say(str({key: value for key, value in given.items() if value and value != 9}))


async def note(context: CommandContext, text: Annotated[str, Argument("TEXT", is_text=True)] = "") -> None:
    """Note a text."""
    context.say(f"note {text}")


async def end(context: CommandContext) -> None:
    """End it."""
    context.say("ended")


async def remove(context: CommandContext, key: Annotated[str, Argument("ID", "Which.")]) -> None:
    """Remove one."""
    context.say(f"removed {key}")


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("7 rows --until 'a b'", {"text": "rows", "size": 7, "until": "a b"}),
        ("--until 'a b' rows and -d", {"text": "rows and -d", "until": "a b"}),
        ("--until=a b", {"until": "a b"}),
        ("rows --until 'a' && 'b'", {"text": "rows", "until": "'a' && 'b'"}),
        (r'rows --until "say \"x\""', {"text": "rows", "until": 'say "x"'}),
        (r'rows --until "say \$x \d"', {"text": "rows", "until": r"say $x \d"}),
        ("don't --untilled x", {"text": "don't --untilled x"}),
        ("-d --level HIGH rows", {"text": "rows", "level": "HIGH", "dry": True}),
    ],
)
def test_a_text_is_the_rest_of_the_line(context: FakeContext, line: str, given: dict[str, Any]) -> None:
    asyncio.run(give(context, [Verb(aim)], line))
    assert context.said == [str(given)]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("rows --until", "the value is missing"),
        ("rows --until 'a", "the quote ' is not closed"),
        ("rows --until 'a b' --size 2", "--size follows the quoted text"),
        ("--untill a", "there is no such option"),
    ],
)
def test_what_an_option_does_not_take_is_one_line(context: FakeContext, line: str, why: str) -> None:
    with pytest.raises(NexusError, match=why):
        asyncio.run(give(context, [Verb(aim)], line))


def test_an_argument_with_values_takes_no_other(context: FakeContext) -> None:
    async def choose(context: CommandContext, level: Annotated[str, Argument(values=("low", "high"))]) -> None:
        """Choose a level."""
        context.say(level)

    asyncio.run(give(context, [Verb(choose)], "HIGH"))
    assert context.said == ["high"]
    with pytest.raises(NexusError, match="must be one of low, high"):
        asyncio.run(give(context, [Verb(choose)], "middle"))
    command = make_slash_command(Noun("zebra", "run", (Verb(choose),)))
    assert command.usage == "low|high"
    assert command.complete is not None and list(command.complete(context)) == ["low", "high"]


def test_an_empty_word_is_none_of_several(context: FakeContext) -> None:
    async def touch(context: CommandContext, paths: Annotated[list[str], Argument("[PATH]...", "Some files.")]) -> None:
        """Touch files."""
        context.say(" ".join(paths))

    asyncio.run(give(context, [Verb(touch)], "a 'b c'"))
    assert context.said == ["a b c"]
    with pytest.raises(NexusError, match="the value is missing"):
        asyncio.run(give(context, [Verb(touch)], "a ''"))


def test_a_verb_takes_the_words_that_fit_and_a_text_the_others(context: FakeContext) -> None:
    verbs = (
        Verb(note),
        Verb(remove, "remove", Authority.PERMITS),
        Verb(end, "end", waits=False, is_alone=True),
    )
    command = make_slash_command(Noun("zebra", "run", verbs, is_idle=True))
    for line in ("remove m1", "END", "end of the story", "--no-verify is forbidden"):
        asyncio.run(command.invoke(context, line))
    told = [
        "removed m1",
        "ended",
        "note end of the story",
        "note --no-verify is forbidden",
    ]
    assert context.said == told
    assert [line for line in ("end", "end of it", "remove m1", "") if command.at_once(line)] == ["end"]
    authorities = {line: command.authority_of(line) for line in ("remove", "remove m1", "end")}
    assert authorities == {"remove": Authority.PERMITS, "remove m1": Authority.PERMITS, "end": Authority.ACTS}
    assert command.usage == "[TEXT | remove|end]" and command.is_served
    with pytest.raises(NexusError, match="missing: ID, which"):
        asyncio.run(command.invoke(context, "remove"))


def test_files_are_completed_in_a_text_and_words_where_there_are_any(context: FakeContext) -> None:
    assert make_slash_command(Noun("zebra", "run", (Verb(note),))).complete is None
    command = make_slash_command(Noun("zebra", "run", (Verb(aim),)))
    assert command.complete is not None
    assert list(command.complete(context)) == ["--size", "--until", "--level", "--dry"]
