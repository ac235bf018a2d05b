"""The chapters, each one a scene of the real engine that checks what it claims.

Knows what is asked of the model and what has to come of it; how it looks is the business of `show`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nexus_cli.cli.guide.killed import killed
from nexus_cli.cli.guide.place import WINDOW, Place, settings
from nexus_cli.cli.guide.show import Show
from nexus_cli.core import event
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event
from nexus_cli.core.trigger import Trigger
from nexus_cli.provider.scripted import MODEL, SUMMARY_HEAD
from nexus_cli.session.dispatch import UNKNOWN_OUTCOME
from nexus_cli.session.options import Options
from nexus_cli.session.replay import check
from nexus_cli.session.session import Session
from nexus_cli.session.wiring import open_session
from nexus_cli.ui.reports import FORMS

E = TypeVar("E")


@dataclass
class Chapters:
    """One session on its way through the chapters."""

    place: Place
    show: Show
    texts: Mapping[str, Mapping[str, str]]
    command: str
    """The command that all this is, for the process that is killed."""
    session: Session | None = None
    drop: str = ""

    async def play(self) -> None:
        """All chapters; `NexusError` where one of them does not show what it should, `Left` when the person leaves."""
        self._begin("start", folder=self.place.folder)
        for scene in (self._fix, self._drop, self._compaction, self._kill, self._context, self._replay):
            await self.show.on()
            await scene()
        await self.show.on()

    async def part(self, session: str) -> None:
        """What the process does that is killed."""
        self._open(allow="all", resume=session)
        await self._turn(self.texts["kill"]["words"])

    async def aclose(self) -> None:
        """Close the session, if one is open."""
        if self.session is not None:
            await self.session.aclose()
            self.session = None

    async def _fix(self) -> None:
        self._begin("fix", answers=self.texts["fix"]["asks" if self.show.asks else "straight"])
        self._open()
        happened = await self._turn(self.texts["fix"]["words"])
        runs = _all(happened, event.Resulted, lambda one: one.call.name == "bash" and one.result.ran)
        if any(one.result.denied for one in _all(happened, event.Resulted)):
            self._say("fix", "refused")
        elif not runs or runs[-1].result.status != 0:
            raise _broken("the tests still fail after the edit", "A tool does not do what it says")
        else:
            self._say("fix", "passed")

    async def _drop(self) -> None:
        self._begin("drop", window=f"{WINDOW:,}", cap=f"{TokenBudget.of(WINDOW).output_cap:,}")
        happened = await self._turn(self.texts["drop"]["words"])
        drops, recalls = _all(happened, event.Dropped), _all(happened, event.Recalled)
        if not drops or not recalls:
            raise _broken("nothing was left out of a long result, or it was not read back")
        self.drop = drops[0].drop.id
        self._say("drop", "after", drop=self.drop)

    async def _compaction(self) -> None:
        self._begin("compaction", at=f"{settings().compact.at:.0%}".rstrip("%"))
        happened = await self._turn(self.texts["compaction"]["words"], drop=self.drop)
        assert self.session is not None
        if not _done(happened):
            self._say("compaction", "commanded")
            for one in await self.session.compact():
                self.show.feed(one)
                happened.append(one)
        done = _done(happened)
        summaries = [m.content for m in self.session.context.messages if m.content.startswith(SUMMARY_HEAD)]
        if not done or not summaries:
            raise _broken("the window was not summed up")
        self._say("compaction", "after", before=f"{done[-1].before:,} tokens", after=f"{done[-1].after:,}")
        self.show.quote(summaries[-1].partition("\n\n")[2])

    async def _kill(self) -> None:
        assert self.session is not None
        self._begin("kill")
        session = self.session.id
        await self.aclose()
        pid = await killed(self.place, session, self.command, slow=self.show.pace > 0)
        if not pid:
            raise _broken("the other process did not get to the middle of its work")
        booked, orders = len(self.place.booked()), len(self.place.orders())
        self._say("kill", "killed", pid=pid, booked=booked, orders=orders)
        await self.show.on()
        self._say("kill", "resumed")
        self._open(allow="all", resume=session)
        happened = await self._turn("")
        unknown = _all(happened, event.Resulted, lambda one: one.result.error == UNKNOWN_OUTCOME)
        if not unknown or sorted(self.place.booked()) != self.place.orders():
            raise _broken("the work did not go on where the killed process was")

    async def _context(self) -> None:
        assert self.session is not None
        self._begin("context")
        self.show.report(FORMS["context"](self.session.report(), self.show.width))
        self._say("context", "after")
        share = self.session.status().cached
        self._say("context", "cached" if share else "nothing_cached", share=f"{share or 0:.0%}")

    async def _replay(self) -> None:
        assert self.session is not None and self.session.ledger is not None
        self._begin("replay")
        value = {"session": self.session.id, **check(self.session.ledger, self.session.id)}
        self.show.report(FORMS["replay"](value, self.show.width))
        if not value["ok"]:
            raise _broken("a request could not be rebuilt as it was sent")

    def _begin(self, chapter: str, **values: object) -> None:
        self.show.chapter(self.texts[chapter]["title"], self.texts[chapter]["text"], **values)

    def _say(self, chapter: str, key: str, **values: object) -> None:
        self.show.say(self.texts[chapter][key], **values)

    def _open(self, *, allow: str = "read", resume: str = "") -> None:
        options = Options(
            cwd=self.place.project, model=MODEL, recipe="chat", allow=allow, resume=resume, require_save=True,
            interactive=self.show.asks,
        )  # fmt: skip
        provider = self.place.provider(self.show.pace)
        self.session = open_session(options, settings(), approver=self.show.approver, provider=provider)

    async def _turn(self, words: str, **values: str) -> list[Event]:
        """One turn of the session, shown; what happened in it. `NexusError` where it did not end well."""
        assert self.session is not None
        for name, value in values.items():
            words = words.replace(f"${name}", value)
        self.show.begin(words)
        happened = []
        async for one in self.session.run(Trigger(words)):
            self.show.feed(one)
            happened.append(one)
        end = happened[-1]
        if isinstance(end, event.TurnEnd) and end.outcome.error:
            raise _broken(end.outcome.error["message"], end.outcome.error["hint"])
        return happened


def _all(happened: Sequence[Event], kind: type[E], wanted: Callable[[E], bool] = lambda one: True) -> list[E]:
    return [one for one in happened if isinstance(one, kind) and wanted(one)]


def _done(happened: Sequence[Event]) -> list[event.CompactionDone]:
    return _all(happened, event.CompactionDone, lambda one: one.ok)


def _broken(why: str, hint: str = "This is a fault of nexus: `nexus doctor` shows what works here") -> NexusError:
    return NexusError("internal", "it has stopped here", why, hint)
