"""A truncation that cuts pinned messages away says them again where the hole is (law 6 keeps pins; so does a cut)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from nexus_cli.context.groups import flatten
from nexus_cli.context.lane import Lane
from nexus_cli.context.pin import Pin
from nexus_cli.context.rewrite import Rewriter
from nexus_cli.context.summary_head import PINNED
from nexus_cli.context.truncation import Cut
from nexus_cli.core.entry import Drop, Form, Slot


@dataclass
class PinningRewriter(Rewriter):
    """A rewriter that puts the pins which would go into its first marker, as far as `room` tokens go."""

    pins: Sequence[Pin] = ()
    room: int = 0

    @property
    def reserved(self) -> int:
        """Tokens that the pins may take, to be kept free for them."""
        return sum((self.count(pin.shown) + 2 for pin in self._fitting(self.pins)), self.count(PINNED) + 2)

    def _fitting(self, pins: Sequence[Pin]) -> list[Pin]:
        """Those that fit, the newest first to get room, in their order."""
        room, found = self.room - self.count(PINNED) - 2, []
        for pin in reversed(pins):
            cost = self.count(pin.shown) + 2
            if cost <= room:
                room -= cost
                found.append(pin)
        return found[::-1]

    def _head(self, lane: Lane, result: Cut, drops: list[Drop]) -> list[Slot]:
        head = super()._head(lane, result, drops)
        kept = flatten(result.groups)
        there = {slot.entry for slot in kept if slot.form is Form.FULL}
        texts = [slot.message.content for slot in head]
        gone = [p for p in self.pins if p.entry not in there and not any(p.shown in text for text in texts)]
        place = next((index for index, slot in enumerate(head) if slot.form is Form.MARKER), None)
        fitting = self._fitting(gone)
        if place is None or not fitting:
            return head
        slot = head[place]
        text = "\n".join([slot.message.content, "", PINNED, *(pin.shown for pin in fitting)])
        message = replace(slot.message, content=text)
        head[place] = replace(slot, message=message, tokens=self.measure(message, ""))
        return head


def with_pins(rewriter: Rewriter, pins: Sequence[Pin], room: int) -> PinningRewriter:
    """`rewriter` with these pins, which may take `room` tokens together."""
    values: dict[str, object] = {one.name: getattr(rewriter, one.name) for one in fields(Rewriter)}
    make: Callable[..., PinningRewriter] = PinningRewriter
    return make(**values, pins=pins, room=room)
