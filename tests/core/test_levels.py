"""The words of permission levels: what people read and type, and what programs read."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from nexus_cli.core import json_types
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import LEVEL_NAMES, LEVELS, PLAN, Limits, name_level, parse_level, require_level


def test_a_level_has_one_word_for_people_and_its_former_name_stays_valid() -> None:
    assert [parse_level(word) for word in LEVEL_NAMES] == list(LEVELS) == [parse_level(word) for word in LEVELS]
    assert [name_level(level) for level in (*LEVELS, PLAN)] == [*LEVEL_NAMES, PLAN]
    assert require_level("Auto", "--allow") == "run" and parse_level("plan") == PLAN
    assert Limits(allow="run").to_json() == {"allow": "run"}, "programs read the former names"


@pytest.mark.parametrize("word", ["", "plan", "sandbox"])
def test_another_word_is_refused_with_those_that_there_are(word: str) -> None:
    with pytest.raises(NexusError, match="must be ask, edit, auto or all"):
        require_level(word, "--allow")


def test_whatever_shows_a_level_in_json_shows_it_in_the_words_of_now_too() -> None:
    modules = [import_module(f"{json_types.__name__}.{one.name}") for one in pkgutil.iter_modules(json_types.__path__)]
    kinds = [kind for module in modules for kind in vars(module).values() if is_row(kind)]
    with_level = [kind for kind in kinds if "allow" in kind.__annotations__]
    assert len(with_level) > 4
    assert [kind.__name__ for kind in with_level if "level" not in kind.__annotations__] == []


def is_row(kind: object) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__total__")
