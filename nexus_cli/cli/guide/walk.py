"""One session on its way: opened, spoken to, acted on, closed, with everything shown that happens in it.

Knows nothing of chapters, nor of what has to come of a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nexus_cli.cli.guide.place import Place, settings
from nexus_cli.cli.guide.show import Show
from nexus_cli.core import event
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, Event
from nexus_cli.provider.scripted import MODEL
from nexus_cli.session.acts import Act
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.session.wiring import open_session
from nexus_cli.ui.reports import FORMS

E = TypeVar("E")


@dataclass
class Walk:
    """A session, open or closed, and the screen that it is shown on."""

    place: Place
    show: Show
    opened: Session | None = None

    @property
    def session(self) -> Session:
        """The open one."""
        assert self.opened is not None, "a scene needs an open session"
        return self.opened

    def open(self, *, allow: str = "read", resume: str = "") -> None:
        """A new session, or the one that is named."""
        options = Options(
            cwd=self.place.project, model=MODEL, recipe="chat", allow=allow, resume=resume, require_save=True,
            interactive=self.show.asks,
        )  # fmt: skip
        provider = self.place.provider(self.show.pace)
        self.opened = open_session(options, settings(), approver=self.show.approver, provider=provider)

    async def aclose(self) -> None:
        """Close the session, if one is open."""
        if self.opened is not None:
            await self.opened.aclose()
            self.opened = None

    async def turn(self, words: str, **values: str) -> list[Event]:
        """One turn, shown; what happened in it. `NexusError` where it did not end well."""
        for name, value in values.items():
            words = words.replace(f"${name}", value)
        self.show.begin(words)
        happened = []
        async for one in self.session.run(Trigger(words)):
            self.show.feed(one)
            happened.append(one)
        end = happened[-1]
        if every(happened, CompactionDone):
            summed_up(happened)  # where it was refused, that is the reason of what follows
        if isinstance(end, event.TurnEnd) and end.outcome.error:
            raise broken(end.outcome.error["message"], end.outcome.error["hint"])
        return happened

    async def act(self, command: str, act: Act) -> list[Event]:
        """What `command` does, shown as typed; what happened. `NexusError` where it was refused."""
        self.show.begin(command)
        happened = []
        try:
            async for one in self.session.act(act):
                self.show.feed(one)
                happened.append(one)
        except NexusError as error:
            raise broken(f"{command}: {error.message}", error.hint) from error
        return happened

    def report(self, form: str, value: Mapping[str, Any]) -> None:
        """A report in its text form."""
        self.show.report(FORMS[form](value, self.show.width))


def every(happened: Sequence[Event], kind: type[E], wanted: Callable[[E], bool] = lambda one: True) -> list[E]:
    """The events of one kind that are `wanted`, in their order."""
    return [one for one in happened if isinstance(one, kind) and wanted(one)]


def summed_up(happened: Sequence[Event]) -> CompactionDone:
    """The compaction that was accepted; `NexusError` with the reason where none was."""
    ends = every(happened, CompactionDone)
    if not ends or not ends[-1].ok:
        raise broken(f"the window was not summed up{f': {ends[-1].why}' if ends else ''}")
    return ends[-1]


def broken(why: str, hint: str = "This is a fault of nexus: `nexus doctor` shows what works here") -> NexusError:
    """What is raised where a scene does not show what it should."""
    return NexusError("internal", "it has stopped here", why, hint)
