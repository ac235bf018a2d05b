"""Ask the person for permission to run calls: one question at a time, those of one step as one list.

`render/question_text` describes the calls, and `ui/asked_question` reads the answers. The decision that a call needs a
question is made elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nexus_cli.core.approval import CHANGES, DEFINITION, Answer, Deny, PersonQuestion, Question
from nexus_cli.text.cells import one_line
from nexus_cli.ui.asked_question import ESCAPE, OR_OWN_WORDS, AnswerKey, AnswerSource, AskedQuestion, ask
from nexus_cli.ui.render.question_text import answer_keys, ask_text, list_prompt, question_text
from nexus_cli.ui.render.theme import Theme

CLOSED = "the question was closed without an answer"


def describe_calls(source: AnswerSource, theme: Theme) -> Callable[[Question, int], str]:
    """Return the function that describes a call with its number in the list, as wide as `source`."""
    return lambda question, number: question_text(question, source.width, theme, number)


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

    can_ask = True

    def __init__(
        self,
        source: AnswerSource,
        describe: Callable[[Question, int], str],
        *,
        stops: bool = True,
        escape: str = ESCAPE,
    ) -> None:
        """`describe` returns the block of a call with its number in the list; with `stops`, a no without words ends
        the turn; `escape` says what Esc does."""
        self._source, self._describe = source, describe
        self._stops, self._escape = stops, escape
        self._turn = asyncio.Lock()
        self._waiting: list[WaitingQuestion] = []
        self._listed = 0
        """Number of questions in the shown list."""

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer. The call does not run without one."""
        waiting = WaitingQuestion(question)
        self._waiting.append(waiting)
        try:
            await asyncio.sleep(0)  # the questions of a step arrive at the same moment
            async with self._turn:
                return waiting.answer or await self._ask(waiting)
        finally:
            self._waiting.remove(waiting)

    async def put_questions(self, questions: Sequence[PersonQuestion]) -> list[str]:
        """See `QuestionAsker`: one question after the other, none while a call waits for approval."""
        answers: list[str] = []
        async with self._turn:
            for number, question in enumerate(questions, 1):
                keys = [AnswerKey(str(key), one_line(text), text) for key, text in enumerate(question.choices, 1)]
                count = f"{number} of {len(questions)}  " if len(questions) > 1 else ""
                asked_question = AskedQuestion(
                    f"{count}{one_line(question.text)}", keys, words=OR_OWN_WORDS, follows=number > 1
                )
                if (reply := await ask(self._source, asked_question)) is None:
                    break
                answers.append(reply.meaning or reply.words)
        return answers

    async def _ask(self, waiting: WaitingQuestion) -> Answer:
        text = "" if waiting.number else self._show_list()
        listed = [question for question in self._waiting if question.number]
        keys = answer_keys(waiting.question, len(listed), stops=self._stops)
        block = self._block(waiting)
        reply = await ask(self._source, AskedQuestion(self._prompt(waiting), keys, text, block, escape=self._escape))
        if reply is None:
            return Deny(CLOSED, said=False)
        if reply.words:
            return Deny(reply.words)
        answer: Answer = reply.meaning
        for listed_question in listed if reply.key is not None and reply.key.lasts else ():
            listed_question.answer = answer
        return answer

    def _show_list(self) -> str:
        """Return the blocks of all open questions, which form a list from now on. A change of a tool's definition that
        several calls ask about is shown with the first one."""
        self._listed, first_numbers = len(self._waiting), dict[str, int]()
        for number, waiting_question in enumerate(self._waiting, 1):
            waiting_question.number = number
            before, _, change = waiting_question.question.detail.rpartition(CHANGES)
            if (
                waiting_question.question.kind == DEFINITION
                and (first := first_numbers.setdefault(change, number)) < number
            ):
                waiting_question.question = replace(
                    waiting_question.question, detail=f"{before}{CHANGES} as shown for {first}"
                )
        return "\n".join(map(self._block, self._waiting))

    def _block(self, waiting_question: WaitingQuestion) -> str:
        return self._describe(waiting_question.question, 0 if self._listed == 1 else waiting_question.number)

    def _prompt(self, waiting_question: WaitingQuestion) -> str:
        if self._listed > 1:
            return list_prompt(waiting_question.question, waiting_question.number, self._listed)
        return ": ".join(filter(None, [one_line(waiting_question.question.run), ask_text(waiting_question.question)]))
