"""Between contributors and the engine: the frame of the next epoch and the preamble of the next request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.gather import NOTICES, Gatherer, News, system_text
from nexus_cli.context.lane import Frame
from nexus_cli.context.timeline import Timeline
from nexus_cli.core.wire import canonical
from nexus_cli.session.engine import Engine, Model, Preamble

PLAN = "plan"
"""Memo of a request that told something: `epoch`, `told` (section to the hash of its whole text), `pool`, `raised` and
`sections` as in interface.md section 8. Its entry is the newest one that the request held."""


@dataclass
class Frames:
    """Assembles what we add to the requests of one lane."""

    gatherer: Gatherer
    model: Model
    rules: str
    tools: Sequence[Mapping[str, Any]]
    system_cost: Callable[[str], int]
    tools_cost: Callable[[Sequence[Mapping[str, Any]]], int]

    async def frame(self, engine: Engine | None = None) -> Frame:
        """System text and tools as they would be now, in the budget that `engine` has by now."""
        self._fit(engine)
        plan = await self.gatherer.static()
        text = system_text(plan, self.gatherer.view.count)
        tools = tuple(self.tools)
        return Frame(
            self.model.info.name,
            text,
            tools,
            self.rules,
            self.model.effort,
            self.system_cost(text),
            self.tools_cost(tools),
            canonical([section.described(cached=True) for section in plan.chosen]).decode(),
        )

    async def gather(self, engine: Engine) -> Preamble:
        """The preamble of the next request: all that changed on a user message, notices alone on a tool result.

        Where a new epoch begins in the middle of a run, its first tool result tells all.
        """
        lane = engine.lane
        self._fit(engine)
        if lane.epoch.id != self._epoch:
            # What a head keeps is not told again: a switch of model keeps all of it, a compaction the newest part.
            await self.resume(engine)
        everything = lane.undressed() or self.gatherer.blank
        news = await self.gatherer.news(only="" if everything else NOTICES)
        engine.event = ()

        def settle() -> None:
            self.gatherer.settle(news)
            engine.event = news.described()
            if engine.event:
                lane.timeline.memo(PLAN, _memo(lane.epoch.id, news, engine.event))
            if NOTICES in news.told:
                engine.notices.clear()

        return Preamble(news.text, settle)

    async def resume(self, engine: Engine) -> None:
        """Learn what the epoch of a lane told already."""
        lane = engine.lane
        self._epoch = lane.epoch.id
        self.gatherer.learn((slot.preamble for slot in lane.slots), last_told(lane.timeline))

    def _fit(self, engine: Engine | None) -> None:
        if engine is not None and engine.budget.window != self.gatherer.view.window:
            self.gatherer.fit(engine.budget)

    _epoch: int = -1


def last_told(timeline: Timeline) -> dict[str, str]:
    """The hash of what a lane last told of each event section, in whatever epoch."""
    last: dict[str, str] = {}
    for memo in timeline.memos(PLAN):
        last.update(memo.value["told"])
    return last


def _memo(epoch: int, news: News, sections: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    told = {key: digest for key, digest in news.told.items() if key != NOTICES}
    return {
        "epoch": epoch,
        "told": told,
        "pool": news.plan.budget,
        "raised": news.plan.raised,
        "sections": list(sections),
    }
