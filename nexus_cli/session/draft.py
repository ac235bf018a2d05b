"""Open a session for inspection: it sends and changes nothing. `Engine.drafting` drafts what it would send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager

from nexus_cli.config.settings import Settings
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.approval import Answer, Defer, Question
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.request import Delta, ModelInfo, Request
from nexus_cli.engine.requests.control import Control
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.sections.recipe import Recipe
from nexus_cli.session.factory import SessionFactory, open_log
from nexus_cli.session.open_session import recipe_of
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMakers
from nexus_cli.session.session import Session

MODELLESS = ModelInfo("", "openai", 128_000, known=False)


class _InspectionOnly:
    """Provider and approver of a session opened for inspection."""

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        raise AssertionError("a draft sends nothing")

    async def ask(self, question: Question) -> Answer:
        """See `Approver`."""
        return Defer()


@contextmanager
def new_session(options: Options, settings: Settings, services: ServiceMakers) -> Iterator[Session]:
    """Open the session that `options` would begin, in a ledger in memory; facts are read from the person's ledger."""
    with Ledger.read_personal() as personal_ledger, closing(Ledger.open(None)) as ledger:
        info = MODELLESS
        if options.model:
            info = load_model_info(options.model, settings, waits=True, saves=options.save)
            ledger.calibrate(info.served_name, personal_ledger.calibration(info.served_name))
        recipe, _ = recipe_of(None, options)
        session = ledger.create_session(
            folder=str(options.cwd),
            project=str(project_identity(options.cwd)),
            model=info.name,
            recipe=recipe.name,
            at=format_utc(local_now()),
            front=options.front,
        )
        yield look_at(ledger, session, options, settings, recipe, services, info, personal_ledger)


def look_at(
    ledger: Ledger,
    session: SessionInfo,
    options: Options,
    settings: Settings,
    recipe: Recipe,
    services: ServiceMakers,
    info: ModelInfo | None = None,
    personal_ledger: Ledger | None = None,
) -> Session:
    """Return a session of `ledger` as it would be opened. Locks and changes nothing.

    `info` is by default that of the session's model, `personal_ledger` with the person's facts the same ledger.
    """
    unasked, control, notices = _InspectionOnly(), Control(), list[str]()
    session_log, personal_ledger = ledger.log(session.id), personal_ledger or ledger
    info = info or load_model_info(options.model or session.model, settings, session_log)
    is_new = session_log.current_epoch() is None
    log = open_log(ledger, session, options, settings, control, notices, is_new=is_new)
    factory = SessionFactory(
        ledger,
        personal_ledger,
        options,
        settings,
        local_now,
        notices,
        recipe,
        info,
        session,
        log,
        unasked,
        services,
        control,
    )
    return factory.session(unasked if options.interactive else None)
