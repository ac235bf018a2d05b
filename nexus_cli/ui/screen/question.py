"""A question on the screen: its rows, and its own field, which gets the focus only when nobody is typing.

Text typed ahead never answers. Keys go to the input box until the question has been drawn, no key has come for `QUIET`
seconds, and the box has no draft. Until then the keys of the question are dim, and Enter clears a draft that is only an
answer. If the box was empty when the question was drawn, and nothing but the answer was typed since, it is not cleared:
after `EARLY_ANSWER_SECONDS` without a key it stands in the field, and Enter takes it once it can have been seen there.
The next question of several takes keys once it has been drawn: a key typed meanwhile is neither a draft nor, as it may
have been meant for the question before, an answer without Enter.

No speed of typing approves anything. A letter of `ALONE_ANSWERS` that is typed into the empty field after a pause of
`QUIET` seconds answers by itself if nothing follows for `ALONE` seconds. Every other answer needs Enter, and other text
is words. The caller of `field_bindings` says how a key stops the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress, _Flush
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, Window
from prompt_toolkit.layout.processors import (
    AfterInput,
    BeforeInput,
    ConditionalProcessor,
    PasswordProcessor,
    Processor,
)

from nexus_cli.text.cells import without_codes
from nexus_cli.ui.asked_question import (
    CLEAR,
    CLEAR_FIRST,
    CONFIRM,
    DRAFT_FIRST,
    WAIT_FIRST,
    AnswerKey,
    AskedQuestion,
    KeyRows,
    find_key,
    is_only_answer,
    write_question,
)
from nexus_cli.ui.rows import RESET, fit_row, strip_ambiguous

QUIET = 1.0
"""Seconds without a key before a question accepts keys, and before a letter that answers alone."""
EARLY_ANSWER_SECONDS = 1.5
"""Seconds without a key before an answer that was typed before the question accepts keys stands in its field: longer
than a person hesitates before Enter."""
UNSEEN_SECONDS = 0.5
"""Seconds in which Enter does not take that answer yet: the person has to see it there."""
ALONE = 1.0
"""Seconds after which a letter is an answer: words are typed faster."""
STOPPED = 4.0
"""Seconds after which a letter answers no more by itself: the process was stopped (Ctrl+Z) meanwhile."""
ALONE_ANSWERS = ("y", "n", *"123456789")
"""Answers that store nothing and apply only to this call, and the numbers of choices."""
LOOK = 0.5
"""Seconds between checks of a draft that blocks a question, and the pause before a question that wants a line."""
FOLLOWS = 0.1
"""Seconds after an answer in which the next question of several takes keys at once."""
PASTED = 0.1
"""Seconds in which an Enter that follows another one in a burst of keys belongs to it."""
FRAME = 0.02
"""Seconds between checks whether the next question of several has been drawn."""
WITHDRAWAL_SECONDS = 0.2
"""Seconds that a stopped turn has to withdraw its question, before it is answered with None."""
_OPEN, _CLOSED = "> ", ". "
_MORE = "\u2026"


def loop_time() -> float:
    """Return the time in seconds by which keys and questions are timed: that of the running loop."""
    return asyncio.get_running_loop().time()


def settle(answer: asyncio.Future[str | None] | None, line: str | None) -> None:
    """Answer a question with `line` if there is one that has no answer yet."""
    if answer is not None and not answer.done():
        answer.set_result(line)


class FieldPanel:
    """The panel of what the person is asked, with a field of one line."""

    def __init__(self, typed: Callable[[], None], processors: list[Processor]) -> None:
        """`typed` is called after each change of the text."""
        self.buffer = Buffer(multiline=False, on_text_changed=lambda _: typed())
        control = BufferControl(self.buffer, processors, focusable=True)
        self.container = Window(control, height=1, dont_extend_height=True, wrap_lines=False)
        self.answer: asyncio.Future[str | None] | None = None
        """The future of the answer; None if nothing is asked."""

    @property
    def asking(self) -> bool:
        """True if the panel is on the screen."""
        return self.answer is not None

    def clear(self, answer: asyncio.Future[str | None] | None) -> None:
        """Empty the field for `answer`, or close it."""
        self.answer = answer
        self.buffer.reset()
        self.container.horizontal_scroll = 0  # a long text has scrolled it, and nothing scrolls it back

    def submit(self, line: str | None) -> None:
        """Answer with `line`."""
        settle(self.answer, line)


class QuestionPanel(FieldPanel):
    """The panel of the open question, if there is one."""

    def __init__(self, colour: bool, has_draft: Callable[[], bool], draft: Callable[[], str]) -> None:
        """`has_draft` is True while the input box has text, which `draft` returns."""
        self.has_draft, self._draft = has_draft, draft
        before = BeforeInput(lambda: _OPEN if self.is_open else _CLOSED)
        stars = ConditionalProcessor(PasswordProcessor(), Condition(lambda: self.question.is_hidden))
        super().__init__(self._typed, [stars, before, AfterInput(self._hint)])
        self.is_open = False
        """True if the field has the focus."""
        self.drawn_at = 0.0
        """Time when the question was first drawn, 0 before."""
        self.drawn = asyncio.Event()
        self.question = AskedQuestion("")
        self.marked: int | None = None
        """The place of the key that Enter takes in the empty field, None for none."""
        self.key_at, self._is_paused = 0.0, False
        """The time of the newest key, and if it came after a pause."""
        self._text = ""
        """The text before the newest change."""
        self._colour = colour
        self._settling: asyncio.TimerHandle | None = None
        self._answered = -FOLLOWS
        """Time when a question was last answered."""
        self._early = EarlyKeys()
        self._stands_since: float | None = None
        """Time when an early answer was drawn in the field, `inf` before that; None if the text was typed there."""

    @property
    def came_early(self) -> bool:
        """True if the draft in the box is an answer to the open question, typed before the question took keys.

        It is neither sent nor taken: nothing tells if the person saw the question when typing it.
        """
        return self.asking and is_only_answer(self._draft(), self.question)

    @property
    def early_answer(self) -> str:
        """The draft in the box, if it is an answer and all that was typed since the question was drawn; "" else."""
        return self._early.text if self.came_early and self._early.text == self._draft() else ""

    @property
    def stands(self) -> bool:
        """True if the field has an answer that was typed before it was open, and that nothing has changed."""
        return self._stands_since is not None

    @property
    def is_unseen(self) -> bool:
        """True if that answer was drawn less than `UNSEEN_SECONDS` seconds ago, so that Enter was not meant for it."""
        since = self._stands_since
        return since is not None and loop_time() - since < UNSEEN_SECONDS

    @property
    def follows(self) -> bool:
        """True if it comes right behind an answer: the person is at the keys and expects the next one of several."""
        is_expected = self.question.was_listed or not self.question.approves
        return is_expected and loop_time() - self._answered < FOLLOWS

    @property
    def choosing(self) -> bool:
        """True if the arrows move over the keys: there are some, and the field is empty."""
        return bool(self.question.keys) and not self.buffer.text

    def begin(self, question: AskedQuestion, answer: asyncio.Future[str | None]) -> None:
        """Show the question; the field is not open yet."""
        self.question, self.is_open, self.drawn_at = question, False, 0.0
        self.drawn.clear()
        self._early = EarlyKeys()
        self.clear(answer)

    def note_drawn(self) -> None:
        """Record that the question is on the screen, where keys that are typed from now on may be meant for it."""
        if not self.drawn_at:
            self.drawn_at = loop_time()
            self.drawn.set()
            self._early = EarlyKeys(can_answer=not self.has_draft())
        if self._stands_since == inf:
            self._stands_since = loop_time()

    def note_early(self, presses: Sequence[KeyPress]) -> None:
        """Record keys that the box got."""
        if self.asking and not self.is_open:
            self._early.add(presses)

    def take_keys(self, early: str = "") -> None:
        """Open the field, in which an `early` answer stands. Enter takes no key before the person has moved to one. No
        letter that comes right after an approval was drawn answers alone, because it may repeat the answer to the
        question before."""
        self.is_open, self.marked, self._text = True, self.question.marked, ""
        self.key_at, self._is_paused = self.drawn_at if self.question.approves else 0.0, False
        self.buffer.text = early
        self.buffer.cursor_position = len(early)
        self._stands_since = inf if early else None

    def note_key(self) -> None:
        """Record that a key arrives, before it acts: a key after a letter makes the letter the beginning of words."""
        before, self.key_at = self.key_at, loop_time()
        self._is_paused = self.key_at - before >= QUIET
        self.hold()

    def note_return(self) -> None:
        """Record that another program had the terminal until now: text typed for it is not an answer."""
        self.key_at, self._is_paused = loop_time(), False
        self._early = EarlyKeys()
        self.hold()

    def end(self) -> None:
        if self.is_open and not self.question.is_hidden:
            self._answered = loop_time()
        self.is_open, self.question, self._stands_since = False, AskedQuestion(""), None
        self.hold()
        self.clear(None)

    def enter(self) -> None:
        """Answer with the typed text, else the chosen key; do nothing if none is chosen."""
        keys = self.question.keys
        if self.buffer.text or not keys:
            self.submit(self.buffer.text)
        elif self.marked is not None:
            self.submit(keys[self.marked].key)

    def continue_line(self) -> None:
        """Continue the text: several lines at once are a paste, not an answer."""
        if self.buffer.text:
            self.buffer.insert_text(" ")
        self.hold()

    def move(self, by: int) -> None:
        """Choose the next or the previous key."""
        index = self.marked if self.marked is not None else -1 if by > 0 else 0
        self.marked = (index + by) % len(self.question.keys)

    def hold(self) -> None:
        """Treat the typed text as words, however short it is."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None

    def _typed(self) -> None:
        self.hold()
        if not self.is_open:
            return
        self._stands_since = None
        before, self._text = self._text, self.buffer.text
        typed = self._typed_key
        self.marked = self.question.keys.index(typed) if typed else None if self._text else self.question.marked
        is_alone = self._is_paused and not before and not self.has_draft()
        if is_alone and typed and typed.key in ALONE_ANSWERS and not typed.lasts:
            self._settling = asyncio.get_running_loop().call_later(ALONE, self._settle, typed.key)

    def _settle(self, key: str) -> None:
        """Answer with a letter, unless the process was stopped meanwhile: then the pause was none of the person's."""
        if loop_time() - self.key_at < STOPPED:
            self.submit(key)
        else:
            self.hold()

    @property
    def _typed_key(self) -> AnswerKey | None:
        return find_key(self.buffer.text, self.question.keys)

    def _hint(self) -> StyleAndTextTuples:
        if not self.is_open or not self.question.keys:
            return []
        hint = "  Enter, or wait a moment" if self._settling else f"  {CONFIRM}"
        hint = hint if self.stands or self._typed_key else ""
        text = self.question.words if self.choosing else hint
        return [("dim", text)]

    def height(self, columns: int, most: int) -> int:
        """Return the rows of prompt and field, with at most `most` for the prompt."""
        return len(self._rows(columns, most)) + self.field if self.asking else 0

    @property
    def field(self) -> int:
        """Rows of the field: one, but none for a question with keys that is not open yet."""
        return 1 if self.is_open or not self.question.keys else 0

    def prompt(self, columns: int, rows: int) -> list[str]:
        """Return the prompt in at most `rows` rows."""
        lines = self._rows(columns, rows)
        is_bold = self._colour and self.is_open and not self.question.keys
        return [f"\x1b[1m{line}{RESET}" for line in lines] if is_bold else lines

    @property
    def _last(self) -> str:
        """Return the text behind the keys in place of the effect of Esc, "" for that."""
        if self.stands:
            return CLEAR
        if self.is_open or not self.has_draft():
            return ""
        return WAIT_FIRST if self.early_answer else CLEAR_FIRST if self.came_early else DRAFT_FIRST

    def _rows(self, columns: int, most: int) -> list[str]:
        question = replace(self.question, prompt=strip_ambiguous(without_codes(self.question.prompt).rstrip()))
        if question.keys:
            chosen = self.marked if self.is_open else None
            return KeyRows(columns, self._colour, chosen, self._last, self.is_open).draw(question, most)
        lines = write_question(question, columns).split("\n")
        if len(lines) > most > 0:
            lines[most - 1] = fit_row(lines[most - 1], columns - 1) + _MORE
        return lines[: max(0, most)]


class EarlyKeys:
    """The text typed after a question was drawn and before it accepts keys. Enter is left out; any other key that is no
    letter empties it for good."""

    def __init__(self, can_answer: bool = False) -> None:
        self.text = ""
        self._can_answer = can_answer

    def add(self, presses: Sequence[KeyPress]) -> None:
        """Add keys."""
        for press in presses:
            if press.key not in (Keys.ControlM, Keys.ControlJ):
                self._can_answer = self._can_answer and len(press.key) == 1
                self.text = self.text + press.key if self._can_answer else ""


class UnmarkedPaste:
    """Distinguishes a pressed Enter from one of several lines that arrived at once, without the marks of a paste."""

    def __init__(self) -> None:
        self._at = -PASTED

    def goes_on(self, event: KeyPressEvent) -> bool:
        """True if more keys have arrived with this Enter."""
        has_more = any(press is not _Flush for press in event.app.key_processor.input_queue)
        if has_more:
            self._at = loop_time()
        return has_more

    @property
    def ends(self) -> bool:
        """True if this Enter is the last one of a paste."""
        return loop_time() - self._at < PASTED


def field_bindings(
    panel: QuestionPanel,
    *,
    enter: Callable[[], object],
    stop: Callable[..., object],
    cycle_level: Callable[[], object],
) -> KeyBindings:
    """Return the bindings of the field while it has the focus: `enter` answers, `stop(gently=True)` handles Esc,
    `stop(gently=False)` Ctrl+C, and `cycle_level` Shift+Tab."""
    bindings, focused, paste = KeyBindings(), has_focus(panel.buffer), UnmarkedPaste()
    empty = Condition(lambda: not panel.buffer.text)
    choosing = focused & Condition(lambda: panel.choosing)

    @bindings.add("enter", filter=focused)
    @bindings.add("c-j", filter=focused)
    def _enter(event: KeyPressEvent) -> None:
        if panel.question.is_expected and not panel.question.keys:
            enter()
        elif paste.goes_on(event):
            panel.continue_line()
        elif not paste.ends and not panel.is_unseen:
            enter()

    @bindings.add("escape", "enter", filter=focused)
    @bindings.add("escape", "c-j", filter=focused)
    def _alt_enter(event: KeyPressEvent) -> None:
        """Do nothing: as two keys it would stop the turn and then answer."""

    @bindings.add("left", filter=choosing)
    @bindings.add("up", filter=choosing)
    def _before(event: KeyPressEvent) -> None:
        panel.move(-1)

    @bindings.add("right", filter=choosing)
    @bindings.add("down", filter=choosing)
    @bindings.add("tab", filter=choosing)
    def _next(event: KeyPressEvent) -> None:
        panel.move(1)

    @bindings.add("s-tab", filter=focused & Condition(lambda: bool(panel.question.keys)))
    def _level(event: KeyPressEvent) -> None:
        cycle_level()

    @bindings.add("c-d", filter=focused & empty)
    def _none(event: KeyPressEvent) -> None:
        panel.submit(None)

    @bindings.add("escape", filter=focused)
    @bindings.add("c-c", filter=focused)
    @bindings.add("<sigint>", filter=focused)
    def _stop(event: KeyPressEvent) -> None:
        is_gentle = event.key_sequence[0].key == Keys.Escape
        if is_gentle and panel.stands:
            panel.buffer.text = ""
        elif is_gentle and panel.question.is_expected:
            panel.submit(None)
        else:
            stop(gently=is_gentle)

    @bindings.add("c-d", filter=focused & ~empty)
    def _delete(event: KeyPressEvent) -> None:
        """Delete a character: the library's keys of vi take this one for the indentation."""
        panel.buffer.delete(event.arg)

    @bindings.add(Keys.BracketedPaste, filter=focused)
    def _paste(event: KeyPressEvent) -> None:
        panel.buffer.insert_text(" ".join(event.data.split()))
        panel.hold()

    return bindings


def expire(answer: asyncio.Future[str | None] | None) -> None:
    """Answer the question of stopped work with None after `WITHDRAWAL_SECONDS` seconds."""
    asyncio.get_running_loop().call_later(WITHDRAWAL_SECONDS, settle, answer, None)


async def wait_for_quiet(panel: QuestionPanel) -> None:
    """Return when the question has been drawn and no key has come for a while; with keys that approve, only when there
    is no draft either. Return at once for a hidden line and the question of a command, which the person has asked for,
    and for the next question of several; if that approves, or comes late, as soon as it has been drawn."""
    follows = panel.follows and not panel.has_draft()
    if panel.question.is_hidden or panel.question.is_expected or (follows and not panel.question.approves):
        return
    if panel.question.follows:
        await panel.drawn.wait()
        if not panel.has_draft():
            return
    quiet = 0.0 if follows else QUIET if panel.question.keys else LOOK
    while True:
        early = panel.early_answer
        pause = EARLY_ANSWER_SECONDS if early else quiet
        wait = (max(panel.drawn_at, panel.key_at) + pause - loop_time()) if panel.drawn_at else quiet or FRAME
        if wait <= 0 and (early or not (panel.question.keys and panel.has_draft())):
            return
        await asyncio.sleep(wait if wait > 0 else LOOK)
