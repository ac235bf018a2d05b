"""Sections through a session: what does not fit is sent shorter, is a drop, and comes back when it is asked for."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sections.held_up import give_up
from session.played import MODEL, Answer, Played, context_report, opened, say, the_ledger

from nexus_cli.commands.context import request_difference
from nexus_cli.config.settings import Settings
from nexus_cli.core import event
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import PLAN
from nexus_cli.sections import contributor
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.contributors import clock
from nexus_cli.sections.section import Layer, Phase, Section
from nexus_cli.session import section_sources
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

PART = "Do this before that, and never the other way round.\n" * 90
RULES = "\n".join(f"# Part {number}\n{PART}" for number in range(60))
"""Instructions of more than 50,000 tokens."""


def settings(window: int) -> Settings:
    return Settings(models={MODEL: {"window": window}})


def small(provider: Played, folder: Path, session: str = "", window: int = 8_000) -> Session:
    """A session in a window of 8,000 tokens."""
    asked = Options(folder, MODEL, resume=session, allow="all")
    return open_session(asked, settings(window), approver=None, provider=provider)


def shown(folder: Path, session: str, step: int | None = None, window: int = 8_000) -> Mapping[str, Any]:
    return context_report(Options(folder, MODEL), settings(window), session, step)


def section(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    [found] = [one for one in value["sections"] if one["id"] == name]
    return dict(found)


def test_with_instructions_of_50_000_tokens_in_a_window_of_8_000_the_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider = Played(lambda request: "done")
    session = small(provider, tmp_path)
    _, outcome = say(session, "go on")
    assert outcome.ok and outcome.text == "done"
    value = shown(tmp_path, session.id, 1)
    rules = section(value, "instructions.project")
    assert rules["full_tokens"] / value["scale"] > 49_000
    assert rules["form"] in ("shortened", "outline") and rules["drop"] == "d1"
    assert value["section_budget"]["used"] <= value["section_budget"]["tokens"] == 1_250
    [drop] = value["drops"]
    assert drop["cause"] == "instruction_cap" if rules["form"] == "shortened" else "section_budget"
    assert drop["tokens"] > 49_000
    system = provider.seen[0][0]["content"]
    assert 'recall("d1"' in system
    with the_ledger() as ledger:
        text = ledger.log(session.id).original("d1") or ""
    assert text.endswith(RULES.strip()) and text.startswith("# Project Configuration (")


@pytest.mark.matrix
def test_the_same_text_left_out_in_the_next_epoch_and_process_is_the_same_drop(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    first = small(Played(lambda request: "one"), tmp_path)
    assert say(first, "go on")[1].ok
    second = small(Played(lambda request: "two"), tmp_path, first.id)
    second.reload()
    assert say(second, "again")[1].ok
    assert shown(tmp_path, first.id)["epoch"] == 1
    assert [drop["id"] for drop in shown(tmp_path, first.id)["drops"]] == ["d1"]
    (tmp_path / "NEXUS.md").write_text(RULES + "one more rule\n")
    third = small(Played(lambda request: "three"), tmp_path, first.id)
    third.reload()
    assert say(third, "again")[1].ok
    assert [drop["id"] for drop in shown(tmp_path, first.id)["drops"]] == ["d1", "d2"]


def test_the_model_sees_its_own_context_and_gets_a_section_that_was_left_short(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    asked: list[dict[str, Any]] = [
        {},
        {"section": "instructions.project"},
        {"section": "instructions.project", "form": "pointer"},
        {"section": "contract"},
        {"section": "nonsense"},
    ]
    provider = Played(lambda request: [("context", asked.pop(0))] if asked else "done")
    session = small(provider, tmp_path)
    events, outcome = say(session, "look at yourself")
    assert outcome.ok
    results = [one.result.text for one in events if isinstance(one, event.ToolResultEvent)]
    assert results[0].startswith("budget: ") and "instructions.project: " in results[0] and "(d1)" in results[0]
    assert "left out, 0 of 1 asked for again" in results[0]
    assert results[1].startswith("[instructions.project, characters 0:") and 'next: recall("d1", "' in results[1]
    assert "# Part 0\nDo this before that" in results[1]
    long = results[1].partition("]")[0]
    assert long.count("recall(") == 1
    assert "NEXUS.md of " in results[2] and 'read with recall("d1")' in results[2]
    assert results[3] == "[contract is whole in this conversation already]"
    assert "there is no section 'nonsense'; there are: contract, " in results[4]
    recalled = [one.drop_id for one in events if isinstance(one, event.ContextRecall)]
    assert recalled == ["d1", "d1"]
    [drop] = shown(tmp_path, session.id)["drops"]
    assert drop["recalls"] == 2 and shown(tmp_path, session.id)["recalled"] == 1
    systems = {json.dumps(messages[0]) for messages in provider.seen}
    assert len(systems) == 1, "layer 1 stays as it was sent"


def test_without_arguments_it_is_what_the_tool_costs_at_most(tmp_path: Path) -> None:
    session = small(Played(lambda request: "done"), tmp_path)
    [tool] = [one for one in session.tools() if one.name == "context"]
    count = session.context.counter.count
    asyncio.run(session.aclose())
    assert count(tool.description) <= 60


@dataclass
class Told:
    """A contributor of the event layer whose sections a test sets."""

    texts: dict[str, str]
    priority: float = 75

    def contributor(self) -> Contributor:
        def read(sources: Sources) -> Value:
            return dict(self.texts)

        def render(value: Value, view: View) -> tuple[Section, ...]:
            texts = {f"extra.{key}": text for key, text in value.items()}
            return tuple(Section(id, Phase.MEMORY, (text,), Layer.EVENT, self.priority) for id, text in texts.items())

        return Contributor("extra", Layer.EVENT, read, render)


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch) -> Told:
    """One more contributor, in every session of the test."""
    told = Told({"a": "Fact a: 1", "b": "Fact b: 1"})
    discover = contributor.discover
    monkeypatch.setattr(section_sources, "discover", lambda: {**discover(), "extra": told.contributor()})
    return told


def last_words(provider: Played) -> str:
    """The newest user message of the newest request."""
    return str([one for one in provider.seen[-1] if one["role"] == "user"][-1]["content"])


def test_event_sections_are_told_apart_and_again_only_when_they_change(tmp_path: Path, extra: Told) -> None:
    provider = Played(lambda request: "done")
    session = small(provider, tmp_path)
    assert say(session, "one")[1].ok
    assert "Fact a: 1\nFact b: 1" in last_words(provider)
    extra.texts["b"] = "Fact b: 2"
    assert say(small(provider, tmp_path, session.id), "two")[1].ok
    assert "Fact b: 2" in last_words(provider) and "Fact a" not in last_words(provider)
    assert say(small(provider, tmp_path, session.id), "three")[1].ok
    assert "Fact" not in last_words(provider)
    extra.texts["b"] = "Fact b: 1"
    assert say(small(provider, tmp_path, session.id), "four")[1].ok
    assert "Fact b: 1" in last_words(provider), "an older text that still stands in the window is not the newest"


@pytest.mark.matrix
def test_what_the_kept_part_of_a_window_holds_is_not_told_again_after_a_reload(tmp_path: Path, extra: Told) -> None:
    provider = Played(lambda request: "done")
    session = small(provider, tmp_path)
    assert say(session, "one")[1].ok
    again = small(provider, tmp_path, session.id)
    again.reload()
    assert say(again, "two")[1].ok
    assert "Fact" not in last_words(provider)
    assert any("Fact a: 1" in str(one["content"]) for one in provider.seen[-1])


def test_each_request_shows_what_was_told_with_it(tmp_path: Path, extra: Told) -> None:
    provider = Played(lambda request: "done")
    session = small(provider, tmp_path)
    assert say(session, "one")[1].ok
    extra.texts["a"] = "Fact a: 2"
    assert say(small(provider, tmp_path, session.id), "two")[1].ok
    first, second, pending = (shown(tmp_path, session.id, step) for step in (1, 2, None))
    ids = [[one["id"] for one in value["sections"] if one["layer"] == "event"] for value in (first, second, pending)]
    assert {"extra.a", "extra.b", "clock.date", "session_start"} <= set(ids[0])
    assert "extra.a" in ids[1] and "extra.b" not in ids[1] and ids[2] == []
    assert "extra.a" in [one["id"] for one in pending["told"]]
    for value in (first, second):
        event_tokens = sum(one["counted"] for one in value["sections"] if one["layer"] == "event")
        assert value["counted"]["event"] == event_tokens > 0
        assert (
            sum(value["counted"][layer] for layer in ("system", "tools", "history", "event"))
            == (value["counted"]["total"])
        )
        held = value["budget"]["used"]["history"]
        assert value["history"]["tokens"] == held == sum(value["history"]["by_kind"].values())


def test_what_does_not_fit_the_pool_is_a_drop_that_the_model_is_told_of_in_one_line(
    tmp_path: Path, extra: Told
) -> None:
    extra.texts = {f"n{number}": f"Fact {number}: " + "some words and more of them " * 4 for number in range(40)}
    provider = Played(lambda request: "done")
    session = small(provider, tmp_path)
    assert say(session, "one")[1].ok
    lines = [line for line in last_words(provider).splitlines() if line.startswith("[nexus: left out for space: ")]
    assert len(lines) == 1 and "extra.n" in lines[0] and lines[0].endswith(" more]")
    value = shown(tmp_path, session.id, 1)
    told = [one for one in value["sections"] if one["layer"] == "event"]
    assert sum(one["tokens"] for one in told) <= 160
    missing = [one for one in told if one["form"] == "dropped"]
    assert missing and all(one["drop"] and "needs" in one["reason"] for one in missing)
    assert {one["cause"] for one in value["drops"]} == {"section_budget"}
    with the_ledger() as ledger:
        text = extra.texts[missing[0]["id"].removeprefix("extra.")]
        assert ledger.log(session.id).original(missing[0]["drop"]) == text


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["raises", "hangs", "10 MB", "renders badly"])
def test_a_broken_contributor_is_named_shown_and_the_turn_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    free = threading.Event()

    def read(sources: Sources) -> Value:
        if fault == "raises":
            raise RuntimeError("no such luck")
        if fault == "hangs":
            free.wait()
        return "x" * 10_000_000 if fault == "10 MB" else ""

    def render(value: Value, view: View) -> tuple[Section, ...]:
        raise KeyError("oh")

    if fault == "hangs":
        give_up(monkeypatch, "broken")
    discover = contributor.discover
    broken = Contributor("broken", Layer.SYSTEM, read, render)
    monkeypatch.setattr(section_sources, "discover", lambda: {**discover(), "broken": broken})
    session = small(Played(lambda request: "done"), tmp_path)
    events, outcome = say(session, "one")
    assert outcome.ok
    assert len([one for one in events if isinstance(one, event.Notice) and "broken" in one.text]) == 1
    row = section(shown(tmp_path, session.id, 1), "broken")
    assert row["form"] == "dropped" and row["reason"].startswith("dropped: ") and row["drop"] is None
    free.set()


def test_two_contributors_of_one_id_are_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "CONTRIBUTORS", clock.CONTRIBUTORS[:1] * 2)
    with pytest.raises(NexusError, match="another contributor is also called session_start"):
        contributor.discover.__wrapped__()


@pytest.mark.matrix
def test_the_difference_of_two_requests_is_what_came_and_went(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("a line\n" * 50)
    script: list[Answer] = [[("read_file", {"path": "long.txt"})], "done", "again"]
    provider = Played(lambda request: script.pop(0))
    session = small(provider, tmp_path)
    assert say(session, "look")[1].ok
    (tmp_path / "NEXUS.md").write_text("A new rule.")
    later = small(provider, tmp_path, session.id)
    later.reload()
    assert say(later, "more")[1].ok
    with the_ledger() as ledger:
        first, second, third = (request_difference(ledger, session.id, settings(8_000), step) for step in (1, 2, 3))
        assert request_difference(ledger, session.id, settings(8_000)) == third
        with pytest.raises(NexusError, match="has sent 3 requests"):
            request_difference(ledger, session.id, settings(8_000), 4)
    assert first["before"] is None and first["epoch"] == {"before": None, "after": 0, "cause": "start"}
    assert [one["entry"] for one in first["entries"]["added"]] == [1] and "read_file" in first["tools"]["added"]
    assert [one["entry"] for one in second["entries"]["added"]] == [2, 3] and not second["entries"]["removed"]
    assert second["entries"]["added"][1]["what"] == "result of read_file long.txt"
    assert second["epoch"] == {"before": 0, "after": 0, "cause": None}
    assert not any(second["tools"].values()) and not any(second["sections"].values())
    assert second["tokens"]["before"] == first["tokens"]["after"]
    assert third["epoch"] == {"before": 0, "after": 1, "cause": "reload"}
    assert [one["id"] for one in third["sections"]["added"]] == ["instructions.project"]


@pytest.mark.matrix
def test_the_plan_of_a_request_is_told_before_it_with_reasons_and_limits(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    events, _ = say(small(Played(lambda request: "done"), tmp_path), "one")
    [plan] = [one.plan for one in events if isinstance(one, event.ContextPlan)]
    kinds = [type(one) for one in events]
    assert kinds.index(event.ContextPlan) < kinds.index(event.StepStart)
    assert plan["drops"] == ["d1"] and plan["limits"]["allow"] == "all" and plan["step"] == 1
    assert {one["layer"] for one in plan["sections"]} == {"system", "event"}
    assert all(one["reason"] for one in plan["sections"])


def test_a_plan_is_kept_for_each_request_that_told_something(tmp_path: Path, extra: Told) -> None:
    session = opened(Played(lambda request: "done"), tmp_path)
    assert say(session, "one")[1].ok
    with the_ledger() as ledger:
        [memo] = ledger.log(session.id).memos(PLAN)
    assert memo.entry == 1 and memo.value["epoch"] == 0 and set(memo.value["told"]) >= {"extra.a", "extra.b"}
    assert memo.value["pool"] == 320
