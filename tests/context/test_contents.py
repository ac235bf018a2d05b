"""What a window holds is added up once and stays right: while it grows, when its end changes, and when it is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context import ContextManager
from nexus_cli.context.contents import Contents
from nexus_cli.context.kinds import total


@given(st.lists(st.tuples(st.sampled_from(["say", "cut", "again"]), st.integers(0, 60)), max_size=60))
def test_a_window_that_grows_and_is_cut_is_what_its_messages_are(steps: list[tuple[str, int]]) -> None:
    manager = ContextManager()
    lane = manager.lane
    shown = list(lane.slots)
    contents = Contents(lambda: (lane.epoch, shown))
    for what, number in steps:
        if what == "say":
            manager.add_user_message(f"{number} words " * number + '{"a": 1}')
            shown.append(lane.slots[-1])
        elif what == "cut":
            del shown[: min(number, len(shown))]
        elif shown:
            shown[max(0, len(shown) - 1 - number % 3)] = lane.slots[-1]
        assert [round(one, 6) for one in contents.messages()] == [round(one, 6) for one in total(shown)]
