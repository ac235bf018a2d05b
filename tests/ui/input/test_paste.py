"""Folded pastes: what stands for them, what they are shown as, and that they come out as they went in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.ui.input.paste import Pastes, cut_to_bytes, normalize_newlines

LONG = "\n".join(f"line {number}" for number in range(214))


def test_a_small_paste_stays_as_it_is() -> None:
    text = "\n".join("x" * 10 for _ in range(10))
    assert Pastes().fold_if_long(text, "") == text and Pastes().fold_if_long("x" * 1000, "") == "x" * 1000


def test_a_long_paste_is_one_character_that_is_shown_with_its_lines() -> None:
    pastes = Pastes()
    mark = pastes.fold_if_long(LONG, "")
    assert len(mark) == 1
    assert pastes.label_pastes(f"see {mark}!") == "see [pasted 214 lines]!"
    assert pastes.expand(f"see {mark}!") == f"see {LONG}!"


def test_a_newline_at_the_end_makes_no_line_of_its_own() -> None:
    pastes = Pastes()
    assert pastes.label_pastes(pastes.fold_if_long("a\n" * 11, "")) == "[pasted 11 lines]"
    assert pastes.fold_if_long("a\n" * 10, "") == "a\n" * 10


def test_a_long_line_is_shown_with_its_characters() -> None:
    pastes = Pastes()
    assert pastes.label_pastes(pastes.fold_if_long("x" * 12_345, "")) == "[pasted 12,345 characters]"


def test_labels_that_would_be_equal_are_numbered() -> None:
    pastes = Pastes()
    text = ""
    for _ in range(3):
        text += pastes.fold_if_long(LONG, text)
    assert pastes.label_pastes(text) == "[pasted 214 lines][pasted 214 lines #2][pasted 214 lines #3]"
    assert pastes.expand(text) == LONG * 3
    assert pastes.label_pastes(pastes.fold_if_long(LONG, "")) == "[pasted 214 lines]"


def test_the_history_has_a_short_paste_whole_and_of_a_long_one_the_size() -> None:
    pastes = Pastes()
    short, long, line = (pastes.fold_if_long(text, "") for text in (LONG, "abcdef\n" * 10_000, "x" * 70_000))
    assert pastes.for_history(short) == LONG
    assert pastes.for_history("a" + long) == "a[pasted 10,000 lines: 70,000 characters]"
    assert pastes.for_history(line) == "[pasted 70,000 characters]"


@pytest.mark.matrix
@given(st.text(st.characters(exclude_categories=[])), st.text(st.characters(exclude_categories=[])))
def test_any_pasted_text_comes_out_as_it_went_in(before: str, text: str) -> None:
    pastes = Pastes()
    mark = pastes.fold(text, "pasted", before)
    assert pastes.expand(before + mark) == before + text
    inserted = pastes.fold_if_long(text, before + mark)
    assert pastes.expand(inserted) == text


def test_a_paste_that_holds_a_character_in_use_is_folded_so_that_neither_is_mistaken() -> None:
    pastes = Pastes()
    mark = pastes.fold_if_long(LONG, "")
    text = mark + pastes.fold_if_long(f"icon {mark}", mark)
    assert pastes.expand(text) == f"{LONG}icon {mark}"


def test_every_line_end_becomes_a_newline() -> None:
    assert normalize_newlines("a\r\nb\rc\n") == "a\nb\nc\n"


@given(st.text(st.characters(exclude_categories=[])), st.integers(0, 40))
def test_a_cut_keeps_whole_characters_in_the_given_bytes(text: str, most: int) -> None:
    kept = cut_to_bytes(text, most)
    assert len(kept.encode("utf-8", "surrogatepass")) <= most
    if len(text.encode("utf-8", "surrogatepass")) <= most:
        assert kept == text
    elif text.isascii():
        assert kept == text[:most]


def test_a_cut_paste_says_so() -> None:
    pastes = Pastes()
    assert pastes.label_pastes(pastes.fold_if_long("short", "", cut=True)) == "[pasted 5 characters, cut at 64 MiB]"
