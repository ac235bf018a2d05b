"""A session that waits in the REPL goes on by itself, natively; what the person typed meanwhile goes first."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from runs.stage import AT, stored
from session.played import Answer
from ui.repl.test_repl import Stage

from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.ledger import Ledger
from nexus_cli.reports.conversation import newest_turns
from nexus_cli.reports.timeline import session_timeline
from nexus_cli.reports.transcript import session_transcript
from nexus_cli.runs import live_wait
from nexus_cli.text.cells import without_codes
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.last_turns import last_screenful


@pytest.fixture
def stage(_isolated: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(live_wait, "LOOK_SECONDS", 0.02)

    def script(request: Any) -> Answer:
        last = json.dumps(request.messages[-1])
        if "RESUME" in last:
            return "CI has passed"
        return "an answer meanwhile" if "meanwhile" in last else [("wait_for", {"file": "ci.log"})]

    return Stage(_isolated, script, allow="all")


def shown_again(stage: Stage) -> list[str]:
    """The rows of the session as they are shown when it is resumed."""
    turns = newest_turns(stage.session)
    return [without_codes(line) for line in last_screenful(turns, 50, 80, Theme(), drawn=True).lines]


def outcomes(stage: Stage) -> list[str]:
    """What `timeline` says of the calls."""
    session = stage.session
    assert session.ledger is not None
    return [row["outcome"] for row in session_timeline(session.ledger, session.id)["rows"] if row["kind"] == "tool"]


def transcript(stage: Stage) -> str:
    return find_form("transcript")(session_transcript(stage.session), 80)


async def test_a_session_that_waits_goes_on_by_itself_and_the_persons_words_go_first(stage: Stage) -> None:
    async with stage.running():
        stage.type("tell me how CI ends")
        await stage.until(lambda: "run-1 waits: ci.log changes" in stage.view.text)
        await stage.idle()
        assert stored(1).state == "waiting_reply"
        assert "○ wait_for ci.log · waiting" in stage.view.text and "✓ wait_for" not in stage.view.text
        await stage.until(lambda: "waits: ci.log changes" in stage.repl.status(160))
        assert [value for value in shown_again(stage) if "wait_for" in value] == ["○ wait_for ci.log · waiting"]
        assert outcomes(stage) == ["waiting"] and transcript(stage).count("* wait_for ci.log · waiting") == 1
        stage.type("what do you do meanwhile?")
        (stage.backend.folder / "ci.log").write_text("passed")
        await stage.until(lambda: "CI has passed" in stage.view.text)
        await stage.idle()
        assert "waits" not in stage.repl.status(160)
        assert [value for value in shown_again(stage) if "wait_for" in value] == ["✓ wait_for ci.log"]
        assert outcomes(stage) == ["ok"] and "· waiting" not in transcript(stage)
    sent = stage.provider.seen[-1]
    assert any(message.get("tool_calls") for message in sent), "it goes on natively"
    text = json.dumps(sent)
    assert text.index("an answer meanwhile") < text.index("<- RESUME") and "has appeared" in text
    run = stored(1)
    assert (run.state, run.report, run.resumes) == ("done", "CI has passed", 1)
    assert "run-1 resumed: " in stage.view.text
    assert "cut short" not in stage.view.text and "✗" not in stage.view.text


async def test_a_call_behind_a_wait_is_not_run_and_nobody_is_said_to_have_stopped_the_turn(stage: Stage) -> None:
    def script(request: Any) -> Answer:
        last = json.dumps(request.messages[-1])
        if "meanwhile" in last or "RESUME" in last:
            return "an answer"
        return [("wait_for", {"file": "ci.log"}), ("bash", {"command": "touch behind"})]

    stage.provider.script = script
    async with stage.running():
        stage.type("tell me how CI ends")
        await stage.until(lambda: "run-1 waits: ci.log changes" in stage.view.text)
        await stage.idle()
        stage.type("what do you do meanwhile?")
        await stage.until(lambda: len(stage.provider.seen) == 2)
        await stage.idle()
        assert not (stage.backend.folder / "behind").exists()
    text = json.dumps(stage.provider.seen[-1])
    assert "not run: this run waits for something first (ci.log changes)" in text, text
    assert "was stopped" not in text, text


async def test_a_run_that_is_cancelled_elsewhere_while_it_goes_on_here_stops(stage: Stage) -> None:
    def script(request: Any) -> Answer:
        has_come = "RESUME" in json.dumps(request.messages)
        return [("bash", {"command": "touch begun; sleep 30"})] if has_come else [("wait_for", {"file": "ci.log"})]

    stage.provider.script = script
    async with stage.running():
        stage.type("tell me how CI ends")
        await stage.until(lambda: "run-1 waits: ci.log changes" in stage.view.text)
        (stage.backend.folder / "ci.log").write_text("passed")
        await stage.until((stage.backend.folder / "begun").exists)
        with closing(Ledger.open(places().ledger)) as ledger:
            ledger.runs.cancel(1, AT)
        await stage.until(lambda: "Interrupted" in stage.view.text)
        await stage.idle()
    assert stored(1).state == "cancelled"
