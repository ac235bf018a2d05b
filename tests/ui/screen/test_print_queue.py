"""What waits to be printed: nothing is lost, and lines are whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.ui.screen.redraw import PrintQueue


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
