"""Report the background commands of a session: `SessionJobs.describe_all` as `jobs`."""

from __future__ import annotations

from nexus_cli.reports.text.lines import Value, table


def jobs_text(value: Value, width: int) -> str:
    """List the jobs, each on one line where there is room."""
    return "\n".join(table([("id", "state", "command"), *value["jobs"]], width))
