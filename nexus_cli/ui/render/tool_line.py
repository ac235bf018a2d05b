"""A tool call as a person sees it: one line while it runs, its outcome with what matters of it afterwards."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.ui.cells import cells, cut, expand_tabs, fold, one_line, wrap
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.unified_diff import count_changes, diff_lines
from nexus_cli.ui.reports.lines import short
from nexus_cli.ui.terminal_sanitizer import sanitize

OUTPUT_LINES = 4
"""Lines of a command's output below its outcome."""
ERROR_LINES = 6
DIFF_LINES = 40
_KEPT = 16_384
"""Characters of an error or of the end of an output that are looked at."""
_STATUS = re.compile(r"\[exit status -?\d+\]\Z")
_SAID = {"remember", "forget"}
"""Tools whose result is one line that the person wants to know."""
_MAIN = ("command", "path", "pattern", "query", "url", "name", "id")


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A call with its result."""

    call: ToolCall
    subject: str
    result: ToolResult
    tokens: int
    seconds: float
    known: bool = False
    """The person has seen the diff of it already, when they were asked."""
    whole: str = ""
    """How the person sees all of its output, now and later: `: /transcript`, "" where there is no way."""


def main_argument(call: ToolCall) -> str:
    """Return the main argument where nobody has said which it is: a call that an earlier process left open."""
    found = next((call.arguments[name] for name in _MAIN if call.arguments.get(name)), call.raw)
    return one_line(str(found)[:400])


def format_call(call: ToolCall, subject: str) -> str:
    """Return name and main argument on one line."""
    return f"{one_line(call.name)} {one_line(subject)}".rstrip()


def format_running_call(what: str, seconds: float | None, width: int, theme: Theme, waiting: bool = False) -> str:
    """Return the line of a call that runs (None: not yet), in at most `width` cells; `what` is sanitized."""
    sign = (theme.signs.waiting if waiting else theme.signs.running) + " "
    time = "" if seconds is None else f"  {seconds:.0f} s"
    room = width - cells(sign) - len(time)
    if room < 4:
        return cut(sign + what, width, theme.signs.cut)
    name, gap, rest = cut(what, room, theme.signs.cut).partition(" ")
    if waiting:
        return theme.paint("dim", sign + name + gap + rest)
    return theme.paint("accent", sign) + theme.paint("tool", name) + gap + rest + theme.paint("dim", time)


def format_finished_call(done: FinishedCall, width: int, theme: Theme) -> list[str]:
    """Return the outcome and what belongs to it, in lines of at most `width` cells."""
    width = max(4, width)
    lines = _head(done, width, theme)
    result = done.result
    indent = "    " if width >= 40 else "  "
    room = width - len(indent)
    if result.diff and not done.known:
        lines += (indent + line for line in diff_lines(result.diff, room, theme, most_lines=DIFF_LINES, names=False))
    elif result.status is not None:
        lines += (indent + theme.paint("dim", line) for line in _end(result.output, room, theme, done.whole))
    if result.error:
        role = "warn" if result.denied else "error"
        lines += (indent + theme.paint(role, line) for line in _cause(result.error, room, done.whole))
    return lines


def _head(done: FinishedCall, width: int, theme: Theme) -> list[str]:
    failed = bool(done.result.error)
    bad = failed or bool(done.result.status)
    sign = theme.signs.error if failed else theme.signs.warn if bad else theme.signs.ok
    role = "error" if failed else "warn" if bad else "ok"
    if done.result.denied:
        role = "warn"
    what = format_call(done.call, done.subject)
    facts = _facts(done)
    dot = f" {theme.signs.dot} "
    told = "".join(dot + text for text, _ in facts)
    painted = "".join(theme.paint("dim", dot) + theme.paint(role_, text) for text, role_ in facts)
    space = width - cells(sign) - 1
    beside = cells(what) <= space - cells(told) or space - cells(told) >= max(24, cells(done.call.name) + 16)
    if beside:
        what = cut(what, space - cells(told), theme.signs.cut)
    name, gap, rest = cut(what, space, theme.signs.cut).partition(" ")
    first = f"{theme.paint(role, sign)} {theme.paint('tool', name)}{gap}{rest}"
    if beside:
        return [first + painted]
    below = "  " + dot.join(text for text, _ in facts)
    if cells(below) <= width:
        below = "  " + theme.paint("dim", dot).join(theme.paint(role_, text) for text, role_ in facts)
        return [first, below] if facts else [first]
    return [first, *("  " + theme.paint(role_, cut(text, width - 2)) for text, role_ in facts)]


def _facts(done: FinishedCall) -> list[tuple[str, str]]:
    """Return time, size and exit status, or what became of a fact, each with the role that it is shown in."""
    result = done.result
    facts: list[tuple[str, str]] = []
    if result.diff:
        added, removed = count_changes(result.diff)
        facts.append((f"+{added:,} -{removed:,}", "dim"))
    if done.seconds >= 0.1:
        facts.append((f"{done.seconds:.1f} s", "dim"))
    if done.call.name in _SAID and not result.error:
        facts.append((one_line(result.output[:200]).replace("the person", "you"), "dim"))
    elif done.tokens and not result.error and not result.diff:
        facts.append((f"{short(done.tokens)} tokens", "dim"))
    if result.status:
        facts.append((f"exit {result.status}", "error"))
    if result.denied:
        facts.append(("refused", "warn"))
    return facts


def _end(output: str, room: int, theme: Theme, whole: str) -> list[str]:
    """Return the last lines of a command's output, without its exit status, which stands above."""
    text = sanitize(_STATUS.sub("", output[-_KEPT:])).strip("\n")
    lines = [expand_tabs(line).rstrip() for line in text.split("\n")]
    if not text.strip():
        return []
    shown = [cut(line, room, theme.signs.cut) for line in lines[-OUTPUT_LINES:]]
    before = output.count("\n") - text.count("\n") if len(output) > _KEPT else 0
    more = len(lines) - len(shown) + before
    return [cut(f"... {more:,} lines before{whole}", room, theme.signs.cut), *shown] if more > 1 else (
        [cut(line, room, theme.signs.cut) for line in lines[-OUTPUT_LINES - 1 :]]
    )


def _cause(error: str, room: int, whole: str) -> list[str]:
    """Return the beginning of an error."""
    lines = sanitize(error[:_KEPT]).strip("\n").split("\n")
    shown: list[str] = []
    for number, line in enumerate(lines):
        pieces = list(wrap(line, room))[:ERROR_LINES]
        if shown and len(shown) + len(pieces) > ERROR_LINES:
            more = len(lines) - number + error.count("\n", _KEPT)
            return [*shown, *fold(f"... {more:,} more lines{whole}", room)]
        shown += pieces
    return shown
