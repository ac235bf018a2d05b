"""`nexus replay`: whether every request of a session is what was sent."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.ui.reports.lines import Value, filled, plural

ONE_LINE = 1 << 20
FEW = 5
"""So many steps are named."""


def replay_text(value: Value, width: int = ONE_LINE) -> str:
    """One sentence, and for each thing that `--wire` found one more; on the command line each on a line of its own, for
    `grep`."""
    session, count = value["session"], int(value["requests"])
    if not value["ok"]:
        text = f"Session {session} differs from what was sent: {value['first_difference']}"
    elif not count:
        text = f"Session {session} has sent no request: there is nothing to compare."
    else:
        text = f"{plural(count, 'request')} of session {session} rebuilt: every line is as it was sent."
    told = [text, *(_wire(value["wire"]) if "wire" in value else ())]
    return "\n".join(line for sentence in told for line in filled(sentence, width))


def _wire(value: Value) -> list[str]:
    """What `--wire` found, in one or a few sentences; what was asked beside the conversation is named by its lane."""
    lanes = [("", value), *((f" of side lane {one['lane']} ({one['agent']})", one) for one in value.get("beside", ()))]
    equal = sum(int(one["equal"]) for _, one in lanes)
    compared = equal + sum(len(one["differ"]) for _, one in lanes)
    if not compared:
        parts = [f"No body could be compared ({value['library']})."]
    else:
        parts = [f"{equal} of {compared} bodies, made by {value['library']}, equal what was sent."]
    parts += [f"Different: {_steps(one['differ'])}{whose}." for whose, one in lanes if one["differ"]]
    for whose, one in lanes:
        parts += [f"Not compared: {_steps(steps)}{whose}, because {why}." for why, steps in one["skipped"].items()]
    return parts


def _steps(steps: Sequence[int]) -> str:
    named = ", ".join(map(str, steps[:FEW])) + (", ..." if len(steps) > FEW else "")
    return f"{'request' if len(steps) == 1 else 'requests'} {named}"
