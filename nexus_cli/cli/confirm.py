"""Ask the person at the terminal for a yes or no, a choice among several answers, a line, or a hidden line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace

from nexus_cli.cli.process import SIGNALS
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.asked_question import TRIES, AskedQuestion, GivenAnswer, ask
from nexus_cli.ui.print.stream import QuietStream


def confirm(question: str, default: str = "n") -> bool:
    """Ask `question`; an empty line selects `default`, and Esc or the end of input mean no."""
    reply = ask_terminal(AskedQuestion.yes_or_no(question, default, escape="Esc no"))
    return reply is not None and bool(reply.meaning)


def choose_several(question: str, count: int) -> list[int]:
    """Ask which of `count` numbered things are meant; return their places, from 0, none at Esc or the end of input."""
    hint, text = f"all, none, or numbers such as 1 {count}", ""
    for _ in range(TRIES):
        reply = ask_terminal(AskedQuestion(f"{question} ({hint})", text=text, words="", escape="Esc none"))
        places = [] if reply is None else _read_numbers(reply.words, count)
        if places is not None:
            return places
        text = "Type numbers from the list, all or none."
    return []


def _read_numbers(line: str, count: int) -> list[int] | None:
    """Return the places, from 0, that a line names; None if it cannot be read."""
    words = line.replace(",", " ").casefold().split()
    if words in (["all"], ["a"], ["yes"], ["y"]):
        return list(range(count))
    places: set[int] = set()
    for word in words if words not in (["none"], ["no"], ["n"]) else ():
        first, _, last = word.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return None
        places.update(range(int(first) - 1, min(int(last or first), count + 1)))
    return sorted(places) if all(0 <= place < count for place in places) else None


def read_hidden_line(prompt: str) -> str:
    """Prompt for a line that is not shown, and return it; "" at Esc or the end of input."""
    return read_line(prompt, hidden=True)


def read_line(prompt: str, *, hidden: bool = False) -> str:
    """Prompt for a line and return it with its newline; "" at Esc or the end of input. Without a terminal, read a line
    of stdin."""
    if not os.isatty(0):
        QuietStream(2).write(prompt)
        return sys.stdin.readline()
    reply = ask_terminal(AskedQuestion(prompt, words="", is_hidden=hidden))
    return "" if reply is None else f"{reply.words}\n"


def ask_terminal(question: AskedQuestion) -> GivenAnswer | None:
    """Ask until the answer is clear; None at Esc and at the end of input. Ctrl+C ends the process as it does elsewhere,
    once the terminal is restored."""
    from nexus_cli.cli.interrupt import Interrupt, run_in_loop  # noqa: PLC0415  (few commands ask)
    from nexus_cli.ui.screen.terminal_questions import TerminalQuestions  # noqa: PLC0415

    interrupt, handlers = Interrupt(), {number: signal.getsignal(number) for number in SIGNALS}
    source = TerminalQuestions(QuietStream(2 if os.isatty(2) else 0))

    async def read() -> GivenAnswer | None:
        asking = asyncio.ensure_future(ask(source, replace(question, prompt=sanitize(question.prompt))))
        interrupt.install(asking.cancel, before_exit=source.restore)
        with suppress(asyncio.CancelledError):
            return await asking
        return None

    try:
        return run_in_loop(read())
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if interrupt.signal:
            signal.raise_signal(interrupt.signal)
