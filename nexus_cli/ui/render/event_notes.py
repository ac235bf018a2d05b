"""One-line texts of the REPL for events, with slash commands in the place of shell commands.

`print/progress_lines.py` has their form on stderr.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nexus_cli.core.event import CacheResult, CompactionDone, Outcome
from nexus_cli.ui.cells import cut, one_line, wrap
from nexus_cli.ui.render.event_texts import describe_compaction_end, describe_denials, describe_told_facts
from nexus_cli.ui.render.status_line import dollars, short

MISSED_LEAST = 4096
"""Tokens below which a miss is not worth a line."""
CACHED_LEAST = 1024
"""Tokens below which providers keep nothing in a cache."""


def describe_new_facts(plan: Mapping[str, Any], width: int) -> str:
    """Return the remembered facts that the model is told now, in at most two lines of `width` cells; "" for none."""
    width, text = max(4, width), one_line(describe_told_facts(plan))
    lines = list(wrap(text, width)) if text else []
    return "\n".join(lines if len(lines) < 3 else [lines[0], cut(" ".join(lines[1:]), width, "...")])


def describe_compaction(event: CompactionDone) -> str:
    """Return how a compaction ended."""
    return use_slash_names(describe_compaction_end(event))


def describe_cache_miss(event: CacheResult) -> str:
    """Return the line for a cache miss; "" where it did what was expected, or where we changed the request: what did
    that has told so."""
    if event.why:
        told = f"cache missed: {event.missed:,} tokens sent anew, {event.why}"
        return told if event.missed >= MISSED_LEAST and not event.ours else ""
    if event.expected < CACHED_LEAST or event.read * 2 >= event.expected:
        return ""
    return f"cache missed: {event.expected - event.read:,} tokens sent anew"


def describe_refusals(outcome: Outcome) -> str:
    """Return all refused calls of a turn; "" when there are none."""
    return describe_denials(outcome.denied, "/permissions")


def describe_failure(outcome: Outcome) -> str:
    """Return why a turn ended and what a person can do; "" when it was done."""
    if not outcome.error:
        return ""
    hint = use_slash_names(outcome.error.get("hint", "")).rstrip(".")
    return outcome.error.get("message", "").rstrip(".") + "." + (f" {hint}." if hint else "")


def describe_totals(outcome: Outcome, dot: str) -> str:
    """Return what a turn took; "" where that is not worth a line."""
    used = outcome.usage
    if not (outcome.steps > 1 or outcome.seconds > 10 or used.cost_usd):
        return ""
    steps = "1 step" if outcome.steps == 1 else f"{outcome.steps:,} steps"
    facts = [steps, format_duration(outcome.seconds), f"{short(used.input)} in", f"{short(used.output)} out"]
    if used.cost_usd is None or used.cost_usd:
        facts.append(dollars(used.cost_usd))
    return f" {dot} ".join(facts)


def format_duration(seconds: float) -> str:
    """Return a time for a person."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


HERE = {
    "nexus memory accept": "/memory accept",
    "nexus memory forget": "/memory forget",
    "nexus memory list": "/memory",
    "nexus sessions list": "/sessions",
    "nexus model list": "/model",
    "nexus cache": "/cache",
    "nexus context": "/context",
    "nexus drops show": "/drops",
    "nexus drops": "/drops",
}
"""Commands that there are as both, by what they are called in a shell; a longer one before its beginning."""
_NAMES = "|".join(map(re.escape, HERE))
_SHELL = re.compile(rf"`({_NAMES})`|\b({_NAMES})(?![\w-])")


def use_slash_names(text: str) -> str:
    """Return `text` with the slash form of each command of the shell that a session has too."""
    return _SHELL.sub(lambda found: HERE[found[1] or found[2]], text)
