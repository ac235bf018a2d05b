"""Two causes of one miss: what we changed is not blamed for the beginning that it left as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine.requests.test_cache import FIRST, listing, told
from search import sample
from session.prefix_cache import LEAST, MODEL, OTHER, Remembering, lived, opened, results, working

from nexus_cli.conversation.groups import flatten
from nexus_cli.core.entry import ItemForm
from nexus_cli.core.event import CacheResult
from nexus_cli.core.message import Message, Role
from nexus_cli.session.session import Session
from nexus_cli.session.start_conversation import start_conversation

RULES = "".join(f"Rule {number}: be careful.\n" for number in range(400))
Change = Callable[[Session, Path], None]


def entry(session: Session, folder: Path) -> None:
    """A result is taken out."""
    lane = session.engine.conversation
    items = flatten(lane.groups())
    place = next(n for n, item in enumerate(items) if item.message.role is Role.TOOL)
    message = Message(Role.TOOL, "[gone]", tool_call_id=items[place].message.tool_call_id)
    items[place] = replace(items[place], form=ItemForm.STUB, message=message, tokens=8)
    lane.rewrite(items, "pruned", ())


def compaction(session: Session, folder: Path) -> None:
    """The newest turn alone is kept, behind a summary."""
    lane = session.engine.conversation
    items = flatten(lane.groups())
    text = Message(Role.USER, "what was done so far " * 20)
    summary = replace(items[0], form=ItemForm.SUMMARY, message=text, tokens=90)
    lane.rewrite([summary, *items[-3:]], "compaction", ())


def section(session: Session, folder: Path) -> None:
    """The instructions change."""
    (folder / "NEXUS.md").write_text(RULES + "Answer in rhyme, please.\n")
    session.reload()


def after(
    folder: Path, change: Change, *, hours: float = 0, lost: bool = False, rules: str = RULES, numbers: int = 4
) -> tuple[CacheResult, str]:
    """What is told of the first request after `change`, that much later, from a provider that lost everything, and
    counts one token for so many characters of `numbers`."""
    (folder / "NEXUS.md").write_text(rules)
    provider = working(listing)
    provider.count = lambda part: len(part) // (numbers if sum(map(str.isdigit, part)) > len(part) / 3 else 4) + 1
    session = opened(provider, folder)

    async def live() -> CacheResult:
        try:
            await lived(session, FIRST)
            change(session, folder)
            provider.clock.forward(hours=hours)
            now = len(provider.seen) + 1
            provider.forgets = lambda number: lost and number == now
            return results(await lived(session, "go on"))[0]
        finally:
            await session.aclose()

    found = asyncio.run(live())
    value = told(session.id, 5)
    assert (value["missed"], value["why"], value["ours"]) == (found.missed, found.why, found.ours)
    return found, value["cause"]


@pytest.mark.matrix
@pytest.mark.parametrize("change", [entry, compaction])
def test_what_the_provider_lost_is_not_blamed_on_the_change_behind_it(change: Change, tmp_path: Path) -> None:
    found, cause = after(tmp_path, change, lost=True)
    assert found.expected > 1000 and found.read == 0 and found.missed > 1000
    assert (cause, found.ours) == ("provider", False)
    assert "unchanged tokens" in found.why and "; also, " in found.why and "entry" in found.why


@pytest.mark.matrix
@pytest.mark.parametrize("numbers", sample([2, 8], 2))
def test_a_beginning_is_as_long_as_the_provider_counts_content_of_its_kind(numbers: int, tmp_path: Path) -> None:
    for lost, cause in ((True, "provider"), (False, "message")):
        folder = tmp_path / cause
        folder.mkdir()
        found, named = after(folder, compaction, lost=lost, rules="", numbers=numbers)
        assert (named, found.ours) == (cause, cause == "message")
        assert found.expected > LEAST and (lost or 0.75 < found.read / found.expected < 1.25)


@pytest.mark.matrix
@pytest.mark.parametrize("resumed", [False, True])
def test_instructions_that_came_back_are_as_long_as_they_were_at_first(resumed: bool, tmp_path: Path) -> None:
    provider = working(lambda request, step: "fine")
    provider.count = lambda part: (len(part) // 4 + 1) * (4 if '"function"' in part[:60] or '"system"' in part else 1)

    async def live() -> tuple[str, CacheResult]:
        session = opened(provider, tmp_path)
        for rules, turns in ((RULES, 6), (RULES + "More.\n", 1), (RULES, 1)):
            (tmp_path / "NEXUS.md").write_text(rules)
            session.reload()
            await lived(session, *["many words here and there " * 300] * turns)
        if resumed:
            await session.aclose()
            session = opened(provider, tmp_path, session.id)
            await start_conversation(session)
        compaction(session, tmp_path)
        now = len(provider.seen) + 1
        provider.forgets = lambda number: number == now
        try:
            return session.id, results(await lived(session, "go on"))[0]
        finally:
            await session.aclose()

    session, found = asyncio.run(live())
    value = told(session)
    assert (value["missed"], value["why"], value["ours"]) == (found.missed, found.why, found.ours)


@pytest.mark.matrix
@pytest.mark.parametrize("change", [entry, compaction])
def test_the_same_change_alone_is_ours(change: Change, tmp_path: Path) -> None:
    found, cause = after(tmp_path, change)
    assert found.read > 1000 and (cause, found.ours) == ("message", True)


@pytest.mark.matrix
@pytest.mark.parametrize("change", [entry, compaction])
def test_what_expired_is_not_blamed_on_the_change_behind_it(change: Change, tmp_path: Path) -> None:
    found, cause = after(tmp_path, change, hours=0.2)
    assert (cause, found.ours) == ("expired", False)
    assert found.why.startswith("the cache had probably expired: unused for 12 min") and "; also, " in found.why


@pytest.mark.matrix
def test_a_change_at_the_beginning_is_ours_until_the_cache_is_surely_gone(tmp_path: Path) -> None:
    for hours, lost, cause in ((0.0, True, "section"), (0.2, False, "section"), (2.0, False, "expired")):
        folder = tmp_path / cause / str(hours)
        folder.mkdir(parents=True)
        found, named = after(folder, section, hours=hours, lost=lost)
        assert (named, found.ours) == (cause, cause == "section"), "nothing before it was left to be read"


def switching(folder: Path, *pauses: float) -> tuple[CacheResult, Mapping[str, Any]]:
    """What is told of the first request after the last of some switches between two models, with hours before each."""
    provider: Remembering = working(listing)
    session, found = "", list[CacheResult]()

    async def turn(model: str) -> str:
        made = opened(provider, folder, session, model)
        try:
            found[:] = results(await lived(made, FIRST if not session else "go on"))
        finally:
            await made.aclose()
        return made.id

    session = asyncio.run(turn(MODEL))
    for number, hours in enumerate(pauses):
        provider.clock.forward(hours=hours)
        asyncio.run(turn(MODEL if number % 2 else OTHER))
    first = 1 + len(provider.seen) - len(found)
    value = told(session, first)
    assert (value["missed"], value["why"], value["ours"]) == (found[0].missed, found[0].why, found[0].ours)
    return found[0], value


@pytest.mark.matrix
def test_a_switch_of_model_is_ours_only_while_there_was_something_to_lose(tmp_path: Path) -> None:
    for pauses, cause in (((0.05,), "model"), ((2.0,), "expired"), ((0.05, 2.0), "expired"), ((2.0, 0.05), "model")):
        folder = tmp_path / "-".join(map(str, pauses))
        folder.mkdir()
        found, value = switching(folder, *pauses)
        assert (value["cause"], found.ours) == (cause, cause == "model"), pauses
        assert "the model was switched" in found.why, "it is told in any case"
