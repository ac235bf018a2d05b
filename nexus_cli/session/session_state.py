"""The members of a `Session`. The factory makes all of them, `bare_state` those of a session from parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.sent_requests import SentRequests
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.entry import Drop
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import ASK, Limits
from nexus_cli.core.request import Model, ModelInfo, Provider, close_if_closable
from nexus_cli.core.services import Log, ServerTools, Workers
from nexus_cli.core.session_services import SessionServices
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.ledger import Ledger, SessionLog
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.session.options import Options
from nexus_cli.tools.registry import ToolRegistry

_AWAY_SECONDS = 0.5
"""Most seconds in which a ledger is closed whose server does not answer."""


@dataclass
class SessionState:
    """The members of one session."""

    engine: Engine
    dispatcher: Dispatcher
    session_id: str
    folder: str = ""
    """The folder of the last turn before the session was opened, which the model knows."""
    resumed: bool = False
    notices: list[str] = field(default_factory=list)
    """Notices for the person from outside a turn."""
    record: SessionLog | None = None
    """The log of the main conversation; None for a bare session."""
    ledger: Ledger | None = None
    options: Options | None = None
    """The options of the session; None for a bare session."""
    services: SessionServices = field(default_factory=SessionServices)
    away: list[Mapping[str, str]] = field(default_factory=list)
    """Reports on unattended runs that the person was shown, see `Sources.away`."""
    told: set[str] = field(default_factory=set)
    """Lines that are shown once in a session, and were."""
    shares: bool = False
    """True if other sessions share ledger and provider, so that `close` leaves them open."""

    def drops(self) -> Sequence[Drop]:
        """Return all drops of the session so far."""
        return self.record.drops() if self.record is not None else ()

    def is_saved(self) -> bool:
        """True if another process can resume the session."""
        if self.ledger is None or self.record is None:
            return False
        return self.ledger.is_kept and self.record.is_saving

    def load_cache_history(self) -> None:
        """Load what a provider may still have in its cache of the session's requests, unless that is known. Blocks."""
        engine, ledger, log = self.engine, self.ledger, self.record
        if engine.conversation.sent.last is None and ledger is not None and log is not None:
            from nexus_cli.engine.requests.request_history import load_history  # noqa: PLC0415  (a session is resumed)

            engine.conversation.sent = load_history(engine.context, ledger, log, engine.settings)

    @property
    def has_more_turns(self) -> bool:
        """True if the session is interactive: a turn need not wait for background workers."""
        return self.options is not None and self.options.interactive and not self.options.one_turn

    def costs(self) -> tuple[float | None, float, float]:
        """Return the cost of the session in US dollars (None if a price is unknown), the known part of it, and what the
        cache saved. Once the ledger has failed, the record in memory has them, without what workers used since: the
        cost of a session with workers is None then."""
        if self.ledger is None:
            return None, 0.0, 0.0
        try:
            info = self.record.session if self.record else self.ledger.session(self.session_id)
        except NexusError:
            usage = self.engine.spending.usage
            return usage.cost_usd, usage.cost_usd or 0.0, usage.cost.saved
        is_whole = self.record is None or self.record.is_saving or self.services.made(Workers) is None
        return info.cost_usd if is_whole else None, info.known_usd, info.saved_usd

    def rights(self) -> Limits:
        """Return the limits that bind the session now: its own, those of its turn's assessment, and its confirmation of
        changes. No worker or plan gets around them."""
        confirm = self.dispatcher.run_limits(self.engine).limits.confirm
        return self.dispatcher.turn_limits & Limits(confirm=confirm)

    async def close(self) -> None:
        """Release sandbox, provider, the session's lock and the ledger, as far as the session has opened them."""
        self.dispatcher.permission.close()
        if servers := self.services.made(ServerTools):
            await servers.aclose()
        await self.dispatcher.call_changes.aclose()
        if self.ledger is None or self.record is None:
            return
        if not self.shares:
            await close_if_closable(self.engine.provider)
        close_ledger = partial(self._close_ledger, self.ledger, self.record)
        if self.record.is_away:  # what it could not save is in a file
            await asyncio.wait({asyncio.ensure_future(asyncio.to_thread(close_ledger))}, timeout=_AWAY_SECONDS)
        else:
            close_ledger()

    def _close_ledger(self, ledger: Ledger, record: SessionLog) -> None:
        record.close()  # first: what it still writes back keeps the session from being released as empty
        with suppress(NexusError):  # deleted or not writable: there is nothing left to release
            ledger.release(self.session_id)
        if not self.shares:
            ledger.close()


Act: TypeAlias = Callable[[SessionState], Awaitable[None]]
"""Raises `NexusError` for errors that the person can fix; emits events through `state.engine`."""


def bare_state(
    provider: Provider, context: ContextManager | None, logger: Log | None, registry: ToolRegistry | None
) -> SessionState:
    """Make the state of a session from parts: the given context manager, no contributors, default limits.

    The configuration of the manager may have changed since, and an earlier session may have used it with another model.
    """
    context = context or ContextManager(logger=logger)
    registry = registry or ToolRegistry(())
    window, reply = context.config.max_tokens, context.config.reserve_tokens
    stored = getattr(logger, "session", None)
    name = str(getattr(provider, "model", "") or getattr(stored, "model", "") or "model")
    context.use_model(Model(ModelInfo(name, "openai", window, reply)), TokenBudget(window, reply, 0))
    context.conversation.sent = SentRequests()
    limits = Limits(max_steps=200, allow=ASK)
    folder = Path.cwd()
    project = project_root(folder)

    engine = Engine(context, provider, Spending(limits), Control(), Settings())
    dispatcher = Dispatcher(
        registry,
        limits,
        folder,
        project,
        CallPermission(folder, project),
        services=SessionServices({kind: partial(registry.services.get, kind) for kind in registry.services}),
    )
    return SessionState(engine, dispatcher, session_id=str(getattr(stored, "id", "")))
