"""The first request of a process, sent early: each request is sent, recorded and paid for once, whatever happens."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program.stage import Done, Stage, end, stage, until

from nexus_cli.ledger import Ledger, RequestRow
from nexus_cli.reports.check_replay import check


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    """A person whose next `nexus ask` starts ahead."""
    with stage(tmp_path) as made:
        for _ in range(2):
            assert made.ask("hi").status == 0
        assert len(templates(made)) == 1
        made.server.requests.clear()
        yield made


def templates(place: Stage) -> list[Path]:
    return list((place.nexus_home / "cache" / "requests").glob("*.json"))


def rows(place: Stage) -> list[RequestRow]:
    """The requests of the newest session, which can be rebuilt."""
    with closing(Ledger.open(place.ledger)) as ledger:
        newest = ledger.sessions(None, 1)[0].id
        assert check(ledger, newest)["ok"]
        return ledger.log(newest).requests()


def finishes(place: Stage) -> list[str | None]:
    return [row.finish for row in rows(place)]


def alter(place: Stage) -> None:
    """Let the template say something else than litellm will."""
    for path in templates(place):
        path.write_text(path.read_text().replace("include_usage", "include_usury"))


def ask(place: Stage, *arguments: str) -> Done:
    done = place.ask("--json", *arguments, "hi")
    assert b"Traceback" not in done.stderr
    return done


@pytest.mark.matrix
def test_a_request_that_starts_ahead_is_sent_and_recorded_once(place: Stage) -> None:
    done = ask(place)
    assert (done.status, len(place.server.requests), finishes(place)) == (0, 1, ["stop"])
    assert done.result["usage"]["input"] == place.server.requests[0].tokens.input


def test_a_request_that_was_sent_in_vain_is_recorded_with_its_cost_and_told(place: Stage) -> None:
    alter(place)
    place.server.load(["never read", "the answer"])
    done = place.ask("hi")
    assert (done.status, done.text.strip(), len(place.server.requests)) == (0, "the answer", 2)
    assert any("litellm built a different request from the one already sent" in line for line in done.told)
    first, second = rows(place)
    assert (first.finish, second.finish) == ("provider", "stop") and not first.reported
    assert first.usage and first.usage.cost_usd and first.usage.input > 500
    for _ in range(3):
        assert ask(place).status == 0 and finishes(place) == ["stop"], "such a template is used no more"


@pytest.mark.matrix
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_process_leaves_one_request_and_the_session_goes_on(number: int, place: Stage) -> None:
    stalled: dict[str, Any] = {"text": "late", "fault": {"kind": "stall_before_head", "seconds": 300}}
    place.server.load([stalled, "fine"])
    child = place.begin("ask", "hi")
    try:
        assert until(lambda: bool(place.server.requests), 120)
        child.send_signal(number)
        child.communicate(timeout=120)
    finally:
        end(child)
    assert place.server.wait_for(lambda server: server.requests[0].closed_early) and len(place.server.requests) == 1
    assert finishes(place) == ["interrupted" if number == signal.SIGINT else None]
    assert ask(place, "-c").result["text"] == "fine" and len(place.server.requests) == 2
