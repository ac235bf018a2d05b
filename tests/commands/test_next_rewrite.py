"""What `/context` says of the next rewrite is what happens: at these tokens, in this way, or with the next message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from search import sample
from session.summed import Summariser, ended, living, turn

from nexus_cli.commands.context import context_summary
from nexus_cli.config.settings import CompactSettings
from nexus_cli.core.event import CompactionStart


@pytest.mark.matrix
@pytest.mark.parametrize("at", sample([0.5, 1.0], 2))
async def test_older_messages_are_summarized_where_it_says(tmp_path: Path, at: float) -> None:
    async with living(tmp_path, Summariser(), compact=CompactSettings(at=at, prune=False)) as session:
        before, said = 0, context_summary(session)["rewrite"]
        assert said["by"] == "summary"
        for number in range(40):
            begun = any(isinstance(event, CompactionStart) for event in await turn(session, f"list {number}"))
            if begun:
                break
            value = context_summary(session)
            before, said = value["budget"]["used"]["total"], value["rewrite"]
            assert said["by"] == "summary"
        assert begun and said["at"] is not None
        assert before < said["at"] < before + 3000, (before, said)
        if at < 1:
            assert said["at"] == at * value["budget"]["available"]
        else:
            assert said["at"] < value["budget"]["available"], "the known error of the estimate is kept free"


@pytest.mark.matrix
async def test_after_a_failed_summary_the_oldest_are_left_out_and_a_reload_comes_first(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(summary="no headings"), "list", "list", "list", "list") as session:
        full = context_summary(session)["rewrite"]["at"]
        assert not ended(await session.compact()).ok
        after = context_summary(session)["rewrite"]
        assert full is not None and after["at"] is not None
        assert after["at"] > full and after["by"] == "truncation"
        session.reload()
        why = {"by": "epoch", "at": None, "why": "nexus reloads instructions and tools"}
        value = context_summary(session)
        assert value["rewrite"] == why and value["cached"]["expected"] == 0
        model = session.engine.model
        session.engine.context.model = replace(model, info=replace(model.info, name="openai/other"))
        assert context_summary(session)["rewrite"]["why"] == "another model"
