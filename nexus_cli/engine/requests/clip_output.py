"""Clip what a tool, a person or a server gives to the size that a request may hold: the rest is a drop, which the model
can recall, and text that the window still shows is referred to.

`clip_result` does so for the result of a tool, `clip_to_cap` for any text. How a text is cut is `core/elide`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from nexus_cli.context.manager import ContextManager
from nexus_cli.core.elide import (
    ElidedText,
    Marker,
    count_large,
    drop_marker,
    elide_text,
    fold_lines,
    last_line,
    last_states,
    line_namer,
    one_line,
    plain_marker,
    plural,
)
from nexus_cli.core.entry import Cause, Drop, ItemForm
from nexus_cli.core.message import SAME, Role, ToolCall, ToolResult
from nexus_cli.core.tool import Effect, FindTool, Tool, describe_subject
from nexus_cli.core.typed_text import find_attached_texts
from nexus_cli.engine.requests.control import Control
from nexus_cli.text.untrusted_text import neutralize

LARGE = 200_000
"""Characters above which a text is counted and cut in a thread, so that Ctrl-C works meanwhile."""
LONGEST_SUBJECT = 80
"""Most characters of a call's main argument in the name of its drop."""
MIN_OMITTED_TOKENS = 40
"""Fewest tokens of overwritten or repeated lines that are left out: the marker and its drop are worth no less."""
LAST_LINE = 120
"""Most characters of the last line of a result that is referred to."""
MIN_TEXT = 1000
"""Least characters of a file's text, or of a command's result, that is not sent again."""


@dataclass(frozen=True, slots=True)
class ClippedText(ElidedText):
    """A text as it is sent, and the drop of the rest, if any."""

    drop: Drop | None = None


async def clip_to_cap(
    context: ContextManager,
    control: Control | None,
    text: str,
    cap: int,
    label: str,
    cause: Cause,
    *,
    room: int = 0,
    full_text: str | None = None,
    uncounted: int = 0,
    cites: str = "",
    outline: str = "",
    marker: Callable[[str], Marker] = drop_marker,
    has_tail: bool = True,
) -> ClippedText:
    """Clip `text` to at most `cap` tokens. The rest is recorded as a drop called `label`, and sent to the front end of
    `control`.

    A text that fits `room` stays whole although it exceeds `cap`. `marker` makes the marker of a hole from the id of
    the drop; `outline` precedes a clipped text unless it takes more than the text left out. Without `has_tail` the
    beginning that fits `room` is kept alone. The drop holds `full_text` (default: `text`); `uncounted` is the number of
    bytes that were lost before. A text that `cites` a drop is a part of it, and gets no drop of its own.
    """
    limit = max(cap, room)
    if not uncounted and 4 * len(text) <= limit:  # no text has more tokens than bytes
        return ClippedText(text)
    count, conversation = context.count, context.conversation

    def work() -> tuple[ElidedText, str]:
        size = count_large(text, limit, count)
        if not uncounted and size <= limit:
            return ElidedText(text), ""
        drop_id = cites or conversation.log.next_drop()
        outline_text = elide_text(outline, cap // 2, count, plain_marker).text + "\n\n" if outline else ""
        named_tokens = count(outline_text)
        if named_tokens > size - cap:
            outline_text, named_tokens = "", 0
        cut = elide_text(text, (cap if has_tail else limit) - named_tokens, count, marker(drop_id), has_tail=has_tail)
        return replace(cut, text=outline_text + cut.text), drop_id

    cut, drop_id = await asyncio.to_thread(work) if len(text) > LARGE else work()
    drop = None
    if drop_id and not cites:
        full_text = text if full_text is None else full_text
        drop = Drop(drop_id, label, cut.tokens, cause, conversation.now(), text=full_text, uncounted=uncounted)
        if len(full_text) > LARGE:  # compressed when it is recorded
            await asyncio.to_thread(conversation.log.record_drop, drop)
        else:
            conversation.log.record_drop(drop)
        if control is not None:
            control.emit_drop(drop)
    return ClippedText(cut.text, cut.start, cut.end, cut.tokens, drop)


async def omit_repeats(context: ContextManager, control: Control | None, text: str, label: str) -> str:
    """Return output of a command without the states of its lines that a terminal would have overwritten (a progress
    bar), and without most of the lines that repeat if it exceeds the output cap; unchanged if that saves too little.
    Markers name the drop with the whole output, which is sent to the front end of `control`."""
    count, cap = context.count, context.budget.output_cap

    def work() -> tuple[str, Drop | None]:
        kept_text, omitted = last_states(text) if "\r" in text else (text, 0)
        repeats = plural(omitted, "overwritten line")
        if len(kept_text) > cap and count_large(kept_text, cap, count) > cap:
            kept_text, lines = fold_lines(kept_text)
            repeats = repeats if omitted else plural(lines, "repeated line")
            omitted += lines
        tokens = count_large(text, 1, count) - count_large(kept_text, 1, count) if omitted else 0
        if tokens < MIN_OMITTED_TOKENS:
            return text, None
        drop = context.conversation.record_drop(f"{repeats} of the {label}", tokens, Cause.OUTPUT_CAP, text)
        return f'[{repeats} left out: recall("{drop.id}")]\n{kept_text}', drop

    kept_text, drop = await asyncio.to_thread(work) if len(text) > LARGE else work()
    if drop and control is not None:
        control.emit_drop(drop)
    return kept_text


def read_room(context: ContextManager) -> int:
    """Return the most tokens that the reads of one message take together: half of what is free before it."""
    return (context.budget.available - context.project().upper_bound) // 2


async def clip_result(
    context: ContextManager,
    control: Control,
    find_tool: FindTool,
    call: ToolCall,
    result: ToolResult,
    room: int,
    *,
    refers: bool,
) -> tuple[ToolResult, ClippedText]:
    """Return a result without the lines of its output that repeat, and its text to send; what is left out are drops.
    `room` is what is left of the `read_room` of its message; with `refers`, text that the window shows is referred
    to."""
    tool = find_tool(call.name)
    label = f"result of {call.name} {describe_subject(tool, call)[:LONGEST_SUBJECT]}".rstrip()
    runs, reads = bool(tool and tool.runs_commands), bool(tool and tool.reads_content)
    if result.images:
        above = _name_images(context) if refers else {}
        result = control.take_images(neutralize(label), result, context.model.info, above)
    full_text, output = result.full, result.output
    if tool and (tool.effect is Effect.RUN or tool.feeds):
        output = await omit_repeats(context, control, output, label)
    if full_text is not None or output is not result.output:
        result = replace(result, output=output, full=None)
    text = result.text
    if tool and refers and (runs or reads) and result.success and len(text) >= MIN_TEXT:
        pointer = f"{SAME}: see the {label} above. If that result is no longer there, repeat the call.]"
        if runs:
            again = "If that result is no longer there, run the command again.]"
            pointer = f"{SAME}: the {label} above is the same. {again}\n{last_line(text, LAST_LINE)}"
        if _is_in_window(context, find_tool, tool, call, text, pointer):
            return result, ClippedText(pointer)
        if reads and not result.parts and (pointed := _refer_to_attachment(context, text)):
            return result, ClippedText(pointed)
    clipped = await clip_to_cap(
        context,
        control,
        text or "(no output)",
        context.budget.output_cap,
        label,
        Cause.OUTPUT_CAP,
        room=room if reads else 0,
        full_text=text if full_text is None else full_text,
        uncounted=result.uncounted,
        cites=result.cites,
        marker=partial(drop_marker, lines=partial(_name_hole, result)),
        outline=result.outline,
        has_tail=not result.parts,
    )
    return result, clipped


def _name_images(context: ContextManager) -> dict[bytes, str]:
    """Return the name by which the model knows each image of the window."""
    parts = (part for item in context.conversation.items for part in item.message.parts)
    return {part.data: f"the {part.origin or f'attached {neutralize(part.name)}'}" for part in parts}


def _refer_to_attachment(context: ContextManager, text: str) -> str:
    """Return the `text` of a file with a pointer in place of what an attachment in the window shows of it, "" if none
    shows nearly all of it."""
    for item in context.conversation.items:
        content = item.message.content if item.message.role is Role.USER and item.form is ItemForm.FULL else ""
        for attached_text in find_attached_texts(content):
            attached = content[attached_text.start : attached_text.end].removesuffix("\n")
            if attached in text and len(text) - len(attached) < MIN_TEXT <= len(attached):
                name = f"the attached {neutralize(attached_text.name)}"
                pointer = f"{SAME}: see {name} above. If that text is no longer there, repeat the call.]"
                return f"{pointer}\n{text.replace(attached, '', 1)}".rstrip("\n")
    return ""


def _name_hole(result: ToolResult, start: int, end: int) -> str:
    """Return the lines of a hole in text of files, as `read_file` takes them if it shows several parts; "" for other
    text."""
    text = result.text
    if not result.parts:
        return "" if result.first_line is None else line_namer(text, result.first_line)(start, end)
    low, high = text.count("\n", 0, start), text.count("\n", 0, max(start, end - 1))
    missing: dict[str, list[str]] = {}
    for part in result.parts:
        first = max(part.first, part.number + low)
        last = min(part.first + part.count - 1, part.number + high)
        if first <= last:
            missing.setdefault(one_line(part.name), []).append(f"{first}-{last}")
    return ", ".join(f"{path}:{','.join(spans)}" for path, spans in missing.items())


def _is_in_window(
    context: ContextManager,
    find_tool: FindTool,
    tool: Tool,
    call: ToolCall,
    text: str,
    pointer: str,
) -> bool:
    """Return True if the newest result for the same paths or of the same command, of an earlier step of the window,
    shows the very text of this one, and no edit of these paths was called since.

    The texts themselves are compared, so that what was cut, pruned, summarized or taken back never counts.
    """
    items, paths = context.conversation.items, _paths(tool, call)
    step = max((place for place, item in enumerate(items) if item.message.tool_calls), default=0)
    if text not in [item.message.content for item in items[:step]]:
        return False
    calls = {
        tool_call.id: tool_call
        for item in items[:step]
        for tool_call in item.message.tool_calls
        if tool_call.name == call.name
    }
    for item in reversed(items[:step]):
        for tool_call in item.message.tool_calls:
            called_tool = find_tool(tool_call.name)
            if (
                called_tool
                and called_tool.effect is Effect.EDIT
                and not paths.isdisjoint(_paths(called_tool, tool_call))
            ):
                return False
        before = calls.get(item.message.tool_call_id or "")
        if before is not None and _paths(tool, before) == paths and item.message.content != pointer:
            return item.form is ItemForm.FULL and item.message.content == text
    return False


def _paths(tool: Tool, call: ToolCall) -> set[str]:
    """Return the paths of a call, or the command that it runs."""
    if tool.runs_commands:
        return {str(call.arguments.get(tool.subject))}
    return {os.path.normpath(str(path)) for path in tool.find_paths(call.arguments)}
