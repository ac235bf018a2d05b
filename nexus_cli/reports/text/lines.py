"""Format figures, causes and lines that are cut, for reports and the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.elide import plural as plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.usage import dollars as dollars
from nexus_cli.text.cells import cut, one_line

MAX_MEMBERS = 20
"""Most members of a space that are named."""

BACK_IN_WINDOW = "back in the window"
"""Note for a drop whose messages are in the window again."""


def number(value: Any) -> str:
    """Format a number with thousands separators, `-` if it is unknown."""
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def short(tokens: int) -> str:
    """Format a number of tokens in few characters: 312, 12.3k, 112k, 1.2M."""
    if tokens < 1000:
        return str(tokens)
    value, unit = (tokens / 1000, "k") if tokens < 999_500 else (tokens / 1_000_000, "M")
    return (f"{value:.1f}".removesuffix(".0") if value < 99.95 else f"{value:.0f}") + unit


def short_thousands(tokens: int) -> str:
    """Format tokens in few characters; from 10,000 on in whole thousands: `9.9k`, `12k`, `1.2M`."""
    return short(tokens if tokens < 9_950 else round(tokens, -3))


def describe_tokens(used: JsonObject) -> str:
    """Describe the tokens of a request: `1.6k in (1.5k cached), 14 out`."""
    cached = f" ({short(used['cache_read'])} cached)" if used["cache_read"] else ""
    return f"{short(used['input'])} in{cached}, {short(used['output'])} out"


def describe_attached(value: JsonObject) -> str:
    """Describe an attached file (`AttachedFile.to_json`) for a person: `a.py, 12 lines`."""
    path = str(value["path"])
    if "names" in value:
        return f"{path}, {plural(value['names'], 'name')}"
    if "lines" not in value:
        return f"{path}, {'an image' if value['type'] != 'text' else 'empty'}"
    first, last = value["lines"]
    span = f"{first}-{last}" if last > first else first
    place = f"{path}:{span}" if value.get("of") else path
    return f"{place}, {plural(last - first + 1, 'line')}"


def measure_attached(value: JsonObject) -> str:
    """Describe an attached file with its size: `a.py, 12 lines, 340 bytes`."""
    return f"{describe_attached(value)}, {plural(value['bytes'], 'byte')}"


CAUSES = {
    "section_budget": "over the section budget",
    "truncation": "window full",
    "compaction": "summarized",
    "output_cap": "shortened",
    "instruction_cap": "too long",
    "input_cap": "too long",
    "pruned": "old result",
    "limit": "over a limit",
    "server": "truncated by the server",
    "refused": "not accepted by the model",
}
"""Reasons for a drop in words, by `nexus_cli.core.entry.Cause`."""


def name_cause(cause: Any) -> str:
    """Return a cause in words; an unknown one unchanged."""
    return CAUSES.get(str(cause), str(cause))


BASES = {
    "reported": "reported by the provider",
    "estimate": "estimated",
    "reported+estimate": "reported by the provider, with an estimate of the newest messages",
}
"""Bases of a token count."""


PURPOSES = {
    "compact": "for summaries",
    "pre_compaction": "to save facts before a summary",
    "reflection": "for reflections",
    "goal_decompose": "for goals",
    "title": "for the title",
}
"""Purposes of side conversations by their agent; others have the agent's name."""


def name_basis(basis: Any) -> str:
    """Return the basis of a token count in words."""
    return BASES.get(str(basis), str(basis))


CONFINED = {
    "read": "sandboxed: read-only, no network",
    "write": "sandboxed: can write in the project, no network",
    "net": "sandboxed: can write in the project, network allowed",
    "none": "not sandboxed",
}
"""The rights of each sandbox profile, for people."""


def join_names(names: Sequence[str]) -> str:
    """Join names with commas, "none" for no name."""
    return ", ".join(names) or "none"


def limit(value: Any) -> str:
    """Format the value of a limit: `yes`, `no`, a list of names, a number, a level."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return join_names(list(map(str, value)))
    return number(value) if isinstance(value, int | float) else str(value)


def known_dollars(cost: float | None, known_cost: float) -> str:
    """Format a price for a person: `$0.0070+` if only that part is known, "" if none is."""
    if cost is None:
        return f"{dollars(known_cost)}+" if known_cost else ""
    return dollars(cost) if cost else "$0.00"


def list_components(cost: JsonObject | None) -> str:
    """List the components of a cost that are not zero, "" if they are unknown: `$0.0030 input, $0.0005 cached`."""
    return ", ".join(f"{dollars(amount)} {name}" for name, amount in (cost or {}).items() if amount)


def share(part: Any, total: Any) -> str:
    """Format `part` of `total` in percent, `-` if `total` is zero."""
    return f"{part / total:.1%}" if total and part is not None else "-"


def when(moment: Any) -> str:
    """Format a time of the ledger as local time, to the minute."""
    return format_local_minute(str(moment or ""))


def cut_line(text: Any, room: int) -> str:
    """Return `text` sanitized, on one line of at most `room` cells."""
    return cut(one_line(str(text or "")[: MAX_ZERO_WIDTH * max(1, room)]), max(0, room), "…")


MAX_ZERO_WIDTH = 8
"""Most zero-width characters of one cell before a line counts as full."""


TITLE = 60
"""Most cells of a worker's title."""


def worker_title(task: str) -> str:
    """Return the title of a worker: the first line of its task that has words, possibly cut."""
    return cut_line(next((line for line in task.split("\n") if line.strip()), "").strip(), TITLE)


def sandbox_line(value: JsonObject) -> str:
    """Describe the sandbox backend, or the reason that there is none, in one line without a full stop."""
    if value["backend"] == "none":
        return f"none; every command needs approval below level all ({value['why']})"
    return str(value["backend"])


def count_recalled(again: int, out: int, drops: int) -> str:
    """Count the drops still left out that were recalled, and those of all `drops` that are back."""
    if not out:
        return f"nothing is left out now: {'the drop is' if drops == 1 else f'all {drops:,} are'} {BACK_IN_WINDOW}"
    return f"{again:,} of {out:,} recalled" + (f", {drops - out:,} {BACK_IN_WINDOW}" if drops > out else "")


def describe_missed(value: JsonObject) -> str:
    """Say how many drops the status line counts, "" if all that are left out."""
    missed = value.get("missed")
    is_same = missed in (None, value.get("left_out"))
    return "" if is_same else f"; the status line counts {missed:,} (without tool outputs)"


def describe_drop(drop: JsonObject) -> str:
    """Describe a drop, or that it is back in the window."""
    return f"{BACK_IN_WINDOW}: {drop['what']}" if drop.get("back") else str(drop["what"])
