"""What waits to be printed: nothing is lost, lines are whole, and a huge text costs what its length is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.ui.screen.redraw import PrintQueue


class Watched(str):
    """Counts the characters that are cut out of it."""

    cut = 0

    def __getitem__(self, place: object) -> str:
        piece = super().__getitem__(place)  # type: ignore[index]
        Watched.cut += len(piece)
        return piece


@given(st.lists(st.text("ab\n", max_size=9), max_size=9), st.lists(st.integers(1, 12), max_size=20))
def test_pieces_are_whole_lines_and_make_up_the_whole(texts: list[str], sizes: list[int]) -> None:
    pending = PrintQueue()
    for text in texts:
        pending.add(f"{text}\n")
    taken = [pending.take(size) for size in sizes]
    for size, piece in zip(sizes, taken, strict=True):
        assert not piece or piece.endswith("\n")
        # No more than the line that was begun.
        assert "\n" not in piece[size - 1 : -1]
    rest = pending.all()
    assert "".join(taken) + rest == "".join(f"{text}\n" for text in texts)
    assert not pending


@pytest.mark.matrix
def test_every_character_of_a_huge_text_is_copied_once() -> None:
    text, pending, pieces = Watched("a line of some words\n" * 100_000), PrintQueue(), 0
    Watched.cut = 0
    pending.add(text)
    while pending:
        assert pending.take(65_536)
        pieces += 1
    assert pieces > 20
    assert Watched.cut == len(text)
