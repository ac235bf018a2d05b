"""What another process had sent, and what the session had that was forked: both may still be in the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from session.played import the_ledger
from session.prefix_cache import MODEL, OTHER, SETTINGS, STEP, expectations, lived, opened, results, working

from nexus_cli.commands.cache import cache_report, miss_report
from nexus_cli.commands.context import request_difference
from nexus_cli.commands.forms import find_form
from nexus_cli.conversation.cache_diagnosis import tolerated_miss
from nexus_cli.core.clock import format_utc
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event
from nexus_cli.core.request import UsageDelta
from nexus_cli.provider.prompt_cache import OPENAI
from nexus_cli.session.session import Session

FIRST = "read the code " + "and think of every part " * 300


def listing(request: Any, step: int) -> Any:
    return "done" if step % 4 == 0 else [("bash", {"command": f"seq {step}000 {step}300"})]


def turn(session: Session, *said: str) -> list[Event]:
    """These turns, and the session's end."""

    async def live() -> list[Event]:
        try:
            return await lived(session, *said)
        finally:
            await session.aclose()

    return asyncio.run(live())


def told(session: str, step: int | None = None) -> Mapping[str, Any]:
    with the_ledger() as ledger:
        return miss_report(ledger, session, SETTINGS, step)


def forked(source: str, at: str, entry: int | None = None) -> str:
    with the_ledger() as ledger:
        return ledger.fork_session(source, at=at, entry=entry).id


@pytest.mark.matrix
def test_a_cache_that_was_seen_once_is_known_of_in_every_later_process(tmp_path: Path) -> None:
    """The newest request missed by expiry, so that it alone tells of no cache."""
    provider = working(listing)
    session = opened(provider, tmp_path)
    turn(session, FIRST)
    provider.clock.forward(hours=2)
    provider.script = lambda request: "done"
    assert results(turn(opened(provider, tmp_path, session.id), "go on"))[0].ours is False
    provider.forgets = lambda number: True
    found = results(turn(opened(provider, tmp_path, session.id), "and on"))[0]
    assert found.missed > 1000 and found.ours is False and "did not cache" in found.why
    value = told(session.id)
    assert (value["missed"], value["why"], value["ours"]) == (found.missed, found.why, found.ours)


@pytest.mark.matrix
def test_a_request_without_figures_at_the_end_of_a_process_hides_nothing(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    stream = provider.stream

    async def silent(request: Any) -> Any:
        async for delta in stream(request):
            if len(provider.seen) < 4 or not isinstance(delta, UsageDelta):
                yield delta

    provider.stream = silent  # type: ignore[method-assign]
    turn(session, FIRST)
    provider.stream = stream  # type: ignore[method-assign]
    events = turn(opened(provider, tmp_path, session.id), "go on")
    assert 1000 < expectations(events)[0] <= results(events)[0].read
    assert results(events)[0].expected == told(session.id, 5)["expected"]


@pytest.mark.matrix
def test_a_switch_back_expects_what_was_sent_before_the_switch(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    turn(session, FIRST)
    turn(opened(provider, tmp_path, session.id, OTHER), "go on")
    first = results(turn(opened(provider, tmp_path, session.id, MODEL), "and on"))[0]
    assert first.read > 3000 and abs(first.expected - first.read) <= STEP + tolerated_miss(OPENAI, first.read)
    assert told(session.id, 9)["expected"] == first.expected


def test_the_model_is_told_that_earlier_replies_are_another_ones(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    turn(session, FIRST)
    turn(opened(provider, tmp_path, session.id, OTHER), "go on")
    turn(opened(provider, tmp_path, session.id, OTHER), "and on")
    system, *messages = (str(message.get("content")) for message in provider.seen[-1])
    assert OTHER not in system and MODEL not in system
    line = f"the model is now {OTHER}: earlier replies are those of {MODEL}"
    assert [line in text for text in messages].count(True) == 1


@pytest.mark.matrix
def test_a_fork_expects_what_its_source_sent_and_is_judged_by_it(tmp_path: Path) -> None:
    provider = working(listing)
    source = opened(provider, tmp_path)
    turn(source, FIRST)
    for lost, cause in ((False, "hit"), (True, "provider")):
        fork = forked(source.id, format_utc(provider.clock()))
        provider.forgets = (len(provider.seen) + 1).__eq__ if lost else lambda number: False
        first, *rest = results(turn(opened(provider, tmp_path, fork), "go on"))
        assert first.expected > 3000 and first.read == (0 if lost else first.expected)
        assert not any(one.missed for one in rest)
        value = told(fork, 1)
        assert (value["cause"], value["expected"], value["missed"]) == (cause, first.expected, first.missed)
        assert (value["previous"], value["previous_session"]) == (4, source.id)
        assert f"request 4 of session {source.id}" in " ".join(find_form("miss_details")(value, 200).split())


@pytest.mark.matrix
def test_a_fork_knows_only_what_its_source_had_sent_by_then(tmp_path: Path) -> None:
    """What the source sends afterwards, under the same and under later epochs, is not what the fork goes on from."""
    provider = working(listing)
    source = opened(provider, tmp_path)
    turn(source, FIRST)
    early, late = (forked(source.id, format_utc(provider.clock()), entry) for entry in (3, None))
    turn(opened(provider, tmp_path, source.id), "something else altogether")
    turn(opened(provider, tmp_path, source.id, OTHER), "and under another epoch")
    for fork, step in ((early, 2), (late, 4)):
        first = results(turn(opened(provider, tmp_path, fork), "go on"))[0]
        value = told(fork, 1)
        assert not first.missed and 0 < first.expected <= first.read
        assert (value["previous"], value["expected"], value["difference"]) == (step, first.expected, None)


@pytest.mark.matrix
def test_of_a_source_that_was_deleted_nothing_is_expected_and_nothing_missed(tmp_path: Path) -> None:
    provider = working(listing)
    source = opened(provider, tmp_path)
    turn(source, FIRST)
    fork = forked(source.id, format_utc(provider.clock()))
    with the_ledger() as ledger:
        ledger.delete_session(source.id)
    first = results(turn(opened(provider, tmp_path, fork), "go on"))[0]
    assert (first.expected, first.missed, first.ours) == (0, 0, None) and first.read > 3000
    value = told(fork, 1)
    assert (value["cause"], value["previous"], value["previous_session"]) == ("first", None, None)
    assert "another session" in value["why"]


@pytest.mark.matrix
def test_the_rewrites_of_a_source_are_not_those_of_its_fork(tmp_path: Path) -> None:
    provider = working(listing)
    source = opened(provider, tmp_path)

    async def live() -> None:
        try:
            await lived(source, FIRST)
            source.reload()
            await lived(source, "go on")
        finally:
            await source.aclose()

    asyncio.run(live())
    fork = forked(source.id, format_utc(provider.clock()))
    turn(opened(provider, tmp_path, fork, OTHER), "and on")
    with the_ledger() as ledger:
        causes = [[one["cause"] for one in cache_report(ledger, id, SETTINGS)["rewrites"]] for id in (source.id, fork)]
    assert causes == [["reload"], ["model"]]


def test_a_fork_that_has_sent_nothing_has_nothing_to_compare_and_says_so(tmp_path: Path) -> None:
    provider = working(listing)
    source = opened(provider, tmp_path)
    turn(source, FIRST)
    fork = forked(source.id, format_utc(provider.clock()))
    with the_ledger() as ledger:
        with pytest.raises(NexusError, match=f"--diff: session {fork} has not sent a request yet") as refused:
            request_difference(ledger, fork, SETTINGS)
        assert "--step" not in str(refused.value)
        value = cache_report(ledger, fork, SETTINGS)
        assert value["requests"] == [] and value["rewrites"] == []


@pytest.mark.matrix
def test_an_earlier_epoch_that_is_damaged_stops_nobody(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    turn(session, FIRST)
    turn(opened(provider, tmp_path, session.id, OTHER), "go on")
    with the_ledger() as ledger, ledger.db.write():
        ledger.db.run("UPDATE epochs SET sections = (SELECT max(id) + 1 FROM blobs) WHERE id = 0")
    events = turn(opened(provider, tmp_path, session.id, OTHER), "and on")
    assert 1000 < expectations(events)[0] <= results(events)[0].read
