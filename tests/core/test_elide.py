"""Clipping and pieces: they fit, they lose nothing, they cut where a reader would."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.elide import (
    ElidedText,
    clip_text,
    cut_piece,
    drop_marker,
    name_first,
)
from nexus_cli.core.elide import elide_text as cut


def by_words(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]|\s", text))


def by_letters(text: str) -> int:
    return math.ceil(len(text) / 4)


def by_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def clip(text: str, cap: int, count: Callable[[str], int], drop_id: str) -> ElidedText:
    return cut(text, cap, count, drop_marker(drop_id))


COUNTS: list[Callable[[str], int]] = [by_words, by_letters, by_bytes]
counts = st.sampled_from(COUNTS)
lettered = st.text(st.sampled_from("ab \n\r\té漢\u0301\u200d👍\U0001f3fd🇩🇪{"), max_size=2000)
texts = lettered | st.lists(st.text("abc de", max_size=60), max_size=80).map("\n".join)


@given(texts, st.integers(0, 300), counts)
def test_what_is_clipped_fits_its_cap(text: str, cap: int, count: Callable[[str], int]) -> None:
    assert count(clip(text, cap, count, "d3").text) <= cap


@given(texts, st.integers(0, 300), counts)
def test_shown_and_left_out_ranges_join_to_the_original(text: str, cap: int, count: Callable[[str], int]) -> None:
    result = clip(text, cap, count, "d3")
    low, high = result.start, result.end
    head, tail = text[:low], text[high:]
    if result.is_whole:
        assert result.text == text
    elif head or tail:
        assert result.text.startswith(head)
        assert result.text.endswith(tail)
        assert f'recall("d3", "{low}:{high}")' in result.text


@given(texts, counts)
def test_what_fits_is_left_alone(text: str, count: Callable[[str], int]) -> None:
    result = clip(text, count(text), count, "d1")
    assert (result.text, result.is_whole, result.tokens) == (text, True, 0)


@given(texts, st.integers(0, 2500), st.integers(0, 2500), st.integers(1, 300), counts)
def test_a_piece_fits_and_is_the_text_it_says(
    text: str, start: int, end: int, cap: int, count: Callable[[str], int]
) -> None:
    found = cut_piece(text, start, end, cap, count)
    assert found.text == text[found.start : found.end]
    assert count(found.text) <= cap
    assert found.total == len(text)


@given(texts, st.integers(16, 100), counts)
def test_pieces_one_after_another_give_the_whole_back(text: str, cap: int, count: Callable[[str], int]) -> None:
    parts, at = [], 0
    while at < len(text):
        found = cut_piece(text, at, len(text), cap, count)
        assert found.end > at
        parts.append(found.text)
        at = found.end
    assert "".join(parts) == text


def test_cuts_lie_at_line_ends() -> None:
    text = "".join(f"line {i} of many\n" for i in range(2000))
    shown = clip(text, 500, by_words, "d9").text.split("\n")
    assert all(re.fullmatch(r"line \d+ of many|\[\.\.\. .* \.\.\.\]|", line) for line in shown)


def test_most_of_the_cap_is_used() -> None:
    text = "some words, and more of them; " * 40_000
    assert by_words(clip(text, 4000, by_words, "d1").text) > 3500


def test_the_marker_says_how_much_is_missing_and_how_to_read_it() -> None:
    result = clip("x" * 100_000, 1000, by_letters, "d3")
    low, high = result.start, result.end
    line = f"[... {result.tokens:,} tokens (characters {low}:{high} of 100000) left out: "
    assert line + f'recall("d3", "{low}:{high}") ...]' in result.text


def test_few_calls_of_the_counter_and_only_one_with_everything() -> None:
    sizes: list[int] = []

    def counted(text: str) -> int:
        sizes.append(len(text))
        return by_letters(text)

    clip("word " * 1_000_000, 2000, counted, "d1")
    assert len(sizes) <= 30
    assert sum(sizes) < 5_000_000 * 1.1
    sizes.clear()
    cut_piece("word " * 1_000_000, 3, 5_000_000, 2000, counted)
    assert sum(sizes) < 200_000


def test_a_list_is_cut_to_its_first_names_with_the_number_of_the_others() -> None:
    assert (name_first(["a", "b"], 2), name_first([], 2)) == ("a, b", "")
    assert name_first(list("abc"), 1, "; ") == "a and 2 more"
    assert name_first(["a"] * 1003, 2) == "a, a and 1,001 more"


def test_a_clipped_text_is_no_longer_than_its_limit() -> None:
    assert (clip_text("abcd", 4), clip_text("abcde", 4), clip_text("abcde", 4, "...")) == ("abcd", "abc…", "a...")
