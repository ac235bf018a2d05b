"""`remember`, `forget`, `search_memory`: one line each, with ids and what waits for the person."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Fact, Facts, FactState, MemorySlot
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import Effect, ToolContext
from nexus_cli.core.wire import canonical
from nexus_cli.tools.registry import ToolRegistry, discover_tools

OURS = ("remember", "forget", "search_memory")
COUNTER = TiktokenCounter("o200k_base")


def fact(name: str, state: FactState = FactState.KEPT, **more: Any) -> Fact:
    values: dict[str, Any] = {"actor": "person", "session": "01J", "entry": 4} | more
    return Fact(name, MemorySlot.PROJECT, "deploys with fly", "2026-01-02T03:04:05.000Z", state, **values)


class Memory:
    """`Facts` that gives what it was made with; an exception is raised."""

    def __init__(self, gives: Any) -> None:
        self.gives = gives
        self.asked: list[Any] = []

    def _given(self, *asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives

    def remember(self, slot: MemorySlot, text: str, quote: str = "") -> Fact:
        return self._given(slot, text, quote)  # type: ignore[no-any-return]

    def forget(self, fact_id: str) -> Fact | None:
        return self._given(fact_id)  # type: ignore[no-any-return]

    def search(self, text: str, slots: Collection[MemorySlot] = (), limit: int = 20) -> Sequence[Fact]:
        return self._given(text, tuple(slots))  # type: ignore[no-any-return]

    def relevant(self, slot: MemorySlot, about: str, limit: int = 5) -> Sequence[Fact]:
        raise AssertionError("no tool asks for this")


def called(name: str, memory: Memory, **arguments: Any) -> ToolResult:
    async def work() -> ToolResult:
        context = ToolContext(Path("/"), Path("/"), 1000, "c1", lambda text: None, {Facts: memory})
        return await discover_tools()[name].run(arguments, context)

    return asyncio.run(work())


def test_the_descriptions_cost_little() -> None:
    for tool in map(discover_tools().__getitem__, OURS):
        assert COUNTER.count(tool.description) <= 45 and tool.effect is Effect.NONE and tool.needs == (Facts,)
    definitions = [d for d in ToolRegistry(services={Facts: 1}).get_definitions() if d["function"]["name"] in OURS]
    assert len(definitions) == 3 and sum(COUNTER.count(canonical(one).decode()) for one in definitions) <= 250


def test_remember_says_what_counts_and_what_waits() -> None:
    kept = Memory(fact("m3"))
    assert called("remember", kept, text="x", slot="user", quote="q").output == "m3 (project): kept"
    assert kept.asked == [(MemorySlot.USER, "x", "q")]
    waits = called("remember", Memory(fact("m4", FactState.PROPOSED)), text="x", slot="agent")
    assert waits.output == "m4 (project): proposed; the person can accept it: /memory accept m4"


def test_found_facts_come_with_id_date_and_source() -> None:
    found = Memory([fact("m3"), fact("m7", deleted=True), fact("m8", entry=0)])
    lines = called("search_memory", found, query="deploy", slot="project").output.splitlines()
    assert lines == [
        "m3 (project, 2026-01-02, session 01J, entry 4): deploys with fly",
        "m7 (project, 2026-01-02, a deleted session): ",
        "m8 (project, 2026-01-02, typed by the person): deploys with fly",
    ]
    assert found.asked == [("deploy", (MemorySlot.PROJECT,))]
    assert called("search_memory", Memory([]), query="x").output == "no stored fact matches"


def test_a_search_that_finds_more_than_it_shows_says_so() -> None:
    lines = called("search_memory", Memory([fact(f"m{n}") for n in range(21)]), query="x").output.splitlines()
    assert len(lines) == 21 and lines[-1].startswith("[the best 20; there are more")
    assert "more" not in called("search_memory", Memory([fact(f"m{n}") for n in range(20)]), query="x").output


def test_forget_names_what_is_gone() -> None:
    assert called("forget", Memory(fact("m3")), id="m3").output == "m3 (project): forgotten"
    refused = called("forget", Memory(None), id="m9").error
    assert "no fact 'm9' here" in refused and "search_memory" not in refused
    assert "the id that remember returned" in refused and "only the person can forget kept facts" in refused


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("remember", {"text": "x", "slot": "user"}), ("forget", {"id": "m1"}), ("search_memory", {"query": "x"})],
)
def test_what_fails_is_a_result(name: str, arguments: dict[str, str]) -> None:
    for error in (ValueError("the text is empty"), NexusError("ledger", "the ledger failed", "the disk is full")):
        result = called(name, Memory(error), **arguments)
        assert result.error == str(error) and not result.output


def test_what_writes_to_memory_never_runs_beside_another_call() -> None:
    together = {name: tool.is_parallel for name, tool in discover_tools().items()}
    assert [name for name in ("remember", "forget", "merge_facts") if together[name]] == []
    assert together["search_memory"] and together["read_file"]
