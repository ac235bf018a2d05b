"""Ask the person for permission to run calls: one question at a time, those of one step as one list.

Owns the meaning of an answer. An `AnswerSource` reads it, and `render/question_text` formats the question. The decision
that a call needs a question is made elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nexus_cli.commands import parse
from nexus_cli.core.approval import Allow, Answer, Deny, PersonQuestion, Question
from nexus_cli.text.cells import one_line, wrap
from nexus_cli.ui.render.question_text import AnswerKey, answer_keys, ask_text, describe_unclear_answer, list_prompt

TRIES = 5
NO_ANSWER, CLOSED = "no clear answer", "the question was closed without an answer"
YES = frozenset({"ok", "okay", "sure", "yep", "yeah"})
"""Words that may mean yes, and are not an instruction."""
LETTERS = ("y", "s", "a", "n")
"""The letters of the answers."""
FEWEST = 3
"""Least number of words after a yes that make an instruction: "yes please" is none."""
SHORTEST = 4
"""Letters of the shortest word that is an instruction and not a typing error."""


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The meaning of a typed line."""

    answer: Answer
    everything: bool = False
    """True if it answers every open question of the step."""


def is_command_line(line: str) -> bool:
    """Return True if the REPL treats a line as a command or a shell line, so that it is never sent to the model."""
    return parse(line) is not None or line.startswith("!")


def is_command_answer(line: str) -> bool:
    """Return True for a command, also one that was typed after the letter of an answer (`s/exit`): no answer either."""
    return is_command_line(line) or (line[:1].lower() in LETTERS and parse(line[1:]) is not None)


def parse_answer(line: str, listed: bool = False, stores: bool = False) -> ParsedAnswer | None:
    """Parse a line; return None if its meaning is unclear. An empty line is never a yes, nor is a command.

    Other words are an instruction to the model; a no without words stops the turn. `A`, `N`, `all` and `none` answer
    several questions (`listed`). `always` stores rules if the question names some (`stores`), else it means `session`.
    """
    words = line.strip()
    if is_command_answer(words):
        return None
    word, _, rest = words.partition(" ")
    if listed and words in ("A", "N"):
        words = {"A": "all", "N": "none"}[words]
    if listed and words.lower() in ("all", "yes all", "none", "no all"):
        answer = Allow() if words.lower() in ("all", "yes all") else Deny(stops=True)
        return ParsedAnswer(answer, everything=True)
    match word.lower().rstrip(",.:"):
        case "n" | "no":
            return ParsedAnswer(Deny(rest.strip(), stops=not rest.strip()))
        case "y" | "yes" if not rest.strip():
            return ParsedAnswer(Allow())
        case "a" | "always" if not rest.strip():
            return ParsedAnswer(Allow(always=True, stored=stores))
        case "s" | "session" if not rest.strip():
            return ParsedAnswer(Allow(always=True))
        case "y" | "yes" | "always" | "session" if len(rest.split()) < FEWEST:
            return None
    return None if len(words) < SHORTEST or words.lower() in YES else ParsedAnswer(Deny(words))


class AnswerSource(Protocol):
    """The place where the person reads and answers a question: a `ReplView`, or a terminal."""

    @property
    def width(self) -> int:
        """Columns available for text."""

    async def question(self, text: str, prompt: str, keys: Sequence[AnswerKey] = (), block: str = "") -> str | None:
        """Show `text` and read one of `keys`, or a line after `prompt`; None without an answer. See `ReplView`."""


@dataclass
class WaitingQuestion:
    """An unanswered question."""

    question: Question
    number: int = 0
    """Its number in the shown list, 0 before it is shown."""
    answer: Answer | None = None
    """Its answer, if it was given together with another one."""


class PersonApprover:
    """An `Approver` that asks the person."""

    def __init__(
        self, source: AnswerSource, describe: Callable[[Question, int], str], closed: str = CLOSED, stops: bool = True
    ) -> None:
        """`describe` returns the block of a call with its number in the list; `closed` is the reason for denying a call
        that gets no answer; with `stops`, a no without words ends the turn."""
        self._stops = stops
        self._source = source
        self._describe = describe
        self._closed = closed
        self._turn = asyncio.Lock()
        self._waiting: list[WaitingQuestion] = []
        self._listed = 0
        """Number of questions in the shown list."""

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer. The call does not run without one."""
        one = WaitingQuestion(question)
        self._waiting.append(one)
        try:
            await asyncio.sleep(0)  # the questions of a step arrive at the same moment
            async with self._turn:
                answer = one.answer or await self._ask(one)
            return answer if self._stops or not isinstance(answer, Deny) else replace(answer, stops=False)
        finally:
            self._waiting.remove(one)

    async def put_questions(self, questions: Sequence[PersonQuestion]) -> list[str]:
        """See `QuestionAsker`: one question after the other, none while a call waits for approval."""
        answers: list[str] = []
        async with self._turn:
            for number, one in enumerate(questions, 1):
                keys = [AnswerKey(str(key), one_line(text)) for key, text in enumerate(one.choices, 1)]
                count = f"{number} of {len(questions)}  " if len(questions) > 1 else ""
                line = await self._source.question("", f"{count}{one_line(one.text)}", keys)
                if line is None:
                    break
                chosen = next((text for key, text in enumerate(one.choices, 1) if str(key) == line.strip()), None)
                answers.append(chosen or line.strip())
        return answers

    async def _ask(self, one: WaitingQuestion) -> Answer:
        text = "" if one.number else self._show_list()
        for _ in range(TRIES):
            open_ = [each for each in self._waiting if each.number]
            keys = answer_keys(one.question, len(open_), stops=self._stops)
            line = await self._source.question(text, self._prompt(one), keys, self._block(one))
            if line is None:
                return Deny(self._closed, said=False)
            if (parsed := parse_answer(line, len(open_) > 1, bool(one.question.stores))) is not None:
                for other in open_ if parsed.everything else ():
                    other.answer = parsed.answer
                return parsed.answer
            text = "\n".join(wrap(describe_unclear_answer(line, keys), self._source.width))
        return Deny(NO_ANSWER, said=False)

    def _show_list(self) -> str:
        """Return the blocks of all open questions, which form a list from now on."""
        self._listed = len(self._waiting)
        for number, one in enumerate(self._waiting, 1):
            one.number = number
        return "\n".join(map(self._block, self._waiting))

    def _block(self, one: WaitingQuestion) -> str:
        return self._describe(one.question, 0 if self._listed == 1 else one.number)

    def _prompt(self, one: WaitingQuestion) -> str:
        alone = self._listed == 1
        return ask_text(one.question) if alone else list_prompt(one.question, one.number, self._listed)
