"""A provider that is away lets a run wait instead of failing it; a failed run is resumed by a person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from runs.stage import SETTINGS, Played, Reply, last, put_clock, queue, run_due, sent, stored
from search import sample

from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import Delta, Request
from nexus_cli.core.run import PROVIDER, Run, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import describe_run, describe_runs, run_report

LOOK = ("glob", {"pattern": "*.py"})
HOUR = 3600.0


class Fails(Played):
    """A provider that fails with these errors first, then answers."""

    errors: tuple[ProviderError, ...] = ()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        if self.errors:
            error, self.errors = self.errors[0], self.errors[1:]
            raise error
        async for delta in super().stream(request):
            yield delta


def fails(*errors: ProviderError) -> Fails:
    made = Fails(lambda request: "all is done" if "*.py" in str(request.messages) else [LOOK])
    made.errors = errors
    return made


def overloaded(after: float | None = None) -> ProviderError:
    return ProviderError("overloaded", "busy", retry_after=after, transient=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def list_text(width: int = 300) -> str:
    with closing(Ledger.open(places().ledger)) as ledger:
        return find_form("runs")({"runs": describe_runs(ledger, ledger.runs.list_runs())}, width)


def waited(run: Run) -> float:
    """Seconds until its next attempt."""
    assert run.state == "waiting_reply" and run.waits is not None and run.waits.until is not None
    with closing(Ledger.open(places().ledger)) as ledger:
        return run.waits.until - ledger.runs.now()


@pytest.mark.matrix
def test_a_run_waits_for_a_provider_that_is_away_and_continues_without_a_new_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = queue("inspect it", folder)
    provider = fails(overloaded())
    run_due(provider)
    waiting = stored(run.key)
    assert 50 < waited(waiting) <= 60
    with closing(Ledger.open(places().ledger)) as ledger:
        value = describe_run(ledger, waiting)
        assert (value["waits_for"], value["error"]) == ("provider", "request failed: busy")
        assert (value["waits_since"] or "") < (value["wake_at"] or "")
        shown = find_form("run")(run_report(ledger, waiting), 300)
    assert "waiting for the provider since " in list_text() and "request failed: busy" in list_text()
    assert "waiting for: the provider since " in shown and "error:" not in shown
    assert ", next retry 2" in list_text() and "\n    request failed: busy" in list_text(60), "the error has a line"
    assert run_due(provider) == [] and not provider.seen  # not due yet

    put_clock(monkeypatch, 61)
    run_due(provider)
    assert (stored(run.key).state, stored(run.key).report) == ("done", "all is done") and len(provider.seen) == 2
    assert sent(provider.seen[0]).count("inspect it") == 1 and "RESUME" not in sent(provider.seen[0])


def test_an_attempt_that_no_process_made_is_not_announced_for_a_time_that_has_passed(folder: Path) -> None:
    run = queue("look", folder)
    with closing(Ledger.open(places().ledger)) as ledger:
        ledger.runs.wait(run, Wait(PROVIDER, PROVIDER, {"since": 1.0, "tries": 1, "error": "busy"}, 61.0), run.created)
    assert "nexus serve will retry (due 1970-01-01" in list_text()


def test_the_pause_grows_to_an_hour_and_the_provider_may_ask_for_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = queue("look", folder)
    provider = fails(*[overloaded()] * 7, overloaded(2 * HOUR))
    pauses = []
    for _ in range(8):
        run_due(provider)
        pauses.append(waited(stored(run.key)))
        put_clock(monkeypatch, pauses[-1] + 0.5)
    assert [round(one / 60) for one in pauses] == [1, 2, 5, 15, 30, 60, 60, 120]


def test_a_provider_that_stays_away_ends_the_run_after_the_time_of_the_settings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SETTINGS, runs=replace(SETTINGS.runs, wait_provider=90.0))
    run = queue("look", folder)
    provider = fails(*[overloaded()] * 9)
    for seconds in (61, 30):
        run_due(provider, settings=settings)
        assert waited(stored(run.key)) <= seconds
        put_clock(monkeypatch, seconds)
    run_due(provider, settings=settings)
    assert stored(run.key).state == "failed" and "busy" in stored(run.key).error and len(provider.errors) == 6
    assert stored(run.key).error.startswith(
        "the provider was unavailable for 1 min (limit: setting runs.wait_provider): request failed"
    )


@pytest.mark.matrix
def test_a_time_away_begins_again_after_a_request_that_was_answered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = queue("look", folder)
    provider = fails(overloaded(), overloaded())
    run_due(provider)
    put_clock(monkeypatch, 61)
    run_due(provider)
    assert 60 < waited(stored(run.key)) <= 120  # the second in a row
    put_clock(monkeypatch, 121)
    answered = fails()

    def reply(request: Request) -> Reply:
        answered.errors = (overloaded(),)
        return [LOOK]

    answered.reply = reply
    run_due(answered)
    assert len(answered.seen) == 1 and waited(stored(run.key)) <= 60


@pytest.mark.parametrize("kind", sample(["network", "rate_limit", "provider"], 3))
def test_what_may_pass_is_waited_for(folder: Path, kind: str) -> None:
    run = queue("look", folder)
    run_due(fails(ProviderError(kind, "gone", transient=True)))
    assert stored(run.key).state == "waiting_reply"


@pytest.mark.matrix
def test_an_address_that_never_answered_a_run_is_doubted_in_the_list(folder: Path) -> None:
    doubt = "the provider never responded to this run: check its address"
    queue("look", folder)
    run_due(fails(ProviderError("network", "no such name", transient=True)))
    assert list_text().count(doubt) == 1
    queue("look", folder)
    run_due(fails(overloaded()))
    assert list_text().count(doubt) == 1, "an overloaded server has answered"

    breaks = fails()

    def answer_once(request: Request) -> Reply:
        breaks.errors = (ProviderError("network", "gone", transient=True),)
        return [LOOK]

    breaks.reply = answer_once
    run = queue("look", folder)
    run_due(breaks)
    assert stored(run.key).state == "waiting_reply" and list_text().count(doubt) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample(["auth", "provider", "refused", "usage"], 3))
def test_what_no_wait_mends_is_final(folder: Path, kind: str) -> None:
    run = queue("look", folder)
    run_due(fails(ProviderError(kind, "no")))
    assert stored(run.key).state == "failed"


@pytest.mark.matrix
def test_attempts_that_nobody_answered_are_no_requests_of_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = queue("look", folder, max_steps=3)
    provider = fails(*[overloaded()] * 4)
    for _ in range(5):
        run_due(provider)
        put_clock(monkeypatch, 2 * HOUR)
    assert stored(run.key).state == "done" and len(provider.seen) == 2


def resume(run: Run) -> None:
    with closing(Ledger.open(places().ledger)) as ledger:
        ledger.runs.resume_failed(ledger.runs.get(run.key), run.created)


def test_a_failed_run_is_resumed_with_its_rights_where_it_was(folder: Path) -> None:
    run = queue("look", folder, allow="ask", max_steps=3)
    provider = fails()
    provider.reply = lambda request: [LOOK]
    run_due(provider)
    failed = stored(run.key)
    assert failed.state == "failed" and "max_steps" in failed.error
    assert "nexus runs resume run-1" in list_text()

    resume(run)
    provider = fails()
    run_due(provider)
    done = stored(run.key)
    assert (done.state, done.error, done.report, done.session) == ("done", "", "all is done", failed.session)
    assert done.options["allow"] == "ask" and len(provider.seen) == 1


@pytest.mark.matrix
def test_a_run_that_had_reported_is_told_that_it_was_resumed_and_has_its_limits_again(folder: Path) -> None:
    run = queue("look", folder, max_steps=2)
    provider = fails()
    provider.reply = lambda request: "half of it" if "this is the last request" in last(request) else [LOOK]
    run_due(provider)
    assert (stored(run.key).state, stored(run.key).report) == ("failed", "half of it")
    resume(run)
    heard: list[str] = []

    def reply(request: Request) -> Reply:
        heard.append(last(request))
        return [LOOK] if len(heard) == 1 else "the rest"

    provider = Fails(reply)
    run_due(provider)
    assert "A person resumed this run after it had failed (the run reached a limit" in heard[0]
    assert "Your budget: 2 requests" in heard[0]
    assert (stored(run.key).report, len(provider.seen)) == ("the rest", 2)
    assert run_due(provider) == [] and len(provider.seen) == 2
