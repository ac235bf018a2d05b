"""`ServiceMaker`: how a service is registered. Those that every session has are listed here, those of the rooms above
in
`nexus_cli.service_list`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from nexus_cli.core.services import Assembly, Recall, SeenFileStore, TextCounter
from nexus_cli.core.session_services import SessionServices
from nexus_cli.lane.prompt_assembly import PromptAssembly
from nexus_cli.session.memory.session_facts import SessionFacts
from nexus_cli.turn.waiting import SessionWaits

if TYPE_CHECKING:
    from nexus_cli.lane.options import Options
    from nexus_cli.ledger import FailoverLog, Ledger
    from nexus_cli.session.context_tool_service import ContextToolService
    from nexus_cli.session.session import Session

S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ServiceMaker(Generic[S_co]):
    """A service that sessions may have."""

    protocol: type[S_co]
    """A session with it has the tools that need this protocol, or one that it extends."""
    make: Callable[[Session], S_co]
    """Called when the service is first used; imports what only then is needed."""
    is_offered: Callable[[Ledger, Options], bool] | None = None
    """False for a session that does not have it, by its options and by what the person's ledger knows; None: every
    session has it. Cheap: every start of a session asks."""


def _log(session: Session) -> FailoverLog:
    assert session.state.record is not None, "a session of the factory has a log"
    return session.state.record


def _context_tool(session: Session) -> ContextToolService:
    from nexus_cli.session.context_tool_service import ContextToolService  # noqa: PLC0415  (few sessions call it)

    lane_state = session.state.lane_state
    assert isinstance(lane_state.prompt, PromptAssembly), "a session of the factory has contributors"
    return ContextToolService(_log(session), lane_state, lane_state.prompt.collector)


def _facts(session: Session) -> SessionFacts:
    assert session.ledger is not None, "a session of the factory has a ledger"
    return SessionFacts.of(session.ledger, session.id, session.folder, session.state.lane_state.clock)


def _waits(session: Session) -> SessionWaits:
    ledger, options = session.ledger, session.state.options
    assert ledger is not None and options is not None, "a session of the factory has both"
    return SessionWaits(ledger, _log(session), bool(options.spawner), lambda: _describe_run(session))


def _describe_run(session: Session) -> dict[str, object]:
    from nexus_cli.session.run_record import describe_run  # noqa: PLC0415  (a session begins to wait)

    return describe_run(session.state)


ServiceMakers = Sequence[ServiceMaker[object]]
OWN_SERVICES: ServiceMakers = (
    ServiceMaker(Recall, _log),
    ServiceMaker(SeenFileStore, _log),
    ServiceMaker(TextCounter, lambda session: session.context.counter),
    ServiceMaker(Assembly, _context_tool),
    ServiceMaker(SessionFacts, _facts),
    ServiceMaker(SessionWaits, _waits),
)
"""What every session has, whoever opens it."""


def offered_services(
    makers: ServiceMakers, known: Ledger, options: Options, session: Callable[[], Session]
) -> SessionServices:
    """Return the services of a session with `options`: its own and those of `makers`, of which a later one of the same
    protocol wins. `session` is not called before one is used."""
    found = [one for one in (*OWN_SERVICES, *makers) if one.is_offered is None or one.is_offered(known, options)]
    return SessionServices({one.protocol: partial(_make, one, session) for one in found})


def _make(maker: ServiceMaker[object], session: Callable[[], Session]) -> object:
    return maker.make(session())
