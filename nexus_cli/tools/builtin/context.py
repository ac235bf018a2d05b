"""`context`: show the model its own budget and sections, or one section in a fuller form.

The text comes as a result; the system text stays as it was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from nexus_cli.core.elide import Count, cut_piece, name_first, token_bound
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Assembly, TextCounter
from nexus_cli.core.tool import ToolContext

_HEADER = 64
"""Tokens reserved for the line with the piece's range."""
_SECTIONS, _DROPS = 60, 20
"""Most sections and (newest) drops listed."""


@dataclass(frozen=True, slots=True)
class ContextArguments:
    """The arguments of `context`."""

    section: str = ""
    form: Annotated[Literal["full", "shortened", "outline", "pointer"], {"sent": False}] = "full"


async def run(arguments: ContextArguments, context: ToolContext) -> ToolResult:
    """Return the overview, or the text of one section up to the cap of a result."""
    service = context.service(Assembly)
    name = arguments.section
    if not name:
        return ToolResult(_overview(service.contents()))
    section_text = await service.section(name, arguments.form)
    if section_text is None:
        ids = [str(section["id"]) for section in service.contents()["sections"]]
        known_ids = name_first(ids, _SECTIONS) or "none"
        return ToolResult(error=f"there is no section {name!r}; there are: {known_ids}")
    text, drop = section_text
    if not drop:
        return ToolResult(f"[{name} is whole in this conversation already]")
    counter = context.services.get(TextCounter)
    count: Count = token_bound if counter is None else counter.count
    piece = await asyncio.to_thread(cut_piece, text, 0, len(text), max(16, context.output_cap - _HEADER), count)
    continuation = ""
    if piece.end < piece.total:
        is_full = arguments.form == "full"  # offsets of a shorter form do not fit the text of the drop
        continuation = (
            f'; next: recall("{drop}", "{piece.end}:{piece.total}")' if is_full else f'; all of it: recall("{drop}")'
        )
    return ToolResult(f"[{name}, characters 0:{piece.end} of {piece.total}{continuation}]\n{piece.text}", cites=drop)


def _overview(overview: JsonObject) -> str:
    budget = overview["budget"]
    used = budget["used"]
    layers = ", ".join(f"{name} {used[name]:,}" for name in ("system", "tools", "history", "event"))
    lines = [
        f"budget: {used['total']:,} of {budget['available']:,} tokens used ({layers}), {budget['remaining']:,} free, "
        f"pressure {budget['pressure']}",
        "sections:",
    ]
    sections = [section for section in overview["sections"] if not section.get("off")]
    lines += [f"  {_section(section)}" for section in sections[:_SECTIONS]]
    if len(sections) > _SECTIONS:
        lines.append(f"  and {len(sections) - _SECTIONS} more")
    return "\n".join(lines + _drops(overview["drops"]))


def _section(section: JsonObject) -> str:
    short = section["form"] != "full"
    tokens = f"{section['tokens']:,}" + (f" of {section['full_tokens']:,}" if short else "")
    drop = f" ({section['drop']})" if section.get("drop") else ""
    return f"{section['id']}: {section['form']}, {tokens} tokens{drop}"


def _drops(drops: Sequence[JsonObject]) -> list[str]:
    if not drops:
        return ["left out: nothing"]
    again = sum(1 for drop in drops if drop["recalls"])
    lines = [f"left out, {again} of {len(drops)} asked for again (tokens are estimated); recall(id) reads a drop:"]
    lines += [f"  {drop['id']}: {drop['what']}, {drop['tokens']:,} tokens" for drop in drops[-_DROPS:]]
    if len(drops) > _DROPS:
        lines.append(f"  and {len(drops) - _DROPS} older")
    return lines
