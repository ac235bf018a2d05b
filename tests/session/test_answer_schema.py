"""Finding the JSON document in an answer, and validating it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search import sample

from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import MOST_DEPTH
from nexus_cli.session import answer_schema
from nexus_cli.session.answer_schema import AnswerSchema, parse_json

ANY = AnswerSchema("true")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=VALUES, indent=st.sampled_from([None, 2]))
def test_a_document_is_found_whole_in_a_fence_and_between_words(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    answers = [text, f"\ufeff {text}\n", f"Here:\n```json\n{text}\n```\nRun it:\n```sh\nls\n```\n"]
    answers += [f"It is {text}, as asked."] if isinstance(value, dict | list) else []
    for answer in answers:
        attempt = ANY.read_answer(answer)
        assert (attempt.data, attempt.problems) == (value, ())
        assert json.loads(attempt.text) == value and "\n" not in attempt.text


@pytest.mark.parametrize(
    "answer", ["", "none", "{", "[1", "see {this} or [that]", "```json\n{\n```", "1 2", "{'a': 1}"]
)
def test_an_answer_without_a_document_is_kept_as_it_is(answer: str) -> None:
    attempt = ANY.read_answer(answer)
    assert attempt.problems and attempt.distance == math.inf and attempt.text == answer
    assert attempt.is_prose is not any(mark in answer for mark in "{["), "JSON that is cut off is repaired as often"


def test_the_problems_are_named_by_their_place_and_bounded() -> None:
    schema = AnswerSchema('{"type": "array", "items": {"type": "string", "maxLength": 2}}')
    attempt = schema.read_answer(json.dumps([1, "x" * 100_000, *range(1000)]))
    assert attempt.problems[0] == "$[0]: 1 is not of type 'string'" and attempt.problems[1].endswith("is too long")
    assert len(attempt.problem) < 2000 and 5 < attempt.distance <= 100


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type":"obj', "not JSON: Unterminated string starting at line 1, column 9"),
        ('{"a": "b\n"}', "not JSON: Invalid control character at line 1, column 9"),
        ("words", "not JSON: Expecting value at line 1, column 1"),
    ],
)
def test_text_that_is_no_json_is_refused_with_the_place_of_the_error(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_json(text)
    assert str(caught.value) == why


def test_depth_is_bounded_exactly() -> None:
    assert not ANY.read_answer("[" * MOST_DEPTH + "]" * MOST_DEPTH).problems
    assert not ANY.read_answer('{"a":' * MOST_DEPTH + "1" + "}" * MOST_DEPTH).problems
    assert ANY.read_answer("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1)).problems


def test_a_schema_that_refers_to_itself_only_within_an_answer_does_not_crash_on_it() -> None:
    schema = AnswerSchema('{"properties": {"a": {"$ref": "#/properties/a"}}}')
    assert "refers to itself without end" in schema.read_answer('{"a": 1}').problem


def test_the_size_of_a_schema_is_bounded_in_bytes() -> None:
    with pytest.raises(NexusError, match="64 KiB"):
        AnswerSchema(json.dumps({"description": "é" * (AnswerSchema.most_bytes // 2)}, ensure_ascii=False))


def test_ids_anchors_and_older_drafts_refer_within_the_schema() -> None:
    AnswerSchema('{"$id": "https://example.org/a", "$defs": {"x": {"$anchor": "q", "type": "string"}}, "$ref": "#q"}')
    draft = '{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "string"}}, '
    older = AnswerSchema(draft + '"properties": {"x": {"$ref": "#/definitions/a"}}}')
    assert older.read_answer('{"x": 1}').problem == "$.x: 1 is not of type 'string'"


@pytest.mark.parametrize(
    "schema",
    sample(
        [
            {"type": "string", "pattern": "^(a+)+$"},
            {"additionalProperties": False, "patternProperties": {"^(a+)+$": {}}},
        ],
        2,
    ),
)
def test_a_pattern_without_end_is_a_problem_of_the_answer(schema: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_schema, "SECONDS", 0.1)
    endless = "a" * 60 + "!"
    made = AnswerSchema(json.dumps(schema))
    attempt = made.read_answer(json.dumps(endless if "type" in schema else {endless: 1}))  # type: ignore[operator]
    assert attempt.distance == 1 and "patterns took longer than" in attempt.problem


@pytest.mark.matrix
def test_a_schema_with_patterns_judges_answers_as_before() -> None:
    made = AnswerSchema('{"type": "object", "properties": {"n": {"pattern": "^a+$"}}}')
    assert made.read_answer('{"n": "aaa"}').problems == ()
    wrong = made.read_answer('{"n": "bbb"}')
    assert wrong.distance == 1 and "'bbb' does not match '^a+$'" in wrong.problem


def test_a_pattern_with_a_number_that_is_too_large_is_no_schema() -> None:
    with pytest.raises(NexusError, match="repetition number is too large"):
        AnswerSchema('{"pattern": "a{99999999999999999999}"}')


@pytest.mark.matrix
def test_a_pattern_that_python_warns_of_is_taken_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    assert AnswerSchema('{"pattern": "[[a]"}').read_answer('"a"').problems == () and not recwarn.list
