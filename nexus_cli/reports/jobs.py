"""Show the background commands of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from nexus_cli.core.json_value import JsonDict, JsonObject, ReportOfSession
from nexus_cli.reports.text.lines import Lines, table


class JobsReport(ReportOfSession):
    """The background commands of a session."""

    jobs: Sequence[Annotated[JsonDict, "session.session_jobs.JobObject"]]


def jobs_text(value: JsonObject, width: int) -> Lines:
    """List the jobs, each on one line where there is room."""
    rows = [(one["id"], one["how"], one["name"]) for one in value["jobs"]]
    none = "No jobs. The model starts jobs with bash's `background` option."
    return table([("id", "state", "command"), *rows], width, none)
