"""The slash command of a noun: what it says, takes, waits for and permits follows from the declaration of its verbs."""

from __future__ import annotations

import asyncio
import os
import pty
import threading
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import pytest
from commands.conftest import FakeContext

from nexus_cli.cli.print_report import print_original
from nexus_cli.commands import find
from nexus_cli.commands.slash_command import make_slash_command
from nexus_cli.commands.verb import Authority, Noun, Option, Report, Source, Verb
from nexus_cli.core.errors import NexusError

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

    def log_in(source: Source) -> None:
        source.say("open http://login")
        if not seen.wait(SECONDS):
            raise AssertionError("the address was not shown while the login waited")
        if fails:
            raise NexusError("usage", "the login", "it was refused")

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


def test_ctrl_c_ends_the_wait_for_a_verb_but_not_what_one_has_begun_to_change(context: FakeContext) -> None:
    begun, goes_on, done = threading.Event(), threading.Event(), []

    def work(source: Source) -> Report[Any]:
        begun.set()
        assert goes_on.wait(SECONDS)
        done.append(True)
        return Report("", {}, line="changed")

    async def both() -> None:
        with pytest.raises(asyncio.CancelledError):
            await stop(context, Verb(work), begun)
        assert not (context.said or done)
        begun.clear()
        asyncio.get_running_loop().call_later(0.2, goes_on.set)
        await stop(context, Verb(work, authority=Authority.ACTS, busy="changing"), begun)

    asyncio.run(both())
    assert context.said == ["changed"] and done


def test_pieces_of_a_text_are_one_text(context: FakeContext, capfd: pytest.CaptureFixture[str]) -> None:
    def write(source: Source) -> Iterator[str]:
        yield from ("a", "b\n", "c")

    asyncio.run(give(context, [Verb(write)]))
    assert context.shown == [("text", {"text": "ab\nc"})]
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
    place: Annotated[str, Option("PLACE", is_argument=True)] = "",
    step: Annotated[int | None, Option("N", is_positional=True)] = None,
    part: Annotated[str, Option("A:B", is_positional=True)] = "",
    folder: Annotated[str, Option("DIR", permits=True)] = "",
    full: Annotated[bool, Option()] = False,
) -> Report[Any]:
    """Take what is given."""
    given = {"place": place, "step": step, "part": part, "folder": folder, "full": full}
    return Report("settings", {"settings": {}, "path": "", "given": {k: v for k, v in given.items() if v}})


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
    assert {line: command.authority_of(context, line) for line in effects} == effects
    assert [line for line in effects if command.at_once(line)] == ["here 2:5"]


def test_a_report_on_another_session_does_not_wait_for_the_turn(context: FakeContext) -> None:
    sessions = find("sessions", context.commands)
    assert sessions.idle
    assert sessions.at_once("show 12") and sessions.at_once("list")
    for line in ("", "a title", "delete 12", "stop 12", "--stop 12"):
        assert not sessions.at_once(line), line
