"""The one line on all refused calls of a turn: which, what refused them, and what really lets them run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nexus_cli.core.limits import LEVELS

NAMED = 5
"""Calls, and reasons, that are told."""


def describe_denials(denied: Sequence[Mapping[str, str]], switch: str) -> str:
    """Return the line, "" where nothing was refused; `switch` is how this front end sets the level of what is
    allowed."""
    if not denied:
        return ""
    calls = "; ".join(f"{call.get('tool', '')} {call.get('subject', '')}".strip() for call in denied[:NAMED])
    more = f" and {len(denied) - NAMED} more" if len(denied) > NAMED else ""
    count = "1 call was" if len(denied) == 1 else f"{len(denied)} calls were"
    return " ".join([f"{count} refused: {calls}{more}.", *_ways(denied, switch)])


def _ways(denied: Sequence[Mapping[str, str]], switch: str) -> list[str]:
    """Return what lets them run, or why nothing does, each a sentence."""
    levels = [call["allow"] for call in denied if call.get("allow")]
    others = [call.get("hint") or call.get("why", "") for call in denied if not call.get("allow")]
    told = []
    if levels:
        which = f"{len(levels)} of them" if others else "it" if len(denied) == 1 else "them"
        told.append(f"{switch} {max(levels, key=LEVELS.index)} lets {which} run.")
    if others := [one.rstrip(".") for one in dict.fromkeys(others) if one][:NAMED]:
        text = "; ".join(others)
        told.append(f"{text[0].upper()}{text[1:]}.")
    return told
