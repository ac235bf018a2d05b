"""`/jobs`: the background commands of the session. `session/session_jobs.py` runs them."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.core.memo_kinds import JOB
from nexus_cli.core.services import Jobs

STOP, OPEN = "stop", "open"


async def show_jobs(context: CommandContext, rest: str) -> None:
    """List background commands; read or stop one.

    ID shows the last lines of a command, `open ID` forwards its server's port to 127.0.0.1 for your browser, `stop ID`
    ends it. All commands end with the session.
    """
    jobs, state = context.session.jobs, context.session.state
    if jobs is None and state.engine.conversation.memos(JOB):
        state.services.find(Jobs)  # those of earlier processes, before the first message
        jobs = context.session.jobs
    if jobs is None:
        context.say("No jobs. The model starts jobs with the option `background` of bash.")
        return
    if not rest:
        context.show("jobs", {"version": 1, "jobs": jobs.describe_all()})
        return
    word, _, name = rest.partition(" ")
    acts = {STOP: jobs.stop, OPEN: jobs.open_port}
    result = await (acts[word](name.strip()) if word in acts else jobs.show(rest))
    if result.error:
        raise usage_error("jobs", rest, result.error.rstrip("."), "/jobs lists them")
    context.say(result.output)


def _complete_jobs(context: CommandContext) -> Sequence[str]:
    """Return ids, and `stop` and `open` with those of running jobs."""
    jobs = context.session.state.services.made(Jobs)
    rows = jobs.rows() if jobs is not None else []
    running = [row["id"] for row in rows if row["state"] == "running"]
    return [*(row["id"] for row in rows), *(f"{word} {one}" for word in (STOP, OPEN) for one in running)]


COMMANDS = (
    Command("jobs", "run", show_jobs, "[ID | open ID | stop ID]", complete=_complete_jobs, authority=Authority.ACTS),
)
