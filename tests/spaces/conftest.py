"""A ledger with a space of people and agents, and a run that a message in it started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Answer, Played

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.event import Event
from nexus_cli.core.limits import Limits
from nexus_cli.core.run import AGENT, HUMAN, Entity, Run, Space, SpaceMessage
from nexus_cli.core.services import RunFacts
from nexus_cli.ledger import Ledger
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMaker
from nexus_cli.session.session import Session
from nexus_cli.spaces.run_facts import LedgerRunFacts
from nexus_cli.spaces.space_history import begin_space_run

DAY = "2026-02-18T"


@dataclass
class Team:
    """Husam, Ahmad, Designer and DataAnalyst in `Project Alpha`."""

    ledger: Ledger
    folder: Path
    husam: Entity
    ahmad: Entity
    designer: Entity
    analyst: Entity
    space: Space
    window: int = 32_000
    model: str = MODEL
    provider: Played = field(default_factory=lambda: Played(lambda request: "done"))

    def post(self, who: Entity, text: str, at: str = "14:50:00", **more: Any) -> SpaceMessage:
        """A message of `who`."""
        return self.ledger.spaces.post(self.space, who, text, f"{DAY}{at}.000Z", **more).message

    def start(self, text: str = "@DataAnalyst pull the Q4 revenue numbers", at: str = "15:06:55") -> Run:
        """The run of the analyst that a message of Husam starts."""
        posted = self.ledger.spaces.post(self.space, self.husam, text, f"{DAY}{at}.000Z")
        [(_, key)] = posted.triggered
        return self.ledger.runs.get(key)

    def answer(self, script: Any) -> None:
        """What the model says."""
        self.provider = Played(script)

    def open(self, run: Run, session: str = "", provider: Any = None, **more: Any) -> Session:
        """The session of a run."""
        options = Options(
            self.folder,
            self.model,
            resume=session,
            allow="all",
            limits=Limits(max_steps=9),
            recipe="tick_event",
            require_save=True,
            answers=True,
            **more,
        )
        settings = Settings(models={self.model: {"window": self.window}})
        facts = ServiceMaker(RunFacts, lambda session: LedgerRunFacts(self.ledger, run))
        asked = provider or self.provider
        return open_session(options, settings, approver=None, provider=asked, ledger=self.ledger, services=(facts,))


async def drive(team: Team, run: Run, session: Session) -> list[Event]:
    """The first turn of a run, as a runner drives it."""
    try:
        trigger = await begin_space_run(session, run)
        return [event async for event in session.run(trigger)]
    finally:
        await session.aclose()


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    ledger = Ledger.open(places().ledger)
    names = (("Husam", HUMAN), ("Ahmad", HUMAN), ("Designer", AGENT), ("DataAnalyst", AGENT))
    everybody = [
        ledger.spaces.entity(name, kind, {"folder": str(folder)} if kind == AGENT else None) for name, kind in names
    ]
    space = ledger.spaces.create("Project Alpha", f"{DAY}10:00:00.000Z", members=everybody)
    husam, ahmad, designer, analyst = everybody
    yield Team(ledger, folder, husam, ahmad, designer, analyst, space)
    ledger.close()


__all__ = ["Answer", "Team", "drive"]
