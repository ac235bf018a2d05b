"""The check of arguments: what it mends, what it says, and that mending is harmless."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from nexus_cli.tools.registry import discover_tools
from nexus_cli.tools.schema import check_arguments, describe_unreadable

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1},
        "share": {"type": "number", "maximum": 1},
        "deep": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "edits": {
            "type": "array",
            "items": {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]},
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("given_", "mended"),
    [
        ({"path": "a", "limit": "5"}, {"path": "a", "limit": 5}),
        ({"path": "a", "limit": 5.0}, {"path": "a", "limit": 5}),
        ({"path": "a", "limit": "5.0"}, {"path": "a", "limit": 5}),
        ({"path": "a", "share": "0.5"}, {"path": "a", "share": 0.5}),
        ({"path": "a", "deep": "True"}, {"path": "a", "deep": True}),
        ({"path": "a", "deep": "false"}, {"path": "a", "deep": False}),
        ({"path": "a", "limit": None}, {"path": "a"}),
        ({"path": 7}, {"path": "7"}),
        ({"path": "a", "edits": '[{"old": "x"}]'}, {"path": "a", "edits": [{"old": "x"}]}),
    ],
)
def test_what_a_model_gets_slightly_wrong_is_mended(given_: dict[str, Any], mended: dict[str, Any]) -> None:
    assert check_arguments(given_, SCHEMA) == (mended, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "`path` is required"),
        ({"path": None}, "`path` must be a string, not null"),
        ({"path": "a", "limit": 0}, "`limit` must be at least 1, not 0"),
        ({"path": "a", "share": 2}, "`share` must be at most 1, not 2"),
        ({"path": "a", "limit": "many"}, '`limit` must be an integer, not "many"'),
        ({"path": "a", "limit": True}, "`limit` must be an integer, not true"),
        ({"path": "a", "deep": 1}, "`deep` must be true or false, not 1"),
        ({"path": "a", "mode": "c"}, '`mode` must be one of "a", "b", not "c"'),
        ({"path": "a", "edits": [{"old": "x"}, {}]}, "`edits[1].old` is required"),
        ({"path": "a", "edits": [{"old": []}]}, "`edits[0].old` must be a string, not []"),
        ({"path": "a", "file_path": "b"}, "`file_path` is unknown; did you mean `path`?"),
        ({"path": "a", "xyz": 1}, "`xyz` is unknown; known: `path`"),
    ],
)
def test_what_cannot_be_mended_is_named_with_what_it_must_be(arguments: dict[str, Any], said: str) -> None:
    _, faults = check_arguments(arguments, SCHEMA)
    assert len(faults) == 1
    assert faults[0].startswith(said)


def test_an_unknown_argument_is_taken_for_the_one_that_is_missing_and_takes_its_value() -> None:
    row = {"question": "Which port?", "options": ["8080", "8443"]}
    faults = check_arguments({"questions": [row]}, discover_tools()["ask_person"].parameters)[1]
    assert faults == ["`questions[0].options` is unknown; did you mean `choices`?"]


def test_a_plugin_may_say_nothing_of_a_type_and_give_one_for_further_arguments() -> None:
    schema = {"type": "object", "properties": {"any": {"type": None}}, "additionalProperties": {"type": "integer"}}
    assert check_arguments({"any": [1], "more": "5"}, schema) == ({"any": [1], "more": 5}, [])


def test_every_fault_is_told_at_once() -> None:
    assert len(check_arguments({"limit": 0, "deep": 3, "mode": "z"}, SCHEMA)[1]) == 4


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "5", "5.0", "true", "[]", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
calls = st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), anything, max_size=5)


@pytest.mark.matrix
@given(calls)
def test_mending_twice_is_mending_once(arguments: dict[str, Any]) -> None:
    mended, faults = check_arguments(arguments, SCHEMA)
    assert repr(check_arguments(mended, SCHEMA)) == repr((mended, faults))


@pytest.mark.matrix
@given(calls)
def test_what_is_sound_already_stays_as_it_is(arguments: dict[str, Any]) -> None:
    if Draft202012Validator(SCHEMA).is_valid(arguments):
        assert check_arguments(arguments, SCHEMA) == (arguments, [])


def test_a_hostile_depth_is_no_crash() -> None:
    assert check_arguments({"path": "a", "edits": "[" * 100_000}, SCHEMA)[1]


@pytest.mark.parametrize("cut", ['{"path": "a.py", "content": "one\\ntw', '{"path": "a.py"', '{"path": ', "{", '{"pa'])
def test_arguments_that_were_cut_off_are_called_so(cut: str) -> None:
    told = describe_unreadable(cut)
    assert told.startswith("arguments are not a JSON object: cut off after ") and f"{len(cut)} characters" in told
    assert "send the whole call again" in told and told.endswith(cut[-20:])


def test_arguments_that_are_no_json_are_shown_where_they_are_wrong() -> None:
    told = describe_unreadable('{"a": 1,, "b": 2}' + " " * 900)
    assert told.startswith("arguments are not a JSON object: ") and "character 9" in told and "cut off" not in told
    assert describe_unreadable("[1]") == "arguments are not a JSON object: [1]"
    assert "nested too deeply" in describe_unreadable('{"a": ' + "[" * 400 + "]" * 400 + "}")
    assert describe_unreadable('{"a": ' + "9" * 5000 + "}").endswith("conversion: value has 5000 digits")
    for raw in ("x" * 9000, '"' + "x" * 9000, '{"a": "' + "x" * 9000, '{"a": x' + "y" * 9000):
        assert len(describe_unreadable(raw)) < 500
