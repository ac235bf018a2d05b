"""What `/model`, `/effort` and `/reload` say of the cache is what the provider then finds in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands.conftest import FakeContext, answering
from session.prefix_cache import Remembering

from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.errors import NexusError

OF = re.compile(r"About ([\d,]+) of ([\d,]+) tokens of the next request miss the cache")


@pytest.fixture
def caching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeContext:
    """A context whose provider has a cache."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    return FakeContext(tmp_path, Remembering(answering))


def read(context: FakeContext, words: str) -> float:
    """The share of the request of these words that was in the cache."""
    end = context.turn(words)
    assert end.outcome.ok and end.outcome.usage is not None
    return end.outcome.usage.cache_read / end.outcome.usage.input


@pytest.mark.matrix
def test_a_reload_of_what_is_as_it_was_costs_nothing_and_says_nothing(caching: FakeContext) -> None:
    caching.run("reload").turn("hello")
    caching.run("reload")
    assert caching.said[-1] == "Instructions reloaded."
    assert read(caching, "more") > 0.8


@pytest.mark.matrix
def test_a_reload_of_other_instructions_says_how_much_is_sent_anew(caching: FakeContext, tmp_path: Path) -> None:
    caching.run("reload").turn("hello")
    used = caching.session.status().used
    (tmp_path / "NEXUS.md").write_text("Always answer in rhyme. " * 50)
    drops = caching.session.status().drops
    caching.run("reload")
    told = re.search(r"misses the cache \(about ([\d,]+) tokens\)", caching.said[-1])
    assert told and int(told[1].replace(",", "")) > used + 100, "with what is new in them"
    assert caching.session.status().drops == drops
    assert read(caching, "more") < 0.68, "of tools alone, which a provider may send ahead"


@pytest.mark.matrix
def test_back_to_the_model_before_costs_nothing_where_none_was_asked_meanwhile(caching: FakeContext) -> None:
    caching.turn("hello")
    first = caching.session.model
    caching.run("model fast")
    assert f"about {caching.session.status().used:,} tokens)" in caching.said[-1]
    caching.run(f"model {first}")
    assert caching.said[-1] == f"Using {first}."
    assert read(caching, "more") > 0.8


@pytest.mark.matrix
def test_back_to_the_model_before_names_what_came_meanwhile(caching: FakeContext) -> None:
    caching.turn("hello")
    first = caching.session.model
    caching.run("model fast")
    assert read(caching, "words for the other one " * 40) == 0
    caching.run(f"model {first}")
    told = OF.search(caching.said[-1])
    assert told, caching.said[-1]
    new, tokens = (int(figure.replace(",", "")) for figure in told.groups())
    assert tokens == caching.session.status().used and 200 < new < tokens
    assert abs(read(caching, "more") - (1 - new / tokens)) < 0.2


def test_another_effort_says_what_no_cache_has(caching: FakeContext) -> None:
    caching.run("model openai/gpt-5")
    caching.turn("hello")
    caching.run("effort high")
    assert "misses the cache" in caching.said[-1]
    caching.run("effort high")
    assert caching.said[-1] == "Effort is already high."


def test_a_model_without_effort_says_so_before_it_offers_levels(caching: FakeContext) -> None:
    caching.run("effort")
    assert "has no known effort levels" in caching.said[-1] and not caching.offered


@pytest.mark.matrix
def test_a_switch_to_another_window_says_what_its_own_plan_will_take(caching: FakeContext, tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("".join(f"Rule {n}: answer in the voice of number {n}.\n" for n in range(900)))
    caching.turn("hello")
    first, small = caching.session.model, caching.session.status().used
    for name in ("fast", first):
        caching.run(f"model {name}")
        told = re.search(r"about ([\d,]+)(?: of ([\d,]+))? tokens", caching.said[-1])
        used = caching.session.status().used
        if name == "fast":
            assert told and int(told[1].replace(",", "")) == used > small + 5_000, "there the rules stand whole"
        else:
            assert used < small + 200 and (told is None or int(told[1].replace(",", "")) < 200)
        with pytest.raises(NexusError):
            caching.run("pin remove p99")
        assert caching.session.status().used == used, "what changes nothing changes no figure"
        end = caching.turn("hello")
        assert end.outcome.usage is not None and abs(end.outcome.usage.input - used) < 0.15 * used


def test_after_a_reload_every_figure_is_that_of_what_is_sent_then(caching: FakeContext, tmp_path: Path) -> None:
    caching.turn("hello")
    rules = "".join(f"Rule {number}: answer in the voice of number {number}.\n" for number in range(60))
    for text in (rules, "Be brief.\n"):
        (tmp_path / "NEXUS.md").write_text(text)
        caching.run("reload").run("context")
        form, value = caching.shown[-1]
        used = caching.session.status().used
        assert form == "context_summary" and value["budget"]["used"]["total"] == used
        assert any("a reload rewrites the window" in line for line in value["notices"])
        end = caching.turn("more")
        assert end.outcome.usage is not None and abs(end.outcome.usage.input - used) < 0.15 * used
        assert abs(caching.session.status().used - end.outcome.usage.input) < 0.15 * used


@pytest.mark.matrix
def test_what_was_looked_at_before_it_changed_once_more_counts_no_longer(caching: FakeContext, tmp_path: Path) -> None:
    caching.turn("hello")
    small = caching.session.status().used
    (tmp_path / "NEXUS.md").write_text("Rule: answer in another voice.\n" * 300)
    caching.run("reload")
    assert caching.session.status().used > small + 1_000
    (tmp_path / "NEXUS.md").write_text("Be brief.\n")
    caching.turn("more")
    assert caching.session.status().used < small + 300


@pytest.mark.matrix
def test_a_larger_window_offers_what_was_left_out(caching: FakeContext) -> None:
    caching.turn("hello")
    log = caching.session.engine.conversation.log
    for number, (cause, tokens) in enumerate(
        [(Cause.TRUNCATION, 300), (Cause.TRUNCATION, 400), (Cause.OUTPUT_CAP, 5), (Cause.COMPACTION, 10**6)], 1
    ):
        log.record_drop(
            Drop(log.next_drop(), f"messages of {number}", tokens, cause, "2026-01-01T00:00:00Z", text="words")
        )
    caching.run("model openai/gpt-4")
    assert not any("/drops recall" in line for line in caching.said)
    caching.run("model openai/gpt-4o")
    line = caching.said[-1]
    assert "messages of 2 (400 tokens): /drops recall d2." in line and "1 more" in line
    caching.run("drops recall d2")
    caching.run("model openai/gpt-4").run("model openai/gpt-4o")
    assert "/drops recall d1." in caching.said[-1] and "more" not in caching.said[-1]
