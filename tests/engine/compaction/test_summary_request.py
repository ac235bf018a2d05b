"""What a model that summarizes is told of the content that stays beside its summary."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nexus_cli.engine.compaction.summary_request import describe_kept, fork_instruction, transcript_request


@pytest.mark.parametrize("is_whole", [True, False])
def test_it_is_told_whether_every_message_of_the_person_stays(is_whole: bool) -> None:
    quotes = [SimpleNamespace(entry=1, whole=True), SimpleNamespace(entry=3, whole=is_whole)]
    kept = [SimpleNamespace(entry=entry) for entry in (1, 4, 5)]
    plan: Any = SimpleNamespace(
        quotes=quotes, user_texts=((1, "a"), (3, "b")), entries=(1, 4), kept=kept, record_room=0
    )
    told = describe_kept(plan)
    assert ("every message of the person, word for word" in told) == is_whole
    assert ("the newest messages of the person, word for word" in told) != is_whole
    assert ("older messages of the person still ask for" in told) != is_whole
    assert "the newest message of the conversation" in told and "a record" not in told
    plan.record_room, plan.entries = 10, (1, 3)
    assert "the newest 2 messages" in describe_kept(plan) and "; a record of the files" in describe_kept(plan)


def test_what_the_person_asks_of_the_summary_is_named_as_theirs() -> None:
    plan: Any = SimpleNamespace(quotes=(), user_texts=(), entries=(1, 2), kept=(), record_room=0, requested_tokens=100)
    for wanted, line in (("keep the prices", "The person asks of this summary: keep the prices"), ("", "")):
        parts = {"request": "", "earlier": "", "headings": "Goal", "instructions": wanted}
        for text in (fork_instruction(plan, wanted), transcript_request(plan, "USER: hi", **parts)):
            assert text.endswith(line) and ("asks of this summary" in text) == bool(wanted)
