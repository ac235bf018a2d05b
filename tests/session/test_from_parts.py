"""A session of a provider and a context manager, which a program has made and used before."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from session.played import Played

from nexus_cli.context import ContextConfig, ContextManager
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.context_contract import ContextContract
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CacheExpectation, CacheResult, ContextDrop, Event, TurnEnd
from nexus_cli.core.usage import Usage
from nexus_cli.engine.requests.check_contract import check_contract
from nexus_cli.engine.requests.model_call import call_model
from nexus_cli.session.logger import LogConfig, SessionLogger
from nexus_cli.session.session import Session


def answering(tokens: int, cached: int = 0) -> Played:
    """A model that reports so many tokens of each request."""
    return Played(lambda request: "well", usage=Usage(tokens, 5, cache_read=cached))


def say(session: Session, words: str | Trigger) -> list[Event]:
    async def turn() -> list[Event]:
        return [event async for event in session.run(words)]

    return asyncio.run(turn())


def test_the_limits_are_those_that_the_manager_has_by_then() -> None:
    context = ContextManager(ContextConfig(8_000, 2_000))
    context.config.max_tokens = 100_000
    assert Session(answering(200), context).engine.context.budget.available == 98_000
    context.config = ContextConfig(64_000, 4_000)
    assert Session(answering(200), context).engine.context.budget.available == 60_000
    assert context.available == 60_000


def test_what_another_provider_was_sent_is_not_expected_in_the_cache() -> None:
    context = ContextManager(ContextConfig(40_000, 4_000))
    context.set_system_prompt("You are good. " * 400)
    say(Session(answering(1_800), context), "hello " * 300)
    say(Session(answering(2_200, cached=1_700), context), "hello " * 300)
    events = say(Session(answering(2_600), context), "hello " * 300)
    assert [one.tokens for one in events if isinstance(one, CacheExpectation)] == [0]
    assert [one.missed for one in events if isinstance(one, CacheResult)] == [0]


def test_a_fork_of_a_cut_request_has_a_drop_of_its_own_and_a_contract_counts_them() -> None:
    session = Session(answering(1_200), ContextManager(ContextConfig(40_000, 4_000)))
    events = say(session, "a long text of words and numbers 12 34 " * 400)
    assert len([one for one in events if isinstance(one, ContextDrop)]) == 1
    for _ in range(2):
        side = session.engine.fork("compact", "Sum it up")
        asyncio.run(call_model(side, side.window_request(), main=False))
        assert [drop.id for drop in side.conversation.log.drops()] == ["d1"]
    assert session.engine.context.cut_run == session.engine.conversation.run
    engine, contract = session.engine, ContextContract(full_input=False, max_input=None, max_drop=0, sections=())
    with pytest.raises(NexusError, match="the request omits"):
        check_contract(contract, engine.settings, engine.context, engine.window_request(), True)


NOTHING_ASKED = ContextContract(full_input=False, max_input=None, max_drop=None, sections=())


@pytest.mark.parametrize(
    ("kind", "says", "contract"),
    [
        ("contract", "too many", replace(NOTHING_ASKED, max_input=1)),
        (
            "contract",
            "the input exceeds the maximum size by 7 bytes",
            replace(NOTHING_ASKED, full_input=True, uncounted=7),
        ),
        ("contract", "does not contain this section", replace(NOTHING_ASKED, sections=("instructions.project",))),
        ("usage", "Did you mean instructions.project?", replace(NOTHING_ASKED, sections=("instructons.project",))),
    ],
)
def test_a_contract_that_the_request_breaks_is_named_before_it_is_sent(
    kind: str, says: str, contract: ContextContract
) -> None:
    session = Session(answering(200), ContextManager(ContextConfig(40_000, 4_000)))
    say(session, "hello")
    engine = session.engine
    kept = replace(contract, max_input=40_000, max_drop=0, uncounted=0, sections=())
    check_contract(kept, engine.settings, engine.context, engine.window_request(), True)
    with pytest.raises(NexusError) as caught:
        check_contract(contract, engine.settings, engine.context, engine.window_request(), True)
    assert caught.value.kind == kind and says in f"{caught.value}. {caught.value.hint}"


def test_the_model_is_that_of_the_log_where_the_provider_names_none(tmp_path: Path) -> None:
    with closing(SessionLogger(LogConfig(tmp_path / "ledger.db", tmp_path, model="openai/quick"))) as logger:
        context = ContextManager(ContextConfig(40_000, 4_000), logger=logger)
        assert Session(answering(200), context, logger).model == "openai/quick"


def test_a_schema_holds_without_a_ledger() -> None:
    session = Session(Played(lambda request: '{"n": 1}'), ContextManager(ContextConfig(40_000, 4_000)))
    end = say(session, Trigger("count", schema='{"type": "object", "required": ["n"]}'))[-1]
    assert isinstance(end, TurnEnd) and end.outcome.ok and end.outcome.data == {"n": 1}
