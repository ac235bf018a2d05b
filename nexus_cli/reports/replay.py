"""Text of `nexus replay`."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.reports.text.lines import Value, filled, plural

ONE_LINE = 1 << 20
FEW = 5
"""Most steps that are named."""


def replay_text(value: Value, width: int = ONE_LINE) -> str:
    """Return one sentence, and one more for each finding of `--wire`; on the command line each on its own line, for
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
    """Return the findings of `--wire` in one or a few sentences; requests beside the conversation are named by their
    lane."""
    lanes = [("", value), *((f" of a side request ({one['agent']})", one) for one in value.get("beside", ()))]
    equal = sum(int(one["equal"]) for _, one in lanes)
    compared = equal + sum(len(one["differ"]) for _, one in lanes)
    if not compared:
        parts = [f"No body could be compared ({value['library']})."]
    else:
        parts = [f"{equal} of {compared} bodies, made by {value['library']}, match what was sent."]
    parts += [f"Different: {_steps(one['differ'])}{whose}." for whose, one in lanes if one["differ"]]
    for whose, one in lanes:
        parts += [f"Not compared: {_steps(steps)}{whose}, because {why}." for why, steps in one["skipped"].items()]
    return parts


def _steps(steps: Sequence[int]) -> str:
    named = ", ".join(map(str, steps[:FEW])) + (", ..." if len(steps) > FEW else "")
    return f"{'request' if len(steps) == 1 else 'requests'} {named}"
