"""Asks in the REPL whether a call may run: what will happen with its diff or command, the answer in a field of its own.

What an answer means is that of `nexus ask` in a terminal (`approver.parse`): an empty line is never a yes, and what was
typed before the question stood there is no answer.
"""

from __future__ import annotations

from typing import Protocol

from nexus_cli.core.approval import Answer, Deny, Question
from nexus_cli.ui.cells import wrap
from nexus_cli.ui.print.terminal_approver import (
    HEAD_LINES,
    NO_ANSWER,
    TAIL_LINES,
    approval_prompt,
    explain_unclear_answer,
    parse_answer,
    question_details,
)
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.unified_diff import diff_text, looks_like_diff
from nexus_cli.ui.terminal_sanitizer import sanitize

TRIES = 5
CLOSED = "the question was closed without an answer"
MOST_LINES = HEAD_LINES + TAIL_LINES


class QuestionView(Protocol):
    """What an approver needs of a view."""

    @property
    def width(self) -> int:
        """See `ReplView`."""

    async def question(self, text: str, prompt: str) -> str | None:
        """See `ReplView`."""


class ReplApprover:
    """An `Approver` over a view."""

    def __init__(self, view: QuestionView, theme: Theme) -> None:
        self._view = view
        self._theme = theme

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer; with Esc, Ctrl+C and the end of input they give none, and the call does not
        run."""
        prompt = approval_prompt(question)
        text = self._shown(question)
        for _ in range(TRIES):
            line = await self._view.question(text, prompt)
            if line is None:
                return Deny(CLOSED, said=False)
            answer = parse_answer(line)
            if answer is not None:
                return answer
            text = "\n".join(wrap(explain_unclear_answer(line), self._view.width))
        return Deny(NO_ANSWER, said=False)

    def _shown(self, question: Question) -> str:
        shown = question_details(question)
        # What stands below in lines of its own need not stand in the head once more.
        what = " ".join(sanitize(question.call.name if len(shown) > 1 else question.what).split())
        if looks_like_diff(question.detail):
            what = " ".join(sanitize(question.what).split())
        why = " ".join(sanitize(question.why).split())
        lines = wrap(f"? {what}" + (f" ({why})" if why else ""), self._view.width - 1)
        head = "\n".join(self._theme.paint("bold", line) for line in lines)
        if looks_like_diff(question.detail):
            diff = diff_text(question.detail, self._view.width, self._theme, most_lines=MOST_LINES)
            return f"\n{head}\n{diff}"
        return "\n".join(["", head, *shown])
