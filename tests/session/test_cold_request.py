"""The words before an expensive request that misses the cache: they offer a compaction only where one helps."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from search import sample
from session.played import MODEL, Answer
from session.summed import Summariser, ended, living, noted, turn

from nexus_cli.core.request import Request
from nexus_cli.engine.compaction import file_states
from nexus_cli.session.cold_request import cold_price, warn_of_cold_request
from nexus_cli.ui.repl.status_reader import StatusReader

TURNS = tuple(f"Task {number}: {'look after this module and that one ' * 8}" for number in range(40))
PRICES: dict[str, float | int | bool] = {"window": 24_000, "input_price": 3.0, "output_price": 15.0}
PRICES |= {"cache_read_price": 0.3, "cache_write_price": 3.75}


@pytest.mark.matrix
async def test_right_after_a_compaction_no_other_one_is_offered(tmp_path: Path) -> None:
    async with living(
        tmp_path, Summariser(work=lambda _request: "It is done. " * 30), *TURNS, models={MODEL: PRICES}
    ) as session:
        state = session.engine
        state.settings = replace(state.settings, warn_cost=0.001)
        assert ended(await session.compact()).ok
        price = cold_price(session, session.engine.next_request())
        assert price is not None
        told = await warn_of_cold_request(session)
        expected = f"about {price.input:,} tokens for ${price.cost_usd:.4f}. To avoid that cost, start a new session"
        assert told.endswith(expected) and await warn_of_cold_request(session) == "", "once"


@pytest.mark.matrix
async def test_no_cache_is_missed_where_none_is_known_or_nothing_is_paid(tmp_path: Path) -> None:
    """A model on this machine was "next uncached" for ever."""

    async with living(
        tmp_path, Summariser(work=lambda _request: "It is done. " * 30), *TURNS, models={MODEL: PRICES}
    ) as session:
        assert ended(await session.compact()).ok
        context = session.engine.context
        priced = context.model.info

        def is_cold(**facts: Any) -> bool:
            context.model = replace(context.model, info=replace(priced, **facts))
            return cold_price(session, session.engine.next_request()) is not None

        assert is_cold() and is_cold(input_price=None) and is_cold(provider="hosted_vllm")
        assert not is_cold(input_price=0.0) and not is_cold(input_price=None, provider="ollama_chat", cache=False)


@pytest.mark.matrix
@pytest.mark.parametrize("of_status_line", sample([False, True], 2))
async def test_a_disk_that_hangs_does_not_stop_the_loop_while_the_warning_is_made(
    of_status_line: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The price of a compaction looks at the files of the work, for up to two seconds."""
    (tmp_path / "a.py").write_text("def first(): ...\n")
    reads = [[("read_file", {"path": "a.py"})]]
    released, waited, warned = threading.Event(), list[bool](), list[str]()

    def work(_request: Request) -> Answer:
        return reads.pop() if reads else "It is done. " * 30

    def hang_indent(_path: str, _most: int) -> None:
        waited.append(released.wait(1.5))

    async with living(tmp_path, Summariser(work=work), *TURNS, models={MODEL: PRICES}) as session:
        engine, tasks = session.engine, list[asyncio.Task[None]]()
        engine.settings = replace(engine.settings, warn_cost=0.001)
        now = engine.conversation.clock() + timedelta(days=1)
        engine.conversation.clock = lambda: now
        monkeypatch.setattr(file_states, "read_regular", hang_indent)
        asyncio.get_running_loop().call_later(0.2, released.set)
        if of_status_line:
            start = asyncio.get_running_loop().create_task
            jobs = SimpleNamespace(start_background=lambda one: tasks.append(start(one)))
            repl = SimpleNamespace(jobs=jobs, show_note=lambda line, role: warned.append(line))
            reader = StatusReader(cast(Any, repl))
            for _ in range(2):
                reader.read(session)
            await asyncio.gather(*tasks)
        else:
            warned.append(noted(await turn(session, "and now")))
        assert len(warned) == 1 and "/compact first" in warned[0]
        assert waited == [True], "the loop went on"
