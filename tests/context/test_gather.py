"""Gathering: contributors are bounded, a preamble is a delta with a cap, and a resumed lane knows what it sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.context import gather
from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.gather import Gatherer, system_text
from nexus_cli.context.section import DROP, Cut, Layer, Phase, Section
from nexus_cli.core.errors import NexusError

MOMENT = datetime(2026, 1, 13, 14, 30, tzinfo=UTC)


def contributor(id: str, *forms: str, layer: Layer = Layer.EVENT, order: int = Phase.EVENT, **more: Any) -> Contributor:
    async def read(sources: Sources) -> Value:
        return None

    def render(value: Value, view: View) -> tuple[Section, ...]:
        return (Section(id, order, forms, layer, 50, **more),)

    return Contributor(id, layer, read, render)


def failing(id: str, read: Callable[[], Any], layer: Layer = Layer.EVENT) -> Contributor:
    async def reading(sources: Sources) -> Value:
        result = read()
        return await result if asyncio.iscoroutine(result) else result

    return replace(contributor(id, "text", layer=layer), read=reading)


def gatherer(*contributors: Contributor, window: int = 100_000) -> tuple[Gatherer, list[str], list[Section]]:
    """With one token for each character, what it said, and what it dropped."""
    said: list[str] = []
    dropped: list[Section] = []

    def drop(section: Section) -> str:
        dropped.append(section)
        return f"d{len(dropped)}"

    view = View("m", "chat", window, 1000, len)
    found = {contributor.id: contributor for contributor in contributors}
    return Gatherer(found, Sources(Path(), MOMENT, lambda: ()), view, said.append, drop), said, dropped


def preamble(of: Gatherer, only: str = "") -> str:
    """The next preamble, sent."""
    text, fresh = asyncio.run(of.preamble(only=only))
    of.settle(fresh)
    return text


def test_only_what_differs_from_what_was_sent_is_sent_again() -> None:
    now, _, _ = gatherer(contributor("a", "A: 1"), contributor("b", "B: 1", order=Phase.EVENT + 1))
    assert preamble(now) == "A: 1\nB: 1"
    assert preamble(now) == ""
    now.contributors = {**now.contributors, "b": contributor("b", "B: 2")}
    assert preamble(now) == "B: 2"
    now.new_epoch()
    assert sorted(preamble(now).splitlines()) == ["A: 1", "B: 2"]


def test_what_was_not_settled_is_told_again() -> None:
    now, _, _ = gatherer(contributor("a", "A: 1"))
    assert asyncio.run(now.preamble())[0] == asyncio.run(now.preamble())[0] == "A: 1"


def test_notices_are_told_each_time_and_can_be_asked_for_alone() -> None:
    now, _, _ = gatherer(contributor("notices", "[nexus: x]"), contributor("a", "A: 1"))
    assert preamble(now, only="notices") == "[nexus: x]"
    assert preamble(now) == "A: 1\n[nexus: x]"
    assert preamble(now) == "[nexus: x]"


def test_a_resumed_lane_knows_what_it_sent_last() -> None:
    now, _, _ = gatherer(contributor("clock.date", "Date: 2"), contributor("b", "B: 1"))
    asyncio.run(now.resume(["Date: 1\nB: 1", "Date: 2"]))
    assert preamble(now) == ""
    asyncio.run(now.resume(["Date: 2\nB: 0", "Date: 1"]))
    assert sorted(preamble(now).splitlines()) == ["B: 1", "Date: 2"]


@pytest.mark.parametrize(("window", "cap"), [(100_000, 1000), (10_000, 200), (1000, 20), (0, 0)])
def test_a_preamble_takes_two_per_cent_of_the_window_and_at_most_a_thousand_tokens(window: int, cap: int) -> None:
    parts = [contributor(f"c{n}", "x" * n) for n in range(1, 60)]
    now, _, _ = gatherer(*parts, window=window)
    text = preamble(now)
    assert len(text) <= cap
    assert len(text) >= cap * 0.9
    assert "x" * 1001 not in preamble(gatherer(contributor("huge", "x" * 1001))[0])


def test_a_section_that_does_not_fit_is_told_in_its_shorter_form_and_not_again() -> None:
    now, _, _ = gatherer(contributor("a", "A: " + "x" * 2000, "A: short"))
    assert preamble(now) == "A: short"
    assert preamble(now) == ""


def test_a_contributor_that_raises_is_named_and_the_others_are_heard() -> None:
    def broken() -> None:
        raise RuntimeError("no such luck")

    now, said, _ = gatherer(failing("bad", broken), contributor("a", "A: 1"))
    assert preamble(now) == "A: 1"
    assert said == ["context section bad was left out: no such luck"]


def test_a_contributor_whose_rendering_raises_is_named_too() -> None:
    def render(value: Value, view: View) -> tuple[Section, ...]:
        raise KeyError

    now, said, _ = gatherer(replace(contributor("bad", "x"), render=render), contributor("a", "A: 1"))
    assert preamble(now) == "A: 1"
    assert len(said) == 1
    assert "bad" in said[0]


def test_a_contributor_that_hangs_is_named_and_the_turn_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "SECONDS", 0.05)
    now, said, _ = gatherer(failing("slow", lambda: asyncio.sleep(3600)), contributor("a", "A: 1"))
    assert preamble(now) == "A: 1"
    assert len(said) == 1
    assert "slow" in said[0]


def test_what_a_person_can_repair_is_not_swallowed() -> None:
    def broken() -> None:
        raise NexusError("config", "config.toml", "line 3")

    now, _, _ = gatherer(failing("bad", broken))
    with pytest.raises(NexusError):
        preamble(now)


def test_static_sections_stand_by_layer_order_and_id_whatever_their_score() -> None:
    system = [
        contributor("z", "first", layer=Layer.SYSTEM, order=0),
        contributor("b", "third", layer=Layer.SYSTEM, order=20, weight=9.0),
        contributor("a", "second", layer=Layer.SYSTEM, order=20),
    ]
    now, _, _ = gatherer(*system, contributor("event", "not here"))
    assert system_text(asyncio.run(now.static())) == "first\n\nsecond\n\nthird"
    assert [chosen.section.id for chosen in asyncio.run(now.event())] == ["event"]


def test_a_section_that_was_cut_is_sent_short_and_recorded_once() -> None:
    forms = ("the whole text", f"the ... {DROP}")
    cut = contributor("i", *forms, layer=Layer.SYSTEM, order=0, cut=Cut("the whole text", 3, 14, 11))
    now, _, dropped = gatherer(cut)
    for _ in range(2):
        chosen = asyncio.run(now.static())
        assert system_text(chosen) == "the ... d1"
        assert chosen[0].described(cached=True)["form"] == "shortened"
        assert (chosen[0].tokens, chosen[0].full_tokens) == (10, 14)
    assert len(dropped) == 1
