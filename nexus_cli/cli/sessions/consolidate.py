"""`nexus memory consolidate`: let a model clean up memory in a separate session, and print the changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from nexus_cli.cli import process
from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.loop_watchdog import LoopWatchdog
from nexus_cli.config.paths import working_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.session.acts.memory import Consolidation
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.ui.print.stream import QuietStream
from nexus_cli.ui.print.turn_progress import TurnLines

RECIPE = "sleep_consolidate"


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """The result of a review of the facts."""

    json_fields: ClassVar = "version session *:result"
    version: ClassVar[Literal[1]] = 1
    session: str
    """The session in which the model reviewed the facts."""
    result: Consolidation


def consolidate(model: str = "") -> ConsolidationReport:
    """Run the consolidation and return its changes; raise `NexusError` without a model or facts, or if it fails."""
    folder = working_folder()
    process.block_imports_from(str(folder))
    Consolidation.check(folder)
    settings = settings_in(folder)
    chosen = choose_model(model, settings)
    options = Options(folder, chosen.model, settings.effort, RECIPE, require_save=True)
    session = open_session(options, settings, approver=None)
    result = Consolidation()
    run_in_loop(_follow(session, result, TurnLines(QuietStream(2), settings.ui.theme)))
    return ConsolidationReport(session.id, result)


async def _follow(session: Session, result: Consolidation, remarks: TurnLines) -> None:
    remarks.session = session
    interrupt = Interrupt()
    watchdog = LoopWatchdog(lambda: session)
    interrupt.install(lambda: session.cancel(process.find_stopper(interrupt.signal)), on_arrival=watchdog.note_signal)
    for notice in session.notices:
        remarks.print_notice(notice)
    try:
        with watchdog:
            async with remarks.drawn():
                async for event in session.act(result):
                    remarks.feed(event)
    except NexusError as error:
        _discard(session, result)
        if interrupt.signal:
            raise NexusError(error.kind, error.what, error.why, error.hint, exit_status=interrupt.status) from error
        raise
    finally:
        interrupt.uninstall()
        await session.aclose()


def _discard(session: Session, result: Consolidation) -> None:
    """Delete the session if it changed nothing and cost no tokens."""
    ledger = session.ledger
    if result.remembered or result.forgotten:
        return
    try:
        rows = [row for log in ledger.logs(session.id) for row in log.requests()]
        if not any(row.usage and (row.usage.input or row.usage.output) for row in rows):
            ledger.delete_session(session.id)
    except NexusError:
        pass  # an empty session may stay in the list
