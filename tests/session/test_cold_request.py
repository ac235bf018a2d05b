"""The words before an expensive request that misses the cache: they offer a compaction only where one helps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from session.played import MODEL
from session.summed import Summariser, ended, living

from nexus_cli.session.cold_request import cold_price, warn_of_cold_request

TURNS = tuple(f"Task {number}: {'look after this module and that one ' * 8}" for number in range(40))
PRICES: dict[str, float | int | bool] = {"window": 24_000, "input_price": 3.0, "output_price": 15.0}
PRICES |= {"cache_read_price": 0.3, "cache_write_price": 3.75}


def test_right_after_a_compaction_no_other_one_is_offered(tmp_path: Path) -> None:
    async def live() -> None:
        async with living(
            tmp_path, Summariser(work=lambda _request: "It is done. " * 30), *TURNS, models={MODEL: PRICES}
        ) as session:
            state = session.engine
            state.settings = replace(state.settings, warn_cost=0.001)
            assert ended(await session.compact()).ok
            price = cold_price(session.state, session.engine.next_request())
            assert price is not None
            told = warn_of_cold_request(session.state)
            expected = f"about {price.input:,} tokens for ${price.cost_usd:.4f}. To avoid it, start a new session"
            assert told.endswith(expected) and warn_of_cold_request(session.state) == "", "once"

    asyncio.run(live())


def test_no_cache_is_missed_where_none_is_known_or_nothing_is_paid(tmp_path: Path) -> None:
    """A model on this machine was "next uncached" for ever."""

    async def live() -> None:
        async with living(
            tmp_path, Summariser(work=lambda _request: "It is done. " * 30), *TURNS, models={MODEL: PRICES}
        ) as session:
            assert ended(await session.compact()).ok
            context = session.engine.context
            priced = context.model.info

            def is_cold(**facts: Any) -> bool:
                context.model = replace(context.model, info=replace(priced, **facts))
                return cold_price(session.state, session.engine.next_request()) is not None

            assert is_cold() and is_cold(input_price=None) and is_cold(provider="hosted_vllm")
            assert not is_cold(input_price=0.0) and not is_cold(input_price=None, provider="ollama_chat", cache=False)

    asyncio.run(live())
