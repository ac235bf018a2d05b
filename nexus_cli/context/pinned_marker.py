"""A truncation that cuts pinned messages or the person's words away says them again where the hole is (law 6 keeps
them; so does a cut)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field, fields, replace

from nexus_cli.context.groups import flatten
from nexus_cli.context.lane import Lane
from nexus_cli.context.own_words import OwnWords, quoted
from nexus_cli.context.pin import Pin
from nexus_cli.context.rewrite import Rewriter
from nexus_cli.context.strategies import Strategy
from nexus_cli.context.summary_head import PINNED
from nexus_cli.context.truncation import Cut, Hole
from nexus_cli.core.entry import Drop, Form, Slot

SAID = "What the person said in them, word for word:"
NEAR = 0.9
"""Share of the mark that is enough: a cut that went further takes the next message along, if that stays near it."""
ABOVE = (1.15, 1.3)
"""How far above the mark a cut may stay, tried one after the other."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cut must not take away without saying it again."""

    pins: Sequence[Pin] = ()
    pins_room: int = 0
    """Tokens for the pins."""
    said: Callable[[Collection[int]], Iterable[tuple[int, str]]] = lambda shown: ()
    """What the person said in the lane, entry and text, newest first, without the entries that are shown."""
    words_room: int = 0
    """Tokens for their words."""
    recalls: bool = True
    """Whether the model can read drops."""


@dataclass
class PinningRewriter(Rewriter):
    """A rewriter that puts the pins and the words which would go into its first marker, as far as there is room."""

    keeps: Kept = field(default_factory=Kept)

    @property
    def reserved(self) -> int:
        """Tokens that pins and words may take, to be kept free for them."""
        pins = sum((self.count(pin.shown) + 2 for pin in self._fitting(self.keeps.pins)), self.count(PINNED) + 2)
        words, room = OwnWords(self.count), self.keeps.words_room
        said = sum(words.cost(text) for _, text in words.newest(self.keeps.said(()), room))
        return (pins if self.keeps.pins else 0) + min(room, said)

    def marker_slot(self, hole: Hole, drop_id: str) -> Slot:
        """See `Rewriter`; the way back is named where there is one for the model."""
        slot = super().marker_slot(hole, drop_id)
        if self.keeps.recalls:
            return slot
        text = f"[Left out here to fit the window: messages {hole.first} to {hole.last}.]"
        message = replace(slot.message, content=text)
        return replace(slot, message=message, tokens=self.measure(message, ""))

    def _fitting(self, pins: Sequence[Pin]) -> list[Pin]:
        """Those that fit, the newest first to get room, in their order."""
        room, found = self.keeps.pins_room - self.count(PINNED) - 2, []
        for pin in reversed(pins):
            cost = self.count(pin.shown) + 2
            if cost <= room:
                room -= cost
                found.append(pin)
        return found[::-1]

    def _head(self, lane: Lane, result: Cut, drops: list[Drop]) -> list[Slot]:
        head = super()._head(lane, result, drops)
        kept = flatten(result.groups)
        texts = [slot.message.content for slot in head]
        place = next((index for index, slot in enumerate(head) if slot.form is Form.MARKER), None)
        if place is None:
            return head
        there = {slot.entry for slot in kept if slot.form is Form.FULL}
        gone = [p for p in self.keeps.pins if p.entry not in there and not any(p.shown in text for text in texts)]
        parts = [head[place].message.content]
        fitting = self._fitting(gone)
        if words := self._words(kept, texts, {pin.entry for pin in fitting}):
            parts.append("\n\n".join([SAID, *map(quoted, words)]))
        if fitting:
            parts.append("\n".join([PINNED, *(pin.shown for pin in fitting)]))
        message = replace(head[place].message, content="\n\n".join(parts))
        head[place] = replace(head[place], message=message, tokens=self.measure(message, ""))
        return head

    def _words(self, kept: Sequence[Slot], texts: Sequence[str], pinned: Collection[int]) -> list[str]:
        """The person's words that stand nowhere else in the window, oldest first."""
        shown = {slot.entry for slot in kept if slot.form in (Form.FULL, Form.ELIDED)} | set(pinned)
        words = OwnWords(self.count)
        said = (one for one in self.keeps.said(shown) if not any(quoted(one[1]) in text for text in texts))
        chosen = words.chosen(words.newest(said, self.keeps.words_room), self.keeps.words_room)
        return [quote.text for quote in chosen]


def with_pins(rewriter: Rewriter, keeps: Kept) -> PinningRewriter:
    """`rewriter`, with what it keeps."""
    values: dict[str, object] = {one.name: getattr(rewriter, one.name) for one in fields(Rewriter)}
    make: Callable[..., PinningRewriter] = PinningRewriter
    return make(**values, keeps=keeps)


def near(strategy: Strategy, most: int) -> Strategy:
    """`strategy`, for a cut down to a mark: where a single large message would take it far below, it stays a little
    above, never above `most` tokens."""

    def choose(sizes: Sequence[int], budget: int, required: Set[int]) -> set[int]:
        kept = strategy.choose(sizes, budget, required)
        for share in ABOVE:
            if sum(sizes[index] for index in kept) >= NEAR * budget:
                break
            kept = strategy.choose(sizes, min(most, int(budget * share)), required)
        return kept

    return Strategy(strategy.name, choose)
