"""How much of a parametrization runs when: in the gate, in the full matrix, in a long search.

The gate (`python tests/check.py`) leaves out what is marked `matrix`: variants of a row that it runs. The full matrix
(`--all`) runs them too. A search (`HYPOTHESIS_PROFILE=search`) also makes the rows that `some` leaves out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

FROZEN_ROWS = {
    "test_a_file_that_a_project_gives_in_another_way_is_never_a_trap": (
        r"True-(?!rule by path).*|False-(?!import$|rule$|command$).*"
    ),
    "test_an_instruction_file_that_is_a_trap_is_named_and_never_sent": "True",
    "test_the_result_is_one_object_with_all_its_keys": (
        r"(?!(done|network|provider|opening_bug|allow|config|no_key|max_steps|length|refused|overflow|denied|rate_limit"
        r"|overloaded)$).*"
    ),
    "test_one_change_at_a_time_is_named_as_the_cause": "section|tool|expired",
    "test_a_fork_at_any_entry_goes_on_with_whole_groups_and_replays": "[12356]",
    "test_the_first_request_says_the_level_and_what_asks": "None-(edit|auto|plan)|person1-(ask|auto|all)",
    "test_a_kill_while_replies_are_recorded_goes_on_there": "[23]",
    "test_a_history_keeps_the_wire_rules_of_every_provider": "(gemini|mistral|deepseek|ollama_chat)/m",
    "test_the_context_of_a_session_is_what_it_sends_through_truncation_compaction_and_resuming": "oldest_first-False",
    "test_a_request_that_the_provider_refuses_as_too_long_is_sent_once_more_and_shorter": "2",
    "test_with_a_tiktoken_that_is_broken_the_simple_rule_counts": "Encoding = None|body1[12]",
    "test_counts_are_those_of_tiktoken_itself": "cl100k_base|p50k_edit",
    "test_a_million_times_one_character_is_counted": ".*-cl100k",
    "test_a_real_tokenizer_is_known_better_the_more_it_is_like_ours": "cl100k_base-.*",
    "test_no_text_makes_redaction_slow": "eyJ-|a://",
}
"""Frozen tests (README), whose decorators must not change, with a pattern for the ids of the rows that the full matrix
alone runs."""

PROMISED = re.compile(r"^\|[^|]*\|(?P<gate>[^|]*?)(?:; in the full matrix (?P<matrix>[^|]*))?\|$", re.MULTILINE)
"""A row of `PROMISES.md` with the tests that it names."""

SEARCHES = os.environ.get("HYPOTHESIS_PROFILE") == "search"


def some(rows: Sequence[T], every: int, first: int = 0) -> Sequence[T]:
    """Every row in a search, else the `first` one and from there one in `every`."""
    return rows if SEARCHES else rows[first::every]


def sample(rows: Iterable[Any], every: int, first: int = 0) -> list[Any]:
    """All rows of a parametrization; the gate runs the `first` one and from there one in `every`.

    A row that is a tuple has a value for each argument, also where there is but one.
    """
    parameters = [_parameter(row) for row in rows]
    return [
        row if place >= first and (place - first) % every == 0 else variant(row) for place, row in enumerate(parameters)
    ]


def variant(row: Any) -> Any:
    """Return a row of a parametrization, or a parameter of a fixture, that only the full matrix runs."""
    given = _parameter(row)
    return pytest.param(*given.values, marks=[*given.marks, pytest.mark.matrix], id=given.id)


def list_promised(page: str) -> tuple[set[str], set[str]]:
    """Return the tests that `PROMISES.md` names for the gate, and those that it names for the full matrix alone."""
    rows = [row.groupdict("") for row in PROMISED.finditer(page)]
    gate, matrix = ({*re.findall(r"`(test_\w+)`", " ".join(row[side] for row in rows))} for side in ("gate", "matrix"))
    return gate, matrix - gate


def is_frozen_variant(name: str) -> bool:
    """Return whether only the full matrix runs this test or row, such as `test_a_name[row]`, for `FROZEN_ROWS`."""
    test, _, row = name.partition("[")
    return test in FROZEN_ROWS and re.fullmatch(FROZEN_ROWS[test], row.removesuffix("]")) is not None


def in_turn(names: Iterable[str]) -> list[Any]:
    """Each name with False and with True; the gate has it with one of them, the next name with the other."""
    pairs = [((name, bool(place % 2)), (name, not place % 2)) for place, name in enumerate(names)]
    return [row for first, second in pairs for row in (first, variant(second))]


def _parameter(row: Any) -> Any:
    if hasattr(row, "marks"):
        return row
    return pytest.param(*row) if isinstance(row, tuple) else pytest.param(row)
