"""`ask_person`: put questions to the person at the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.approval import PersonQuestion
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import PersonQuestions
from nexus_cli.core.tool import ToolContext

MAX_QUESTIONS, MAX_CHOICES = 4, 9
NOBODY = "nobody can be asked here: decide yourself, and say what you assumed"
NO_ANSWER = "the person gave no answer: decide yourself, and say what you assumed"


@dataclass(frozen=True, slots=True)
class QuestionArguments:
    """One question, with the answers that it proposes."""

    question: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskPersonArguments:
    """The arguments of `ask_person`."""

    questions: tuple[QuestionArguments, ...]


async def run(arguments: AskPersonArguments, context: ToolContext) -> ToolResult:
    """Return the answers, each below its question."""
    questions_asked = [
        PersonQuestion(question_arguments.question.strip(), tuple(filter(str.strip, question_arguments.choices)))
        for question_arguments in arguments.questions
    ]
    if not 0 < len(questions_asked) <= MAX_QUESTIONS or not all(question.text for question in questions_asked):
        return ToolResult(error=f"ask 1 to {MAX_QUESTIONS} questions, each with text", ran=False)
    if any(len(question.choices) > MAX_CHOICES for question in questions_asked):
        return ToolResult(error=f"a question can have at most {MAX_CHOICES} choices", ran=False)
    questions = context.service(PersonQuestions)
    if not questions.can_ask:
        return ToolResult(error=NOBODY, ran=False)
    answers = await questions.ask(questions_asked)
    if not answers:
        return ToolResult(error=NO_ANSWER)
    lines = [
        f"{question.text}\n> {answer or '(no answer)'}"
        for question, answer in zip(questions_asked, answers, strict=False)
    ]
    missing = len(questions_asked) - len(answers)
    return ToolResult("\n".join(lines), error=f"questions without an answer: {missing}" if missing else "")
