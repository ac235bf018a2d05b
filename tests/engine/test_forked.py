"""A session and its forks go on each by itself, wherever they part."""

from __future__ import annotations

from pathlib import Path

import pytest
from session.played import Answer, Played, opened, say, the_ledger

from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.entry import PLACEHOLDER
from nexus_cli.core.message import UNKNOWN_OUTCOME
from nexus_cli.core.request import Request
from nexus_cli.reports.check_replay import check


def two_commands(request: Request) -> Answer:
    """Two commands for words, of which the second may end first, and words for results."""
    if request.messages[-1]["role"] == "tool":
        return "done"
    return [("bash", {"command": "echo one"}), ("read_file", {"path": "a.txt"}), ("glob", {"pattern": "*"})]


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "a.txt").write_text("a line\n")
    session = opened(Played(two_commands), tmp_path)
    assert say(session, "begin")[1].ok
    return session.id


def forked(source: str, entry: int | None = None) -> str:
    with the_ledger() as ledger:
        return ledger.fork_session(source, at=format_utc(local_now()), entry=entry).id


@pytest.mark.matrix
def test_source_and_fork_both_run_the_calls_of_their_next_turn(source: str, tmp_path: Path) -> None:
    fork = forked(source)
    for session in (source, fork):
        provider = Played(two_commands)
        assert say(opened(provider, tmp_path, session), "go on")[1].ok
        results = [message["content"] for message in provider.seen[-1] if message["role"] == "tool"]
        assert len(results) == 6 and not [text for text in results if UNKNOWN_OUTCOME in text]


@pytest.mark.parametrize("entry", range(1, 7))
def test_a_fork_at_any_entry_goes_on_with_whole_groups_and_replays(source: str, tmp_path: Path, entry: int) -> None:
    fork = forked(source, entry)
    provider = Played(lambda request: "well")
    assert say(opened(provider, tmp_path, fork), "go on")[1].ok
    (sent,) = provider.seen
    calls = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == calls
    texts = [str(message.get("content")) for message in sent]
    assert not [text for text in texts if PLACEHOLDER in text or UNKNOWN_OUTCOME in text]
    with the_ledger() as ledger:
        answer = check(ledger, fork)
    assert answer["ok"], answer["first_difference"]
