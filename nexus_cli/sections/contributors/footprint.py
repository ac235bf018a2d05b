"""The work of the session in one line. It counts only work that is no longer in the window: the line changes with the
epoch, not with every turn, and is empty while the whole conversation is in the window."""

from __future__ import annotations

from nexus_cli.core.elide import one_line, plural
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections

MAX_NAMED = 5
"""Most tools that are named; the others are counted together."""


def read(sources: Sources) -> Value:
    """Return `turns`, and `calls`: pairs of a tool's name and its number of results."""
    footprint = sources.footprint()
    return {
        "turns": footprint.turns,
        "calls": [[one_line(name)[:40], count] for name, count in footprint.calls.items()],
    }


def render(value: Value, view: View) -> Sections:
    """Render `[nexus: earlier in this session: 12 turns, 87 tool calls (40 read_file, 30 bash, 17 edit_file)]`."""
    turns, calls = value["turns"], value["calls"]
    if not turns and not calls:
        return ()
    full = f"[nexus: {_text(turns, calls, len(calls))}]"
    pointer = f'[nexus: earlier in this session: recall("{DROP}")]'
    capped = len(calls) > MAX_NAMED
    short = (
        (f'[nexus: {_text(turns, calls, MAX_NAMED)}; all of them: recall("{DROP}")]', pointer) if capped else (pointer,)
    )
    forms = (full, *shrink_forms(short, view.count)) if capped else shrink_forms((full, *short), view.count)
    order, least = Phase.HISTORY, int(capped)
    return (
        Section("footprint", order, forms, Layer.EVENT, priority=85, sticky=True, source="the session", least=least),
    )


def _text(turns: int, calls: Value, most: int) -> str:
    """Return the line, with `most` of the tools named."""
    parts = [plural(turns, "turn")] if turns else []
    if calls:
        tool_counts = [f"{count} {name}" for name, count in calls[:most]]
        other_calls = sum(count for _, count in calls[most:])
        inside = ", ".join(
            [*tool_counts, f"{other_calls} other{'s' * (other_calls != 1)}"] if other_calls else tool_counts
        )
        parts.append(f"{plural(sum(count for _, count in calls), 'tool call')} ({inside})")
    return f"earlier in this session: {', '.join(parts)}"


CONTRIBUTORS = (Contributor("footprint", Layer.EVENT, read, render),)
