"""Who is to blame for a miss: the first explanation that suffices, and nobody where none does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.cache_diagnosis import (
    CacheFacts,
    expected_cached,
    format_duration,
)
from nexus_cli.conversation.fingerprints import SYSTEM, Difference
from nexus_cli.core.clock import seconds_between
from nexus_cli.provider.prompt_cache import ANTHROPIC, OPENAI, USUAL

NOW = datetime(2026, 1, 13, 9, 30, tzinfo=UTC)
HIT = CacheFacts(OPENAI, 20_500, 20_000, before=20_000, shared=20_000, age=30.0)
MISS = replace(HIT, read=0)
TOOL = Difference("tool", "grep", "aa", "bb")
MODEL = Difference("model", "n", "m", "n")


@pytest.mark.parametrize(
    ("facts", "kind", "ours"),
    [
        (HIT, "hit", None),
        (replace(HIT, read=19_600), "hit", None),
        (replace(HIT, read=19_000), "provider", False),
        (MISS, "provider", False),
        (replace(MISS, age=301), "expired", False),
        (replace(MISS, age=None), "unknown", None),
        (replace(MISS, difference=TOOL, shared=0), "tool", True),
        (replace(MISS, difference=TOOL, shared=0, age=None), "tool", True),
        (replace(MISS, difference=TOOL, shared=0, age=4000), "expired", False),
        (replace(MISS, difference=TOOL, shared=9000, read=9000, age=4000), "tool", True),
        (replace(MISS, difference=MODEL, shared=0), "model", True),
        (replace(MISS, difference=MODEL, shared=0, age=400), "model", True),
        (replace(MISS, difference=MODEL, shared=0, age=4000), "expired", False),
        (replace(MISS, difference=MODEL, shared=0, age=4000, former=replace(OPENAI, max_seconds=86400)), "model", True),
        (replace(MISS, difference=MODEL, shared=0, age=400, former=ANTHROPIC), "expired", False),
        (replace(MISS, difference=TOOL, shared=9000), "provider", False),
        (replace(MISS, difference=TOOL, shared=9000, age=400), "expired", False),
        (replace(MISS, difference=TOOL, shared=9000, age=None), "unknown", None),
        (replace(MISS, difference=TOOL, shared=9000, read=7000), "tool", True),
        (replace(MISS, difference=TOOL, shared=9000, read=5000), "provider", False),
        (replace(MISS, difference=TOOL, shared=900), "tool", True),
        (replace(MISS, before=0), "first", None),
        (replace(MISS, before=900), "minimum", None),
        (replace(MISS, proven=False), "none", None),
        (replace(MISS, input=100), "hit", None),
    ],
)
def test_the_first_explanation_that_suffices_is_the_cause(facts: CacheFacts, kind: str, ours: bool | None) -> None:
    verdict = facts.diagnose()
    assert (verdict.kind, verdict.ours) == (kind, ours)
    nothing = ours is None and kind != "unknown"
    assert verdict.missed == (0 if nothing else min(facts.before, facts.input) - facts.read)
    assert replace(facts, life=None).diagnose().kind in ("none", "first")


def test_within_its_life_a_cache_that_is_gone_is_the_providers_doing() -> None:
    assert replace(MISS, life=ANTHROPIC, age=299).diagnose().kind == "provider"
    told = replace(MISS, life=ANTHROPIC, age=420).diagnose()
    assert told.why == "the cache had expired: unused for 7 min, lifetime 5 min"
    assert "probably" in replace(MISS, age=420).diagnose().why
    assert "(undocumented)" in replace(MISS, life=USUAL, age=420).diagnose().why


def test_a_change_is_told_with_what_brought_it() -> None:
    facts = replace(MISS, cause="reload", source="NEXUS.md")
    section = Difference("section", "instructions.project", "a", "b")
    assert facts.describe_change(section) == "the section instructions.project changed (NEXUS.md): a reload"
    assert MISS.describe_change(Difference("section", SYSTEM, "a", "b")) == "the system text changed"
    assert facts.describe_change(Difference("tool", "grep", "", "b")).startswith("the tool grep was added")
    assert facts.describe_change(Difference("tool", "grep", "a", "")).startswith("the tool grep was removed")
    effort = Difference("effort", "effort", "", "high")
    assert facts.describe_change(effort) == "the effort was changed from default to high"
    message = Difference("message", "entry 3", "entry 3", "a stub of entry 3")
    assert replace(MISS, cause="pruned").describe_change(message).startswith("entry 3 became a stub: stale")


def test_a_clock_that_jumps_tells_no_age() -> None:
    assert seconds_between(NOW, NOW) == 0.0 and seconds_between(NOW, NOW + timedelta(seconds=90)) == 90.0
    assert seconds_between(NOW + timedelta(seconds=5), NOW) == 0.0, "a clock that is set right by seconds"
    for then in (NOW + timedelta(minutes=2), NOW + timedelta(days=9000), NOW - timedelta(days=9000)):
        assert seconds_between(then, NOW) is None
    assert seconds_between(None, NOW) is None


@given(st.integers(0, 10**6), st.one_of(st.none(), st.floats(0, 10**7)))
def test_no_more_is_expected_than_there_is_and_nothing_of_what_is_gone(shared: int, seconds: float | None) -> None:
    for life in (ANTHROPIC, OPENAI):
        tokens = expected_cached(life, shared, seconds)
        assert 0 <= tokens <= shared and tokens % life.step == 0
        if shared < life.min_tokens or (seconds is not None and seconds > life.max_seconds):
            assert tokens == 0
        else:
            assert shared - tokens < life.step
    assert expected_cached(None, shared, seconds) == 0


@given(
    st.builds(
        CacheFacts,
        st.none(),
        *[st.integers(0, 10**6)] * 4,
        st.one_of(st.none(), st.floats(0, 10**8)),
        st.sampled_from([None, TOOL, MODEL]),
    )
)
def test_blame_needs_a_miss_and_ours_needs_a_change(facts: CacheFacts) -> None:
    for life in (ANTHROPIC, OPENAI, USUAL):
        verdict = replace(facts, life=life).diagnose()
        assert verdict.missed >= 0 and bool(verdict.missed) == (verdict.kind not in ("hit", "first", "minimum", "none"))
        assert verdict.ours is not True or facts.difference is not None
        assert verdict.why or verdict.kind == "hit"


def test_times_are_told_in_words() -> None:
    assert [format_duration(s) for s in (0, 59, 60, 3599, 7200, 90_000, 200_000)] == [
        "0 s",
        "59 s",
        "1 min",
        "60 min",
        "2 h",
        "25 h",
        "2 days",
    ]
