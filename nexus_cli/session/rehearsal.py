"""Rehearse a turn: assemble its first request in memory, price it and check its contract. Sends and records nothing.

The request is the one that the turn would send, except that no hook and no command of a guide runs, and that a
compaction that is due is named instead of made: its summary is a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from nexus_cli.config.settings import Settings
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.limits import Limits
from nexus_cli.core.price import price_input
from nexus_cli.core.services import ServerTools
from nexus_cli.core.shielded_work import run_to_end
from nexus_cli.core.tool import Effect
from nexus_cli.core.usage import Usage
from nexus_cli.engine.turn import prepare_request
from nexus_cli.ledger import Ledger
from nexus_cli.session.draft import look_at, new_session
from nexus_cli.session.open_session import find_session, recipe_of
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMakers
from nexus_cli.session.session import Session
from nexus_cli.session.start_conversation import (
    expand_trigger,
    find_continuations,
    record_trigger,
    start_conversation,
)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The first request of a turn."""

    json_fields: ClassVar = """
        version session model input:price.input cached:price.cache_read cost_usd:price.cost_usd cold:is_cold compacts
        used:request.budget.used sections:request.sections
    """
    version: ClassVar[int] = 1
    session: str | None
    """The session that the turn would resume; null for a new session."""
    model: str
    request: RequestPlan
    price: Usage
    """Its input, with its cost."""
    compacts: bool
    """True if the session would be compacted first; the figures are those before the compaction."""

    @classmethod
    def of(cls, options: Options, settings: Settings, trigger: Trigger, services: ServiceMakers) -> Rehearsal:
        """Assemble the first request of a turn and check `options.contract` and the limits. Blocks.

        Raises `NexusError` as the turn would before it sends anything.
        """
        options = replace(options, save=False, require_save=False)
        with _session(options, settings, services) as session:
            return run_to_end(_assemble(session, trigger))

    @property
    def is_cold(self) -> bool:
        """True if no part of the request should be in the cache."""
        return not self.price.cache_read


@contextmanager
def _session(options: Options, settings: Settings, services: ServiceMakers) -> Iterator[Session]:
    """Open the session of the turn so that everything is recorded in memory."""
    if not (options.resume or options.newest):
        with new_session(options, settings, services) as session:
            yield session
        return
    with Ledger.read_personal() as ledger:
        info = find_session(ledger, options)
        assert info is not None, "a resumed session was found"
        ledger.record_in_memory()
        recipe, _ = recipe_of(info, options)
        yield look_at(ledger, info, options, settings, recipe, services)


async def _assemble(session: Session, trigger: Trigger) -> Rehearsal:
    """Assemble the first request of a turn, and close the session."""
    engine, dispatcher = session.engine, session.dispatcher
    dispatcher.hooks = dispatcher.approver = None
    try:
        await start_conversation(session, trigger.text)
        if trigger.may_expand:
            limits = dispatcher.limits
            dispatcher.limits = limits & Limits(categories=frozenset({str(Effect.READ)}))
            trigger = await expand_trigger(session, trigger)
            dispatcher.limits = limits
        await record_trigger(session, trigger, find_continuations(session, trigger))
        engine.begin_step()
        request, info = await prepare_request(engine), engine.model.info
        compacts = request.needs_room(engine.settings.compact.at)
        if not compacts:
            engine.answer_cap(request)
    finally:
        dispatcher.permission.close()
        if servers := session.services.get_existing(ServerTools):
            await servers.aclose()
    return Rehearsal(
        session.id if session.resumed else None,
        info.name,
        request,
        price_input(info, request.tokens, request.cached),
        compacts,
    )
