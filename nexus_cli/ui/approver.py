"""Asks the person at the terminal whether a call may run: one line on stderr, the answer from stdin.

Whether a call needs asking is decided elsewhere. Only for a process whose stdin and stderr are terminals.
"""

from __future__ import annotations

import asyncio
import os
import termios

from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.ui.door import through
from nexus_cli.ui.remarks import Writable

HEAD_LINES, TAIL_LINES = 120, 80
"""Lines of a diff or command that are shown before the question: all, or so many of its beginning and of its end."""
_NO = "[n]o (words after it are told to the model): "


def parse(line: str) -> Answer | None:
    """What a typed line means, or None when it means nothing: an empty line is never a yes."""
    word, _, rest = line.strip().partition(" ")
    match word.lower().rstrip(",.:"):
        case "y" | "yes" if not rest.strip():
            return Allow()
        case "a" | "always" if not rest.strip():
            return Allow(always=True)
        case "n" | "no":
            return Deny(rest.strip())
    return None


class TerminalApprover:
    """Asks one question at a time."""

    def __init__(self, stream: Writable, descriptor: int = 0) -> None:
        self._stream = stream
        self._descriptor = descriptor
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """The person's answer; end of input denies. What was typed before the question is thrown away."""
        async with self._turn:
            self._show(question)
            # What stands in the terminal's queue was typed before the question could be read.
            termios.tcflush(self._descriptor, termios.TCIFLUSH)
            always = " ".join(through(question.always or "this session").split())
            keys = f"[y]es once, [a]lways ({always}), {_NO}"
            for _ in range(5):
                self._stream.write(f"Allow {through(question.call.name)}? {keys}")
                line = await self._line()
                if not line:
                    self._stream.write("\n")
                    return Deny("the person ended the input")
                answer = parse(line)
                if answer is not None:
                    return answer
            return Deny("no clear answer was given")

    def _show(self, question: Question) -> None:
        lines = through(question.detail).splitlines()
        if len(lines) == 1 and question.detail.strip() in question.what:
            lines = []
        hidden = len(lines) - HEAD_LINES - TAIL_LINES
        if hidden > 0:
            lines[HEAD_LINES:-TAIL_LINES] = [f"... {hidden:,} lines are not shown here, the end follows ..."]
        bold, plain = ("\x1b[1m", "\x1b[0m") if self._stream.colour else ("", "")
        head = " ".join(through(question.what).split())
        why = " ".join(through(question.why).split())
        block = "".join(f"  {line}\n" for line in lines)
        self._stream.write(f"{block}{bold}{head}{plain}" + (f" ({why})" if why else "") + "\n")

    async def _line(self) -> str:
        """One line with its newline, or "" at the end of input; reads only what belongs to the line."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[bytes] = loop.create_future()
        typed = bytearray()

        def arrived() -> None:
            try:
                # A terminal in line mode gives at most one line per read.
                typed.extend(os.read(self._descriptor, 4096))
            except BlockingIOError:
                return
            except OSError:
                typed.clear()
            if not ready.done() and (not typed or typed.endswith(b"\n") or len(typed) >= 4096):
                ready.set_result(bytes(typed))

        loop.add_reader(self._descriptor, arrived)
        try:
            return (await ready).decode("utf-8", "replace")
        finally:
            loop.remove_reader(self._descriptor)
