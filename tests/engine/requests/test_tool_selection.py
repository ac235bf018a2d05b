"""The tools of an epoch: which schemas it has, and which tools are only named."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.core.limits import Limits
from nexus_cli.core.memory import Facts
from nexus_cli.core.services import (
    Assembly,
    Jobs,
    PersonQuestions,
    Plans,
    Recall,
    SeenFileStore,
    ToolCatalogue,
    Waits,
    Workers,
)
from nexus_cli.engine.requests.tool_selection import Schemas, ToolOffer, describe_left_out
from nexus_cli.sections.recipe import Recipe
from nexus_cli.tools.registry import ToolRegistry, discover_tools

NEEDS = (Assembly, Facts, Jobs, PersonQuestions, Plans, Recall, SeenFileStore, ToolCatalogue, Waits, Workers)
REGISTRY = ToolRegistry(services=dict.fromkeys(NEEDS, 1))
CORE = {"bash", "edit_file", "glob", "grep", "read_file", "recall", "write_file"}
BEHIND = {name for name, tool in discover_tools().items() if tool.behind}
PLAIN = Recipe("a")
START = datetime(2026, 7, 1, tzinfo=UTC)


def _names(found: Schemas) -> set[str]:
    return {one["function"]["name"] for one in found}


def _lines(found: Schemas) -> str:
    return str(next(one["function"]["description"] for one in found if one["function"]["name"] == "use_tool"))


def _lane() -> Conversation:
    return Conversation(MemoryLog(), lambda: START, lambda message, preamble: 1)


def _renew(
    words: str = "", *, window: int = 128_000, size: int = 1, named: Collection[str] = (), **options: Any
) -> Schemas:
    """Return the schemas of a first epoch, of which each has `size` tokens."""
    options = {"recipe": PLAIN, "limits": Limits(), "attended": False, **options}
    offer = ToolOffer(
        REGISTRY, **options, requested_tools=tuple, count=lambda text: size * text.count('"type":"function"')
    )
    return offer.select(window, _lane(), words, named)


def test_a_session_has_the_schemas_of_work_on_a_project_and_the_names_of_the_others() -> None:
    found = _renew("fix the failing test")
    assert _names(found) == CORE | {"use_tool"}
    listed = BEHIND - {"ask_person", "goal"}  # nobody is there, no spaces
    assert [line.partition(":")[0] for line in _lines(found).splitlines()[1:]] == [f"- {one}" for one in sorted(listed)]


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        ("Run the tests every night.", "plan"),
        ("start the dev server in the background", "jobs"),
        ("From now on use tabs.", "remember"),
        ("what did we do LAST TIME?", "search_memory"),
        ("let two workers look at it", "agent"),
        ("read https://example.org first", "fetch"),
        ("wait_for the build", "wait_for"),
        ("keep a checklist", "todo"),
    ],
)
def test_what_the_person_speaks_of_is_offered_by_itself(words: str, tool: str) -> None:
    found = _renew(words)
    assert tool in _names(found) and f"- {tool}:" not in _lines(found)


def test_a_word_counts_as_a_whole() -> None:
    for words in ("Plan it.", "a cron-like line", "two PLANS"):
        assert "plan" in _names(_renew(words)), words
    for words in ("an explanation of the planner", "microns", "planetary"):
        assert "plan" not in _names(_renew(words)), words


def test_every_tool_behind_use_tool_has_a_line_and_words() -> None:
    for name in BEHIND:
        tool = discover_tools()[name]
        assert len(tool.behind) < 70 and tool.words and all(word == word.casefold() for word in tool.words), name


def test_what_settings_recipe_or_limits_name_is_offered_by_itself() -> None:
    assert "fetch" in _names(_renew(named=["fetch", "nosuch"]))
    recipe = Recipe("a", limits=Limits(tools=frozenset({"forget", "remember"})))
    assert _names(_renew(recipe=recipe)) == {"forget", "remember"}, "use_tool has nothing to call"
    limits = Limits(tools=frozenset({"bash", "plan"}))
    assert _lines(_renew(limits=limits)).partition("\n")[2] == "- plan: schedule a run for later", "no other may run"


def test_questions_are_there_where_somebody_answers_them() -> None:
    assert "- ask_person:" in _lines(_renew(attended=True)) and "ask_person" not in _lines(_renew("ask me"))
    assert "ask_person" in _names(_renew("ask me before you start", attended=True))
    assert "ask_person" not in _names(_renew("ask me before you start"))


def test_without_use_tool_all_schemas_are_sent() -> None:
    services: dict[type, Any] = dict.fromkeys(NEEDS, 1)
    del services[ToolCatalogue]
    assert {"plan", "wait_for", "todo"} <= _names(
        ToolOffer(ToolRegistry(services=services), PLAIN, Limits(), False, tuple, len).select_tools()
    )
    reading = Recipe("a", limits=Limits(categories=frozenset({"read"})))
    assert "wait_for" in _names(ToolOffer(REGISTRY, reading, Limits(), False, tuple, len).select_tools()), (
        "use_tool itself is of another category"
    )


def test_a_later_epoch_keeps_what_the_one_before_offered() -> None:
    before = [one for one in REGISTRY.get_definitions() if one["function"]["name"] in ("bash", "plan", "todo")]
    lane = _lane()
    lane.epoch = replace(lane.epoch, tools=tuple(before))
    offer = ToolOffer(REGISTRY, PLAIN, Limits(), False, tuple, len)
    assert _names(offer.select(128_000, lane)) == CORE | {"plan", "todo", "use_tool"}
    narrow = Recipe("a", limits=Limits(tools=frozenset({"bash"})))
    offer = ToolOffer(REGISTRY, narrow, Limits(), False, tuple, len)
    assert _names(offer.select(128_000, lane)) == {"bash", "plan", "todo"}, "dispatch refuses the others"


@pytest.mark.parametrize("began_attended", [False, True])
def test_a_later_epoch_names_the_tool_for_questions_as_the_first_did(began_attended: bool) -> None:
    lane, others = _lane(), (PLAIN, Limits())
    first = ToolOffer(REGISTRY, *others, began_attended, tuple, len).select(128_000, lane)
    lane.epoch = replace(lane.epoch, tools=tuple(first))
    assert ToolOffer(REGISTRY, *others, not began_attended, tuple, len).select(128_000, lane) == first
    assert ("- ask_person:" in _lines(first)) == began_attended


@pytest.mark.parametrize(
    ("window", "names"),
    [(16_000, CORE | {"use_tool", "plan"}), (12_000, CORE | {"use_tool"}), (8_192, CORE), (1_024, CORE)],
)
def test_a_small_window_has_room_for_fewer(window: int, names: set[str]) -> None:
    found = _renew("plan it", window=window, size=112 if window < 16_000 else 1_000)
    assert _names(found) == names
    line = f"small context window ({window:,} tokens): only the file and command tools are available"
    assert describe_left_out(window, found) == (line if names == CORE else "")
