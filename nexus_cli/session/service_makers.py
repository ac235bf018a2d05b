"""`ServiceMaker`: the registration of a service. Lists the services of every session; `nexus_cli.service_list` has
those of the rooms above."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from nexus_cli.core.front_ends import RUN
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.limits import ASK, LEVELS
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import (
    Assembly,
    Jobs,
    PersonQuestions,
    Recall,
    SeenFileStore,
    ServerTools,
    SkillGuides,
    TextCounter,
    ToolCatalogue,
)
from nexus_cli.core.session_services import SessionServices
from nexus_cli.core.tool import Tool
from nexus_cli.engine.calls.waiting import SessionWaits
from nexus_cli.engine.requests.prompt_assembly import PromptAssembly
from nexus_cli.guides.skills import may_have_skills
from nexus_cli.session.session_facts import SessionFacts

if TYPE_CHECKING:
    from nexus_cli.ledger import Ledger
    from nexus_cli.session.context_tool_service import ContextToolService
    from nexus_cli.session.options import Options
    from nexus_cli.session.session import Session
    from nexus_cli.session.session_jobs import SessionJobs

S_co = TypeVar("S_co", covariant=True)
MAX_TITLE = 1000
"""Most characters of the person's request in the record of a run."""


@dataclass(frozen=True, slots=True)
class ServiceMaker(Generic[S_co]):
    """A service that sessions may have."""

    protocol: type[S_co]
    """Tools that need this protocol, or a base of it, are available in sessions with the service."""
    make: Callable[[Session], S_co]
    """Makes the service at its first use; should import its modules only then."""
    is_offered: Callable[[Ledger, Options], bool] | None = None
    """Returns False if a session does not have the service, by the person's ledger and the options; None: every session
    has it. Must be cheap: it is called whenever a session is opened."""
    tools: Callable[[Options], Iterable[Tool]] | None = None
    """Returns tools beyond the built-in ones, which should need the service; called when a session is opened. One with
    the name of another tool is left out."""


def _context_tool(session: Session) -> ContextToolService:
    from nexus_cli.session.context_tool_service import ContextToolService  # noqa: PLC0415  (few sessions call it)

    engine = session.engine
    assert isinstance(engine.prompt, PromptAssembly), "a session of the factory has contributors"
    return ContextToolService(session.record, engine, engine.prompt.collector)


def _facts(session: Session) -> SessionFacts:
    return SessionFacts.of(session.ledger, session.id, session.folder, session.conversation.clock)


def _waits(session: Session) -> SessionWaits:
    longest = session.engine.settings.runs.max_wait

    def ends_jobs() -> str:
        jobs = session.jobs
        return ", ".join(jobs.running()) if jobs is not None and not session.has_more_turns else ""

    has_parent, describe = bool(session.options.spawner), partial(describe_run, session)
    return SessionWaits(session.ledger, session.record, has_parent, describe, longest, ends_jobs)


def describe_run(session: Session) -> JsonDict:
    """Return `type`, `title`, `trigger` and `options` of the run of a session that begins to wait and has none yet, so
    that another process can resume it; see the memo `ledger.WAIT`."""
    options, limits = session.options, session.dispatcher.limits
    front = "ask" if options.front == RUN else "repl"
    message = next(iter(session.record.user_messages()), (0, ""))[1][:MAX_TITLE]
    opened = {
        "folder": str(options.cwd),
        "worktree": options.worktree,
        "model": session.engine.model.info.name,
        "effort": session.engine.model.effort,
        "recipe": session.dispatcher.recipe.name,
        "allow": limits.allow if limits.allow in LEVELS else ASK,
        "max_cost": limits.max_cost,
        "max_steps": limits.max_steps,
        "max_total_tokens": limits.max_total_tokens,
        "timeout": limits.timeout,
    }
    return {
        "type": front,
        "title": message,
        "trigger": {"type": front, "message": message},
        "options": {name: value for name, value in opened.items() if value not in (None, "")},
    }


def _jobs(session: Session) -> SessionJobs:
    from nexus_cli.session.session_jobs import SessionJobs  # noqa: PLC0415  (few sessions have jobs)

    return SessionJobs(session)


async def _describe_tool(session: Session, name: str) -> ToolResult:
    """Describe a tool, or find tools by words, to a model that was not sent their schemas; see `ToolCatalogue`."""
    registry = session.dispatcher.registry
    if tool := registry.describe(name):
        return ToolResult(tool)
    servers = session.services.get_existing(ServerTools)
    failed = await servers.settle() if servers else ()
    if tool := registry.describe(name) or registry.search(name):
        return ToolResult("\n".join([tool, *failed]))
    return ToolResult(error="\n".join([registry.describe_unknown(name), *failed]), ran=False)


def _skill_guides(session: Session) -> SkillGuides:
    from nexus_cli.session.skill_guides import read_skill  # noqa: PLC0415  (few sessions read one)

    return SkillGuides(partial(read_skill, session.folder))


ServiceMakers = Sequence[ServiceMaker[object]]
OWN_SERVICES: ServiceMakers = (
    ServiceMaker(Recall, lambda session: session.record),
    ServiceMaker(SeenFileStore, lambda session: session.record),
    ServiceMaker(TextCounter, lambda session: session.context.counter),
    ServiceMaker(Assembly, _context_tool),
    ServiceMaker(SessionFacts, _facts),
    ServiceMaker(SessionWaits, _waits),
    ServiceMaker(Jobs, _jobs),
    ServiceMaker(PersonQuestions, lambda session: PersonQuestions(session.dispatcher.approver)),
    ServiceMaker(ToolCatalogue, lambda session: ToolCatalogue(partial(_describe_tool, session))),
    ServiceMaker(SkillGuides, _skill_guides, lambda known, options: may_have_skills(options.cwd)),
)
"""The services of every session."""


def offered_services(
    makers: ServiceMakers, personal_ledger: Ledger, options: Options, session: Callable[[], Session]
) -> SessionServices:
    """Return the services of a session with `options`: `OWN_SERVICES` and `makers`; for equal protocols the last wins.

    `session` is called when the first service is used.
    """
    service_makers = [
        maker
        for maker in (*OWN_SERVICES, *makers)
        if maker.is_offered is None or maker.is_offered(personal_ledger, options)
    ]
    return SessionServices({maker.protocol: partial(_make, maker, session) for maker in service_makers})


def added_tools(makers: ServiceMakers, services: SessionServices, options: Options) -> list[Tool]:
    """Return the tools that the makers of `services` add, in the order of the makers."""
    return [tool for maker in makers if maker.tools and maker.protocol in services for tool in maker.tools(options)]


def _make(maker: ServiceMaker[object], session: Callable[[], Session]) -> object:
    return maker.make(session())
