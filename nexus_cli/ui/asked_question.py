"""A question to a person: its answers, how it is drawn, and what a key or a typed line means.

Each front end that a person types at asks with these values, and reads an answer with `ask`. It differs in what its
terminal can do: redraw rows, or write a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from nexus_cli.commands import parse
from nexus_cli.text.cells import cells, cut, one_line, wrap

TRIES = 5
"""Unclear answers after which a question is closed."""
OR_WORDS = "or type what to do instead"
OR_OWN_WORDS = "or your own answer"
ESCAPE = "Esc stop"
DRAFT_FIRST = "send or clear your draft to answer"
"""Shown instead of `ESCAPE` while a draft blocks the question."""
CLEAR_FIRST = "press Enter to clear your draft, then answer"
"""Shown instead of `DRAFT_FIRST` if the draft is an answer that was typed too early."""
WAIT_FIRST = "wait a moment, then press Enter"
"""Shown instead of `CLEAR_FIRST` if the answer will stand in the field of the question."""
CLEAR = "Esc clear"
"""Shown instead of `ESCAPE` while such an answer stands there."""
CONFIRM = "press Enter to confirm"
"""Shown behind an answer that Enter takes."""
YES = frozenset({"ok", "okay", "sure", "yep", "yeah", "auto", "always", "session"})
"""Words that may mean yes, also where no key of the question offers that, and are not an instruction."""
ALL = "A"
"""The key for all calls of a list, which is not the `a` that stores a rule where one call is left."""
FEWEST = 3
"""Least number of words after the word of an answer that make an instruction: "yes please" is none."""
SHORTEST = 4
"""Letters of the shortest word that is an instruction and not a typing error."""


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """One key that answers a question; the first word of its label answers too."""

    key: str
    label: str
    """The label, which begins with the letter of the key unless that is a number."""
    meaning: Any = None
    """What the answer means to the one who asks."""
    lasts: bool = False
    """True if it applies to more than one call, so that the letter needs Enter."""
    takes_words: bool = False
    """True if words may follow: the reason of a no."""
    also: tuple[str, ...] = ()
    """Further words that mean this answer."""

    @property
    def is_choice(self) -> bool:
        """True if it is one of the numbered choices of the model's question: then the label is its text."""
        return self.key.isdigit()

    @property
    def words(self) -> tuple[str, ...]:
        """The words that mean this answer, in small letters."""
        return (self.key.casefold(), self.label.split()[0].casefold().rstrip(",:"), *self.also)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question as a person sees it."""

    prompt: str
    """The question; lines above the last one say what is asked about."""
    keys: Sequence[AnswerKey] = ()
    """The answers; without any, a line is wanted."""
    text: str = ""
    """Printed once before the question."""
    block: str = ""
    """Describes what is asked about; printed again after the screen is cleared."""
    words: str = OR_WORDS
    """The hint for an answer in words, "" if only the keys answer."""
    default: str = ""
    """The key that an empty line selects, "" for none."""
    escape: str = ESCAPE
    """What Esc does."""
    is_hidden: bool = False
    """True if typed text is shown as stars."""
    follows: bool = False
    """True if it is asked when the question before it has been answered: the person is at the keys and expects it."""

    @classmethod
    def yes_or_no(cls, question: str, default: str = "n", *, escape: str) -> AskedQuestion:
        """Return a question that is answered with yes (True) or no (False)."""
        keys = (AnswerKey("y", "yes", True), AnswerKey("n", "no", False))
        return cls(question, keys, words="", default=default, escape=escape)

    @property
    def approves(self) -> bool:
        """True if a key approves something: it is no choice of the model's question."""
        return not all(key.is_choice for key in self.keys)

    @property
    def was_listed(self) -> bool:
        """True if what is asked about was printed with the question before."""
        return bool(self.block) and not self.text

    @property
    def is_expected(self) -> bool:
        """True if the person has just given the command that asks: it takes one of its keys or a line, and no
        instruction."""
        return not self.words

    @property
    def marked(self) -> int | None:
        """The position of the key that is marked at first, None for none."""
        return next((place for place, key in enumerate(self.keys) if key.key == self.default), None)


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """The meaning of an answer."""

    key: AnswerKey | None
    """The chosen key; None for words alone."""
    words: str = ""

    @property
    def meaning(self) -> Any:
        return self.key.meaning if self.key is not None else None


class AnswerSource(Protocol):
    """The place where a person reads and answers a question: a `ReplView`, or a terminal."""

    @property
    def width(self) -> int:
        """Columns available for text."""

    async def question(self, question: AskedQuestion) -> str | None:
        """Show the question and read a key or a line; None without an answer. See `ReplView`."""


async def ask(source: AnswerSource, question: AskedQuestion) -> GivenAnswer | None:
    """Ask until the answer is clear; None without an answer, and after `TRIES` unclear ones."""
    for _ in range(TRIES):
        line = await source.question(question)
        if line is None:
            return None
        if (reply := read_answer(line, question)) is not None:
            return reply
        question = replace(question, text="\n".join(wrap(describe_unclear_answer(line, question), source.width)))
    return None


def find_key(text: str, keys: Sequence[AnswerKey]) -> AnswerKey | None:
    """Return the key for `text`, ignoring case except that of `ALL`; None if there is none."""
    keys_by_letter = {answer_key.key: answer_key for answer_key in keys}
    return keys_by_letter.get(text) or keys_by_letter.get(_fold(text))


def is_command_line(line: str) -> bool:
    """Return True if the REPL treats a line as a command or a shell line, so that it is never sent to the model."""
    return parse(line) is not None or line.startswith("!")


PUNCTUATION = ",.:;!"
"""Signs behind an answer that its words follow."""


def read_answer(line: str, question: AskedQuestion) -> GivenAnswer | None:
    """Return the meaning of a line; None if it is unclear. A command is no answer, nor is it behind a letter
    (`s/exit`).

    Where words are taken, other words than those of the keys are an instruction.
    """
    words = line.strip()
    if not words and question.marked is not None:
        return GivenAnswer(question.keys[question.marked])
    if (key := find_key(words, question.keys)) is not None:
        return GivenAnswer(key)
    if not question.approves:
        return GivenAnswer(None, words)
    if is_command_line(words) or (find_key(words[:1], question.keys) and parse(words[1:]) is not None):
        return None
    normalized, (first, _, instruction) = _normalize(words), words.partition(" ")
    if key := _find_word(normalized, question.keys):
        return GivenAnswer(key)
    key = _find_word(_normalize(first), question.keys)
    if key is not None and key.takes_words and question.words:  # the word of "no sudo, please" belongs to the words
        stands_apart = len(first) == 1 or first[-1] in PUNCTUATION
        return GivenAnswer(key, instruction.strip() if stands_apart else words)
    is_article = first.casefold() == "a"
    begins = key is not None and not is_article and len(instruction.split()) < FEWEST
    if begins or not question.words or len(words) < SHORTEST or normalized in YES:
        return None
    return GivenAnswer(None, words)


def is_only_answer(line: str, question: AskedQuestion) -> bool:
    """Return True if a line is a key of the question or a word for that key, and nothing else."""
    reply = read_answer(line, question) if line.strip() else None
    return reply is not None and reply.key is not None and not reply.words


def _normalize(word: str) -> str:
    return _fold(word.rstrip(",.:!"))


def _fold(word: str) -> str:
    return word if word == ALL else word.casefold()


def _find_word(word: str, keys: Sequence[AnswerKey]) -> AnswerKey | None:
    return next((key for key in keys if word in key.words), None)


def describe_unclear_answer(line: str, question: AskedQuestion) -> str:
    """Return the hint for an answer without a meaning."""
    *first, last = (answer_key.key for answer_key in question.keys)
    answer, hint = one_line(line)[:80] or "An empty line", f", {question.words}" if question.words else ""
    return f"{answer} is not an answer. Please answer {', '.join(first)} or {last}{hint}"


def write_question(question: AskedQuestion, columns: int) -> str:
    """Return the question as text before the answer by line, in rows of at most `columns` cells: the key of each answer
    is in brackets, that of the default in capital letters."""
    key_labels = " \u00b7 ".join(
        f"[{key.key}] {key.label}"
        if key.is_choice
        else f"[{key.key.upper() if key.key == question.default else key.key}]{key.label[1:]}"
        for key in question.keys
    )
    prompt_line = f"{question.prompt} {key_labels}{f', {question.words}' if question.words else ''}:"
    return "\n".join(wrap(prompt_line if question.keys else question.prompt.rstrip(), columns))


@dataclass(frozen=True, slots=True)
class KeyRows:
    """The layout of a question with keys on a terminal that redraws rows: they stand in the last rows, with what Esc
    does behind them."""

    columns: int
    """Most cells of a row."""
    colour: bool
    chosen: int | None
    """The place of the key that is marked, None for none."""
    last: str
    """Shown in place of the effect of Esc, "" for that."""
    is_open: bool
    """False while the question does not accept its keys, which are dim then."""

    def draw(self, question: AskedQuestion, most: int) -> list[str]:
        """Return the rows: the last line of the prompt with the keys, its other lines above.

        If that takes more than `most` rows, the labels are left out first, then the lines above, then the end of the
        question but its mark.
        """
        *head, line = question.prompt.split("\n")
        last = self.last or question.escape
        texts = [f"{answer_key.key} {answer_key.label}" for answer_key in question.keys]
        rows = self._flow(line, texts, last)
        if len(head) + len(rows) > most:
            texts = [answer_key.key for answer_key in question.keys]
            rows = self._flow(line, texts, last)
        if len(rows) > most:
            line = f"{cut(line.removesuffix('?'), self.columns // 2, '...')}?"
            rows = self._flow(line, texts, last)
        above = [cut(text, self.columns, "...") for text in head]
        return [*above[: max(0, most - len(rows))], *rows[: max(1, most)]]

    def _flow(self, prompt: str, choices: Sequence[str], last: str) -> list[str]:
        """Return the question, its choices and `last`, wrapped between them; each has a cell on both sides.

        A single row is set more tightly. A choice that is wider than a row is wrapped whole: it may say what is
        allowed.
        """
        texts = [*choices, last]
        is_wide = cells(prompt) + sum(cells(text) + 3 for text in texts) <= self.columns
        bold, plain = ("\x1b[1m", "\x1b[0m") if self.colour else ("", "")
        lines = list(wrap(prompt, self.columns))
        rows, used = [f"{bold}{line}{plain}" for line in lines], cells(lines[-1]) if lines else 0
        for number, choice in enumerate(texts):
            for part, text in enumerate(wrap(choice, self.columns - 2)):
                painted = self._paint(text, number, is_key=number < len(choices), is_first=not part)
                size, gap = cells(text) + 2, " " if is_wide or not number else ""
                if used and not part and used + len(gap) + size <= self.columns:
                    rows[-1], used = f"{rows[-1]}{gap}{painted}", used + len(gap) + size
                else:
                    rows.append(painted)
                    used = size
        return rows

    def _paint(self, text: str, number: int, *, is_key: bool, is_first: bool) -> str:
        """Return a piece of a choice, or of what stands behind all of them, with a cell on both sides."""
        if number == self.chosen:
            return f"\x1b[7m {text} \x1b[0m" if self.colour else f"[{text}]"
        if not (is_key and self.colour):
            return f" {text} "
        if not self.is_open:
            return f" \x1b[2m{text}\x1b[0m "
        key, space, label = text.partition(" ") if is_first else ("", "", text)
        return f" \x1b[1m{key}\x1b[0m{space}{label} "
