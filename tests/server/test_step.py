"""What a script may say of a step, and how texts and arguments are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.fault import KINDS, Fault
from server.step import Call, Step, pieces


@given(st.text(max_size=40), st.integers(0, 12), st.integers(1, 9))
def test_pieces_join_to_the_repeated_text_and_keep_their_size(text: str, size: int, repeat: int) -> None:
    cut = list(pieces(text, size, repeat))
    assert "".join(cut) == text * repeat
    if size and text:
        assert all(len(piece) == size for piece in cut[:-1]) and 0 < len(cut[-1]) <= size


def test_a_long_repeated_text_is_never_held_whole() -> None:
    longest = max(map(len, pieces("0123456789", 65536, 5_000_000)))
    assert longest == 65536


@given(st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=4), st.integers(1, 4), st.booleans())
def test_fragments_of_each_call_join_to_its_arguments(raws: list[str], size: int, interleave: bool) -> None:
    step = Step(calls=tuple(Call("f", raw) for raw in raws), fragment=size, interleave=interleave)
    joined = [""] * len(raws)
    for place, piece in step.fragments():
        joined[place] += piece
    assert joined == raws


def test_interleaved_fragments_take_turns() -> None:
    step = Step(calls=(Call("f", "abc"), Call("g", "xy")), fragment=1, interleave=True)
    assert list(step.fragments()) == [(0, "a"), (1, "x"), (0, "b"), (1, "y"), (0, "c")]


def test_arguments_may_be_an_object_or_any_text() -> None:
    raws = [{"a": [1]}, "", '{"a": ', "[1]", '"{}"']
    step = Step.of({"calls": [{"name": "f", "arguments": raw} for raw in raws]})
    assert [call.arguments for call in step.calls] == ['{"a":[1]}', "", '{"a": ', "[1]", '"{}"']
    assert [call.value for call in step.calls] == [{"a": [1]}, {}, '{"a": ', [1], "{}"]


def test_ids_are_numbered_left_out_empty_or_the_same() -> None:
    calls = ({"name": "f"}, {"name": "g", "id": "mine"})
    made = {
        word: Step.of({"calls": calls, "ids": word}).ids_of_calls(3) for word in ("given", "missing", "empty", "same")
    }
    assert made == {
        "given": ["call_3_0", "mine"],
        "missing": [None, None],
        "empty": ["", ""],
        "same": ["call_3_0", "call_3_0"],
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"txt": "x"},
        {"calls": [{"name": "f", "args": {}}]},
        {"ids": "none"},
        {"fault": "explode"},
        {"write": "u"},
        {"usage": {"in": 1}},
    ],
)
def test_a_misspelt_step_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"txt|args|none|explode|'u'|'in'"):
        Step.of(wrong)


def test_a_fault_is_a_word_a_number_or_an_object() -> None:
    assert Fault.of(429) == Fault.of("429") == Fault.of({"status": 429}) == Fault("status", status=429)
    assert Fault.of({"status": 429, "retry_after": 2}).retry_after == "2"
    assert [Fault.of(kind).kind for kind in KINDS] == list(KINDS)
