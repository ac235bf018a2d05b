"""`BaseSession`: a session as turns, acts and continuations use it. `Session` adds the queue that runs them.

The factory makes an `Opening` for it, `make_bare_parts` the parts of a session without one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.sent_requests import SentRequests
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.entry import Drop
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import ASK, Limits
from nexus_cli.core.request import Model, ModelInfo, Provider
from nexus_cli.core.services import Log, Workers
from nexus_cli.core.session_services import SessionServices
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.ledger import Ledger, SessionLog
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.session.options import Options
from nexus_cli.tools.registry import ToolRegistry


@dataclass
class Opening:
    """The parts of a session that the factory has opened; a session from parts has none."""

    engine: Engine
    dispatcher: Dispatcher
    ledger: Ledger
    """The ledger of the session, in memory if nothing is saved."""
    record: SessionLog
    """The log of the main conversation."""
    options: Options
    """The options of the session, with the permission level that was set last."""
    last_folder: str
    """The folder of the last turn before the session was opened, which the model knows."""
    notices: list[str]
    """Notices for the person."""


def make_bare_parts(
    provider: Provider, context: ContextManager | None, logger: Log | None, registry: ToolRegistry | None
) -> tuple[Engine, Dispatcher]:
    """Make the parts of a session with the given context manager, no contributors, and default limits.

    The configuration of the manager may have changed since, and an earlier session may have used it with another model.
    """
    context = context or ContextManager(logger=logger)
    registry = registry or ToolRegistry(())
    window, reply = context.config.max_tokens, context.config.reserve_tokens
    name = str(getattr(provider, "model", "") or getattr(getattr(logger, "session", None), "model", "") or "model")
    context.use_model(Model(ModelInfo(name, "openai", window, reply)), TokenBudget(window, reply, 0))
    context.conversation.sent = SentRequests()
    limits = Limits(max_steps=200, allow=ASK)
    folder = Path.cwd()
    project = project_root(folder)

    dispatcher = Dispatcher(
        registry,
        limits,
        folder,
        project,
        CallPermission(folder, project),
        services=SessionServices({kind: partial(registry.services.get, kind) for kind in registry.services}),
    )
    return Engine(context, provider, Spending(limits), Control(), Settings()), dispatcher


class BaseSession:
    """The parts of one session, and what follows from them."""

    engine: Engine
    """The engine of the session's conversation."""
    dispatcher: Dispatcher
    """Decides on calls and runs them."""
    notices: list[str]
    """Notices for the person from outside a turn."""
    id: str
    """The session's id in the ledger, "" without one."""

    def __init__(
        self,
        provider: Provider,
        context: ContextManager | None,
        logger: Log | None,
        registry: ToolRegistry | None,
        *,
        opening: Opening | None,
    ) -> None:
        """Take the parts of the factory's `opening`, or make those of provider, context, logger and registry."""
        self._opening = opening
        self.resumed = opening is not None and not opening.record.lane_state.is_new
        """True if an earlier opening began the session."""
        if opening is not None:
            self.engine, self.dispatcher = opening.engine, opening.dispatcher
            self.services, self.notices = opening.dispatcher.services, opening.notices
            self.id = opening.record.session_id
        else:
            self.engine, self.dispatcher = make_bare_parts(provider, context, logger, registry)
            self.services, self.notices = SessionServices(), []
            self.id = str(getattr(getattr(logger, "session", None), "id", ""))
        self.shares = False
        """True if other sessions share ledger and provider, so that `aclose` leaves them open."""
        self.shown_lines = set[str]()
        """Lines that are shown once in a session, and were."""

    @property
    def has_no_ledger(self) -> bool:
        """True for a session from parts: it has no ledger, record and options."""
        return self._opening is None

    @property
    def opening(self) -> Opening:
        """The parts that the factory has opened; raise `NexusError("ledger", ...)` if the session is from parts."""
        if self._opening is None:
            why = "another program created the session"
            raise NexusError("ledger", "this session has no ledger", why, "Start a session with nexus")
        return self._opening

    @property
    def ledger(self) -> Ledger:
        """The ledger of the session, in memory if nothing is saved; raises like `opening`."""
        return self.opening.ledger

    @property
    def record(self) -> SessionLog:
        """The log of the session, even after the ledger has failed; raises like `opening`."""
        return self.opening.record

    @property
    def options(self) -> Options:
        """The options of the session; raises like `opening`."""
        return self.opening.options

    @property
    def saved(self) -> bool:
        """True if another process can resume the session."""
        return not self.has_no_ledger and self.ledger.is_kept and self.record.is_saving

    @property
    def has_more_turns(self) -> bool:
        """True if the session is interactive: a turn need not wait for background workers."""
        return not self.has_no_ledger and self.options.interactive and not self.options.one_turn

    @property
    def model(self) -> str:
        return self.engine.model.info.name

    @property
    def folder(self) -> Path:
        return self.dispatcher.cwd

    @property
    def conversation(self) -> Conversation:
        """The conversation of the session, without those of its workers."""
        return self.engine.conversation

    def drops(self) -> Sequence[Drop]:
        """Return all drops of the session so far."""
        return () if self.has_no_ledger else self.record.drops()

    def costs(self) -> tuple[float | None, float, float]:
        """Return the cost of the session in US dollars (None if a price is unknown), the known part of it, and what the
        cache saved. Once the ledger has failed, the record in memory has them, without what workers used since: the
        cost of a session with workers is None then."""
        if self.has_no_ledger:
            return None, 0.0, 0.0
        try:
            info = self.record.session
        except NexusError:
            usage = self.engine.spending.usage
            return usage.cost_usd, usage.cost_usd or 0.0, usage.cost.saved
        is_whole = self.record.is_saving or self.services.get_existing(Workers) is None
        return info.cost_usd if is_whole else None, info.known_usd, info.saved_usd

    def rights(self) -> Limits:
        """Return the limits that bind the session now: its own, those of its turn's assessment, and its confirmation of
        changes. No worker or plan gets around them."""
        confirm = self.dispatcher.run_limits(self.engine).limits.confirm
        return self.dispatcher.turn_limits & Limits(confirm=confirm)

    def load_cache_history(self) -> None:
        """Load what a provider may still have in its cache of the session's requests, unless that is known. Blocks."""
        if not self.has_no_ledger:
            self.engine.load_cache_history(self.record)


Act: TypeAlias = Callable[[BaseSession], Awaitable[None]]
"""An operation on a session other than a turn, see `session/acts/`. Raises `NexusError` for errors that the person can
fix; emits events through `session.engine`."""
