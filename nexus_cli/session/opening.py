"""What a `Session` is made of. The factory makes an `Opening`, `make_bare_parts` the parts of a session without one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.sent_requests import SentRequests
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.limits import ASK, Limits
from nexus_cli.core.request import Model, ModelInfo, Provider
from nexus_cli.core.services import Log
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
    """What the factory has opened for a session; a session from parts has none."""

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
    resumed: bool = False
    """True if an earlier opening began the session."""


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
