"""Asks the person at the terminal whether a call may run: one line on stderr, the answer from stdin.

Whether a call needs asking is decided elsewhere. Only for a process whose stdin and stderr are terminals.
"""

from __future__ import annotations

import asyncio
import os
import termios

from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.ui.print.progress_lines import Writable
from nexus_cli.ui.terminal_sanitizer import sanitize

HEAD_LINES, TAIL_LINES = 120, 80
"""Lines of a diff or command that are shown before the question: all, or so many of its beginning and of its end."""
NO_ANSWER = "no clear answer was given"


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


def explain_unclear_answer(line: str) -> str:
    """Return what a person is told of an answer that means nothing."""
    words = " ".join(sanitize(line).split())[:80]
    return f"{words or 'An empty line'} is not an answer. Please answer y, a or n (n may be followed by a reason)"


def question_details(question: Question) -> list[str]:
    """Return the lines that a question shows of its diff or command, set in: the beginning and the end of a long one.

    None where `what` says it all.
    """
    if "\n" not in question.detail.strip() and question.detail.strip() in question.what:
        return []
    return [f"  {line}" for line in excerpt(sanitize(question.detail).splitlines())]


def excerpt(lines: list[str]) -> list[str]:
    """Return `lines`; of many their beginning and their end, with a word about what is missing between."""
    hidden = len(lines) - HEAD_LINES - TAIL_LINES
    if hidden <= 0:
        return lines
    missing = f"... {hidden:,} lines are not shown here, the end follows ..."
    return [*lines[:HEAD_LINES], missing, *lines[-TAIL_LINES:]]


class TerminalApprover:
    """Asks one question at a time."""

    def __init__(self, stream: Writable, descriptor: int = 0) -> None:
        self._stream = stream
        self._descriptor = descriptor
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer; end of input denies. Input from before the question is discarded."""
        async with self._turn:
            self._show(question)
            # What stands in the terminal's queue was typed before the question could be read.
            termios.tcflush(self._descriptor, termios.TCIFLUSH)
            always = " ".join(sanitize(question.always or "this session").split())
            keys = f"[y]es once, [a]lways ({always}), [n]o, or n and a reason: "
            for _ in range(5):
                self._stream.write(f"Allow {sanitize(question.call.name)}? {keys}")
                line = await read_terminal_line(self._descriptor)
                if not line:
                    self._stream.write("\n")
                    return Deny("the input ended before an answer", said=False)
                answer = parse_answer(line)
                if answer is not None:
                    return answer
                self._stream.write(f"{explain_unclear_answer(line)}\n")
            return Deny(NO_ANSWER, said=False)

    def _show(self, question: Question) -> None:
        bold, plain = ("\x1b[1m", "\x1b[0m") if self._stream.colour else ("", "")
        head = " ".join(sanitize(question.what).split())
        why = " ".join(sanitize(question.why).split())
        block = "".join(f"{line}\n" for line in question_details(question))
        self._stream.write(f"{block}{bold}{head}{plain}" + (f" ({why})" if why else "") + "\n")


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
