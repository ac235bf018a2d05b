"""`AgentPool`: agents in one process, each with its own session, sharing one ledger and one provider.

`SharedComponents` has the parts that agents share. Destroying an agent stops it and keeps its session.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from nexus_cli.commands.arguments import refuse_above
from nexus_cli.config.paths import private_dir
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.context.manager import ContextManager
from nexus_cli.context.prompt_loader import PromptLoader
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import InUseError, NexusError, UsageError
from nexus_cli.core.event import Notice, Outcome
from nexus_cli.core.front_ends import RUN
from nexus_cli.core.limits import ASK, BUDGET, Limits, parse_level, require_level
from nexus_cli.core.real_files import real_path
from nexus_cli.core.request import Provider, close_if_closable
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.ledger.sessions import owners_of
from nexus_cli.provider.available_models import resolve_alias, unnamed_model
from nexus_cli.provider.retry import make_provider
from nexus_cli.rpc.client_approver import ClientApprover
from nexus_cli.rpc.dispatcher import AgentDispatcher
from nexus_cli.rpc.served_command import unsupported_for_client
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.open_session import open_ledger
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMakers
from nexus_cli.session.session import Session
from nexus_cli.tools.registry import ToolRegistry
from nexus_cli.worktrees.worktrees import enter_existing

AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_AGENTS = 400
"""Most agents: each keeps a lock file open."""


@dataclass(frozen=True, slots=True)
class SharedComponents:
    """The parts that all agents of a pool share. Everything has a default."""

    config: Settings | None = None
    """None: the person's settings, with those of a trusted project around an agent's folder."""
    provider: Provider | None = None
    """None: all models that litellm knows, with the person's keys."""
    prompt_loader: PromptLoader | None = None
    """Supplies the system text of agents without one of their own; None: the usual system text."""
    base_log_dir: Path | None = None
    """The folder of the pool's ledger; None: the person's ledger."""
    model: str = ""
    """The model of agents that name none; "": the default model of `nexus ask`."""
    allow: str | None = None
    """The highest level of any agent; None: the level of the settings."""
    cwd: Path | None = None
    """The folder of agents that name none; None: the current folder."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The settings of one agent; by default those of the pool."""

    agent_id: str = ""
    """At most 64 letters, digits, `.`, `_`, `-`; "": a generated id."""
    system_prompt: str | None = None
    """The whole system text."""
    model: str = ""
    allow: str | None = None
    """The permission level, never above the pool's."""
    cwd: Path | None = None
    """None: the folder of `session`, else that of the pool."""
    recipe: str = ""
    session: str = ""
    """The session that it continues; "" for a new one."""
    limits: Limits = field(default_factory=Limits)
    """Limits of each turn, instead of the limits in the settings."""
    effort: str = ""
    strict: bool = False
    """True: a level above the pool's is an error; else the pool's applies."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: its dispatcher, with its session."""

    agent_id: str
    dispatcher: AgentDispatcher
    stays: ExitStack
    """Its stay in a worktree, which nobody can remove meanwhile without force."""

    @property
    def session(self) -> Session:
        """Its present session; a command may open it again with another model."""
        return self.dispatcher.session

    @property
    def context(self) -> ContextManager:
        """The context of its main conversation."""
        return self.session.context

    @property
    def registry(self) -> ToolRegistry:
        return self.session.dispatcher.registry

    async def aclose(self) -> None:
        """Stop it, and release its session."""
        try:
            await self.dispatcher.aclose()
        finally:
            self.stays.close()


class AgentPool:
    """The agents of one process, by id."""

    def __init__(self, shared: SharedComponents | None = None, *, provider: Provider | None = None) -> None:
        """Open nothing yet: the ledger is opened with the first agent. `aclose` closes `provider`."""
        self.shared = shared or SharedComponents()
        self.note: TakeText = lambda line: None
        """Gets a line when a turn of an agent begins or ends."""
        self.notices: list[str] = []
        """Notices from opening the ledger; every agent reports them."""
        self._agents: dict[str, Agent | None] = {}
        """None while the agent is being created."""
        self._ledger: Ledger | None = None
        self._provider = provider or self.shared.provider

    async def create(self, agent_id: str = "", config: AgentConfig | None = None) -> Agent:
        """Create an agent with its first epoch, or raise `NexusError`. `agent_id` overrides the one of `config`."""
        config = config or AgentConfig()
        name = self._free_id(agent_id or config.agent_id)
        self._agents[name] = None
        try:
            agent = self._agents[name] = await self._make(name, config)
        except BaseException:
            del self._agents[name]
            raise
        return agent

    def get(self, agent_id: str) -> Agent | None:
        """Return an agent, None if there is none with that id."""
        return self._agents.get(agent_id)

    def list(self) -> list[Agent]:
        """Return all agents, oldest first."""
        return [agent for agent in self._agents.values() if agent is not None]

    async def destroy(self, agent_id: str) -> bool:
        """Stop and remove an agent; its session stays. False if it does not exist."""
        agent = self._agents.get(agent_id)
        if agent is None:
            return False
        del self._agents[agent_id]
        await agent.aclose()
        return True

    async def aclose(self) -> None:
        """Destroy all agents, then close the ledger, and the provider if the pool made it."""
        for agent in self.list():
            await self.destroy(agent.agent_id)
        if self._provider is not self.shared.provider:
            await close_if_closable(self._provider)
        if self._ledger is not None:
            self._ledger.close()
        self._ledger, self._provider = None, self.shared.provider

    def prepare(self) -> None:
        """Load the modules of the first request (seconds of CPU); safe to call from a thread."""
        prepare = getattr(self._provider, "prepare", None)
        if prepare is not None:
            prepare()

    async def finish_steps(self, seconds: float) -> None:
        """Let running turns finish their step and begin no other; stop them after `seconds`."""
        await asyncio.gather(*(agent.dispatcher.finish_step(seconds) for agent in self.list()))

    def _free_id(self, requested_id: str) -> str:
        if requested_id and not AGENT_ID.fullmatch(requested_id):
            why = "an id has at most 64 letters, digits, '.', '_' and '-', and begins with a letter or digit"
            raise UsageError(f"agent id {requested_id[:80]!r}", why, "Choose another id")
        if requested_id in self._agents:
            raise InUseError(
                f"agent {requested_id}",
                "an agent with this id already exists",
                "Choose another id, or destroy that agent",
            )
        if len(self._agents) >= MAX_AGENTS:
            raise NexusError("limit", "too many agents", f"the maximum is {MAX_AGENTS}", "Destroy an agent first")
        return requested_id or f"agent-{secrets.token_hex(4)}"

    async def _make(self, name: str, config: AgentConfig) -> Agent:
        resumed = self._find_session(config.session) if config.session else None
        folder = real_path(config.cwd or self._folder_of(resumed))
        if not os.path.isdir(folder):
            raise UsageError(f"folder {folder}", "there is no such folder", "Set cwd to an existing folder")
        settings = self.shared.config or settings_in(folder)
        prompt, lines = config.system_prompt, tuple[str, ...]()
        if prompt is None and self.shared.prompt_loader is not None:
            loaded = self.shared.prompt_loader.load(is_repl=False)
            prompt, lines = loaded.content, loaded.notices
        options = Options(
            folder,
            self._model(config, settings) if config.model or not resumed else "",
            effort=config.effort or settings.effort,
            recipe=config.recipe,
            front=RUN,
            resume=resumed.id if resumed else "",
            worktree=resumed.worktree if resumed and folder == Path(resumed.folder) else "",
            limits=config.limits,
            allow=self._level(config, settings),
            most_allow=self._highest_level(settings).allow,
            allow_from="server",
            interactive=True,
            served=True,
            reports=any(getattr(config.limits, name) is not None for name in BUDGET),
            system_prompt=prompt,
        )
        agent = self.open_agent(options, settings, ClientApprover(), name=name)
        dispatcher, session = agent.dispatcher, agent.session
        dispatcher.noted = partial(self._note_turn, name)
        try:
            begun = [event async for event in session.act(_do_nothing)]
        except BaseException:
            await agent.aclose()
            raise
        dispatcher.unheard += (*map(Notice, (*lines, *self.notices, *session.take_notices())), *begun)
        return agent

    def open_agent(
        self,
        options: Options,
        settings: Settings,
        approver: ClientApprover,
        services: ServiceMakers = SERVICES,
        name: str = "",
    ) -> Agent:
        """Open the session of `options` with an agent, which only its caller knows. Without a `name` it has the id of
        the session, and opens no other one. Raise `NexusError`."""
        self._provider = self._provider or make_provider(settings)
        opened = partial(open_session, settings=settings, approver=approver, provider=self._provider, services=services)

        async def reopen(options: Options, earlier: Session) -> Session:
            if options.resume != earlier.id:
                if not name:
                    raise unsupported_for_client(
                        "another session", "Open the session from the editor, or with `nexus -r ID` in a terminal"
                    )
                if options.resume:
                    self._find_session(options.resume)
                await earlier.end_hooks(options.resume)
            return opened(replace(options, served=earlier.options.served), earlier=earlier)

        with ExitStack() as stays:
            if worktree := find_worktree(options.cwd):
                stays.callback(enter_existing(worktree).end)
            session = opened(options, ledger=self.open_ledger())
            dispatcher = AgentDispatcher(session, approver=approver, opened=reopen)
            return Agent(name or session.id, dispatcher, stays.pop_all())

    def _note_turn(self, name: str, outcome: Outcome | None) -> None:
        if outcome is None:
            self.note(f"agent {name}: turn started")
            return
        cost = f", ${outcome.usage.cost_usd:.4f}" if outcome.usage.cost_usd else ""
        state = "done" if outcome.ok else outcome.finish
        self.note(f"agent {name}: {state}, {plural(outcome.steps, 'step')}{cost}")

    def _model(self, config: AgentConfig, settings: Settings) -> str:
        model_name = config.model or self.shared.model or str(getattr(self.shared.provider, "model", ""))
        model = resolve_alias(model_name, settings) if model_name else unnamed_model(settings)
        return model or ("model" if self.shared.provider is not None else "")

    def _level(self, config: AgentConfig, settings: Settings) -> str | None:
        """Return the level of an agent: its own or that of the settings and a trusted project, never above the pool's.
        None if neither the agent nor the pool names one, so that the settings apply. Raise `NexusError` for a higher
        one if the agent is `strict`."""
        requested_level = None if config.allow is None else require_level(config.allow, "level")
        if requested_level is None and self.shared.allow is None:
            return None
        if config.strict and requested_level:
            self.require_level(requested_level, settings)
        return (self._highest_level(settings) & Limits(allow=requested_level)).allow

    def require_level(self, level: str, settings: Settings) -> None:
        """Raise `NexusError("denied", ...)` for a level above the pool's in a project with these settings."""
        refuse_above(self._highest_level(settings), level, f"level {level}")

    def _highest_level(self, settings: Settings) -> Limits:
        """Return the level that no agent passes: the pool's, else that of the settings and a trusted project."""
        own_limits = Limits(allow=settings.allow or ASK) & Limits(allow=settings.project.allow)
        return own_limits if self.shared.allow is None else Limits(allow=parse_level(self.shared.allow))

    def find_agent(self, session: str) -> Agent | None:
        """Return the agent that has the session of this id, name, or beginning or end of an id; None if none has it.
        Raise `NexusError` if there is no such session."""
        key = self.open_ledger().find_session(session).id
        return next((agent for agent in self.list() if agent.session.id == key), None)

    def _find_session(self, key: str) -> SessionInfo:
        """Return the session to continue; raise `InUseError` if an agent of the pool, a worker of one, or a client that
        is creating one has it."""
        ledger = self.open_ledger()
        session, agent = ledger.find_session(key), self.find_agent(key)
        if agent or ledger.is_locked(session.id):
            holder = "a worker" if session.spawner else "another client"
            why = f"{f'agent {agent.agent_id}' if agent else holder} is using this session"
            raise InUseError(
                f"session {session.id} is open elsewhere", why, "Use or destroy its agent, or try again later"
            )
        return session

    def _folder_of(self, resumed: SessionInfo | None) -> Path:
        """Return the folder of a new session, or of one to continue: a colleague's continues in the server's own clone
        of its project."""
        folder = self.shared.cwd or Path.cwd()
        if resumed is None:
            return folder
        ledger = self.open_ledger()
        if not ledger.db.is_shared or ledger.project_of(folder) != resumed.project:
            return Path(resumed.folder)
        is_own = owners_of(ledger.db, [resumed.id])[resumed.id] == ledger.spaces.own_role()
        return Path(resumed.folder) if is_own else folder

    def open_ledger(self) -> Ledger:
        """Return the ledger of the pool, opened with the first call. Raises `NexusError`."""
        if self._ledger is None:
            if self.shared.base_log_dir is None:
                self._ledger = open_ledger(Options(self.shared.cwd or Path.cwd()), self.notices)
            else:
                self._ledger = Ledger.open(private_dir(Path(self.shared.base_log_dir).absolute()) / "ledger.db")
                self.notices.extend(self._ledger.notices)
        return self._ledger


async def _do_nothing(session: Session) -> None:
    """Begin the main conversation, as every act of a session does, so that the context has the beginning of a
    request."""
