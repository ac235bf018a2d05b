"""Format a tool call for people: one line while it runs, afterwards its outcome with the important parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.todo import MARKS, OPEN, count_items
from nexus_cli.core.tool import Effect, Tool, ToolContext
from nexus_cli.reports.event_texts import describe_outcome
from nexus_cli.reports.text.lines import plural
from nexus_cli.text.cells import cells, expand_tabs, fold, one_line, without_codes, wrap
from nexus_cli.text.diff_lines import describe_changes
from nexus_cli.text.terminal_sanitizer import sanitize, sanitize_output
from nexus_cli.tools.registry import find_tool, plugin_line
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.unified_diff import diff_lines

OUTPUT_LINES = 4
"""Most lines of a command's output below its outcome."""
ERROR_LINES = 6
DIFF_LINES = 40
ENDED = ("done", "dropped")
"""States of an item that is finished."""
LISTED_ITEMS = 12
"""Items of a list beyond which those that are done are only counted."""
_LOOKED_AT = 16_384
"""Characters of an error or of the end of an output that are used."""
_STATUS = re.compile(
    r"\[exit status -?\d+(?:; pipe: [\d ]+)?(?:; colour codes left out)?\](?:\n\[(?:(?!\n\[exit status )[\s\S])*)?\Z"
)
"""The status of a command, and the lines for the model below it: of hooks, about the name of its tool."""
_HIDDEN_NAMES = re.compile(r"^\[sandbox: without [^\n]*\n?", re.MULTILINE)
"""The note for the model about variables that commands do not get."""
_SLOW = 1.0
"""Least seconds of a call whose time is shown; a worker's time always is."""
OUTCOMES = {"waiting": "accent", "refused": "warn", "stopped": "warn", "not run": "dim"}
"""Roles of outcomes that are named beside the glyph."""
_HIDES_STATUS = re.compile(r"[|;\n]|(?<![&>])&(?![&>])")
"""Operators by which a command's exit status may be that of a part: a pipe, a list, a background process."""


async def _run_nothing(arguments: JsonObject, context: ToolContext) -> ToolResult:
    """Do nothing."""
    return ToolResult()


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A call with its result."""

    call: ToolCall
    subject: str
    result: ToolResult
    seconds: float
    is_diff_shown: bool = False
    """True if a question has shown its diff to the person."""
    address: str = ""
    """Address of its file; "" for none."""
    full_text_hint: str = ""
    """Hint for showing its whole output, now and later: `: /transcript`, "" if there is no way."""
    is_named: bool = False
    """True if the question right above has named the call, so that only the outcome is shown."""
    figures: Sequence[str] = ()
    """Figures of the worker that it started."""
    below: Sequence[str] = ()
    """Lines below the outcome: the beginning of a worker's report, and nested workers."""

    @property
    def text(self) -> str:
        """Its complete output."""
        return self.result.text if self.result.full is None else self.result.full

    @property
    def failed(self) -> bool:
        """True if it could not run, or its command exited with a non-zero status; False if the turn was stopped."""
        return bool(self.result.error or self.result.status) and not self.result.stopped

    @property
    def is_outcome(self) -> bool:
        """True if the error line is the whole outcome: the call was refused, or failed before it produced output."""
        result = self.result
        alone = result.error and "\n" not in result.error and result.status is None
        return result.denied or bool(alone and not result.stopped)

    @property
    def is_foreign(self) -> bool:
        """True if a server answered it: the end of its output is shown, as that of a command."""
        return find_called_tool(self.call) is UNKNOWN and not self.result.error

    @property
    def is_sure(self) -> bool:
        """True if no part of it failed: a pipe or a list has the status of its last command."""
        hides = self.result.status is not None and _HIDES_STATUS.search(str(self.call.arguments.get("command", "")))
        result = self.result
        return not (self.failed or result.stopped or result.warning or hides or result.waits or result.job)


UNKNOWN = Tool("", {"properties": {}}, _run_nothing, Effect.NONE, "")
"""Stands for a tool that is not there any more."""


def find_called_tool(call: ToolCall) -> Tool:
    """Return the tool of a call, `UNKNOWN` if it is not there any more."""
    return find_tool(call.name) or UNKNOWN


def file_of_call(call: ToolCall) -> str:
    """Return the path of the file or folder that a call reads or edits; "" where it has none or finds files itself."""
    tool = find_called_tool(call)
    if not (tool.reads_content or tool.effect is Effect.EDIT):
        return ""
    return next((path for path in tool.find_paths(call.arguments) if isinstance(path, str)), "")


def manages_worker(call: ToolCall, worker: str) -> bool:
    """Return True if a call names `worker`, or may mean it as the only one."""
    return "agent" in find_called_tool(call).shows and call.arguments.get("agent", "") in ("", worker)


def call_verb(call: ToolCall) -> str:
    """Return the label of a tool for people."""
    return find_called_tool(call).verb or one_line(call.name)


def format_call(call: ToolCall, subject: str) -> str:
    """Return verb and object on one line: `read app.py`, `grep discount in src`, `agents steer w1 "go on"`."""
    tool = find_called_tool(call)
    if line := plugin_line(call.name, call.arguments):
        return line
    folder = next(iter(tool.find_paths(call.arguments)), None) if tool.finds_files else None
    place = f" in {one_line(str(folder))}" if folder not in (None, "", ".", "./") else ""
    values = (call.arguments.get(name, "") for name in tool.shows)
    listed = (" ".join(map(str, element)) if isinstance(element, list) else str(element) for element in values)
    item_texts = (one_line(text[:400]) for text in listed)
    argument_text = "".join(f' "{text}"' if " " in text else f" {text}" for text in item_texts if text)
    return f"{call_verb(call)} {one_line(subject)}{argument_text}{place}".rstrip()


def describe_counts(counts: Mapping[str, int], has_more: bool, nouns: Mapping[str, str]) -> str:
    """Return the figures of a result in words: `18 lines`, `3 matches in 2 files`, `2 files +9 -1`; "" for none.
    `nouns` are those of its tool that a person reads, with their singulars."""
    beyond = "+" if has_more else ""
    if counts.get("total") and counts.get("lines"):
        first = counts.get("first", 1)
        return f"lines {first:,}-{first + counts['lines'] - 1:,} of {counts['total']:,}{beyond}"
    parts: list[str] = []
    for noun, count in counts.items():
        if noun in nouns and count:
            parts.append(plural(count, nouns[noun], noun).replace(" ", ("" if parts else beyond) + " ", 1))
        elif noun in nouns and not parts:
            return "empty" if noun in ("lines", "entries") else f"no {noun}"
    changed = f" +{counts['added']:,} -{counts.get('removed', 0):,}" if "added" in counts else ""
    return (" in " if "files" in counts else ", ").join(parts) + changed


def format_running_call(title: str, seconds: float | None, width: int, theme: Theme, held: str = "") -> str:
    """Return the line of a running call (None: not started yet), in at most `width` cells; `title` is sanitized. `held`
    is the sign of a call that does not run."""
    sign = f"{held or theme.signs.running} "
    time = "" if seconds is None else f"  {seconds:.0f} s"
    room = width - cells(sign) - len(time)
    if room < 4:
        return theme.cut(sign + title, width)
    name, gap, subject = theme.cut(title, room).partition(" ")
    if held:
        return theme.paint("dim", sign + name + gap + subject)
    return theme.paint("accent", sign) + theme.paint("tool", name) + gap + subject + theme.paint("dim", time)


def format_finished_call(finished: FinishedCall, width: int, theme: Theme) -> list[str]:
    """Return the outcome with its details, in lines of at most `width` cells."""
    width = max(4, width)
    indent = "    " if width >= 40 else "  "
    return [
        *format_head(finished, width, theme),
        *(indent + line for line in _detail_lines(finished, width - len(indent), theme)),
    ]


def _detail_lines(finished: FinishedCall, room: int, theme: Theme) -> Iterator[str]:
    """Yield the important parts of a result in lines of at most `room` cells."""
    result = finished.result
    if result.diff and not finished.is_diff_shown:
        yield from diff_lines(result.diff, room, theme, most_lines=DIFF_LINES)
    elif (result.status is not None or result.stopped or finished.is_foreign) and not finished.figures:
        yield from (theme.paint("dim", line) for line in _end(result.output, room, theme, finished.full_text_hint))
    if result.error and not result.stopped and not (finished.is_named and finished.is_outcome):
        role, error = "error", result.error
        if result.denied:
            role, error = "warn", error.replace("the person", "you")
        elif not result.ran:  # the lines below the first one tell the model how to call the tool
            error = error.partition("\n")[0]
        yield from (theme.paint(role, line) for line in _cause(error, room, finished.full_text_hint))
    if find_called_tool(finished.call).asks and not finished.is_outcome:
        yield from (line for text in result.output.splitlines() for line in wrap(sanitize(text), room))
    if rows := _listed(finished):
        yield from _item_rows(rows, room, theme)
    if result.warning and finished.figures:
        yield from (theme.paint("warn", line) for line in wrap(one_line(result.warning), room))
    yield from (theme.paint("dim", theme.cut(line, room)) for line in finished.below)


def format_head(finished: FinishedCall, width: int, theme: Theme) -> list[str]:
    """Return glyph, verb, object and facts, on one line if there is room, else with the facts below."""
    sign, role = theme.signs.dot, "dim"
    if finished.failed:
        sign, role = theme.signs.error, "warn" if finished.result.denied else "error"
    elif finished.result.warning:
        sign, role = theme.signs.warn, "warn"
    elif finished.is_sure:
        sign, role = theme.signs.ok, "ok"
    elif finished.result.waits:
        sign, role = theme.signs.waiting, "accent"
    facts, before = [*_facts(finished, theme)], f"{theme.paint(role, sign)} "
    if finished.is_named:
        return _outcome(finished, facts, before, width, theme)
    title, fact_text = format_call(finished.call, finished.subject), theme.join(facts)
    beside = theme.paint("dim", theme.dot) + fact_text if facts else ""
    space = width - cells(sign) - 1
    room = space - cells(without_codes(beside))
    is_beside = cells(title) <= room or room >= max(24, cells(finished.call.name) + 16)
    name, gap, subject = theme.cut(title, room if is_beside else space).partition(" ")
    first = f"{before}{theme.paint('tool', name)}{gap}{theme.link(subject, finished.address)}"
    if is_beside or not facts:
        return [first + beside]
    if cells(without_codes(fact_text)) + 2 <= width:
        return [first, f"  {fact_text}"]
    return [first, *("  " + theme.paint(role_, line) for text, role_ in facts for line in wrap(text, width - 2))]


def _outcome(finished: FinishedCall, facts: list[tuple[str, str]], sign: str, width: int, theme: Theme) -> list[str]:
    """Return the outcome of a call that is shown right above."""
    if finished.is_outcome:
        role = "warn" if finished.result.denied else "error"
        first, *more = wrap(one_line(finished.result.error).replace("the person", "you"), width - 2)
        return [sign + theme.paint(role, first), *("  " + theme.paint(role, line) for line in more)]
    return [sign + theme.join(facts or [("failed", "error") if finished.result.error else ("done", "dim")])]


def _facts(finished: FinishedCall, theme: Theme) -> Iterator[tuple[str, str]]:
    """Return the results of the call and its duration, each with its role."""
    result = finished.result
    if figures := theme.dot.join(finished.figures):
        yield figures, "dim"
    if result.diff:
        yield describe_changes(result.diff), "dim"
    elif not result.error and (
        counted := describe_counts(result.counts, result.more, find_called_tool(finished.call).counts)
    ):
        yield counted, "dim"
    if images := result.counts.get("images"):
        yield f"{plural(images, 'image')}, about {result.counts['image_tokens']:,} tokens", "dim"
    if rows := _listed(finished):
        yield count_items(rows), "dim"
    if find_called_tool(finished.call).tells and not result.error:
        yield one_line(result.output[:200]), "dim"
    if result.status is not None and not (finished.is_sure or result.warning):
        parts = f" (pipe: {' '.join(map(str, result.pipe))})" if result.pipe else ""
        yield f"exit {result.status}{parts}", "error" if result.status else "dim"
    if result.warning and not finished.figures:
        yield one_line(result.warning), "warn"
    if result.job:
        yield f"job {result.job}", "accent"
    if result.waits or result.denied or result.stopped:
        outcome = describe_outcome(result)
        yield outcome, OUTCOMES[outcome]
    if finished.seconds >= _SLOW or len(finished.figures) > 1:
        yield f"{finished.seconds:.1f} s", "dim"


def _listed(finished: FinishedCall) -> Sequence[Mapping[str, str]]:
    """Return the rows of a call that lists some; () if it failed."""
    lists = find_called_tool(finished.call).lists
    rows = finished.call.arguments.get(lists, ()) if lists and not finished.result.error else ()
    return [
        {"text": str(item.get("text")), "state": str(item.get("state") or OPEN)}
        for item in (rows if isinstance(rows, list) else ())
        if isinstance(item, Mapping) and (item.get("state") or OPEN) in MARKS
    ]


def _item_rows(items: Sequence[Mapping[str, str]], room: int, theme: Theme) -> Iterator[str]:
    """Yield a line for each item; the first of many done ones are counted."""
    hidden = min(sum(item["state"] in ENDED for item in items), max(0, len(items) - LISTED_ITEMS))
    if hidden:
        yield theme.paint("dim", theme.cut(f"[x] {plural(hidden, 'earlier item', 'earlier items')}", room))
    for item in items:
        state = item["state"]
        if state in ENDED and hidden:
            hidden -= 1
            continue
        role = "dim" if state in ENDED else "accent" if state == "doing" else "tool"
        yield theme.paint(role, theme.cut(f"[{MARKS[state]}] {one_line(item['text'][:400])}", room))


def _end(output: str, room: int, theme: Theme, full_text_hint: str) -> list[str]:
    """Return the last lines of a command's output as a terminal shows them, without its exit status, which is shown
    above, and without the notes for the model alone."""
    text = sanitize_output(_HIDDEN_NAMES.sub("", _STATUS.sub("", output[-_LOOKED_AT:]))).strip("\n")
    lines = [expand_tabs(line).rstrip() for line in text.split("\n")]
    if not text.strip():
        return []
    before = output.count("\n") - text.count("\n") if len(output) > _LOOKED_AT else 0
    hidden_count = len(lines) - len(lines[-OUTPUT_LINES:]) + before
    visible = lines[-OUTPUT_LINES - 1 :]
    if hidden_count > 1:
        visible = [f"... {hidden_count:,} lines before{full_text_hint}", *lines[-OUTPUT_LINES:]]
    return [theme.cut(line, room) for line in visible]


def _cause(error: str, room: int, full_text_hint: str) -> list[str]:
    lines = sanitize(error[:_LOOKED_AT]).strip("\n").split("\n")
    rows: list[str] = []
    for number, line in enumerate(lines):
        pieces = list(wrap(line, room))[:ERROR_LINES]
        if rows and len(rows) + len(pieces) > ERROR_LINES:
            hidden_count = len(lines) - number + error.count("\n", _LOOKED_AT)
            return [*rows, *fold(f"... {plural(hidden_count, 'more line')}{full_text_hint}", room)]
        rows += pieces
    return rows
