"""One step before a compaction the model is told, with what will be kept."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from engine.compaction.test_context_fit import compactions, lived, working
from session.played import Answer, Played

from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.engine.compaction.context_fit import NARROW

TOLD = re.compile(re.escape(f"[nexus: {NARROW}]").replace(r"\{:,\}", r"([\d,]+)") + r"\Z")
WINDOW = 16_000


def counting(steps: int) -> Played:
    """A model that prints some hundreds of tokens in each of its steps."""

    def answer(request: Request, step: int) -> Answer:
        return [("bash", {"command": f"seq {step}000 {step}110"})] if step <= steps else "done"

    return working(answer)


def notices(messages: list[Any]) -> list[int]:
    """The figures of the notices at the end of results."""
    found = (TOLD.search(str(one["content"])) for one in messages if one["role"] == "tool")
    return [int(match[1].replace(",", "")) for match in found if match]


def test_the_model_is_told_once_before_its_messages_are_summed_up(tmp_path: Path) -> None:
    provider = counting(60)
    _, events, ends = lived(provider, tmp_path, "look", window=WINDOW, limits=Limits(max_steps=80))
    assert ends[0].ok and len(compactions(events)) >= 2, "it has to be summed up"
    sent = [messages for messages in provider.seen if "about to be replaced" not in str(messages[-1]["content"])]
    ends_of_epochs = [before for before, after in pairwise(sent) if len(after) < len(before)]
    assert len(ends_of_epochs) == len(compactions(events))
    for messages in ends_of_epochs:
        newest = notices(messages)[-1:]
        assert newest and 0 < newest[0] <= TokenBudget.of(WINDOW).output_cap
    figures = [figure for one, after in pairwise(sent) for figure in notices(after)[len(notices(one)) :]]
    assert len(figures) <= len(compactions(events)) + 1, "once in each epoch"


@pytest.mark.matrix
def test_a_window_with_room_says_nothing(tmp_path: Path) -> None:
    provider = counting(3)
    lived(provider, tmp_path, "look", window=64_000)
    assert len(provider.seen) == 4 and not any(map(notices, provider.seen))
