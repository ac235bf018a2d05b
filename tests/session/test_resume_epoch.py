"""The epoch of a run that goes on after a wait has one drop, however often a process that began it was killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from session.played import MODEL, Played, say, the_ledger

from nexus_cli.config.settings import Settings
from nexus_cli.core.attachment import RESUME
from nexus_cli.core.limits import Limits
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.resume_epoch import begin_resume_epoch
from nexus_cli.session.session import Session


@pytest.mark.parametrize("limits", [Limits(), Limits(tools=frozenset({"bash"}))], ids=["recalls", "never recalls"])
def test_a_recap_that_nothing_was_sent_with_is_made_again_with_the_same_drop(tmp_path: Path, limits: Limits) -> None:
    def opened(resume: str = "") -> Session:
        options = Options(tmp_path, MODEL, resume=resume, limits=limits)
        settings = Settings(models={MODEL: {"window": 16_000}})
        return open_session(options, settings, approver=None, provider=Played(lambda request: "fine"))

    session = opened()

    async def begin(session: Session) -> None:
        for came in ("first", "second"):
            await begin_resume_epoch(session.engine, {}, (came,))

    async def live() -> None:
        _ = [event async for event in session.act(begin)]
        await session.aclose()

    say(session, "hello")
    session = opened(session.id)
    asyncio.run(live())
    with the_ledger() as ledger:
        log = ledger.log(session.id)
        assert [drop.id for drop in log.drops()] == ["d1"]
        epoch = log.epoch(log.next_epoch() - 1)
        assert epoch.cause == RESUME and epoch.head[0].message.content.endswith("second  <- RESUME")
