"""Helpers for several commands: parsed arguments, the session's ledger, options for reopening the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import Report, Source
from nexus_cli.config.paths import project_root
from nexus_cli.core.errors import NexusError
from nexus_cli.permission.call_permission import CallPermission

if TYPE_CHECKING:
    from nexus_cli.ledger import LaneLog, Ledger
    from nexus_cli.session.options import Options

LONGEST_NAME = 100


def read_source(context: CommandContext) -> Source:
    """Return the source of reports on the open session; raise `NexusError("ledger", ...)` without a ledger."""
    session = context.session
    return Source(
        require_ledger(context),
        lambda: session.id,
        lambda: context.settings,
        session.tools,
        lambda: session.folder,
        live=session,
        say=lambda text: context.say(text[:1].upper() + text[1:]),
    )


def find_permission(source: Source) -> CallPermission:
    """Return what decides on calls: that of the open session, or that of a session in this folder."""
    if source.live:
        return source.live.dispatcher.permission
    folder = source.folder()
    return CallPermission(folder, project_root(folder), sandbox=source.settings().sandbox)


def show_report(context: CommandContext, report: Report[Any]) -> None:
    """Show the report of a verb."""
    context.show(report.form, report.value)


def split_act(rest: str) -> tuple[str, str]:
    """Split arguments into the first word in lower case and the text behind it."""
    word, _, text = rest.partition(" ")
    return word.casefold(), text.strip()


def parse_choice(name: str, rest: str, known: Sequence[str]) -> str:
    """Return `rest` as one of the `known` words, ignoring case."""
    if rest.casefold() not in known:
        raise usage_error(name, rest, f"it must be one of {', '.join(known)}")
    return rest.casefold()


def parse_session_name(name: str, rest: str) -> str:
    """Return `rest` as the name of a session."""
    if len(rest) > LONGEST_NAME:
        raise usage_error(name, rest, f"a name has at most {LONGEST_NAME} characters")
    return rest


def require_ledger(context: CommandContext) -> Ledger:
    """Return the ledger of the session; raise `NexusError("ledger", ...)` if there is none."""
    if context.session.ledger is None:
        raise _no_ledger()
    return context.session.ledger


def warn_if_stale(context: CommandContext) -> None:
    """Print a warning if the ledger has failed: its reports lack the entries since then."""
    ledger, status = context.session.ledger, context.session.status()
    if ledger is None or not ledger.is_kept or status.saved:
        return
    try:
        until = f"request {ledger.log(context.session.id).step()}"
    except NexusError:
        until = "the last recorded request"
    now = f"the window holds about {status.used:,} of {status.budget:,} tokens by now"
    context.say(f"The ledger has failed: this report ends with {until}; {now}.")


def require_record(context: CommandContext) -> LaneLog:
    """Return the log of the session; raise `NexusError("ledger", ...)` if there is none."""
    if context.session.record is None:
        raise _no_ledger()
    return context.session.record


def _no_ledger() -> NexusError:
    return NexusError("ledger", "this session has no ledger", "it was put together by hand", "Start nexus itself")


def resume_options(context: CommandContext, **changes: Any) -> Options:
    """Return the options for reopening the current session, with these changes."""
    same: dict[str, Any] = {"resume": context.session.id, "newest": False, "model": context.session.model}
    return replace(context.options, **(same | changes))


def has_sent_request(context: CommandContext) -> bool:
    """True if the session has sent a request."""
    ledger = require_ledger(context)
    return ledger.log(context.session.id).step() > 0
