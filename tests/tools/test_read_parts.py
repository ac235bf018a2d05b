"""Which lines of which files a reading of several parts is recorded to have sent, however it was cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.read_lines import read_lines, read_note
from nexus_cli.core.elide import drop_marker, elide_text
from nexus_cli.core.entry import Memo
from nexus_cli.core.memo_kinds import LINES_READ

TOTAL = 60
ranges = st.tuples(st.sampled_from(["a", "b"]), st.integers(1, TOTAL), st.integers(1, 30))


@given(st.lists(ranges, min_size=1, max_size=5), st.integers(60, 900), st.booleans())
def test_exactly_the_lines_that_were_sent_are_recorded(
    new_desk: Callable[[], Any], parts: list[tuple[str, int, int]], cap: int, has_tail: bool
) -> None:
    desk = new_desk()
    for name in "ab":
        desk.write(name, "".join(f"<{name} {number}>\n" for number in range(1, TOTAL + 1)))
    asked = [f"{name}:{first}-{min(TOTAL, first + count - 1)}" for name, first, count in parts]
    result = desk.run("read_file", path="a", offset=1, limit=1, more=[*asked, "missing:1", "b:9"])
    clipped = elide_text(result.text, cap, lambda text: len(text) // 3, drop_marker("d1"), has_tail=has_tail)
    memos = [Memo(kind, "", 1, value) for kind, value in read_note(result, clipped).items()]
    found = read_lines(memos)
    sent = set(clipped.text.splitlines())
    for name in "ab":
        lines = found.get(str(desk.project / name))
        told = {n for first, last in (lines.spans if lines else ()) for n in range(first, last + 1)}
        assert told == {n for n in range(1, TOTAL + 1) if f"<{name} {n}>" in sent}
        assert not lines or lines.total == TOTAL
    assert [memo.kind for memo in memos] == [LINES_READ]
