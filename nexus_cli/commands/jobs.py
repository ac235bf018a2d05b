"""The background commands of the session. `session/session_jobs.py` runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from nexus_cli.commands.arguments import SessionSource, read_log
from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import ActReport, Noun, Report, Source, TextReport, Verb, print_act, report_line
from nexus_cli.core.json_value import JsonDict, JsonObject, ReportOfSession
from nexus_cli.core.memo_kinds import JOB
from nexus_cli.core.option import Argument
from nexus_cli.core.services import Jobs
from nexus_cli.reports.text.blocks import Blocks, Table

JobId = Annotated[str, Argument("ID", "The job's id.")]


class JobsReport(ReportOfSession):
    """The background commands of a session."""

    jobs: Sequence[Annotated[JsonDict, "session.session_jobs.JobObject"]]


def build_list(source: Source) -> Report[JobsReport]:
    """List the background commands of a session. They end with the session."""
    from nexus_cli.session.session_jobs import recorded_jobs  # noqa: PLC0415  (the tools: few sessions have jobs)

    session = source.session()
    if source.live and source.live.jobs:
        rows = source.live.jobs.describe_all()
    else:
        rows = recorded_jobs(read_log(source), () if source.live else source.ledger.find_locked([session]))
    return Report("jobs", {"version": 1, "session": session, "jobs": rows})


async def show_job(context: CommandContext, job: JobId) -> Report[JobsReport | TextReport]:
    """Print the last lines of a job."""
    return await _manage(context, "show", job)


async def open_job(context: CommandContext, job: JobId) -> Report[JobsReport | ActReport]:
    """Let your browser reach the server of a job at 127.0.0.1."""
    return await _manage(context, "open", job)


async def stop_job(context: CommandContext, job: JobId) -> Report[JobsReport | ActReport]:
    """Stop a background command."""
    return await _manage(context, "stop", job)


async def _manage(context: CommandContext, act: str, job: str) -> Report[Any]:
    """Do something with a job, and report what came of it; list the jobs if there are none."""
    session = context.session
    if session.jobs is None and session.conversation.memos(JOB):
        session.services.find(Jobs)  # those of earlier processes, before the first message
    jobs: Any = context.session.jobs
    if jobs is None:
        return build_list(SessionSource(context))
    result = await {"show": jobs.show, "open": jobs.open_port, "stop": jobs.stop}[act](job)
    if result.error:
        raise usage_error("jobs", f"{act} {job}".strip(), result.error.rstrip("."), "/jobs lists the jobs")
    return report_line(job, result.output) if act == "show" else print_act(result.output, job)


def jobs_text(value: JsonObject) -> Blocks:
    """List the jobs, each on one line where there is room."""
    none = "No jobs. The model starts jobs with bash's `background` option."
    return [Table({"id": "id", "state": "how", "command": "name"}, value["jobs"], none)]


def _complete_jobs(source: Source) -> Sequence[str]:
    return [row["id"] for row in build_list(source).value["jobs"]]


def _complete_running(source: Source) -> Sequence[str]:
    jobs = source.live.jobs if source.live else None
    return jobs.running() if jobs else ()


NOUN = Noun(
    "jobs",
    "run",
    (
        Verb(build_list, "list", of_session=True),
        Verb(show_job, "show", complete=_complete_jobs),
        Verb(open_job, "open", complete=_complete_running),
        Verb(stop_job, "stop", complete=_complete_running),
    ),
    "List, read, open or stop background commands.",
    aliases=("job", "tasks", "bashes", "ps"),
)
