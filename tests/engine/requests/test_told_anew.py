"""What only a part of the window told that was summed up, cut away or replaced is told again in the epoch after it,
with the first request of that epoch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import on
from search import sample
from session.played import Played, the_ledger
from session.summed import FORK, TRANSCRIPT, Summariser, live, living, turn

from nexus_cli.commands.memory import keep_fact
from nexus_cli.config.paths import project_root
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.memo_kinds import PLAN
from nexus_cli.core.memory import MemorySlot
from nexus_cli.core.request import Delta, Request
from nexus_cli.engine import turn as loop
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.reports.check_replay import check
from nexus_cli.sections.collect import ChangedSections, SectionCollector
from nexus_cli.session.session import Session

FRENCH = "The person wants every answer in French."
NOTICE = "the wind has turned"
WINDOW = 12_000


class Strict(Played):
    """A provider that refuses what takes more than so many characters, as often as it is asked."""

    most = 12_000

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply, or the refusal."""
        if len(str(request.messages)) > self.most:
            self.seen.append([dict(message) for message in request.messages])
            raise ProviderError("overflow", "it is too long")
        async for delta in super().stream(request):
            yield delta


def remembered(folder: Path) -> None:
    with the_ledger() as ledger:
        keep_fact(ledger, MemorySlot.USER, FRENCH, str(project_root(folder)), format_utc(local_now()))


def sent(provider: Played) -> list[str]:
    """The requests of the main lane."""
    work = [body for body in provider.seen if all(mark not in str(body[-1]["content"]) for mark in (FORK, TRANSCRIPT))]
    return [str(body) for body in work]


def steps(number: int) -> Any:
    """So many calls in each turn, then an answer."""
    made = 0

    def work(request: Request) -> Any:
        nonlocal made
        made += 1
        return "listed" if made % (number + 1) == 0 else [("bash", {"command": f"seq {made}000 {made}300"})]

    return work


@contextmanager
def looked_at(session: str) -> Iterator[tuple[Any, int]]:
    with the_ledger() as ledger:
        yield ledger, ledger.session(session).main_lane


WAYS = {
    "a compaction before a turn": (Played(Summariser(work=lambda request: "listed " * 900)), "compaction", 8),
    "a compaction within a run": (Played(Summariser(work=steps(8))), "compaction", 1),
    "a summary that comes to nothing": (Played(Summariser("", lambda request: "listed " * 900)), "truncation", 8),
    "a refusal within a run": (Strict(Summariser(work=steps(7))), "overflow", 1),
    "a refusal and no summary": (Strict(Summariser("", work=steps(7))), "truncation", 1),
}


@pytest.mark.matrix
@pytest.mark.parametrize("way", sample(WAYS, 3))
def test_what_is_sticky_stands_in_every_request_over_every_rewrite(way: str, tmp_path: Path) -> None:
    provider, cause, turns = WAYS[way]
    provider.seen.clear()
    remembered(tmp_path)

    async def run() -> str:
        async with living(tmp_path, None, provider=provider, window=WINDOW) as session:
            for number in range(turns):
                await turn(session, f"TURN{number} make a list, every answer")
            return session.id

    session = live(run())
    requests = sent(provider)
    assert [number for number, text in enumerate(requests, 1) if FRENCH not in text or "Date: " not in text] == []
    with looked_at(session) as (ledger, lane):
        assert check(ledger, session)["ok"]
        rows = on(ledger, lane).requests()
        began = [now for before, now in pairwise(rows) if before.manifest.epoch != now.manifest.epoch]
        assert cause in [on(ledger, lane).epoch(row.manifest.epoch).cause for row in began]
        for row in began:
            kept = " ".join(slot.preamble for slot in on(ledger, lane).epoch(row.manifest.epoch).head)
            assert FRENCH in kept and "Date: " in kept, row.manifest.step


@pytest.mark.matrix
async def test_a_notice_stands_once_in_the_request_that_makes_room_for_itself(tmp_path: Path) -> None:
    """Each reply leaves a notice for the next request."""
    work, sessions, number = steps(8), list[Session](), 0

    def noting(request: Request) -> Any:
        nonlocal number
        number += 1
        sessions[0].engine.notices.waiting.append(f"{NOTICE} {number:02}")
        return work(request)

    provider = Played(Summariser(work=noting))

    async with living(tmp_path, None, provider=provider, window=WINDOW) as session:
        sessions.append(session)
        await turn(session, "TURN0 make a list, every answer")
    for before, text in enumerate(sent(provider)):
        assert not before or text.count(f"{NOTICE} {before:02}") == 1
    with looked_at(session.id) as (ledger, lane):
        assert on(ledger, lane).epoch(1).cause == "compaction"
        plan, *_ = (memo.value for memo in on(ledger, lane).memos(PLAN) if memo.value["epoch"] == 1)
        assert "notices" in {one["id"] for one in plan["sections"]}


@pytest.mark.matrix
def test_a_notice_that_comes_while_the_sections_are_read_waits_for_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job ended while git was asked: its report was taken for sent."""
    provider, read = Played(lambda request: "ok"), SectionCollector.changed_sections

    async def run() -> None:
        async with living(tmp_path, None, provider=provider, window=WINDOW) as session:

            async def late(self: SectionCollector, *, prompt: bool = False) -> ChangedSections:
                changed = await read(self, prompt=prompt)
                session.engine.notices.tell("late")
                return changed

            session.engine.notices.tell("early")
            monkeypatch.setattr(SectionCollector, "changed_sections", late)
            await turn(session, "one")
            monkeypatch.undo()
            await turn(session, "two")

    live(run())
    assert ["[nexus: late]" in text for text in sent(provider)] == [False, True]
    assert [text.count("[nexus: early]") for text in sent(provider)] == [1, 1]


@pytest.mark.matrix
def test_after_an_end_between_the_rewrite_and_its_request_the_next_process_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered(tmp_path)
    provider = Played(Summariser(work=lambda request: "listed " * 900))
    exchange = vars(loop)["call_model"]

    async def ending(engine: Engine, plan: RequestPlan) -> Any:
        if engine.conversation.epoch.cause == "compaction":
            raise NexusError("internal", "the process", "it ended here")
        return await exchange(engine, plan)

    async def run(again: str = "") -> str:
        words = () if again else tuple(f"TURN{number} make a list, every answer" for number in range(8))
        async with living(tmp_path, None, provider=provider, window=WINDOW, again=again) as session:
            for said in words:
                if session.context.conversation.epoch.cause != "compaction":
                    await turn(session, said)
            if again:
                await turn(session, "")
            return session.id

    monkeypatch.setattr(loop, "call_model", ending)
    session = live(run())
    before = len(provider.seen)
    monkeypatch.setattr(loop, "call_model", exchange)
    live(run(session))
    first = str(provider.seen[before])
    assert FRENCH in first and "Date: " in first
    with looked_at(session) as (ledger, _):
        assert check(ledger, session)["ok"]
