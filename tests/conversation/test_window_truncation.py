"""Truncation of a lane with drops: each names what went, and a recalled piece is not left out a second time."""

from __future__ import annotations

import re

import pytest
from context.conversation import Letters
from conversation.cut import truncate

from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.conversation.groups import Group
from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.conversation.truncation import Hole, _holes
from nexus_cli.core.entry import Drop, ItemForm, Kind, WindowItem
from nexus_cli.core.message import Message, Role, ToolCall


def group(entry: int, form: ItemForm = ItemForm.FULL, role: Role = Role.USER) -> Group:
    return (WindowItem(entry, form, Message(role, "x"), tokens=10),)


def holes(groups: list[Group], *kept: int) -> list[tuple[int, int]]:
    found: list[Hole] = _holes(groups, kept)
    return [(hole.first, hole.last) for hole in found]


OLD_REQUEST = [group(50, ItemForm.SUMMARY), group(3), *(group(n, role=Role.ASSISTANT) for n in range(51, 56))]
"""A window after a compaction in a long run: the request stands behind the summary of what came after it."""


@pytest.mark.parametrize(
    ("kept", "named"),
    [
        ((0, 1, 5, 6), [(51, 53)]),
        ((0, 2, 6), [(3, 3), (52, 54)]),
        ((0, 6), [(3, 54)]),
        ((6,), [(1, 54)]),
        ((1, 6), [(1, 50), (51, 54)]),
    ],
)
def test_a_hole_names_the_entries_that_went_behind_an_old_request_too(
    kept: tuple[int, ...], named: list[tuple[int, int]]
) -> None:
    assert holes(OLD_REQUEST, *kept) == named


def test_what_a_marker_stood_for_is_named_by_the_hole_that_takes_its_place() -> None:
    groups = [group(1), group(9, ItemForm.MARKER), group(10), group(11), group(12)]
    assert holes(groups, 0, 4) == [(2, 11)]


def recalled(*results: str) -> tuple[ContextManager, list[Drop]]:
    """A session cut down after calls to `recall` in one message with these results, and its drops."""
    log = MemoryLog(drops=7)
    context = ContextManager(ContextConfig(3000, 0), log, token_counter=Letters(), low_water=0.5, markers=True)
    lane = context.conversation
    lane.append(Kind.USER, Message(Role.USER, "read it"), "person")
    calls = tuple(ToolCall(f"c{n}", "recall", {"id": "d1", "range": f"{n}:"}) for n in range(len(results)))
    lane.append(Kind.ASSISTANT, Message(Role.ASSISTANT, "", calls), "agent")
    for call, text in zip(calls, results, strict=True):
        lane.append(Kind.TOOL, Message(Role.TOOL, text, tool_call_id=call.id), "tool:recall")
    return context, truncate(context.truncator, lane, 3000)


def test_a_recalled_piece_that_is_elided_cites_its_drop_and_makes_no_new_one() -> None:
    context, drops = recalled("[d1, characters 0:3000 of 9000]\n" + "a" * 3000, "[9 hits]\n" + "b" * 3000)
    assert drops == []
    for item in context.conversation.items[-2:]:
        assert item.form is ItemForm.ELIDED
        assert re.findall(r'recall\("(d\d+)"\)', item.message.content) == ["d1"], "a range would be that of the piece"


def test_an_error_of_recall_is_elided_like_any_other_result() -> None:
    context, drops = recalled("there is no drop 'd1' here; " + "a" * 5000)
    assert [drop.id for drop in drops] == ["d8"]
    assert 'recall("d8"' in context.conversation.items[-1].message.content
