"""Gathering: contributors are bounded, a preamble is a capped delta, a resumed conversation knows what it sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sections.held_up import give_up, wait_until

from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import PendingDrop
from nexus_cli.core.errors import NexusError
from nexus_cli.sections.collect import SectionCollector, system_text
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.planner import SectionChoice
from nexus_cli.sections.reader import SectionReader
from nexus_cli.sections.recipe import Recipe
from nexus_cli.sections.section import DROP, Layer, Phase, Section, sha256
from nexus_cli.sections.section_drops import SectionDrops

MOMENT = datetime(2026, 1, 13, 14, 30, tzinfo=UTC)


def contributor(id: str, *forms: str, layer: Layer = Layer.EVENT, order: int = Phase.EVENT, **more: Any) -> Contributor:
    def read(sources: Sources) -> Value:
        return None

    def render(value: Value, view: View) -> tuple[Section, ...]:
        return (Section(id, order, forms, layer, **{"priority": 50, **more}),)

    return Contributor(id, layer, read, render)


def failing(id: str, read: Callable[[], Any], layer: Layer = Layer.EVENT) -> Contributor:
    return replace(contributor(id, "text", layer=layer), read=lambda sources: read())


class Kept(SectionDrops):
    """What was left out, in memory."""

    def __init__(self) -> None:
        super().__init__(MemoryLog(), local_now, lambda drop: None)
        self.texts: list[SectionChoice] = []

    def record(self, chosen: SectionChoice, later: list[PendingDrop] | None = None) -> str:
        """See `SectionDrops`."""
        known = self.drop_id_of(chosen.section)
        if not known:
            self.texts.append(chosen)
        return known or f"d{len(self.texts)}"

    def drop_id_of(self, section: Section) -> str:
        """See `SectionDrops`."""
        keys = [(one.section.id, one.section.digest) for one in self.texts]
        key = (section.id, section.digest)
        return f"d{keys.index(key) + 1}" if key in keys else ""


def gatherer(
    *contributors: Contributor, window: int = 100_000, count: Callable[[str], int] = len, **more: Any
) -> tuple[SectionCollector, list[str], list[SectionChoice]]:
    """With one token for each character, what it said, and what it dropped."""
    said: list[str] = []
    kept = Kept()
    view = View("m", "chat", window, 1000, count)
    found = {contributor.id: contributor for contributor in contributors}
    reader = SectionReader(Sources(Path(), MOMENT, lambda: ()))
    return SectionCollector(found, reader, view, said.append, kept, **more), said, kept.texts


def prompt(name: str, *forms: str, **more: Any) -> Contributor:
    """One that cannot wait."""
    return replace(contributor(name, *forms, **more), prompt=True)


def preamble(of: SectionCollector, *, prompt: bool = False) -> str:
    """The next preamble, sent."""
    news = asyncio.run(of.changed_sections(prompt=prompt))
    of.mark_sent(news)
    return news.text


def system(of: SectionCollector) -> str:
    """The system text."""
    return system_text(asyncio.run(of.system_plan())[0], of.view.count)


def test_only_what_differs_from_what_was_sent_is_sent_again() -> None:
    now, _, _ = gatherer(contributor("a", "A: 1"), contributor("b", "B: 1", order=Phase.EVENT + 1))
    assert preamble(now) == "A: 1\nB: 1"
    assert preamble(now) == ""
    now.contributors = {**now.contributors, "b": contributor("b", "B: 2")}
    assert preamble(now) == "B: 2"
    now.load_sent((), {})
    assert sorted(preamble(now).splitlines()) == ["A: 1", "B: 2"]


def test_many_sections_of_one_contributor_change_apart() -> None:
    texts = {f"files.{name}": f"- {name} read" for name in "abc"}
    files = replace(
        contributor("files", "x"),
        render=lambda value, view: tuple(
            Section(id, Phase.EVENT, (text,), Layer.EVENT, 50) for id, text in texts.items()
        ),
    )
    now, _, _ = gatherer(files)
    assert preamble(now) == "- a read\n- b read\n- c read"
    texts["files.b"] = "- b changed"
    assert preamble(now) == "- b changed"


def test_what_was_not_settled_is_told_again() -> None:
    now, _, _ = gatherer(contributor("a", "A: 1"))
    assert asyncio.run(now.changed_sections()).text == asyncio.run(now.changed_sections()).text == "A: 1"


def test_notices_are_told_each_time_and_what_cannot_wait_can_be_asked_for_alone() -> None:
    now, _, _ = gatherer(prompt("notices", "[nexus: x]"), prompt("b", "B: 1"), contributor("a", "A: 1"))
    assert now.has_prompt_sections and preamble(now, prompt=True) == "B: 1\n[nexus: x]"
    assert preamble(now) == "A: 1\n[nexus: x]"
    assert preamble(now) == "[nexus: x]"
    now.contributors = {name: one for name, one in now.contributors.items() if name != "notices"}
    assert not now.has_prompt_sections
    now.contributors = {**now.contributors, "b": prompt("b", "B: 2")}
    assert now.has_prompt_sections and preamble(now, prompt=True) == "B: 2"


def test_a_problem_with_what_cannot_wait_is_told_with_a_tool_result_though_nothing_is_sent() -> None:
    silent = replace(prompt("rules"), notices=lambda value: ["a.md cannot be read"], render=lambda value, view: ())
    now, said, _ = gatherer(silent)
    assert now.has_prompt_sections and preamble(now, prompt=True) == "" and said == ["a.md cannot be read"]
    assert not now.has_prompt_sections


def test_a_lane_that_is_gone_on_with_knows_what_it_told_last() -> None:
    parts = [contributor("a", "A: 1"), contributor("b", "- line\n- two"), contributor("c", "- line")]
    now, _, _ = gatherer(*parts)
    last = asyncio.run(now.changed_sections()).sent
    now.load_sent(["A: 1\n- line\n- two", "Date: 2"], last)
    assert preamble(now) == ""
    now.load_sent(["A: 12\n- line", "and - line\n- two, too"], last)
    assert preamble(now) == "A: 1\n- line\n- two", "a part of a line, or of a text, is not the text"


def test_an_older_text_that_still_stands_there_is_not_the_newest_one() -> None:
    now, _, _ = gatherer(contributor("a", "A: 1"))
    now.load_sent(["A: 1", "A: 2"], {"a": sha256("A: 2")})
    assert preamble(now) == "A: 1"
    now.load_sent(["A: 1", "A: 2", "A: 1"], {"a": sha256("A: 1")})
    assert preamble(now) == ""


def test_a_short_form_that_stands_there_is_known_again() -> None:
    now, _, dropped = gatherer(contributor("a", "A: " + "x" * 2000, f"A: short ({DROP})", sticky=True))
    text = preamble(now)
    assert text == "A: short (d1)" and len(dropped) == 1
    now.load_sent([text], dict(now.sent))
    assert preamble(now) == "" and len(dropped) == 1


@pytest.mark.parametrize(("window", "cap"), [(100_000, 1000), (10_000, 200), (1000, 20), (0, 0)])
def test_a_preamble_takes_two_per_cent_of_the_window_and_at_most_a_thousand_tokens(window: int, cap: int) -> None:
    parts = [contributor(f"c{n}", "x" * 8) for n in range(1, 160)]
    now, _, _ = gatherer(*parts, window=window)
    text = preamble(now)
    assert len(text) <= cap
    assert len(text) >= cap * 0.4
    assert "x" * 1001 not in preamble(gatherer(contributor("huge", "x" * 1001))[0])


def test_sticky_sections_are_told_in_their_shortest_form_however_small_the_pool_and_the_plan_says_so() -> None:
    parts = [
        contributor("a", "A: " + "x" * 90, f"a {DROP}", sticky=True),
        contributor("b", "B: " + "y" * 20, sticky=True),
        contributor("c", "C"),
    ]
    now, _, dropped = gatherer(*parts, window=1000)
    news = asyncio.run(now.changed_sections())
    assert news.text == "a d1\nB: " + "y" * 20 and [one.section.id for one in dropped] == ["a", "c"]
    assert (news.plan.budget, news.plan.raised) == (20, len(news.text))
    assert "the pool of 20 tokens was raised to 28 for sections that are always sent" in news.to_json()[0]["reason"]
    roomy, _, _ = gatherer(*parts)
    news = asyncio.run(roomy.changed_sections())
    assert news.plan.raised == 0 and not any("raised" in str(one["reason"]) for one in news.to_json())


@given(st.integers(0, 3_000), st.lists(st.tuples(st.booleans(), st.integers(1, 60), st.booleans()), max_size=9))
def test_a_preamble_is_above_its_cap_only_for_sticky_sections(window: int, made: list[tuple[bool, int, bool]]) -> None:
    parts = [
        contributor(f"c{n}", "x" * size, *([f"p{DROP}"] if short else []), sticky=sticky)
        for n, (sticky, size, short) in enumerate(made)
    ]
    now, _, _ = gatherer(*parts, window=window)
    news = asyncio.run(now.changed_sections())
    forms = {one.section.id: one.form for one in news.plan.chosen}
    assert all(forms[f"c{n}"] is not None for n, (sticky, _, _) in enumerate(made) if sticky)
    least = sum(min(size, len("pd9999")) if short else size for sticky, size, short in made if sticky)
    assert len(news.text) <= max(now.preamble_cap, least + len(made)) + min(60, now.preamble_cap // 4) + 1
    assert (news.plan.raised > 0) == (len(news.text) > now.preamble_cap) and news.plan.raised in (0, len(news.text))


def test_notices_wait_for_a_roomier_request_and_alone_they_are_a_pointer() -> None:
    long = prompt("notices", "[nexus: " + "x" * 90 + "]", f"[{DROP}]", sticky=True)
    now, _, dropped = gatherer(contributor("a", "A: " + "y" * 12, sticky=True), long, window=1000)
    assert preamble(now) == "A: " + "y" * 12 and not dropped
    assert preamble(now, prompt=True) == "[d1]"


def test_an_override_of_an_event_section_has_a_pointer() -> None:
    now, _, _ = gatherer(contributor("a", "A", sticky=True), recipe=Recipe("r", overrides={"a": "x" * 90}), window=1000)
    assert preamble(now) == '[a of recipe r: recall("d1")]'


def test_what_does_not_fit_the_pool_is_a_drop_named_once_and_told_as_soon_as_it_fits() -> None:
    huge = contributor("huge", "x" * 990)
    now, _, dropped = gatherer(contributor("a", "A: " + "y" * 200, sticky=True), huge)
    assert preamble(now).splitlines()[1:] == ["[nexus: left out for space: huge (d1)]"]
    assert [one.section.full for one in dropped] == ["x" * 990]
    now.contributors = {**now.contributors, "b": contributor("b", "B: 1", priority=90)}
    assert preamble(now) == "B: 1\n" + "x" * 990
    assert len(dropped) == 1


def test_a_short_form_is_told_where_the_whole_does_not_fit_and_not_again() -> None:
    now, _, dropped = gatherer(contributor("a", "A: " + "x" * 2000, "A: short"))
    assert preamble(now) == "A: short [whole: d1]"
    assert preamble(now) == "" and len(dropped) == 1


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
    give_up(monkeypatch, "slow")
    free = threading.Event()
    now, said, _ = gatherer(failing("slow", free.wait), contributor("a", "A: 1"))
    assert preamble(now) == "A: 1"
    assert len(said) == 1
    assert "slow" in said[0]
    free.set()


class _Speechless(Exception):
    """Not even its words can be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NexusError("config", "config.toml", "line 3"), "config.toml: line 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (SystemExit("bye"), "bye"),
        (_Speechless(), "_Speechless"),
    ],
)
@pytest.mark.parametrize("stage", ["read", "render"])
def test_whatever_a_contributor_raises_costs_its_own_sections(error: BaseException, words: str, stage: str) -> None:
    def broken(*given: Any) -> Any:
        raise error

    bad = failing("bad", broken) if stage == "read" else replace(contributor("bad", "x"), render=broken)
    now, said, _ = gatherer(bad, contributor("a", "A: 1"))
    assert preamble(now) == "A: 1"
    assert said == [f"context section bad was left out: {words}"]


@pytest.mark.parametrize("value", [b"x", {"a": [float("nan")]}, [float("inf")], {1, 2}, {"a": object()}])
def test_what_is_no_plain_data_is_named_and_skipped(value: Any) -> None:
    now, said, _ = gatherer(failing("bad", lambda: value), contributor("a", "A: 1"))
    assert preamble(now) == "A: 1"
    assert len(said) == 1 and said[0].startswith("context section bad was left out: it read data that is not plain: ")


def test_a_value_that_holds_itself_is_too_much() -> None:
    value: dict[str, Any] = {}
    value[""] = value
    now, said, _ = gatherer(failing("bad", lambda: value), contributor("a", "A: 1"))
    assert preamble(now) == "A: 1" and "more than 200,000" in said[0]


def test_who_blocks_is_named_and_nobody_else_pays_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up(monkeypatch, "blocks")
    free = threading.Event()
    others = [contributor(f"c{n}", "text") for n in range(9)]
    now, said, _ = gatherer(failing("blocks", free.wait), *others)
    assert preamble(now) == "\n".join(["text"] * 9)
    assert said == ["context section blocks was left out: took longer than 0 s"]
    free.set()


def test_a_rendering_that_hangs_is_named_and_the_turn_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up(monkeypatch, "bad", rendering=True)
    free = threading.Event()

    def render(value: Value, view: View) -> tuple[Section, ...]:
        free.wait()
        return ()

    now, said, _ = gatherer(replace(contributor("bad", "x"), render=render), contributor("a", "A: 1"))
    assert preamble(now) == "A: 1" and len(said) == 1 and "bad was left out: took longer" in said[0]
    free.set()


def patient(
    monkeypatch: pytest.MonkeyPatch, *texts: str
) -> tuple[SectionCollector, threading.Event, list[SectionChoice]]:
    """A gatherer whose instructions are not read while the event is not set; then they are one text after the other."""
    free, left = threading.Event(), list(texts)
    give_up(monkeypatch, "instructions", free)

    def read(sources: Sources) -> Value:
        free.wait()
        return left.pop(0)

    def render(value: Value, view: View) -> tuple[Section, ...]:
        return (Section("instructions", Phase.CONSTRAINT, (value,), Layer.SYSTEM, 92, sticky=True),)

    now, _, dropped = gatherer(Contributor("instructions", Layer.SYSTEM, read, render, required=True))
    return now, free, dropped


def test_instructions_that_cannot_be_read_in_time_are_a_drop_and_a_line_and_come_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, free, dropped = patient(monkeypatch, "late", "fresh", "never")
    assert system(now) == "[nexus: instructions could not be read: took longer than 0 s]"
    [one] = dropped
    assert one.is_unread and one.section.full == "instructions could not be read: took longer than 0 s"
    assert not now.reader.arrived
    free.set()
    wait_until(lambda: now.reader.arrived)
    assert now.reader.arrived
    assert system(now) == "fresh" and not now.reader.arrived, "it is read anew where that is possible"


def test_what_came_late_is_used_where_it_is_late_again_and_what_was_read_never_vanishes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, free, dropped = patient(monkeypatch, "late", "fresh")
    assert "could not be read" in system(now)
    free.set()
    wait_until(lambda: now.reader.arrived)
    free.clear()
    for _ in range(2):
        assert system(now) == "late" and not now.reader.arrived
    assert len(dropped) == 1
    free.set()


def test_what_an_earlier_process_had_to_do_without_is_looked_for_in_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, free, _ = patient(monkeypatch, "a", "b")
    now.read_in_background(["instructions", "nobody"])
    assert list(now.reader.hung) == ["instructions"] and not now.reader.arrived
    free.set()
    wait_until(lambda: now.reader.arrived)
    assert now.reader.arrived


def test_static_sections_stand_by_layer_order_and_id_whatever_their_score() -> None:
    parts = [
        contributor("z", "first", layer=Layer.SYSTEM, order=0),
        contributor("b", "third", layer=Layer.SYSTEM, order=20, weight=9.0),
        contributor("a", "second", layer=Layer.SYSTEM, order=20),
    ]
    now, _, _ = gatherer(*parts, contributor("event", "not here"))
    assert system(now) == "first\n\nsecond\n\nthird"
    assert [one.section.id for one in asyncio.run(now.changed_sections()).plan.chosen] == ["event"]


def test_a_section_that_is_sent_short_names_its_drop_which_is_recorded_once() -> None:
    forms = ("the whole text", f"the ... {DROP}")
    cut = contributor("i", *forms, layer=Layer.SYSTEM, order=0, sticky=True)
    now, _, dropped = gatherer(cut, budget=12)
    for _ in range(2):
        assert system(now) == "the ... d1"
        [one] = asyncio.run(now.system_plan())[0].chosen
        assert (one.tokens, one.full_tokens) == (10, 14)
        row = one.to_json(cached=True)
        assert (row["form"], row["drop"], row["sha256"]) == ("pointer", "d1", sha256("the ... d1"))
    assert len(dropped) == 1


def test_sections_that_are_left_out_are_told_in_one_line_at_the_end() -> None:
    parts = [contributor(name, name * 40, layer=Layer.SYSTEM, order=0) for name in "abc"]
    now, _, dropped = gatherer(*parts, contributor("s", "short", layer=Layer.SYSTEM, order=9, priority=90), budget=50)
    assert system(now) == f"{'a' * 40}\n\nshort\n\n[nexus: left out for space: b (d1), c (d2)]"
    assert [one.section.full for one in dropped] == ["b" * 40, "c" * 40]


def test_the_recipe_weighs_switches_off_and_replaces_sections() -> None:
    parts = [contributor(name, name * 9, layer=Layer.SYSTEM, order=0) for name in ("a", "b", "c")]
    recipe = Recipe("r", multipliers={"b": 0}, overrides={"c": "another text", "missing": "never"})
    now, _, dropped = gatherer(*parts, recipe=recipe)
    assert system(now) == "aaaaaaaaa\n\nanother text" and not dropped
    rows = {one.section.id: one for one in asyncio.run(now.system_plan())[0].chosen}
    assert rows["b"].is_off and rows["c"].section.source == "recipe r"


def test_an_override_of_a_contributor_stands_in_place_of_all_its_sections() -> None:
    both = replace(
        contributor("i", "x", layer=Layer.SYSTEM, order=8),
        render=lambda value, view: tuple(Section(f"i.{n}", 8 + n, (f"{n}",), Layer.SYSTEM, 92) for n in (1, 2)),
    )
    silent = replace(contributor("q", "x", layer=Layer.SYSTEM, order=8), render=lambda value, view: ())
    now, _, _ = gatherer(both, silent, recipe=Recipe("r", overrides={"i": "instead", "q": "here now", "i.1": "no"}))
    assert system(now) == "instead\n\nhere now"
    blank, _, _ = gatherer(both, recipe=Recipe("r", overrides={"i.2": " "}))
    assert system(blank) == "1"


def test_two_sections_of_one_name_are_one_and_the_second_is_named() -> None:
    parts = [contributor("a", "A"), replace(contributor("a", "B"), id="b")]
    now, said, _ = gatherer(*parts)
    assert preamble(now) == "A"
    assert said == ["context section b was left out: section a already exists"]


@pytest.mark.parametrize("value", ["x" * 10_000_000, ["x" * 1000] * 300, {"a": {"b": "x" * 200_001}}])
def test_a_contributor_that_reads_too_much_is_named_and_skipped(value: Any) -> None:
    now, said, _ = gatherer(failing("big", lambda: value, Layer.SYSTEM), contributor("e", "E", layer=Layer.SYSTEM))
    assert system(now) == "E"
    assert said == ["context section big was left out: it read more than 200,000 characters"]
    row = asyncio.run(now.system_plan())[0].chosen[-1].to_json(cached=True)
    assert (row["id"], row["form"]) == ("big", "dropped")
    assert row["reason"] == "dropped: it read more than 200,000 characters"


def test_a_contributor_that_writes_too_much_or_for_another_layer_is_skipped() -> None:
    wrong = replace(contributor("w", "x", layer=Layer.SYSTEM), layer=Layer.EVENT)
    now, said, _ = gatherer(contributor("big", "x" * 10_000_000), wrong, contributor("a", "A"))
    assert preamble(now) == "A"
    assert len(said) == 2 and "more than 200,000" in said[0] and "a layer other than event" in said[1]


def test_what_takes_the_rest_is_rendered_with_what_the_others_leave() -> None:
    seen: list[int] = []

    def render(value: Value, view: View) -> tuple[Section, ...]:
        seen.append(view.instruction_cap)
        return ()

    rest = replace(contributor("a", "x", layer=Layer.SYSTEM), render=render, rest=True)
    now, _, _ = gatherer(rest, contributor("z", "z" * 99, layer=Layer.SYSTEM), budget=1000)
    asyncio.run(now.system_plan())
    now.budget = 120
    asyncio.run(now.system_plan())
    assert seen == [900, 60]


def test_a_smaller_window_is_planned_for_from_then_on() -> None:
    now, _, _ = gatherer(contributor("a", "A"), recipe=Recipe("r", section_budget=900))
    now.set_budget(TokenBudget.of(8_000))
    assert (now.view.window, now.view.instruction_cap, now.budget, now.preamble_cap) == (8_000, 1_250, 900, 160)
