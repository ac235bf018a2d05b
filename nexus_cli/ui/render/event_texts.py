"""One-line texts for events, as both front ends print them: a compaction, remembered facts, refused calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.core.event import CompactionDone
from nexus_cli.core.limits import LEVELS
from nexus_cli.ui.reports.lines import Value, dollars, plural

NAMED = 5
"""Named calls and reasons at most."""


def describe_kept(kept: Mapping[str, Any]) -> list[str]:
    """Return what the window keeps after a compaction, and what is left out with its drop."""
    drops = list(kept.get("drops") or ())
    left = _left(kept["words_left"], drops[:1], kept["words_part"])
    parts = [f"your {plural(int(kept['words']), 'message')} word for word{left}"]
    record = [plural(int(kept["files"]), "file")] if kept["files"] else []
    failing = f" ({kept['failing']:,} failing)" if kept["failing"] else ""
    record += [plural(int(kept["commands"]), "command") + failing] if kept["commands"] else []
    if record or kept["record_left"]:
        parts.append(f"{', '.join(record) or 'nothing'} from the record" + _left(kept["record_left"], drops[1:2]))
    return [*parts, f"summary {kept['summary']:,}"]


def _left(number: int, drop: Sequence[str], part: int = 0) -> str:
    """Return what is left out and where it can be read; `part` of it stands in part."""
    told = [f"{number - part:,} earlier"] if number > part else []
    told += [f"{part:,} in part"] if part else []
    return f", {', '.join(told)}: recall({', '.join(drop)})" if told else ""


def describe_compaction_end(event: CompactionDone) -> str:
    """Return how a compaction ended: the figures, or why it was not accepted."""
    if not event.ok:
        paid = f"; {dollars(event.cost_usd)} was paid for the summary" if event.cost_usd else ""
        after = "What does not fit is cut out instead" if event.cut else "Nothing was changed"
        return f"not compacted: {event.why.rstrip('.')}{paid}. {after}"
    text = f"compacted: {event.before:,} -> {event.after:,} tokens"
    text += f" for {dollars(event.cost_usd)}" if event.cost_usd else ""
    return " · ".join([text, *describe_kept(event.kept)] if event.kept else [text])


def describe_told_facts(plan: Value) -> str:
    """Return the remembered facts that a request adds on one line; "" for none."""
    named = [f'{one["id"]} "{one["text"]}"' for one in plan.get("facts") or ()]
    return f"told the model: {', '.join(named)}" if named else ""


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
