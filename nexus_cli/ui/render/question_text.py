"""Describe calls that need permission: the block of each call, the line that asks about it, and its answers."""

from __future__ import annotations

import re

from nexus_cli.core.approval import NETWORK, NO_SANDBOX, NOT_KNOWN, OUTSIDE, Allow, Deny, Question
from nexus_cli.core.elide import plural
from nexus_cli.reports.text.lines import CONFINED
from nexus_cli.text.cells import cells, cut, expand_tabs, fold, one_line, wrap
from nexus_cli.text.diff_lines import looks_like_diff
from nexus_cli.text.hidden_signs import find_hidden_sign, mark_hidden_signs, mark_on_one_line
from nexus_cli.ui.asked_question import AnswerKey
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.tool_line import call_verb
from nexus_cli.ui.render.unified_diff import diff_lines, diff_text

HEAD_LINES, TAIL_LINES = 120, 80
"""Lines of a diff or command shown before the question: all, or these numbers from its beginning and its end."""
MIN_ROWS, AROUND = 8, 9
"""Least rows for the beginning of a new file; rows of the screen for what stands around it."""
MAX_REASON = 200
"""Most characters of the model's reason, and of a part of the call, that are shown."""
MAX_PARTS = 8
"""Most parts of a call that are named."""
SHOWN_WHOLE = ("later", "send")
"""Kinds of questions whose text is shown completely."""
_COMMON = re.compile(rf"{OUTSIDE}|{NO_SANDBOX}|{NETWORK}|the command contains a hidden character .*|.* {NOT_KNOWN}")
"""Reasons for a question about a command that its line about the sandbox says, or that are the rule."""
_HOST = re.compile(r"(?:https?|ssh|git|ftp)://(?:[^/@\s\"']*@)?([\w.-]+)")


def answer_keys(question: Question, waiting: int, *, stops: bool = True) -> list[AnswerKey]:
    """Return the keys of a question; `waiting` is the number of unanswered questions in its step, including this
    one. With `stops`, a no ends the worker that asks."""
    yes, no = Allow(), Deny(stops=stops)
    scope = f"session: {mark_on_one_line(question.always or 'this call')}"
    keys = [
        AnswerKey("y", "yes", yes),
        AnswerKey("s", scope, Allow(always=True), also=() if question.stores else ("a", "always")),
        AnswerKey("a", "always here", Allow(always=True, stored=True)),
        AnswerKey("n", f"no, ends {question.agent}" if stops and question.agent else "no", no, takes_words=True),
        AnswerKey("A", f"all {waiting}", yes, lasts=True, also=("yes all",)),
        AnswerKey("N", "none", no, lasts=True, also=("no all",)),
    ]
    return [
        answer_key
        for answer_key in keys
        if (waiting > 1 or not answer_key.lasts) and (question.stores or answer_key.key != "a")
    ]


def ask_text(question: Question) -> str:
    if question.kind == "later":
        return "Start this?"
    if question.kind == "send":
        return "Send this?"
    if looks_like_diff(question.detail):
        return "Make this change?"
    return "Run this?" if question.kind == "run" else f"Allow {one_line(question.call.name)}?"


def call_subject(question: Question) -> str:
    """Describe the object of a call on one line: of a command of one line the whole, with its blanks."""
    subject, detail = question.what.removeprefix(question.call.name).strip(), question.detail.strip()
    is_detail = "\n" not in detail and subject and " ".join(detail.split()).startswith(" ".join(subject.split()))
    return mark_on_one_line(detail if is_detail else subject)


def list_prompt(question: Question, number: int, count: int) -> str:
    """Return the lines that ask about one call of a list: its number and the question."""
    call = f"{_asker(question)}{call_verb(question.call)} {call_subject(question)}"
    return f"{number} of {count}  {call}\n{ask_text(question)}"


def _asker(question: Question) -> str:
    """Return the worker or the run that asks; "" for the session itself."""
    asker = question.run or (question.agent and f"worker {question.agent}")
    return f"{one_line(asker)} asks: " if asker else ""


def question_text(question: Question, width: int, theme: Theme, number: int = 0, height: int = 0) -> str:
    """Return the block of a call: the asking worker or run if there is one, the call's name and object, and below them
    the diff or the command.

    `number` counts calls that are asked about together; 0 for a single one. On a screen of so many rows as `height` a
    new file is shown by its beginning, so that its name stays in sight; 0 for output that is not on a screen.
    """
    is_diff = question.kind not in SHOWN_WHOLE and looks_like_diff(question.detail)
    details = [] if is_diff else _details(question, width - 1)
    # Lines below the head are not repeated in the head.
    subject = call_subject(question) if is_diff or len(details) < 2 else ""
    verb = f"{number} " * bool(number) + _asker(question) + call_verb(question.call)
    below = " " * (2 if _asker(question) else cells(verb) + 2)
    head = hang_indent(f"{subject}{_reason(question)}".strip(), f"{verb}  ", below, width - 1)
    lines = [theme.paint("bold", line.rstrip()) for line in head]
    if is_diff:
        details = _change_lines(question.detail, width, theme, height)
    texts = filter(None, [_describe_reasons(question), _confinement_text(question)])
    walls = [theme.paint("dim", line) for text in texts for line in wrap(text, width - 3)]
    return "\n".join([*[""] * (number < 2), *lines, *details, *(f"  {line}" for line in walls)])


def _change_lines(diff: str, width: int, theme: Theme, height: int) -> list[str]:
    """Return the lines of a change as `question_text` shows them."""
    line_limit = HEAD_LINES + TAIL_LINES
    room = min(line_limit, max(MIN_ROWS, height - AROUND))
    is_new = diff.lstrip().startswith("--- /dev/null\n") and diff.count("\n--- ") == 0
    if not (height and is_new and diff.count("\n") > room):
        return [diff_text(diff, width, theme, most_lines=line_limit)]
    return [*diff_lines(diff, width, theme, most_lines=room), theme.paint("dim", "Ctrl+O shows the whole file")]


def _reason(question: Question) -> str:
    """Return the reason for the question, unless it is only that the call runs a command or changes a file, or the call
    names it."""
    why = "" if question.kind in ("run", "edit") else one_line(question.why)
    place = why.removesuffix(f": {call_subject(question)}")
    if question.kind == "outside" and place != why:
        return "   outside the project"
    return f" ({why})" if why else ""


def _describe_reasons(question: Question) -> str:
    """Return the reasons for the question about a command, other than common ones and what the line about its sandbox
    says; "" for none."""
    if question.kind != "run" or question.rule or not question.profile:
        return ""
    doubt_texts = {f"the command contains {doubt}" for doubt in question.doubts}
    reasons = [part for part in question.why.split("; ") if part not in doubt_texts and not _COMMON.fullmatch(part)]
    return f"why: {mark_on_one_line('; '.join(reasons))}" if any(reasons) else ""


def _confinement_text(question: Question) -> str:
    """Describe the sandbox of a command, the parts that need approval, and the rule that decided; "" for other calls.

    The model's reason for leaving the sandbox is quoted, because it is only a claim.
    """
    if not question.profile:
        return ""
    asking = [" ".join(part["command"]) for part in question.parts if part["decision"] != "allow"]
    parts = [cut(mark_on_one_line(part), MAX_REASON, "...") for part in [*question.doubts, *asking][:MAX_PARTS]]
    least = "at least " if question.more_parts and len(asking) == len(question.parts) else ""
    hidden_count = len(question.doubts) + len(asking) - len(parts)
    more = f" and {least}{hidden_count:,} more" if hidden_count else ""
    is_named = least or question.doubts or 0 < len(asking) < len(question.parts)
    needs = f"needs approval: {'; '.join(parts)}{more}" if is_named else ""
    hosts = sorted(set(_HOST.findall(question.detail))) if question.profile == "net" else []
    place = CONFINED[question.profile] + (f" ({', '.join(hosts)})" if hosts else "")
    claim = one_line(str(question.call.arguments.get("outside", "")))[:MAX_REASON]
    reason = f"the model's reason: {claim}" if claim and question.profile == "none" else ""
    hidden = find_hidden_sign(question.detail)
    sign = f"the command contains a hidden character ({hidden})" if hidden else ""
    stays = "runs in the background" if question.call.arguments.get("background") else ""
    rule = mark_on_one_line(question.rule)
    rule = f"may match {rule}" if rule.startswith("deny ") else rule  # a certain match is refused, not asked about
    return " \u00b7 ".join(filter(None, [place, stays, needs, sign, rule, reason]))


def _details(question: Question, width: int) -> list[str]:
    """Return the indented lines of the command, a long one's both ends; empty if `what` has all of it."""
    detail = question.detail.strip()
    if "\n" not in detail and call_subject(question) in map(mark_on_one_line, (detail, detail.partition(": ")[2])):
        return []
    lines = mark_hidden_signs(question.detail).splitlines()
    lines = lines if question.kind in SHOWN_WHOLE else excerpt(lines)
    return [piece for line in lines for piece in hang_indent(line, "  ", "      ", width)]


def hang_indent(line: str, before: str, below: str, width: int) -> list[str]:
    """Return `line` after `before`, with overflowing text after `below`; flush left on a narrow terminal."""
    if cells(below) > width // 3 or cells(before) > width * 2 // 3:
        return list(wrap(before + line, width))
    line = expand_tabs(line)
    cut_line = fold if "  " in line.strip() else wrap  # between words a run of blanks would not be seen
    first, *_ = cut_line(line, width - cells(before))
    remainder = line[len(first) :]
    remainder = remainder.lstrip(" ") if cut_line is wrap else remainder
    return [before + first, *(below + piece for piece in cut_line(remainder, width - cells(below)) if piece)]


def excerpt(lines: list[str]) -> list[str]:
    """Return `lines`; of many only the beginning and the end, with a note about the missing lines between."""
    hidden = len(lines) - HEAD_LINES - TAIL_LINES
    if hidden <= 0:
        return lines
    missing = f"... {plural(hidden, 'line')} not shown ..."
    return [*lines[:HEAD_LINES], missing, *lines[-TAIL_LINES:]]
