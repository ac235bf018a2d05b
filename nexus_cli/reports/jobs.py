"""Show the background commands of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from nexus_cli.core.entry import Memo, MemoSource
from nexus_cli.core.json_value import JsonDict, JsonObject, ReportOfSession
from nexus_cli.core.memo_kinds import JOB
from nexus_cli.core.running_workers import RUNNING
from nexus_cli.reports.text.blocks import Blocks, Table


class JobsReport(ReportOfSession):
    """The background commands of a session."""

    jobs: Sequence[Annotated[JsonDict, "session.session_jobs.JobObject"]]


def job_ends(source: MemoSource) -> Iterator[tuple[Memo, str]]:
    """Yield the end of each background command of a session: its first memo, and the job with its state in words."""
    ends = [memo for memo in source.memos(JOB) if memo.value["state"] != RUNNING or memo.value.get("told")]
    if not ends:
        return
    from nexus_cli.session.session_jobs import recorded_jobs  # noqa: PLC0415  (few sessions have jobs)

    jobs = {job["id"]: job for job in recorded_jobs(source)}
    for name, memo in {memo.value["id"]: memo for memo in reversed(ends)}.items():
        yield memo, f"{name} ({jobs[name]['name']}) {jobs[name]['how']}"


def jobs_text(value: JsonObject) -> Blocks:
    """List the jobs, each on one line where there is room."""
    none = "No jobs. The model starts jobs with bash's `background` option."
    return [Table({"id": "id", "state": "how", "command": "name"}, value["jobs"], none)]
