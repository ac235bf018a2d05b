"""A question on the screen: its prompt, and a field of its own that takes the keys only when nobody is typing.

What was typed ahead never answers: until the question has been seen, and no key has come for `QUIET` seconds, keys go
on into the input box. Which keys end the field is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.layout import BufferControl, Window
from prompt_toolkit.layout.processors import BeforeInput

from nexus_cli.ui.cells import without_codes, wrap
from nexus_cli.ui.rows import RESET, fit_row, strip_ambiguous

QUIET = 0.5
"""Seconds without a key before the field takes the keys."""
LAPSE = 0.2
"""Seconds that a stopped turn has to take its question away, before that is answered with nothing."""
_OPEN, _CLOSED = "> ", ". "
_CHOICE = re.compile(r"\[(\w)\]")
_MORE = "\u2026"


class QuestionPanel:
    """The place of the question that is asked now, if any."""

    def __init__(self, colour: bool) -> None:
        self.buffer = Buffer(multiline=False)
        control = BufferControl(self.buffer, [BeforeInput(lambda: _OPEN if self.open else _CLOSED)], focusable=True)
        self.container = Window(control, height=1, dont_extend_height=True, wrap_lines=False)
        self.answer: asyncio.Future[str | None] | None = None
        """Waits for what the person says; None while nothing is asked."""
        self.open = False
        """The field has the keys."""
        self.seen = 0.0
        """When the question was drawn first, 0 before."""
        self._prompt = ""
        self._colour = colour

    @property
    def asking(self) -> bool:
        """True if a question is on the screen."""
        return self.answer is not None

    def begin(self, prompt: str, answer: asyncio.Future[str | None]) -> None:
        """Show `prompt`; the field is closed yet."""
        self._prompt, self.answer, self.open, self.seen = prompt, answer, False, 0.0
        self.buffer.reset()

    def end(self) -> None:
        """Nothing is asked any more."""
        self.answer, self.open = None, False
        self.buffer.reset()

    def give(self, line: str | None) -> None:
        """The person's answer."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(line)

    def height(self, columns: int, most: int) -> int:
        """Return rows of prompt and field, with at most `most` for the prompt."""
        return len(self._rows(columns, most)) + 1 if self.asking else 0

    def prompt(self, columns: int, rows: int) -> list[str]:
        """Return the prompt in at most `rows` rows: where it is too long a short form of it, or its beginning."""
        lines = self._rows(columns, rows)
        return [f"\x1b[1m{line}{RESET}" for line in lines] if self._colour and self.open else lines

    def _rows(self, columns: int, most: int) -> list[str]:
        prompt = without_codes(self._prompt).rstrip()
        lines = list(wrap(strip_ambiguous(prompt), columns))
        if len(lines) > most:
            lines = list(wrap(strip_ambiguous(shorten_prompt(prompt)), columns))
        if len(lines) > most > 0:
            lines[most - 1] = fit_row(lines[most - 1], columns - 1)[1] + _MORE
        return lines[: max(0, most)]


def shorten_prompt(prompt: str) -> str:
    """Return a prompt of the form `Do it? [y]es once, [n]o (why)` as `Do it? y/n`; another one as it is."""
    asked, mark, choices = prompt.partition("?")
    letters = _CHOICE.findall(choices)
    return f"{asked}{mark} {'/'.join(letters)}" if letters else prompt


def expire(answer: asyncio.Future[str | None] | None) -> None:
    """Answer the question of stopped work with None after `LAPSE` seconds."""

    def give_up() -> None:
        if answer is not None and not answer.done():
            answer.set_result(None)

    if answer is not None:
        answer.get_loop().call_later(LAPSE, give_up)


async def wait_for_quiet(panel: QuestionPanel, last_key: Callable[[], float]) -> None:
    """Return when the question has been seen and no key has come for `QUIET` seconds."""
    clock = asyncio.get_running_loop().time
    while True:
        wait = (max(panel.seen, last_key()) + QUIET - clock()) if panel.seen else QUIET
        if wait <= 0:
            return
        await asyncio.sleep(wait)
