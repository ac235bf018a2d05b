"""Open the ledger, find the session and the recipe of a run."""

from __future__ import annotations

from functools import partial

from nexus_cli.config.ledger_place import ledger_exists, ledger_place
from nexus_cli.core.errors import InUseError, LedgerAwayError, NexusError, UsageError
from nexus_cli.core.front_ends import FRONTS, RUN
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.ledger.store import read_facts
from nexus_cli.sections.find_recipe import TRUST, recipe_for
from nexus_cli.sections.recipe import Recipe
from nexus_cli.session.options import Options


def open_ledger(options: Options, notices: list[str]) -> Ledger:
    """Open the person's ledger, or one in memory if nothing is to be saved or the ledger cannot be written.

    A session may be resumed from a read-only ledger, which `save` off opens for it; else it still has the person's
    facts. Raises `NexusError("ledger", ...)` if that cannot be read either, or on any failure with `require_save`.
    """
    if not options.save and needs_ledger(options) and ledger_exists(ledger_place()):
        ledger = Ledger.open_for_reading(ledger_place())
        ledger.record_in_memory()
        return ledger
    if not options.save:
        ledger = Ledger.open(None)
        ledger.facts.borrow(read_facts(ledger_place(), options.cwd))
        return ledger
    try:
        ledger = _open_own(options)
    except NexusError as error:
        if options.require_save:
            raise
        if not needs_ledger(options):
            return open_instead(error, notices)
        ledger = Ledger.open_for_reading(ledger_place())
        notices.append(f"{error.message}; later messages are kept in memory and lost when the session ends")
        return ledger
    notices.extend(ledger.notices)
    return ledger


def _open_own(options: Options) -> Ledger:
    """Open the person's ledger; wait for a server that is away as the front end does."""
    while True:
        try:
            return Ledger.open(ledger_place())
        except LedgerAwayError as error:
            if options.wait_for_ledger is None or not options.wait_for_ledger(error):
                raise


def needs_ledger(options: Options) -> bool:
    """True if this run cannot start without the ledger on disk."""
    return options.require_save or bool(options.resume) or options.newest


def open_instead(error: NexusError, notices: list[str]) -> Ledger:
    """Open the ledger in memory of a session whose own cannot be used."""
    notices.append(f"{error.message}; the session is kept in memory and lost when it ends")
    return Ledger.open(None)


def find_session(ledger: Ledger, options: Options) -> SessionInfo | None:
    """Return the session to resume, None for a new one. Raises `UsageError` if it does not exist."""
    if options.resume:
        return ledger.find_session(options.resume)
    if not options.newest:
        return None
    folder = str(options.cwd)
    newest = ledger.newest_session(folder, runs=options.front == RUN)
    if newest is None:
        why = f"there is no session in {options.cwd}"
        hint = "Omit --continue to start a session, or see `nexus sessions list --all`"
        if run := ledger.newest_session(folder):
            why = f"there is no session in {options.cwd}, only runs of `nexus ask`"
            hint = f"`nexus ask -c` continues the newest run; to open it here: nexus -r {ledger.short_ids([run.id])[0]}"
        raise UsageError("nothing to continue", why, hint)
    return newest


def recipe_of(info: SessionInfo | None, options: Options) -> tuple[Recipe, tuple[str, ...]]:
    """Load the recipe of the resumed session of `info` (None: a new one); also return notices.

    A session keeps its recipe, with its limits, unless the person names another. Raises as `load_recipe` does; if the
    session's recipe is missing or broken, the error explains how to resume.
    """
    load = partial(recipe_for, cwd=options.cwd, with_agents=bool(options.spawner or (info and info.spawner)))
    if options.recipe or info is None:
        return load(options.recipe or options.front)
    recipe_name = info.recipe
    try:
        return load(options.front if recipe_name in FRONTS and options.front else recipe_name)
    except NexusError as error:
        why = f"the session's limits come from its recipe: {error.message}"
        hint = "Continue with another recipe: --recipe ask"
        hint = f"{TRUST}; or continue with another recipe: --recipe ask" if error.hint == TRUST else hint
        raise NexusError(error.kind, f"session {info.id} cannot continue", why, hint) from error


def lock_session(ledger: Ledger, session: SessionInfo) -> None:
    """Lock the session for this process. Raises `InUseError` if another process has it open."""
    if not ledger.lock(session.id):
        shown_id = ledger.short_ids([session.id])[0]
        raise InUseError(
            f"session {shown_id} is open elsewhere",
            "another process is using the session",
            f"Wait for that process, or make a copy: nexus sessions fork {shown_id}",
        )
