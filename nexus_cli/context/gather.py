"""GATHER and SELECT: contributors are read, their sections put in order, and turned into the texts of a request.

The static layer becomes the system text of an epoch; the event layer becomes a preamble that says only what differs
from what this epoch last sent (design 1.2). A contributor that raises or hangs is named and skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.context.contributors import Contributor, Sources, View
from nexus_cli.context.section import Layer, Section
from nexus_cli.core.errors import NexusError

SECONDS = 5.0
"""The longest that reading one contributor may take."""
PREAMBLE_SHARE = 0.02
PREAMBLE_TOKENS = 1000
"""A preamble takes at most this share of the window, and at most so many tokens."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A section with the form in which it is sent."""

    section: Section
    form: int
    """Index into the section's forms; 0 is full."""
    tokens: int
    full_tokens: int

    @property
    def text(self) -> str:
        """What is sent."""
        return self.section.forms[self.form]

    def described(self, *, cached: bool) -> dict[str, Any]:
        """One element of `sections` in interface.md section 8."""
        section = self.section
        return section.described() | {
            "multiplier": 1.0,
            "score": section.score(),
            "tokens": self.tokens,
            "full_tokens": self.full_tokens,
            "form": "shortened" if self.form else "full",
            "cached": cached,
        }


@dataclass
class Gatherer:
    """Reads the contributors of one lane."""

    contributors: Mapping[str, Contributor]
    sources: Sources
    view: View
    failed: Callable[[str], None]
    """Told in one line which contributor was skipped and why, and what is odd about a file that was read."""
    drop: Callable[[Section], str]
    """Records what a section's shortened form leaves out, and names the drop."""
    sent: dict[str, str] = field(default_factory=dict)
    """What this epoch last sent of each event section."""
    _named: dict[tuple[str, str], str] = field(default_factory=dict)

    async def static(self) -> list[Chosen]:
        """The sections of the system text, in order; a section that was cut is sent short and its rest is a drop."""
        chosen = []
        for section in await self._sections(Layer.SYSTEM):
            if section.cut is not None:
                key = (section.id, section.full)
                if key not in self._named:
                    self._named[key] = self.drop(section)
                section = section.naming(self._named[key])
            full = self.view.count(section.full)
            form = 1 if section.cut is not None else 0
            tokens = self.view.count(section.forms[form]) if form else full
            chosen.append(Chosen(section, form, tokens, full))
        return chosen

    async def event(self) -> list[Chosen]:
        """The event sections of a first request, whole."""
        count = self.view.count
        return [Chosen(s, 0, count(s.full), count(s.full)) for s in await self._sections(Layer.EVENT)]

    async def preamble(self, *, only: str = "") -> tuple[str, dict[str, str]]:
        """The event texts that differ from what was last sent, and them by section id; `only` names one contributor.

        The caller says with `settle` that they were sent.
        """
        cap = min(PREAMBLE_TOKENS, int(self.view.window * PREAMBLE_SHARE))
        fresh: dict[str, str] = {}
        for section in await self._sections(Layer.EVENT, only):
            if self.sent.get(section.id) in section.forms:
                continue
            for form in section.forms:
                if self.view.count("\n".join([*fresh.values(), form])) <= cap:
                    fresh[section.id] = form
                    break
        return "\n".join(fresh.values()), fresh

    def settle(self, sent: Mapping[str, str]) -> None:
        """These event texts stand in a request now."""
        self.sent.update({key: text for key, text in sent.items() if key != "notices"})

    def new_epoch(self) -> None:
        """Nothing of the event layer was sent yet."""
        self.sent.clear()

    async def resume(self, preambles: Iterable[str]) -> None:
        """Learn from the preambles of the window what this epoch last sent."""
        lines = [line for preamble in preambles for line in preamble.splitlines()]
        for section in await self._sections(Layer.EVENT):
            label, colon, _ = section.full.partition(":")
            last = next((line for line in reversed(lines) if line.startswith(label + colon)), "")
            if last:
                self.sent[section.id] = last

    async def _sections(self, layer: Layer, only: str = "") -> list[Section]:
        asked = [c for c in self.contributors.values() if c.layer is layer and only in ("", c.id)]
        found = await asyncio.gather(*map(self._read, asked))
        return sorted((section for part in found for section in part), key=lambda section: section.position)

    async def _read(self, contributor: Contributor) -> Sequence[Section]:
        try:
            async with asyncio.timeout(SECONDS):
                value = await contributor.read(self.sources)
            for line in contributor.notices(value):
                self.failed(line)
            return contributor.render(value, self.view)
        except NexusError:
            raise
        except Exception as error:  # a seam: a contributor's own bug costs its section, not the turn
            why = f"took longer than {SECONDS:.0f} s" if isinstance(error, TimeoutError) else f"{error}"
            self.failed(f"context section {contributor.id} was left out: {why or type(error).__name__}")
            return ()


def system_text(chosen: Iterable[Chosen]) -> str:
    """The system text of an epoch."""
    return "\n\n".join(section.text for section in chosen)
