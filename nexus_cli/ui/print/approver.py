"""Asks the person whether a call may run: until an answer is clear, one question at a time.

Owns what a typed line means, and how `nexus ask` reads one from its terminal. The REPL's views read theirs; what is
shown is that of `render/question_text`. Whether a call needs asking is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Callable
from typing import Protocol

from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.ui.cells import wrap
from nexus_cli.ui.print.progress_lines import Writable
from nexus_cli.ui.render.question_text import approval_prompt, explain_unclear_answer

TRIES = 5
NO_ANSWER, CLOSED = "no clear answer was given", "the question was closed without an answer"


def parse_answer(line: str) -> Answer | None:
    """Return what a typed line means, or None when it means nothing: an empty line is never a yes."""
    word, _, rest = line.strip().partition(" ")
    match word.lower().rstrip(",.:"):
        case "y" | "yes" if not rest.strip():
            return Allow()
        case "a" | "always" if not rest.strip():
            return Allow(always=True)
        case "n" | "no":
            return Deny(rest.strip())
    return None


class AnswerSource(Protocol):
    """Where the person reads a question and types the answer: a `ReplView`, or a terminal."""

    @property
    def width(self) -> int:
        """Columns that text may take now."""

    async def question(self, text: str, prompt: str) -> str | None:
        """Show `text` and read one line behind `prompt`; None where there is none. See `ReplView`."""


class PersonApprover:
    """An `Approver` that asks the person."""

    def __init__(self, source: AnswerSource, describe: Callable[[Question], str], closed: str = CLOSED) -> None:
        """`describe` gives what is shown above the prompt; `closed` is why a call is denied that gets no line."""
        self._source = source
        self._describe = describe
        self._closed = closed
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer. Without one the call does not run."""
        async with self._turn:
            text = self._describe(question)
            for _ in range(TRIES):
                line = await self._source.question(text, approval_prompt(question))
                if line is None:
                    return Deny(self._closed, said=False)
                if (answer := parse_answer(line)) is not None:
                    return answer
                text = "\n".join(wrap(explain_unclear_answer(line), self._source.width))
            return Deny(NO_ANSWER, said=False)


class TerminalQuestions:
    """Asks on stderr and reads from stdin, which are terminals."""

    def __init__(self, stream: Writable, descriptor: int = 0) -> None:
        self._stream = stream
        self._descriptor = descriptor

    @property
    def width(self) -> int:
        """Columns."""
        return self._stream.width

    async def question(self, text: str, prompt: str) -> str | None:
        """Print both and return the next line; None at the end of input."""
        self._stream.write(f"{text}\n")
        # What is in the terminal's queue was typed before the question could be read.
        termios.tcflush(self._descriptor, termios.TCIFLUSH)
        self._stream.write(prompt)
        line = await read_terminal_line(self._descriptor)
        if not line:
            self._stream.write("\n")
        return line or None


LONGEST = 4096
"""Bytes of a line that are kept: as many as a terminal takes."""


async def read_terminal_line(descriptor: int = 0) -> str:
    """Return the next line with its newline, "" at the end of input; reads only what belongs to the line.
    Cancellable."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bytes] = loop.create_future()
    collected = bytearray()

    def arrived() -> None:
        try:
            # A terminal in line mode gives at most one line per read.
            data = os.read(descriptor, LONGEST)
        except BlockingIOError:
            return
        except OSError:
            collected.clear()
            data = b""
        collected.extend(data[: LONGEST - len(collected)])
        if not ready.done() and (not data or data.endswith(b"\n")):
            ready.set_result(bytes(collected))

    loop.add_reader(descriptor, arrived)
    try:
        return (await ready).decode("utf-8", "replace")
    finally:
        loop.remove_reader(descriptor)
