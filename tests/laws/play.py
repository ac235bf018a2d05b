"""A random person at a random session: turns, steering, interrupts, edits, midnight, resuming here and elsewhere.

Owns the choice of what happens, from one seed; `laws.model` plays the other side.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from laws.model import Habits, Model
from laws.world import Act, World, outcome, say

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.event import Event, Notice, Retry, Text, ToolCallEvent
from nexus_cli.session.session import Session

FORMS = ("chat",) * 8 + ("anthropic", "gemini")
WINDOWS = (7000, 9000, 12_000, 16_000)
Elsewhere = Callable[[World, str, list[str]], None]
"""Runs turns with these words in another process."""


@dataclass
class Played:
    """What a person did, and what came of it."""

    session: str = ""
    tokens: list[str] = field(default_factory=list)
    """The first word of everything that was said or steered, each one unique."""
    kinds: list[str] = field(default_factory=list)
    """How each turn ended."""
    interrupts: int = 0
    elsewhere: int = 0
    openings: int = 1
    """How often the session was opened, in whatever process."""
    overflows: int = 0
    """Notices of a refused request."""
    events: list[Event] = field(default_factory=list)


def random_world(seed: int) -> dict[str, object]:
    """The keyword arguments of `laws.world.world` for this seed, `script` among them."""
    rng = random.Random(f"world {seed}")
    form = FORMS[seed % len(FORMS)]
    window = rng.choice(WINDOWS)
    habits = Habits(lines=rng.choice([60, 300, 900]), bad_summary=rng.choice([0.0, 0.4, 1.0]))
    if form != "chat":
        # Matched to rows by time alone: no request may be lost on the way.
        habits.broken = 0.0
    return {
        "script": Model(seed, form, habits),
        "form": form,
        "window": window,
        "factor": rng.choice([1.0, 1.0, 1.4, 2.0]),
        # Sometimes the provider's real window is smaller than the one that we know.
        "refuse_above": rng.choice([None, None, window, window * 2 // 3]),
    }


def furnish(folder: Path) -> None:
    """Files for the tools to read."""
    for name, lines in (("a", 12), ("b", 120), ("c", 900)):
        (folder / f"{name}.txt").write_text("".join(f"{name} line {n}\n" for n in range(lines)))


class Person:
    """Plays one session in a world."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.seed = seed
        self.rng = random.Random(f"person {seed}")
        self.played = Played()
        furnish(world.folder)

    async def live(self, elsewhere: Elsewhere | None = None) -> Played:
        """A few turns; with `elsewhere` some of them in another process."""
        session = self.world.open()
        self.played.session = session.id
        try:
            for number in range(self.rng.randint(2, 4)):
                session = await self._between(session, number)
                if elsewhere is not None and number == 1:
                    await session.aclose()
                    words = [self._words(), self._words()]
                    await asyncio.to_thread(elsewhere, self.world, session.id, words)
                    self.played.elsewhere += 1
                    self.played.openings += 2
                    session = self.world.open(session.id)
                self._note(await say(session, self._trigger(), self._acting(session)))
        finally:
            await session.aclose()
        return self.played

    async def _between(self, session: Session, number: int) -> Session:
        rng = self.rng
        if rng.random() < 0.25:
            (self.world.folder / "NEXUS.md").write_text(f"Rule {rng.randint(0, 9)}: be brief.\n" * rng.randint(1, 9))
        if rng.random() < 0.2:
            self.world.clock.to_midnight()
        if number and rng.random() < 0.15:
            self.played.events += await session.compact()
        if number and rng.random() < 0.35:
            await session.aclose()
            session = self.world.open(session.id)
            self.played.openings += 1
        return session

    def _trigger(self) -> Trigger:
        if self.played.tokens and self.rng.random() < 0.1:
            return Trigger("")
        return Trigger(self._words())

    def _words(self, share: float = 0.15) -> str:
        token = f"W{self.seed}x{len(self.played.tokens)}y"
        self.played.tokens.append(token)
        size = self.rng.randint(self.world.window // 2, self.world.window) if self.rng.random() < share else 12
        return f"{token} please do this " + " ".join(f"word{n}" for n in range(size))

    def _acting(self, session: Session) -> Act:
        rng = self.rng
        steer_at = rng.randint(1, 25) if rng.random() < 0.4 else -1
        stop_at = rng.randint(2, 30) if rng.random() < 0.3 else -1
        gentle = self.world.form != "chat"

        def act(event: Event, number: int) -> None:
            if number == steer_at:
                session.steer(self._words(0.05))
            if number >= stop_at > 0 and (not gentle or isinstance(event, Text | ToolCallEvent)):
                self.played.interrupts += not session_stopped(session)
                session.cancel("person")
            if isinstance(event, ToolCallEvent) and rng.random() < 0.02:
                session.cancel("person")

        return act

    def _note(self, events: list[Event]) -> None:
        self.played.events += [event for event in events if not isinstance(event, Text | Retry)]
        self.played.kinds.append(outcome(events).finish)
        self.played.overflows += sum(isinstance(e, Notice) and "too long" in e.text for e in events)


def session_stopped(session: Session) -> bool:
    """Whether the running turn was told to stop before."""
    return bool(session._control.stopped)
