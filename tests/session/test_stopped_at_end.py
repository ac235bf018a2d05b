"""What a turn reports if it is stopped while its end is saved, or if there is nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
from session.played import Answer, Played, opened, say
from session.summed import asks_for_summary, living, turn

from nexus_cli.config.settings import CompactSettings
from nexus_cli.core.event import TurnEnd
from nexus_cli.core.request import Delta, Request, RetryDelta, TextDelta
from nexus_cli.session.session import Session


@pytest.mark.parametrize("by", ["timeout", "person"])
def test_a_turn_stopped_while_its_end_is_saved_reports_what_it_did(by: str, tmp_path: Path) -> None:
    session = opened(Played(lambda request: "the answer"), tmp_path)
    save = session._save

    async def save_and_stop(*, waits: bool = True) -> None:
        if not waits:  # the outcome is known, and is saved
            session._control.stop(by)
        await save(waits=waits)

    session._save = save_and_stop  # type: ignore[method-assign]
    outcome = say(session, "hi")[1]
    assert (outcome.text, outcome.steps, outcome.error) == ("the answer", 1, None)
    assert outcome.usage.input == 200


def test_a_new_session_does_not_speak_of_an_answer_if_the_text_is_empty(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "the answer"), tmp_path)
    error = say(session, "")[1].error
    assert error and error["message"] == "no prompt: the text is empty"


def test_a_session_that_is_done_says_so_if_the_text_is_empty(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "the answer"), tmp_path)
    say(session, "hi")
    error = say(opened(Played(lambda request: ""), tmp_path, session.id), "")[1].error
    assert error and error["message"] == "no prompt: the last answer of this session is complete"


class Away(Played):
    """A provider that cannot be reached, or begins an answer at its second attempt; the time limit ends the turn."""

    session: Session

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        yield RetryDelta(1, 0.1, "the host name nohost was not found")
        if answer := self.script(request):
            yield TextDelta(str(answer))
        self.session._control.stop("timeout")
        await asyncio.sleep(60)


@pytest.mark.parametrize("answer", ["", "a beginning"])
def test_the_time_limit_names_what_the_requests_have_failed_with(answer: str, tmp_path: Path) -> None:
    provider = Away(lambda request: answer)
    provider.session = opened(provider, tmp_path)
    error = say(provider.session, "hi")[1].error
    assert error and ("the host name nohost was not found" in error["message"]) is not bool(answer)
    assert error["kind"] == "limit"


class AwayForSummaries(Played):
    """A provider that answers no request for a summary; the time limit ends the turn in the command after the first."""

    session: Session
    summaries = 0

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        if asks_for_summary(request):
            self.summaries += 1
            yield RetryDelta(1, 0.1, "the server is overloaded")
            await asyncio.sleep(60)
        if self.summaries:
            asyncio.get_running_loop().call_later(0.1, self.session._control.stop, "timeout")
        async for delta in super().stream(request):
            yield delta


@pytest.mark.matrix
async def test_the_time_limit_names_no_failure_of_a_request_before_the_last(tmp_path: Path) -> None:
    numbers = count(1)

    def work(request: Request) -> Answer:
        command = "sleep 60" if provider.summaries else f"seq {next(numbers)}000 9999 | head -700"
        return [("bash", {"command": command})]

    provider = AwayForSummaries(work)

    compact = CompactSettings(seconds=0.05)
    async with living(tmp_path, None, window=24_000, compact=compact, provider=provider) as provider.session:
        end = (await turn(provider.session, "list"))[-1]
    assert isinstance(end, TurnEnd) and end.outcome.error and provider.summaries
    assert end.outcome.error["message"] == "limit timeout reached: the turn took longer than 0.0 s"
