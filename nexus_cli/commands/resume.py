"""`/resume`: back to another session."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.arguments import require_ledger, resume_options
from nexus_cli.commands.command import Choice, Command, CommandContext
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import SessionInfo

MOST = 20
"""Sessions that are offered."""


async def run(context: CommandContext, rest: str) -> None:
    """Go on with another session.

    ID is an id, a unique beginning of one, or a name; without it choose among those of this folder. The last
    exchange is shown, and what is still open.
    """
    ledger = require_ledger(context)
    chosen = rest
    if not rest:
        others = _others(context)
        if not others:
            context.say("There is no other session in this folder; /sessions --all lists those of all folders.")
            return
        chosen = await context.choose("Which session?", [Choice(info.id, _label(info)) for info in others]) or ""
        if not chosen:
            return
    found = ledger.find_session(chosen)
    if found.id == context.session.id:
        context.say("This is the session already.")
        return
    await context.reopen(resume_options(context, resume=found.id, model="", effort="", recipe=""))


def _others(context: CommandContext) -> list[SessionInfo]:
    found = require_ledger(context).sessions(str(context.session.folder), MOST + 1)
    return [info for info in found if info.entries and info.id != context.session.id][:MOST]


def _label(info: SessionInfo) -> str:
    what = " ".join((info.name or info.first_text.split("\n\n<", 1)[0] or "(no words)").split())
    turns = f"{info.turns} turn{'' if info.turns == 1 else 's'}"
    return f"{info.updated[:16].replace('T', ' ')} UTC  {turns}  {what[:80]}"


def _ids(context: CommandContext) -> Sequence[str]:
    try:
        return [info.name if info.name and " " not in info.name else info.id for info in _others(context)]
    except NexusError:
        return ()


COMMAND = Command("resume", "session", run, "[ID]", idle=True, complete=_ids)
