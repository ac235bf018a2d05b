"""Collect the figures of a session's status line, without any request."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.drop_list import returned_drops
from nexus_cli.core.goals import open_until
from nexus_cli.core.limits import ALL
from nexus_cli.core.services import Jobs
from nexus_cli.session.base_session import BaseSession
from nexus_cli.session.cold_request import cold_price


@dataclass(frozen=True, slots=True)
class Status:
    """The figures of a session at one moment."""

    session: str
    model: str
    effort: str
    allow: str
    """The permission level: one of `LEVELS` (`core/limits.py`), or `PLAN`."""
    recipe: str
    folder: str
    used: int
    """Tokens of the next request, see `basis`; 0 before the first one."""
    budget: int
    """Maximum tokens of a request."""
    basis: str
    """`reported`, `estimate` or `reported+estimate`."""
    drops: int
    """Number of drops that are not back in the window and that a person could miss."""
    cached: float | None
    """Share of the newest request's input that was read from the cache; null before the first report."""
    cost_usd: float | None
    """Cost of the whole session in US dollars; null if a price is unknown."""
    known_usd: float
    """Cost of its requests with a known price."""
    saved: bool
    """True if another process can resume the session."""
    waiting: int = 0
    """Part of `used` that waits for the next message, by nexus's own count."""
    settled: bool = True
    """False if the system text of the next request has not been read yet."""
    has_sandbox: bool = True
    """False if the level needs a sandbox and there is none."""
    until: str = ""
    """The command that the session works for; "" for none."""
    workers: int = 0
    """Number of background workers, set by callers that follow their events."""
    jobs: tuple[str, ...] = ()
    """Ids of the background commands that run."""
    addresses: tuple[str, ...] = ()
    """The addresses at which the person reaches the servers of jobs: `j1 http://127.0.0.1:8000`."""
    waits: str = ""
    """The event that the session's run waits for, set by callers that watch it; "" for none."""
    asking: int = 0
    """Number of unattended runs that wait for the person, set by callers that look for them."""
    cold: bool = False
    """True if the next request misses the cache although much of it was sent before."""
    cold_usd: float | None = None
    """Price of that request's input; null if unknown."""
    saved_usd: float = 0.0
    """US dollars that the cache saved in the whole session, as far as they are known."""
    covered: bool = False
    """True if a subscription pays for the model's requests."""
    branch: str = ""
    """The git branch of the folder, set by callers that read it."""
    activity: str = "idle"
    """`idle`, `running`, `asking` or `waiting`, set by the server of the session."""
    in_turn: bool = False
    """True from the first to the last event of a turn, set by the server of the session."""
    next: int = 0
    """The number of the session's next event, set by its server."""
    is_cut_short: bool = False
    """True if the newest turn is not finished, set by the server of the session."""
    keeps_attached: bool = False
    """True if the session keeps what a client attaches, until a message takes it; set by the server of the session."""
    changes: str = ""
    """The files and lines that the newest turn changed, as counted by the server of the session."""
    server: str = ""
    """The address of that server, set by its client; "" for a session of this process."""


def status(session: BaseSession) -> Status:
    """Return the current status of the session."""
    engine, request = session.engine, session.engine.next_request()
    drops = session.drops()
    conversation = engine.conversation
    returned = (
        returned_drops(drops, conversation.items, conversation.memos, conversation.epoch.sections) if drops else ()
    )
    drops = [drop for drop in drops if drop.id not in returned]
    last, (cost, known_cost, saved_usd) = engine.conversation.sent.last_usage, session.costs()
    until = open_until(conversation, session.id)
    cold, jobs = cold_price(session, request), session.services.get_existing(Jobs)
    level, probe = session.dispatcher.level, session.dispatcher.permission.probe
    return Status(
        session=session.id,
        model=engine.model.info.name,
        effort=engine.model.effort,
        allow=level,
        recipe=session.dispatcher.recipe.name,
        folder=str(session.folder),
        used=request.tokens if conversation.is_recorded or conversation.items else 0,
        budget=request.budget.available,
        basis=request.basis,
        drops=sum(drop.is_missed for drop in drops),
        cached=last.cache_read / last.input if last and last.input else None,
        cost_usd=cost,
        known_usd=known_cost,
        saved_usd=saved_usd,
        cold=cold is not None,
        cold_usd=cold.cost_usd if cold else None,
        covered=engine.model.info.covered,
        saved=session.saved,
        jobs=tuple(jobs.names()) if jobs else (),
        addresses=tuple(jobs.addresses()) if jobs else (),
        waiting=request.waiting,
        until=until.get("command", ""),
        has_sandbox=level == ALL or probe is None or probe.backend != "none",
        settled=conversation.is_recorded and not engine.begins_without_draft,
    )
