"""What a `Session` is made of; the factory makes the full set, `bare_state` seed A's small one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.context.sections.epoch_draft import EpochDraft
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.tokens.estimator import TokenEstimator
from nexus_cli.context.window.timeline import MemoryLog
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import Drop
from nexus_cli.core.event import Event
from nexus_cli.core.limits import Bound, Limits
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.core.services import Log
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.session.control import Control
from nexus_cli.session.dispatch import Dispatcher
from nexus_cli.session.lane_state import LaneState, Model, Preamble
from nexus_cli.session.options import Options
from nexus_cli.session.spending import Spending
from nexus_cli.tools.registry import ToolRegistry


async def _nothing(engine: LaneState) -> None:
    """Nothing to do before the first turn."""


async def _closed() -> None:
    """Nothing to release."""


@dataclass
class SessionState:
    """The members of one session."""

    lane_state: LaneState
    dispatcher: Dispatcher
    limits: Limits
    bounds: tuple[Bound, ...] = ()
    recipe: Recipe = field(default_factory=lambda: Recipe("chat"))
    session_id: str = ""
    resumed: bool = False
    notices: list[str] = field(default_factory=list)
    open: Callable[[LaneState], Awaitable[None]] = _nothing
    """Before the first turn: the first epoch, or what a resumed one last sent."""
    drops: Callable[[], Sequence[Drop]] = tuple
    """Everything left out in the session so far."""
    close: Callable[[], Awaitable[None]] = _closed
    saved: Callable[[], bool] = bool
    """Whether the session can be resumed by another process."""
    cost: Callable[[], float | None] = lambda: None
    """Dollars of all requests of the session so far, None when a price is unknown."""
    report: Callable[[SessionState], Mapping[str, Any]] = lambda parts: {}
    """What the next request would hold: interface.md section 8."""
    record: LaneLog | None = None
    ledger: Ledger | None = None
    options: Options | None = None
    """What the session was opened with."""
    settings: Settings | None = None


class Ran:
    """Which calls began, in this process only."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def record_start(self, call_id: str, name: str) -> None:
        """See `Starts`."""
        self._ids.add(call_id)

    def was_started(self, call_id: str) -> bool:
        """See `Starts`."""
        return call_id in self._ids


def ignore(event: Event) -> None:
    """Shows nobody."""


def bare_state(
    provider: Provider, context: ContextManager | None, logger: Log | None, registry: ToolRegistry | None
) -> SessionState:
    """Seed A's session: its context manager as it is, no contributors, the limits of the package."""
    context = context or ContextManager(logger=logger)
    registry = registry or ToolRegistry(())
    config = context.config
    name = str(getattr(provider, "model", "") or "model")
    model = Model(ModelInfo(name, "openai", config.max_tokens, config.reserve_tokens), provider)
    limits = Limits(max_steps=200, allow="read")
    folder = Path.cwd()

    async def frame() -> EpochDraft:
        return EpochDraft(context.frame())

    async def gather() -> Preamble:
        return Preamble("\n".join(engine.notices), engine.notices.clear)

    def side(agent: str, at_entry: int | None) -> Log:
        return MemoryLog(at_entry or 0, epochs=context.lane.epoch.id + 1)

    engine = LaneState(
        context,
        model,
        TokenBudget(config.max_tokens, config.reserve_tokens, 0),
        TokenEstimator(),
        CompactSettings(),
        local_now,
        ignore,
        Spending(limits),
        Control(),
        side,
        gather,
        frame,
        lambda: model,
    )
    dispatcher = Dispatcher(registry, Ran(), limits, folder, project_root(folder), services=registry.services)
    return SessionState(engine, dispatcher, limits, session_id=str(getattr(getattr(logger, "session", None), "id", "")))
