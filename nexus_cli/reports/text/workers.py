"""Text of a session's workers: task, progress, figures and cost."""

from __future__ import annotations

from nexus_cli.reports.text.lines import Value, cut_line, dollars, filled, plural, short, table

NONE = "No worker was started in this session."
TASK = 200
"""Most characters of a task."""


def workers_text(value: Value, width: int) -> str:
    """Return a line for each worker, and the command that opens one."""
    rows = [("id", "state", "steps", "tokens", "cost", "task")]
    for one in value.get("workers", ()):
        task = cut_line(one["task"], TASK)
        now = f" · {cut_line(one['doing'], TASK)}" if one["doing"] else ""
        figures = (f"{one['steps']:,}", short(one["tokens"]), dollars(one["cost_usd"]))
        rows.append((str(one["id"]), str(one["state"]), *figures, f"{task}{now}"))
    if len(rows) == 1:
        return "\n".join(filled(NONE, width))
    way = "/agents ID opens one; /agents steer ID WORDS, stop ID, review ID"
    return "\n".join([*table(rows, width, right=(2, 3, 4)), "", *filled(way, width)])


def worker_lines(value: Value, width: int) -> list[str]:
    """Return a line for each worker of a session that is shown in full."""
    lines = []
    for one in value.get("workers", ()):
        figures = [plural(one["steps"], "step"), f"{one['tokens']:,} tokens", dollars(one["cost_usd"])]
        facts = [f"{one['id']} {one['state']}", *figures, f"session {one['session'] or '-'}", str(one["task"])]
        lines.append(cut_line(f"worker {' · '.join(facts)}", width))
    return lines
