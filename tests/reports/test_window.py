"""What `nexus context` adds to the shape of `nexus docs json`: what is largest, and what was sent before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, context_report, opened, say
from session.prefix_cache import Remembering
from session.summed import Summariser, ended, living

from nexus_cli.commands.forms import find_form
from nexus_cli.config.settings import Settings
from nexus_cli.core.clock import local_now
from nexus_cli.session.options import Options


def of(folder: Path, session: str, step: int | None = None, model: str = MODEL) -> Mapping[str, Any]:
    return context_report(Options(folder, model), Settings(models={MODEL: {"window": 16_000}}), session, step)


@pytest.mark.matrix
def test_each_request_says_what_of_it_was_sent_before(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "an answer of some words"), tmp_path)
    assert say(session, "first " * 200)[1].ok
    assert say(opened(Played(lambda request: "short"), tmp_path, session.id), "second " * 200)[1].ok
    first, second, pending = (of(tmp_path, session.id, step) for step in (1, 2, None))
    assert first["cached"] == {"tokens": 0}
    assert 0 < second["cached"]["tokens"] < second["budget"]["used"]["total"]
    assert second["cached"]["tokens"] < pending["cached"]["tokens"] < pending["budget"]["used"]["total"]
    assert of(tmp_path, session.id, None, "openai/other")["cached"] == {"tokens": 0, "expected": 0}
    text = find_form("context")(pending, 80)
    sent, total = pending["cached"]["tokens"], pending["budget"]["used"]["total"]
    assert pending["cached"]["expected"] == 0, "this provider reports no cache"
    assert f"cached: 0 of {total:,} tokens ({sent:,} were sent before" in text
    assert f"cached: {sent:,} of {total:,} tokens (" in find_form("context")(
        {**pending, "cached": {"tokens": sent}}, 80
    )


@pytest.mark.matrix
def test_the_next_request_of_a_session_in_another_process_says_what_should_still_be_cached(tmp_path: Path) -> None:
    session = opened(Remembering(lambda request: "an answer", clock=local_now), tmp_path)  # type: ignore[arg-type]
    assert say(session, "many words " * 2000)[1].ok
    pending = of(tmp_path, session.id)
    assert 0 < pending["cached"]["tokens"] - pending["cached"]["expected"] < 256, "caches hold steps of 128 tokens"
    assert "sent before" not in find_form("context")(pending, 80)


@pytest.mark.matrix
def test_the_largest_items_are_named_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("some line of a file\n" * 300)

    def script(request: Any) -> Any:
        done = any(message["role"] == "tool" for message in request.messages)
        return "done" if done else [("read_file", {"path": "long.txt"})]

    session = opened(Played(script), tmp_path)
    assert say(session, "look at it")[1].ok
    value = of(tmp_path, session.id)
    largest = value["largest"]
    assert largest[0]["what"] == "result of read_file long.txt" and largest[0]["entry"] == 3
    assert [item["tokens"] for item in largest] == sorted((item["tokens"] for item in largest), reverse=True)
    named = {item["what"]: item for item in largest}
    assert named["schema of bash"]["entry"] is None and any(what.startswith("section ") for what in named)


@pytest.mark.matrix
async def test_a_group_of_the_history_holds_an_entry_that_is_counted(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *(f"TURN{number} make a list" for number in range(5))) as session:
        assert ended(await session.compact()).ok
    before, after = of(tmp_path, session.id, 1)["history"], of(tmp_path, session.id)["history"]
    assert (before["entries"], before["groups"], before["hidden_entries"]) == (1, 1, 0)
    assert 0 < after["groups"] <= after["entries"] and after["hidden_entries"] > 0
