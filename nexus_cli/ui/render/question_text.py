"""What a person sees when a call needs permission: the call with its diff or command, and the line that asks.

How the answer is read and what it means is `print/approver`'s.
"""

from __future__ import annotations

from nexus_cli.core.approval import Question
from nexus_cli.ui.cells import one_line, wrap
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.unified_diff import diff_text, looks_like_diff
from nexus_cli.ui.terminal_sanitizer import sanitize

HEAD_LINES, TAIL_LINES = 120, 80
"""Lines of a diff or command that are shown before the question: all, or so many of its beginning and of its end."""


def approval_prompt(question: Question) -> str:
    """Return the line that asks for the answer."""
    always = one_line(question.always or "this session")
    return f"Allow {sanitize(question.call.name)}? [y]es once, [a]lways ({always}), [n]o, or n and a reason: "


def explain_unclear_answer(line: str) -> str:
    """Return what a person is told of an answer that means nothing."""
    words = one_line(line)[:80]
    return f"{words or 'An empty line'} is not an answer. Please answer y, a or n (n may be followed by a reason)"


def question_text(question: Question, width: int, theme: Theme) -> str:
    """Return the question as the REPL shows it: what will happen and why, below it the diff or the command."""
    is_diff, details = looks_like_diff(question.detail), _details(question)
    # What stands below in lines of its own need not stand in the head once more.
    what = question.what if is_diff or len(details) < 2 else question.call.name
    head = [theme.paint("bold", line) for line in wrap(f"? {one_line(what)}{_reason(question)}", width - 1)]
    if is_diff:
        details = [diff_text(question.detail, width, theme, most_lines=HEAD_LINES + TAIL_LINES)]
    return "\n".join(["", *head, *details])


def plain_question_text(question: Question, colour: bool) -> str:
    """Return the question as `nexus ask` prints it: the diff or the command, below it what will happen and why."""
    bold, plain = ("\x1b[1m", "\x1b[0m") if colour else ("", "")
    return "\n".join([*_details(question), f"{bold}{one_line(question.what)}{plain}{_reason(question)}"])


def _reason(question: Question) -> str:
    why = one_line(question.why)
    return f" ({why})" if why else ""


def _details(question: Question) -> list[str]:
    """Return the lines of the diff or command, set in: the beginning and the end of a long one.

    Empty where `what` has it all.
    """
    if "\n" not in question.detail.strip() and question.detail.strip() in question.what:
        return []
    return [f"  {line}" for line in excerpt(sanitize(question.detail).splitlines())]


def excerpt(lines: list[str]) -> list[str]:
    """Return `lines`; of many their beginning and their end, with a word about what is missing between."""
    hidden = len(lines) - HEAD_LINES - TAIL_LINES
    if hidden <= 0:
        return lines
    missing = f"... {hidden:,} lines are not shown here, the end follows ..."
    return [*lines[:HEAD_LINES], missing, *lines[-TAIL_LINES:]]
