"""`Continuation`: a reason for a turn to go on after a reply of the model.

A new kind is a subclass of `Continuation` and an entry in `find_continuations` (`start_conversation.py`), whose order
decides. What begins another turn (`nexus ask --watch`, a plan, a run) is none.
"""

from __future__ import annotations

from collections.abc import Iterable

from nexus_cli.core.event import Outcome
from nexus_cli.core.running_workers import RunningWorkers
from nexus_cli.session.base_session import BaseSession


class Continuation:
    """One kind, for one turn. An exception of `admit`, `begin` or `next_message` ends the turn with its error; `close`
    of all kinds runs at the end of every turn."""

    has_work = False
    """True if a turn without a message may begin after a complete reply, because there is work left for this kind."""

    def __init__(self, session: BaseSession) -> None:
        self._session, self._engine, self._dispatcher = session, session.engine, session.dispatcher

    def admit(self, *, has_message: bool) -> str:
        """Return the text that the model has to get, before the trigger is recorded, which may have a message; "" for
        nothing."""
        return ""

    async def begin(self) -> None:
        """Prepare the work, after the text of the trigger was recorded and before the first request."""

    async def next_message(self) -> str:
        """Return the message with which the turn goes on, "" to let it end. Called after a reply without tool calls if
        no kind before this one goes on."""
        return ""

    def close(self, ended: Outcome) -> Outcome:
        """Return the outcome with what this kind knows of it, after success and failure alike."""
        return ended


async def next_message(continuations: Iterable[Continuation]) -> str:
    """Return the message of the first kind that goes on, "" if the turn ends."""
    for continuation in continuations:
        if text := await continuation.next_message():
            return text
    return ""


class WorkerReports(Continuation):
    """The reports of background workers, for which a turn waits if none follows it."""

    async def next_message(self) -> str:
        workers = self._session.services.get_existing(RunningWorkers)
        return "" if workers is None or self._session.has_more_turns else await workers.next_report()


class StopHooks(Continuation):
    """The hooks of the event `Stop`."""

    async def next_message(self) -> str:
        hooks = self._dispatcher.hooks
        return await hooks.next_message() if hooks else ""
