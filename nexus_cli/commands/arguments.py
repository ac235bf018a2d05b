"""Helpers for several commands: the source of verbs, the session's ledger, options for reopening the session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nexus_cli.commands.command import CommandContext
from nexus_cli.commands.verb import Report, Source
from nexus_cli.config.paths import project_root
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import ALL, ASK, LEVELS, PLAN, Limits, parse_level

if TYPE_CHECKING:
    from pathlib import Path

    from nexus_cli.config.settings import Settings
    from nexus_cli.core.approval import Approver
    from nexus_cli.ledger import LaneLog
    from nexus_cli.permission.call_permission import CallPermission
    from nexus_cli.session.options import Options
    from nexus_cli.session.session import Session


class SessionSource(Source):
    """The open session of a slash command."""

    live: Session

    def __init__(self, context: CommandContext) -> None:
        """Raise `NexusError("ledger", ...)` without a ledger."""
        self._context, self.live, self.ledger = context, context.session, context.session.ledger
        self.is_served = context.options.served

    def folder(self) -> Path:
        return self.live.folder

    def settings(self) -> Settings:
        return self._context.settings

    def session(self) -> str:
        return self.live.id

    def approver(self) -> Approver | None:
        return None if self.is_served else self.live.dispatcher.approver

    def require_level(self, level: str, subject: str) -> None:
        refuse_above(highest_level(self.live), level, subject)

    def say(self, line: str) -> None:
        self._context.say(line[:1].upper() + line[1:])


def highest_level(session: Session) -> Limits:
    """Return the highest level of a session of a server; any level of another one."""
    return Limits(allow=None if session.has_no_ledger else session.options.most_allow)


def refuse_above(highest: Limits, level: str, subject: str) -> None:
    """Raise `NexusError("denied", ...)` if `subject` needs a level above the `highest` one of a server."""
    if not Limits(allow=level) <= highest:
        why = f"this server allows at most {highest.allow or ASK}"
        raise NexusError("denied", subject, why, f"To allow it: nexus serve --allow {level}")


def level_of(options: JsonObject) -> str:
    """Return the level at which a run or schedule with these options works. Its own rules may run any command."""
    level = parse_level(str(options.get("allow") or ASK))
    return ALL if options.get("rules") or level not in (PLAN, *LEVELS) else level


def read_log(source: Source) -> LaneLog:
    """Return the log of the session; the open one has its own, also after its ledger has failed."""
    return source.live.record if source.live else source.ledger.log(source.session())


def read_settings(source: Source) -> Settings:
    """Return the settings of the folder; a shell command prints their notices."""
    settings = source.settings()
    for notice in () if source.live else settings.notices:
        source.say(notice)
    return settings


def find_permission(source: Source) -> CallPermission:
    """Return the permission for calls: that of the open session, or that of a new session in the folder."""
    if source.live:
        return source.live.dispatcher.permission
    from nexus_cli.permission.call_permission import CallPermission  # noqa: PLC0415  (few verbs decide on calls)

    folder = source.folder()
    return CallPermission(folder, project_root(folder), sandbox=source.settings().sandbox)


def show_report(context: CommandContext, report: Report[Any]) -> None:
    """Show the report of a verb, and keep its value."""
    context.reported = report.value
    if report.form and not report.line:
        context.show(report.form, report.value)
    if line := report.line or report.note[:1].upper() + report.note[1:]:
        context.say(line)


def warn_if_stale(context: CommandContext) -> None:
    """Print a warning if the ledger has failed or nothing is saved: reports then lack the newest entries."""
    ledger, status = context.session.ledger, context.session.status()
    if not ledger.is_kept or status.saved:
        return
    try:
        until = f"request {ledger.log(context.session.id).step()}"
    except NexusError:
        until = "the last recorded request"
    now = f"the window now contains about {status.used:,} of {status.budget:,} tokens"
    context.say(f"Part of this session is not saved: this report ends with {until}; {now}.")


def resume_options(context: CommandContext, **changes: Any) -> Options:
    """Return the options for reopening the current session, with these changes."""
    unchanged: dict[str, Any] = {"resume": context.session.id, "newest": False, "model": context.session.model}
    return replace(context.options, **(unchanged | changes))


async def apply_settings(context: CommandContext) -> bool:
    """Read the settings again and apply them; return False if they are the same."""
    settings = settings_in(context.session.folder)
    if settings == context.settings:
        return False
    for line in filter(lambda line: line not in context.settings.notices, settings.notices):
        context.say(line)
    await context.reopen(resume_options(context), settings)
    return True
