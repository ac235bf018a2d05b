"""Refusals whose figures cannot be right: the session stays usable, and what was invented is not remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session.played import MODEL, Played, run_turns

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import MIN_REPORTED_WINDOW
from nexus_cli.core import event
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import Event, Outcome, TurnEnd
from nexus_cli.core.request import Delta, Request
from nexus_cli.core.usage import Usage
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

Figures = tuple[int | None, int | None]
"""The count and the window that a refusal names."""


class Refusing(Played):
    """A provider that refuses the first requests with these figures, and then answers."""

    def __init__(self, *figures: Figures) -> None:
        super().__init__(lambda request: "done")
        self.figures = list(figures)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply, or a refusal."""
        if self.figures:
            counted, limit = self.figures.pop(0)
            raise ProviderError("overflow", "too long", counted=counted, limit=limit)
        async for delta in super().stream(request):
            yield delta


def open_at(folder: Path, provider: Played, window: int = 0, session: str = "") -> Session:
    chosen = Settings(models={MODEL: {"window": window}} if window else {})
    return open_session(Options(folder, MODEL, allow="all", resume=session), chosen, approver=None, provider=provider)


def talk(session: Session, *said: str) -> tuple[list[Event], list[Outcome]]:
    """These turns, and the session's end."""
    events = run_turns(session, *said)
    return events, [one.outcome for one in events if isinstance(one, TurnEnd)]


def warnings(events: list[Event]) -> list[str]:
    return [one.text for one in events if isinstance(one, event.Notice) and "reports a context window" in one.text]


def estimated(session: Session) -> int:
    """The estimate of a request of 2,300 tokens by our count."""
    context = session.engine.context
    return context.estimate.expected(2_300, context.conversation.counts())


def test_a_count_that_is_far_from_ours_leaves_the_session_usable_and_is_told(tmp_path: Path) -> None:
    provider = Refusing((9_021, 8_192), (9_021, 8_192), (9_021, 8_192))
    session = open_at(tmp_path, provider)
    estimate = estimated(session)
    events, ends = talk(session, "one", "two", "three")
    assert [end.ok for end in ends] == [False, True, True] and provider.figures == []
    kept = "To keep it: nexus config set"
    assert f"a context window of 8,192 tokens; used for this session only. {kept}" in warnings(events)[0]
    again = open_at(tmp_path, Played(lambda request: "done"))
    assert again.engine.model.info.window == 128_000, "what was invented is not remembered"
    assert estimated(again) <= 1.05 * estimate
    asyncio.run(again.aclose())


@pytest.mark.matrix
@pytest.mark.parametrize("limit", [1, 100, 500, 2_000, 4_000])
def test_a_window_that_would_leave_no_room_is_ignored_where_the_figures_cannot_be_right(
    limit: int, tmp_path: Path
) -> None:
    provider = Refusing((90_000, limit))
    session = open_at(tmp_path, provider)
    events, ends = talk(session, "one", "two")
    assert [end.ok for end in ends] == [True, True] and len(provider.seen) == 2
    assert not warnings(events)
    assert session.engine.context.budget.window == 128_000


SAID = st.one_of(st.none(), st.integers(1, 10_000_000), st.integers(5_000, 40_000))


def is_tiny(figures: Figures) -> bool:
    """A window that is used, and into which no request of ours fits."""
    return figures[1] is not None and MIN_REPORTED_WINDOW <= figures[1] < 9_000


@pytest.mark.matrix
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(SAID, SAID).filter(lambda one: not is_tiny(one)), min_size=1, max_size=7))
def test_after_any_refusals_the_next_request_is_sent_and_answered(tmp_path: Path, figures: list[Figures]) -> None:
    places().ledger.unlink(missing_ok=True)
    provider = Refusing(*figures)
    provider.usage = Usage(2_300, 10)
    session = open_at(tmp_path, provider)
    before = estimated(session)
    turns = [f"words of turn {number}" for number in range(len(figures) + 2)]
    _, ends = talk(session, *turns)
    assert not provider.figures, "each request was sent"
    assert ends[-1].ok and ends[-2].ok
    assert turns[-1] in str(provider.seen[-1][-1]["content"])
    later = open_at(tmp_path, Played(lambda request: "done"))
    assert estimated(later) <= 1.6 * before
    asyncio.run(later.aclose())


@dataclass
class Narrow(Played):
    """A provider whose window is smaller than the settings say; its figures are another tokenizer's."""

    limit: int = 20_000
    refused: int = 0
    factor: int = 20
    """How many times our count it counts."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply, or a refusal."""
        tokens = len(json.dumps(request.messages)) // 3
        if tokens > self.limit:
            self.refused += 1
            raise ProviderError("overflow", "too long", counted=self.factor * tokens, limit=self.limit)
        async for delta in super().stream(request):
            yield delta


@pytest.mark.matrix
def test_a_window_that_a_refusal_named_is_kept_with_the_session_over_processes(tmp_path: Path) -> None:
    provider = Narrow(lambda request: "done")
    session = open_at(tmp_path, provider, window=100_000)
    identity = session.id
    talk(session, "word " * 13_000)
    assert provider.refused == 1
    for _ in range(3):
        session = open_at(tmp_path, provider, window=100_000, session=identity)
        assert session.engine.context.budget.window == 20_000
        _, ends = talk(session, "word " * 2_000)
        assert ends[-1].ok
    assert provider.refused == 1, "one refusal was enough"
    assert open_window(tmp_path, provider, window=100_000) == 100_000, "another session does not go by it"
    assert open_window(tmp_path, provider, window=90_000, session=identity) == 90_000, "the setting was corrected"


def test_a_report_beyond_a_window_that_was_kept_ends_it(tmp_path: Path) -> None:
    provider = Refusing((900_000, 20_000))
    session = open_at(tmp_path, provider, window=100_000)
    talk(session, "one")
    assert open_window(tmp_path, provider, window=100_000, session=session.id) == 20_000
    provider.usage = Usage(21_000, 10)
    session = open_at(tmp_path, provider, window=100_000, session=session.id)
    talk(session, "word " * 9_000)
    assert open_window(tmp_path, provider, window=100_000, session=session.id) == 100_000


@pytest.mark.matrix
def test_a_second_refusal_compares_with_the_settings_and_not_with_the_first(tmp_path: Path) -> None:
    provider = Narrow(lambda request: "done", factor=1)
    session = open_at(tmp_path, provider, window=100_000)

    async def live() -> list[str]:
        try:
            first = [one async for one in session.run("word " * 13_000)]
            provider.limit = 9_000
            return [
                one.text
                for one in [*first, *[one async for one in session.run("word " * 10_000)]]
                if isinstance(one, event.Notice)
            ]
        finally:
            await session.aclose()

    told = [text for text in asyncio.run(live()) if "the settings say" in text]
    assert len(told) == 2 and all("the settings say 100,000" in text for text in told), told


def test_the_window_that_the_error_tells_one_to_set_ends_the_one_that_was_kept(tmp_path: Path) -> None:
    provider = Refusing((None, 8_192))
    session = open_at(tmp_path, provider)
    talk(session, "one")
    assert open_window(tmp_path, provider, window=0, session=session.id) == 8_192
    assert open_window(tmp_path, provider, window=128_000, session=session.id) == 128_000, "the size that was assumed"


def open_window(folder: Path, provider: Played, window: int, session: str = "") -> int:
    """The window that a session begins with."""
    made = open_at(folder, provider, window, session)
    asyncio.run(made.aclose())
    return made.engine.context.budget.window
