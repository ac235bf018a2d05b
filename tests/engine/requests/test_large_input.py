"""Attached texts of a message: where they are, what room each gets, and the index of what is left out of one."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.budget import share_room
from nexus_cli.core.elide import SAMPLED, count_large, elide_text
from nexus_cli.core.typed_text import find_attached_texts
from nexus_cli.engine.requests.user_input import indexed_marker

ROW = re.compile(r"^(\d+):(\d+) lines? (\d+)(?:-(\d+))?: ", re.MULTILINE)


def quarter(text: str) -> int:
    return -(-len(text) // 4)


def test_the_content_of_each_block_is_found_with_its_name_and_first_line() -> None:
    message = 'see\n\n<file path="a &amp; b.py" lines="7-9">\nx = 1\n</file>\n\n'
    message += '<stdin>\nlog\n</stdin>\n<file path="x">\n</stdin>'
    found = [(message[one.start : one.end], one.name, one.first_line) for one in find_attached_texts(message)]
    assert found == [("x = 1\n", "a & b.py", 7), ('log\n</stdin>\n<file path="x">\n', "stdin", 1)]


@pytest.mark.parametrize("shown", ['lines="7-9"', 'pages="1-2" of="3"', 'cells="1-0" of="0"'])
def test_a_block_with_a_part_of_a_file_is_found(shown: str) -> None:
    assert [one.name for one in find_attached_texts(f'<file path="a" {shown}>\nx\n</file>')] == ["a"]


def test_a_block_without_an_end_and_an_empty_one_are_none() -> None:
    assert find_attached_texts('<file path="a">\nno end') == []
    assert find_attached_texts("<stdin>\n</stdin>") == []
    assert find_attached_texts("a <stdin>\nb\n</stdin>") == []


@pytest.mark.matrix
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(-100, 4000))
def test_room_is_shared_so_that_only_the_largest_are_cut(sizes: list[int], room: int) -> None:
    shares = share_room(sizes, room)
    assert sum(shares) <= max(0, room) and all(share <= size for share, size in zip(shares, sizes, strict=True))
    level = max(shares)
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert not cut or (min(cut) >= level - 1 and sum(shares) > max(0, room) - len(sizes))


@given(st.integers(100_000, 400_000), st.integers(1, 5000), st.integers(2000, 20_000))
def test_the_chunks_of_an_index_join_to_the_hole_and_fit_the_room(length: int, width: int, cap: int) -> None:
    text = ("x" * width + "\n") * (length // (width + 1))
    cut = elide_text(text, cap, quarter, indexed_marker(text, "d1", first_line=1, cap=cap))
    assert quarter(cut.text) <= cap
    rows = [(int(a), int(b), int(c), int(d or c)) for a, b, c, d in ROW.findall(cut.text)]
    assert not rows or (rows[0][0], rows[-1][1]) == (cut.start, cut.end)
    for before, after in itertools.pairwise(rows):
        assert before[1] == after[0] and before[3] + 1 >= after[2]
    for start, end, first, last in rows:
        assert text.count("\n", 0, start) + 1 == first and text.count("\n", 0, end - 1) + 1 == last


def test_a_text_that_may_fit_is_counted_whole_and_another_by_samples() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return quarter(text)

    text = "a row of words\n" * (SAMPLED // 5)
    whole = quarter(text)
    assert count_large(text, whole, count) == whole and counted[-1] == len(text)
    assert count_large(text, whole // 2, count) == whole and counted[-1] == len(text)
    counted.clear()
    estimate = count_large(text, 1000, count)
    assert abs(estimate - whole) < whole / 100 and max(counted) < SAMPLED
    assert count_large(text, 1000, count) == estimate


def test_a_text_whose_samples_are_of_another_kind_is_counted_no_further_than_needed() -> None:
    """Every sample is empty of tokens, all the rest is one token a character."""
    length, samples, size = 8 * SAMPLED, 32, 8000
    signs = bytearray(b"x" * length)
    for n in range(samples):
        at = (length - size) * n // (samples - 1)
        signs[at : at + size] = b" " * size
    text, counted = signs.decode(), list[int]()

    def count(part: str) -> int:
        counted.append(len(part))
        return part.count("x")

    assert 0.9 < count_large(text, 1000, count) / text.count("x") < 1.1 and sum(counted) < 2 * SAMPLED
    counted.clear()
    assert count_large(text, length, count) == text.count("x"), "what may fit is counted exactly"
    shown = elide_text(text, 1000, count, lambda *_: "[cut]")
    assert count(shown.text) <= 1000
