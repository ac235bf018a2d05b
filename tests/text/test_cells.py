"""Cells of text: no line is wider than a terminal shows it, and no character is parted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from nexus_cli.text.cells import cells, cut, cut_start, expand_tabs, fold, one_line, without_codes, wrap

STRANGE = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), st.sampled_from("👩\u200d💻❤\ufe0f漢e\u0301 ")
    )
)


@pytest.mark.matrix
@given(STRANGE, st.integers(2, 40))
def test_pieces_fit_and_join_to_the_line(text: str, width: int) -> None:
    pieces = list(fold(text, width))
    assert "".join(pieces) == text and all(cells(piece) <= width for piece in pieces)
    wrapped = list(wrap(text, width))
    assert all(cells(line) <= width for line in wrapped)
    assert "".join("".join(wrapped).split()) == "".join(text.split())
    assert cells(cut(text, width, "…")) <= width and cells(cut_start(text, width, "…")) <= width


def test_a_cut_never_parts_a_joined_character() -> None:
    assert list(fold("ae\u0301", 2)) == ["ae\u0301"]
    assert list(fold("ab👩\u200d💻c", 4)) == ["ab", "👩\u200d💻", "c"]
    assert cut("漢字", 3, "…") == "漢…" and cut_start("漢字", 3, "…") == "…字" and cut("漢", 1) == ""


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("plain", 5),
        ("e\u0301", 1),
        ("\u05e9\u05b8", 1),
        ("漢字", 4),
        ("ｶﾅ", 2),
        ("\u1112\u1161\u11ab", 2),
        ("\u0928\u093f", 2),
        ("❤\ufe0f", 2),
        ("👩\u200d💻", 4),
        ("👍\U0001f3fd", 4),
        ("\U0001f1e9\U0001f1ea", 4),
        ("é\t", 2),
        ("é\x07", 2),
    ],
)
def test_marks_take_no_cell_and_what_terminals_disagree_on_takes_the_larger_width(text: str, width: int) -> None:
    assert cells(text) == width >= wcswidth(text)


@given(STRANGE)
def test_a_text_never_counts_as_narrower_than_wcwidth_says(text: str) -> None:
    assert cells(text) >= wcswidth(text)


def test_tabs_codes_and_controls_are_resolved_before_a_line_is_measured() -> None:
    assert expand_tabs("a\tb") == "a   b" and without_codes("\x1b[1;36ma\x1b[0m") == "a"
    assert one_line(" a\tb\n\x1b[31m c ") == "a b ␛[31m c"
