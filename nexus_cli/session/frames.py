"""Between contributors and the engine: the frame of the next epoch and the preamble of the next request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.gather import Gatherer, system_text
from nexus_cli.context.lane import Frame
from nexus_cli.context.section import Section
from nexus_cli.core.clock import Clock, stamp
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.services import Log
from nexus_cli.core.wire import canonical
from nexus_cli.session.engine import Engine, Model, Preamble


@dataclass
class Frames:
    """Assembles what we add to the requests of one lane."""

    gatherer: Gatherer
    model: Model
    rules: str
    tools: Sequence[Mapping[str, Any]]
    system_cost: Callable[[str], int]
    tools_cost: Callable[[Sequence[Mapping[str, Any]]], int]

    async def frame(self) -> Frame:
        """System text and tools as they would be now."""
        chosen = await self.gatherer.static()
        text = system_text(chosen)
        tools = tuple(self.tools)
        return Frame(
            self.model.info.name,
            text,
            tools,
            self.rules,
            self.model.effort,
            self.system_cost(text),
            self.tools_cost(tools),
            canonical([section.described(cached=True) for section in chosen]).decode(),
        )

    async def gather(self, engine: Engine) -> Preamble:
        """The preamble of the next request: all that changed on a user message, notices alone on a tool result.

        Where a new epoch begins in the middle of a run, its first tool result tells all.
        """
        lane = engine.lane
        if lane.epoch.id != self._epoch:
            self._epoch = lane.epoch.id
            self.gatherer.new_epoch()
            # What a head keeps is not told again: a switch of model keeps all of it, a compaction the newest part.
            await self.gatherer.resume(slot.preamble for slot in lane.slots)
        everything = lane.undressed() or not self.gatherer.sent
        text, fresh = await self.gatherer.preamble(only="" if everything else "notices")

        def settle() -> None:
            self.gatherer.settle(fresh)
            if "notices" in fresh:
                engine.notices.clear()

        return Preamble(text, settle)

    async def resume(self, engine: Engine) -> None:
        """Learn what the epoch of a resumed lane last sent."""
        self._epoch = engine.lane.epoch.id
        await self.gatherer.resume(slot.preamble for slot in engine.lane.slots)

    _epoch: int = -1


def drop_of(log: Log, clock: Clock) -> Callable[[Section], str]:
    """Records what a section's shortened form leaves out, and gives the drop's id."""

    def record(section: Section) -> str:
        cut = section.cut
        assert cut is not None, "only cut sections are dropped"
        name = log.next_drop()
        what = f"part of section {section.id} ({section.source})"
        log.drop(Drop(name, what, cut.tokens, Cause.INSTRUCTION_CAP, stamp(clock()), text=cut.text))
        return name

    return record


