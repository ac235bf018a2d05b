"""The chapters, each one a scene of the real engine that checks what it claims.

Knows what is asked of the model and what has to come of it; how it looks is the business of `show`, how it runs that
of `walk`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.cli.guide.killed import killed
from nexus_cli.cli.guide.place import WINDOW, Place, settings
from nexus_cli.cli.guide.show import Show
from nexus_cli.cli.guide.walk import Walk, broken, every, summed_up
from nexus_cli.context.work_record import RECORD
from nexus_cli.core import event
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.message import Message
from nexus_cli.provider.scripted import MODEL, SUMMARY_HEAD
from nexus_cli.session.acts.compaction import compaction, preview
from nexus_cli.session.acts.uncompact import uncompaction
from nexus_cli.session.dispatch import UNKNOWN_OUTCOME
from nexus_cli.session.replay import check
from nexus_cli.session.reports.cache import why


@dataclass
class Chapters:
    """One session on its way through the chapters."""

    place: Place
    show: Show
    texts: Mapping[str, Mapping[str, str]]
    command: str
    """The command that all this is, for the process that is killed."""
    walk: Walk = field(init=False)
    drop: str = ""
    """The log that was left out."""
    failed: bool = False
    """A test was seen to fail; not where the person said no to running it."""

    def __post_init__(self) -> None:
        self.walk = Walk(self.place, self.show)

    async def play(self) -> None:
        """All chapters; `NexusError` where one of them does not show what it should, `Left` when the person leaves."""
        self._begin("start", folder=self.place.folder, model=MODEL)
        for scene in (
            self._fix, self._drop, self._compaction, self._miss, self._by_hand, self._kill, self._context, self._replay,
        ):  # fmt: skip
            await self.show.on()
            await scene()
        await self.show.on()

    async def part(self, session: str) -> None:
        """What the process does that is killed."""
        self.walk.open(allow="all", resume=session)
        await self.walk.turn(self.texts["kill"]["words"])

    async def aclose(self) -> None:
        """Close the session, if one is open."""
        await self.walk.aclose()

    async def _fix(self) -> None:
        self._begin("fix", answers=self.texts["fix"]["asks" if self.show.asks else "straight"])
        self.walk.open()
        happened = await self.walk.turn(self.texts["fix"]["words"])
        runs = every(happened, event.Resulted, lambda one: one.call.name == "bash" and one.result.ran)
        self.failed = bool(runs and runs[0].result.status)
        if any(one.result.denied for one in every(happened, event.Resulted)):
            self._say("fix", "refused")
        elif not runs or runs[-1].result.status != 0:
            raise broken("the tests still fail after the edit", "A tool does not do what it says")
        else:
            self._say("fix", "passed")

    async def _drop(self) -> None:
        self._begin("drop", window=f"{WINDOW:,}", cap=f"{TokenBudget.of(WINDOW).output_cap:,}")
        happened = await self.walk.turn(self.texts["drop"]["words"])
        drops, recalls = every(happened, event.Dropped), every(happened, event.Recalled)
        if not drops or not recalls:
            raise broken("nothing was left out of a long result, or it was not read back")
        self.drop = drops[0].drop.id
        self._say("drop", "after", drop=self.drop)

    async def _compaction(self) -> None:
        self._begin("compaction", at=f"{settings().compact.at:.0%}".rstrip("%"))
        happened = await self.walk.turn(self.texts["compaction"]["words"], drop=self.drop)
        done = summed_up(happened)
        summaries = [m.content for m in self.walk.session.context.messages if m.content.startswith(SUMMARY_HEAD)]
        if not summaries or (self.failed and RECORD not in summaries[-1]):
            raise broken("the record of the work does not stand below the summary")
        self._say("compaction", "after", before=f"{done.before:,} tokens", after=f"{done.after:,}")
        self.show.quote(summaries[-1].partition("\n\n")[2])
        self._say("compaction", "checked")

    async def _miss(self) -> None:
        session = self.walk.session
        assert session.ledger is not None
        self._begin("miss")
        self.show.begin("/cache why")
        value = why(session.ledger, session.id, settings())
        self.walk.report("miss", value)
        found = value["difference"]
        if not value["missed"] or not value["ours"] or found is None or found["by"] != "compaction":
            raise broken("the request after the summary missed nothing, or nobody knows why")
        self._say("miss", "after")

    async def _by_hand(self) -> None:
        self._begin("by_hand")
        found: list[Mapping[str, Any]] = []
        await self.walk.act("/compact --preview", preview("", found.append))
        self.walk.report("compaction", found[0])
        if not found[0]["possible"]:
            raise broken("there was nothing to sum up")
        await self.show.on()
        self._say("by_hand", "done")
        before = self.walk.session.context.messages
        summed_up(await self.walk.act("/compact", compaction("")))
        since: list[Message] = []
        if self.failed:
            self._say("by_hand", "ask")
            await self.walk.turn(self.texts["by_hand"]["words"])
            self._say("by_hand", "kept")
            since = self.walk.session.context.messages[-2:]
        await self.show.on()
        self._say("by_hand", "undo")
        await self.walk.act("/uncompact", uncompaction())
        if self.walk.session.context.messages != [*before, *since]:
            raise broken("the window is not what it was before the summary")
        self._say("by_hand", "after")

    async def _kill(self) -> None:
        self._begin("kill")
        session = self.walk.session.id
        await self.aclose()
        pid = await killed(self.place, session, self.command, slow=self.show.pace > 0)
        if not pid:
            raise broken("the other process did not get to the middle of its work")
        booked, orders = len(self.place.booked()), len(self.place.orders())
        self._say("kill", "killed", pid=pid, booked=booked, orders=orders)
        await self.show.on()
        self._say("kill", "resumed")
        self.walk.open(allow="all", resume=session)
        happened = await self.walk.turn("")
        unknown = every(happened, event.Resulted, lambda one: one.result.error == UNKNOWN_OUTCOME)
        if not unknown or sorted(self.place.booked()) != self.place.orders():
            raise broken("the work did not go on where the killed process was")

    async def _context(self) -> None:
        self._begin("context")
        self.walk.report("context", self.walk.session.report())
        self._say("context", "after")
        share = self.walk.session.status().cached
        self._say("context", "cached" if share else "nothing_cached", share=f"{share or 0:.0%}")

    async def _replay(self) -> None:
        session = self.walk.session
        assert session.ledger is not None
        self._begin("replay")
        value = {"session": session.id, **check(session.ledger, session.id)}
        self.walk.report("replay", value)
        if not value["ok"]:
            raise broken("a request could not be rebuilt as it was sent")

    def _begin(self, chapter: str, **values: object) -> None:
        self.show.chapter(self.texts[chapter]["title"], self.texts[chapter]["text"], **values)

    def _say(self, chapter: str, key: str, **values: object) -> None:
        self.show.say(self.texts[chapter][key], **values)
