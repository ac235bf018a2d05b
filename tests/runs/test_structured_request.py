"""Runs that a runner drives have the structured request: blocks, history, one mark, the cursor moved at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs.stage import AT, MODEL, Played, Reply, last, queue, run_due, sent, waiting

from nexus_cli.config.paths import places
from nexus_cli.core.request import Request
from nexus_cli.core.run import AGENT, HUMAN, RESUME_MARK, TRIGGER_MARK
from nexus_cli.ledger import Ledger


@pytest.fixture
def folder(_isolated: Path) -> Path:
    made = _isolated / "project"
    made.mkdir(exist_ok=True)
    return made


def test_a_run_of_a_service_has_its_blocks_and_one_mark(folder: Path) -> None:
    queue("make a report", folder)
    provider = Played(lambda request: "here it is")
    (done,) = run_due(provider)
    said = last(provider.seen[0])
    assert done.state == "done" and 'IDENTITY:\n  name: "nexus"\n  currentTime: ' in said
    assert "TRIGGER:\n  type: service\n" in said and 'instruction: "make a report"' in said
    assert f"Run {done.id} (this run)" in said and said.endswith(TRIGGER_MARK)
    assert "Trigger: " not in said and sent(provider.seen[0]).count(TRIGGER_MARK) == 1


def test_a_run_in_a_space_begins_with_its_history_and_moves_the_cursor_when_it_has_ended(folder: Path) -> None:
    ledger = Ledger.open(places().ledger)
    spaces = ledger.spaces
    husam = spaces.entity("Husam", HUMAN)
    agent = spaces.entity("Ana", AGENT, {"folder": str(folder), "model": MODEL, "allow": "all"})
    space = spaces.create("Project Alpha", AT, members=[husam, agent, spaces.entity("Sarah", HUMAN)])
    spaces.post(space, husam, "the build is broken", AT)
    asked = spaces.post(space, husam, "@Ana wait for ci.log", AT).message
    (folder / "ci.log").write_text("running\n")
    provider = Played(waiting(("wait_for", {"file": "ci.log"})))
    (run,) = run_due(provider)
    assert run.state == "waiting_reply" and spaces.seen(space, agent) < asked.key
    first = [str(message.get("content")) for message in provider.seen[0].messages[-2:]]
    assert first[0].startswith('SPACE HISTORY ("Project Alpha"):') and first[1].endswith(TRIGGER_MARK)
    assert "YOUR SPACES:" in first[1] and "triggerSource: mention" in first[1]
    (folder / "ci.log").write_text("passed\n")
    (run,) = run_due(provider)
    resumed = sent(provider.seen[-1])
    assert run.state == "done" and spaces.seen(space, agent) == asked.key
    assert "TRIGGER:\n  type: resume" in resumed and "YOUR SPACES:" in resumed and "IDENTITY:" in resumed
    assert resumed.count(RESUME_MARK) == 1 and resumed.count(TRIGGER_MARK) <= 1
    ledger.close()


def test_a_reply_that_a_run_waited_for_is_seen_when_it_has_ended(folder: Path) -> None:
    ledger = Ledger.open(places().ledger)
    spaces = ledger.spaces
    husam, sarah = spaces.entity("Husam", HUMAN), spaces.entity("Sarah", HUMAN)
    agent = spaces.entity("Ana", AGENT, {"folder": str(folder), "model": MODEL, "allow": "all"})
    space = spaces.create("Project Alpha", AT, members=[husam, agent, sarah])
    spaces.post(space, husam, "@Ana ask Sarah", AT)
    asked: list[int] = []

    def reply(request: Request) -> Reply:
        if RESUME_MARK in sent(request):
            return "all is done"
        asked.append(1)
        return [("send_message", {"text": "@Sarah which?", "wait": True})]

    (run,) = run_due(Played(reply))
    assert run.state == "waiting_reply" and len(asked) == 1
    answer = spaces.post(space, sarah, "the second one", AT).message
    (run,) = run_due(Played(reply))
    assert run.state == "done" and spaces.seen(space, agent) == answer.key and len(asked) == 1
    ledger.close()
