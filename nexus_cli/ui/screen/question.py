"""A question on the screen: its rows, and a field of its own that takes the keys only when nobody is typing.

What was typed ahead never answers: until the question has been seen, and no key has come for `QUIET` seconds, keys go
on into the input box. A question with answer keys is answered by one of them alone; other text is words. Which keys
stop the turn is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.key_binding.key_processor import _Flush
from prompt_toolkit.layout import BufferControl, Window
from prompt_toolkit.layout.processors import AfterInput, BeforeInput

from nexus_cli.ui.cells import without_codes, wrap
from nexus_cli.ui.render.question_text import OR_WORDS, AnswerKey, choice_rows, find_key
from nexus_cli.ui.rows import RESET, fit_row, strip_ambiguous

QUIET = 0.5
"""Seconds without a key before the field takes the keys."""
ALONE = 0.25
"""Seconds after which a letter is an answer; one that another follows at once begins words."""
PASTED = 0.1
"""Seconds in which an Enter after another one in a burst of keys belongs to it."""
LAPSE = 0.2
"""Seconds that a stopped turn has to take its question away, before that is answered with nothing."""
_OPEN, _CLOSED = "> ", ". "
_MORE = "\u2026"


class QuestionPanel:
    """The place of the question that is asked now, if any."""

    def __init__(self, colour: bool) -> None:
        self.buffer = Buffer(multiline=False, on_text_changed=lambda buffer: self._typed())
        before = BeforeInput(lambda: _OPEN if self.is_open else _CLOSED)
        control = BufferControl(self.buffer, [before, AfterInput(self._hint)], focusable=True)
        self.container = Window(control, height=1, dont_extend_height=True, wrap_lines=False)
        self.answer: asyncio.Future[str | None] | None = None
        """Waits for what the person says; None while nothing is asked."""
        self.is_open = False
        """The field has the keys."""
        self.seen = 0.0
        """When the question was drawn first, 0 before."""
        self.keys: Sequence[AnswerKey] = ()
        """The keys that answer; none where a line is wanted."""
        self._chosen: int | None = None
        self._prompt = ""
        self._colour = colour
        self._settling: asyncio.TimerHandle | None = None

    @property
    def asking(self) -> bool:
        """True if a question is on the screen."""
        return self.answer is not None

    @property
    def choosing(self) -> bool:
        """True if the arrows move over the keys: there are some, and nothing is typed."""
        return bool(self.keys) and not self.buffer.text

    def begin(self, prompt: str, answer: asyncio.Future[str | None], keys: Sequence[AnswerKey] = ()) -> None:
        """Show `prompt`; the field is closed yet."""
        self._prompt, self.answer, self.is_open, self.seen = prompt, answer, False, 0.0
        self.keys, self._chosen = keys, None
        self.buffer.reset()

    def take_keys(self, chosen: bool) -> None:
        """Open the field. Unless `chosen`, Enter takes no key before the person has moved to one: they were typing."""
        self.is_open, self._chosen = True, 0 if self.keys and chosen else None

    def end(self) -> None:
        """Nothing is asked any more."""
        self.answer, self.is_open, self.keys = None, False, ()
        self.hold()
        self.buffer.reset()

    def give(self, line: str | None) -> None:
        """The person's answer."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(line)

    def enter(self) -> None:
        """Give what is typed, else the chosen key; nothing where none is chosen."""
        if not self.choosing:
            self.give(self.buffer.text)
        elif self._chosen is not None:
            self.give(self.keys[self._chosen].key)

    def continue_line(self) -> None:
        """Go on with the words: several lines at once are a paste, and no answer."""
        if self.buffer.text:
            self.buffer.insert_text(" ")
        self.hold()

    def move(self, by: int) -> None:
        """Choose the next key, or the one before."""
        at = self._chosen if self._chosen is not None else -1 if by > 0 else 0
        self._chosen = (at + by) % len(self.keys)

    def hold(self) -> None:
        """Take what is typed for words, however short it is."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None

    def _typed(self) -> None:
        self.hold()
        key = find_key(self.buffer.text, self.keys)
        if key is not None and self.is_open:
            self._chosen = self.keys.index(key)
            self._settling = asyncio.get_running_loop().call_later(ALONE, self.give, key.key)

    def _hint(self) -> StyleAndTextTuples:
        return [("class:question.hint", OR_WORDS)] if self.is_open and self.choosing else []

    def height(self, columns: int, most: int) -> int:
        """Return rows of prompt and field, with at most `most` for the prompt."""
        return len(self._rows(columns, most)) + self.field if self.asking else 0

    @property
    def field(self) -> int:
        """Rows of the field: one, but for a question with keys that does not take them yet."""
        return 1 if self.is_open or not self.keys else 0

    def prompt(self, columns: int, rows: int) -> list[str]:
        """Return the prompt in at most `rows` rows."""
        lines = self._rows(columns, rows)
        return [f"\x1b[1m{line}{RESET}" for line in lines] if self._colour and self.is_open and not self.keys else lines

    def _rows(self, columns: int, most: int) -> list[str]:
        prompt = strip_ambiguous(without_codes(self._prompt).rstrip())
        if self.keys:
            return choice_rows(prompt, self.keys, self._chosen, columns, most, self._colour)
        lines = list(wrap(prompt, columns))
        if len(lines) > most > 0:
            lines[most - 1] = fit_row(lines[most - 1], columns - 1)[1] + _MORE
        return lines[: max(0, most)]


class UnmarkedPaste:
    """Tells an Enter that was pressed from one of several lines that came at once, without the marks of a paste."""

    def __init__(self) -> None:
        self._at = -PASTED

    def goes_on(self, event: KeyPressEvent) -> bool:
        """True if more keys have come with this Enter."""
        more = any(press is not _Flush for press in event.app.key_processor.input_queue)
        if more:
            self._at = asyncio.get_running_loop().time()
        return more

    @property
    def ends(self) -> bool:
        """True if this Enter is the last of a paste."""
        return asyncio.get_running_loop().time() - self._at < PASTED


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
