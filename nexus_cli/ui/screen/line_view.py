"""The REPL on a terminal that can only be written line by line (`TERM=dumb`): no cursor movement, no control codes.

Lines come from the terminal's own line editing. Finished text is printed as it comes; spinner, live lines and status
line are not shown. Ctrl+C is a signal here, whose handler calls `interrupt`.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import termios
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

from nexus_cli.commands.command import Choice, Search
from nexus_cli.core.shared_types import T
from nexus_cli.text.cells import one_line, without_codes, wrap
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.asked_question import TRIES, AskedQuestion, is_command_line, is_only_answer, write_question
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.print.stream import Stream, write_all
from nexus_cli.ui.render.question_text import excerpt
from nexus_cli.ui.repl.view import ReplController, ReplView
from nexus_cli.ui.screen.key_bindings import Stops
from nexus_cli.ui.screen.question import QUIET, expire, loop_time, settle
from nexus_cli.ui.screen.terminal import on_continue, size_of
from nexus_cli.ui.terminal_handoff import TerminalHandoff

MOST = 20
"""Most choices that are listed; others are found by their beginning, or by a search."""
PROMPT = "Number (Enter to cancel):"
_INDENT = " " * 5


async def choose_by_number(
    title: str,
    choices: Sequence[Choice],
    width: int,
    question: Callable[[AskedQuestion], Awaitable[str | None]],
    search: Search | None,
) -> str | None:
    """Return the key of the choice that the answer to `question` selects by number or beginning of a
    label; None without an answer, or after `TRIES` that select none.

    Other words are searched for; the result of `search` replaces the listed choices.
    """
    total = search("")[1] if search else len(choices)
    text = "\n".join([*wrap(sanitize(title), width), *_menu(choices, total, width)])
    for _ in range(TRIES):
        word = (await question(AskedQuestion(PROMPT, text=text)) or "").strip()
        if not word:
            return None
        if word.isdecimal() and 1 <= int(word) <= len(choices):
            return choices[int(word) - 1].key
        fits = [choice.key for choice in choices if word in (choice.key, choice.label)]
        fits = fits or [choice.key for choice in choices if choice.label.casefold().startswith(word.casefold())]
        if len(fits) == 1:
            return fits[0]
        matches, total = search(word) if search and not fits else ((), 0)
        if len(matches) == 1:
            return matches[0].key
        if matches:
            choices, text = matches, "\n".join(_menu(matches, total, width))
            continue
        number = f"a number from 1 to {len(choices)}" if len(choices) > 1 else "1"
        text = "\n".join(wrap(f"{one_line(word)!r} is not one of these: type {number}", width))
    return None


def _menu(choices: Sequence[Choice], total: int, width: int) -> Iterator[str]:
    """Return the numbered choices in lines that fit; longer ones continue below their beginning."""
    for number, choice in enumerate(choices[:MOST], 1):
        text = "  ".join(filter(None, (choice.label, " ".join(choice.detail.split()))))
        first, *more = wrap(sanitize(text), width - len(_INDENT))
        yield from [f"{number:>3}  {first}", *(_INDENT + piece for piece in more)]
    unlisted = total - min(len(choices), MOST)
    if unlisted > 0:
        yield f"     ... and {unlisted:,} more"


READY, GOES_ON = "> ", "... "
PROMPT_DELAY_SECONDS = 0.05
"""Seconds without output after which the prompt is printed."""
DOUBLE_PRESS_SECONDS = 2.0
"""Seconds within which a second Ctrl+C leaves."""
DRAFT = "Send your line first, then answer."
TOO_EARLY = "Typed too early. Please answer again."
"""Shown for an answer that was typed before the question took lines: it is neither sent nor taken."""
PASTED = 48
"""Bytes of several lines at once that are one message; fewer may be typed ahead of a slow program."""
LULL, LONGEST = 0.002, 0.05
"""Seconds without input that end a paste, and seconds that the reading of one may take."""
_COMMAND = re.compile(rb"\A!|^/[\w-]+(?![\w/.-])", re.MULTILINE)
"""A line of a script of commands, which are sent one by one."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_READ = 65_536


class LineView(ReplView):
    """A `ReplView`. A line that ends in a backslash continues in the next one."""

    echoes = True

    def __init__(self, *, stdin: int = 0, stdout: int = 1) -> None:
        self._stream = Stream(stdout)
        self._stdin, self._stdout = stdin, stdout
        self._controller: ReplController
        self._closed: asyncio.Future[None] | None = None
        self._answer: asyncio.Future[str | None] | None = None
        self._question = AskedQuestion("")
        """The newest question."""
        self._asking = asyncio.Lock()
        self._takes_answer = False
        """True if a line answers the open question."""
        self._lines = 0
        """Number of typed lines."""
        self._pieces: list[bytes] = []
        self._begun = ""
        """Lines of an unfinished message."""
        self.draft = ""
        """Text that an empty line sends."""
        self._handoff = TerminalHandoff()
        self._prompted = False
        self._due: asyncio.TimerHandle | None = None
        self._warned_at = -DOUBLE_PRESS_SECONDS
        self._stops = Stops(lambda: self._controller)
        self._away = False

    @property
    def _runs(self) -> bool:
        return self._closed is not None and not self._closed.done()

    @property
    def width(self) -> int:
        return self._stream.width

    @property
    def height(self) -> int:
        return size_of(self._stdout).rows

    def put(self, text: str) -> None:
        if not text:
            return
        bare = _bare(text)
        self._write(bare if bare.endswith("\n") else bare + "\n")
        self._print_prompt_when_idle()

    def invalidate(self) -> None:
        """Print the prompt if it is missing."""
        self._print_prompt_when_idle()

    def fill(self, text: str) -> None:
        """Print `text`, since there is no box; the next line sends it if it is empty."""
        self.draft = text if text.strip() else ""
        if self.draft:
            preview = "\n".join(excerpt(text.removesuffix("\n").split("\n")))
            self.put(f"not sent yet:\n{preview}\n(press Enter to send it, or type another line to replace it)\n")

    async def question(self, question: AskedQuestion) -> str | None:
        """See `ReplView`. A line begun before the question could be read is a normal message.

        Only Enter ends a line of the terminal, so that Esc and Enter mean Esc where a line is hidden.
        """
        async with self._asking:
            if not self._runs:
                return None
            self.put(question.text)
            answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            self._answer, self._question = answer, question
            self._takes_answer = False
            opening = asyncio.ensure_future(self._open())
            try:
                # Only the end of a hidden line is shown.
                hides = self._local_mode(termios.ECHO, termios.ECHONL) if question.is_hidden else nullcontext()
                with hides:
                    line = await answer
                return None if question.is_hidden and line is not None and line.startswith("\x1b") else line
            finally:
                opening.cancel()
                self._answer = None
                self._print_prompt_when_idle()

    async def _open(self) -> None:
        """Accept answers once no line is begun; those that approve also not before the question has been there for
        `QUIET` seconds. For a hidden line, discard the text typed before."""
        if self._question.is_hidden:
            self._pieces.clear()
            with suppress(termios.error):
                termios.tcflush(self._stdin, termios.TCIFLUSH)
        typed: tuple[int, str] | None = None
        seconds, announced = QUIET if self._question.keys else 0.0, -1
        while not self._question.is_hidden and typed != (self._lines, self._begun_line):
            typed = self._lines, self._begun_line
            await asyncio.sleep(seconds)
            self._take_begun()
            if self._pieces or self._begun:
                if announced != self._lines:
                    announced = self._lines
                    self._prompted = self._prompted or bool(self._pieces)  # the terminal has shown them
                    self.put(f"{DRAFT}\n")
                    self._stream_write((GOES_ON if self._begun else READY) + _bare(self._begun_line))
                    self._prompted = True
                typed, seconds = None, QUIET
        self._takes_answer = True
        if self._prompted:  # for a message, where no turn runs
            self._write("")
        self._show_prompt()

    @property
    def _begun_line(self) -> str:
        """The line that is being typed, as far as it was read."""
        return b"".join(self._pieces).decode("utf-8", "replace")

    def _take_begun(self) -> None:
        """Read the line that is being typed, which requires another terminal mode. It can no longer be edited; further
        text is added to it."""
        with self._local_mode(without=termios.ICANON):
            self._arrived()

    @contextmanager
    def _local_mode(self, without: int, added: int = 0) -> Iterator[None]:
        """Switch local flags of the terminal within the block."""
        before = None
        with suppress(termios.error):
            before = termios.tcgetattr(self._stdin)
            flags = before[3] & ~without | added
            termios.tcsetattr(self._stdin, termios.TCSANOW, [*before[:3], flags, *before[4:]])
        try:
            yield
        finally:
            if before is not None:
                with suppress(termios.error):
                    termios.tcsetattr(self._stdin, termios.TCSANOW, before)

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        return await choose_by_number(title, choices, self.width, self.question, search)

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        self._away = True
        loop.remove_reader(self._stdin)
        try:
            return await self._handoff.run(work)
        finally:
            self._away = False
            if self._runs:
                loop.add_reader(self._stdin, self._arrived)
            self._print_prompt_when_idle()

    async def run(self, controller: ReplController) -> None:
        loop = asyncio.get_running_loop()
        self._controller, self._closed = controller, loop.create_future()
        try:
            loop.add_reader(self._stdin, self._arrived)
        except PermissionError:
            # A file or /dev/null, which cannot be polled: nobody types there.
            raise EOFError from None
        self._print_prompt_when_idle()
        try:
            with on_continue(self._continued):
                await self._closed
        finally:
            loop.remove_reader(self._stdin)
            if self._due is not None:
                self._due.cancel()
            if self._prompted:
                self._write("")
            self._answer_question(None)

    def _continued(self) -> None:
        """Show the open question and the prompt again: after Ctrl+Z, they are above what the shell has printed."""
        if self._runs and not self._away:
            self._prompted = False
            self.put(self._question.text if self._is_asking else "")
            self._print_prompt_when_idle()

    def leave(self) -> None:
        self._end(None)

    def interrupt(self) -> None:
        """Ctrl+C: stop running work, cancel the question, or leave if it comes twice.

        Only the terminal knows the text of an unfinished line, so that a Ctrl+C that cleared one counts too.
        """
        if not self._runs:
            return
        self._prompted = False  # the terminal has shown ^C
        now = loop_time()
        if self._stops.stop():
            expire(self._answer)
        elif self._is_asking:
            self._answer_question(None)
        elif self._stops.has_just_stopped:
            self._stream_write("\n")
            self._print_prompt_when_idle()
        elif now - self._warned_at < DOUBLE_PRESS_SECONDS:
            self._controller.request_exit()
        else:
            self._warned_at = now
            self._begun = self.draft = ""
            self._pieces.clear()
            self._stream_write("\n")
            self.put("press Ctrl+C again to exit\n")

    # Input

    def _arrived(self) -> None:
        # The input may have been discarded meanwhile, and a read would block.
        if not self._has_input():
            return
        try:
            data, has_ended = self._read_batch()
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error)
            return
        if data:
            self._take_batch(data)
        if has_ended:
            self._ended()

    def _read_batch(self) -> tuple[bytes, bool]:
        """Return the input that is there and what follows at once, and whether it ends there. Raises `OSError`.

        A terminal returns one line at a time: several at once are a paste.
        """
        data = chunk = os.read(self._stdin, _READ)
        until = time.monotonic() + LONGEST
        while chunk and not self._pieces and time.monotonic() < until and self._has_input(LULL):
            try:
                chunk = os.read(self._stdin, _READ)
            except OSError:  # the next reading raises it too
                break
            data += chunk
        return data, not chunk

    def _has_input(self, seconds: float = 0) -> bool:
        return bool(select.select([self._stdin], [], [], seconds)[0])

    def _take_batch(self, data: bytes) -> None:
        """Take lines as typed ones, or as a paste, which is no answer, and one message."""
        if data.count(b"\n") > 1 and not self._pieces:
            if self._is_answered_by(""):
                self._keep_unsent(data)
                return
            if len(data) >= PASTED and not _COMMAND.search(data):
                self._pieces.append(data.rstrip(b"\n"))
                self._line_ended()
                return
        *lines, partial_line = data.split(b"\n")
        for line in lines:
            self._pieces.append(line)
            self._line_ended()
        if partial_line:
            self._pieces.append(partial_line)

    @property
    def _is_asking(self) -> bool:
        return self._answer is not None and not self._answer.done()

    def _answer_question(self, line: str | None) -> None:
        """Answer the open question, if there is one."""
        settle(self._answer, line)

    def _is_answered_by(self, line: str) -> bool:
        """True if a question is open and accepts this line: with keys it accepts no command."""
        return self._takes_answer and self._is_asking and not (self._question.keys and is_command_line(line))

    def _keep_unsent(self, pasted: bytes) -> None:
        """Keep lines that arrived together while a question is open: after it, an empty line sends them."""
        self._prompted = False
        self.draft = f"{self.draft}\n{pasted.decode('utf-8', 'replace')}".strip("\n")
        self.put("Pasted lines do not answer the question. Answer first, then press Enter to send them.\n")

    def _comes_too_early(self, line: str) -> bool:
        """True for an answer that was typed before the question takes lines."""
        is_waiting = self._answer is not None and not self._takes_answer and not self._begun
        return is_waiting and is_only_answer(line, self._question)

    def _ended(self) -> None:
        """Ctrl+D: the text of a line counts as a line; an empty line is the end."""
        if self._pieces:
            self._line_ended()
        elif self._is_asking:
            self._answer_question(None)
        else:
            # An input that has ended stays readable for ever.
            asyncio.get_running_loop().remove_reader(self._stdin)
            self._controller.request_exit()

    def _line_ended(self) -> None:
        line, self._pieces = b"".join(self._pieces).decode("utf-8", "replace"), []
        self._prompted, self._warned_at = False, -DOUBLE_PRESS_SECONDS
        self._lines += 1
        if self._is_answered_by(line):
            self._answer_question(line)
            return
        if self._comes_too_early(line):
            self.put(TOO_EARLY)
            return
        if (len(line) - len(line.rstrip("\\"))) % 2:
            self._begun += line[:-1] + "\n"
        else:
            text, self._begun = self._begun + line, ""
            text = text if text.strip() else self.draft
            if text:
                self.draft = ""
                self._controller.submit(TypedMessage(text, text))
        self._print_prompt_when_idle()

    # Output

    def _print_prompt_when_idle(self) -> None:
        """Print the prompt after a moment without output."""
        if not self._runs:
            return
        if self._due is not None:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_later(PROMPT_DELAY_SECONDS, self._show_prompt)

    def _show_prompt(self) -> None:
        if self._prompted or self._away:
            return
        if self._is_answered_by(""):
            prompt = _bare(f"{write_question(self._question, self.width - 1)} ")
        elif self._begun:
            prompt = GOES_ON
        elif self._controller.running:
            return
        else:
            prompt = READY
        self._stream_write(prompt)
        self._prompted = True

    def _write(self, text: str) -> None:
        """Write `text`, on a new line if the cursor is after the prompt."""
        self._stream_write(("\n" if self._prompted else "") + text)
        self._prompted = False

    def _stream_write(self, text: str) -> None:
        try:
            write_all(self._stdout, text.encode("utf-8", "replace"))
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError | None) -> None:
        self._handoff.end()
        if self._closed is None or self._closed.done():
            return
        if error is None:
            self._closed.set_result(None)
        else:
            self._closed.set_exception(error)


def _bare(text: str) -> str:
    """Return `text` without colours and other control characters."""
    return _CONTROL.sub("?", without_codes(text.replace("\r\n", "\n")))
