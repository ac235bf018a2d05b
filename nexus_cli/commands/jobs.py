"""The background commands of the session. `session/session_jobs.py` runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import Noun, Option, Source, Verb
from nexus_cli.core.memo_kinds import JOB
from nexus_cli.core.services import Jobs

JobId = Annotated[str, Option("ID", "The job's id.", is_argument=True)]


async def show_jobs(context: CommandContext, job: JobId = "") -> None:
    """List background commands, or read one.

    All of them end with the session.
    """
    if job:
        await _manage(context, "", job)
    elif (jobs := _find_jobs(context)) is not None:
        context.show("jobs", {"version": 1, "jobs": jobs.describe_all()})


async def open_job(context: CommandContext, job: JobId) -> None:
    """Let your browser reach the server of a job at 127.0.0.1."""
    await _manage(context, "open", job)


async def stop_job(context: CommandContext, job: JobId) -> None:
    """End a job."""
    await _manage(context, "stop", job)


def _find_jobs(context: CommandContext) -> Any:
    """Return the `SessionJobs`; if the session had none, say so and return None."""
    state = context.session.state
    if context.session.jobs is None and state.engine.conversation.memos(JOB):
        state.services.find(Jobs)  # those of earlier processes, before the first message
    if context.session.jobs is None:
        context.say("No jobs. The model starts jobs with the option `background` of bash.")
    return context.session.jobs


async def _manage(context: CommandContext, act: str, job: str) -> None:
    """Do something with a job, and say what came of it."""
    if (jobs := _find_jobs(context)) is None:
        return
    result = await {"": jobs.show, "open": jobs.open_port, "stop": jobs.stop}[act](job)
    if result.error:
        raise usage_error("jobs", f"{act} {job}".strip(), result.error.rstrip("."), "/jobs lists them")
    context.say(result.output)


def _complete_jobs(source: Source) -> Sequence[str]:
    jobs = source.live.jobs if source.live else None
    return [row["id"] for row in jobs.rows()] if jobs else ()


def _complete_running(source: Source) -> Sequence[str]:
    jobs = source.live.jobs if source.live else None
    return jobs.running() if jobs else ()


NOUN = Noun(
    "jobs",
    "run",
    (
        Verb(show_jobs, complete=_complete_jobs),
        Verb(open_job, "open", complete=_complete_running),
        Verb(stop_job, "stop", complete=_complete_running),
    ),
    aliases=("job", "tasks", "bashes", "ps"),
)
