"""Laws 3 and 4 on what stays of a window: the current request with its steering, never below its floor, and no group
in pieces."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws.check import assert_laws
from laws.model import FORK, TRANSCRIPT
from laws.world import World, exact, outcome, say, the_ledger, world
from search import sample
from server.blocks import content

from nexus_cli.conversation.compaction import compaction_plan as planning
from nexus_cli.conversation.elide_message import MessageElider
from nexus_cli.conversation.groups import Group, flatten, group_tool_calls
from nexus_cli.conversation.strategies import STRATEGIES
from nexus_cli.conversation.truncation import truncate_window
from nexus_cli.core.budget import REQUEST_FLOOR
from nexus_cli.core.elide import plain_marker
from nexus_cli.core.entry import ItemForm, WindowItem, sum_tokens
from nexus_cli.core.event import ToolResultEvent
from nexus_cli.core.message import Message, Role, ToolCall

WINDOW = 9000
WORDS = "BEGIN " + " ".join(f"detail{n}" for n in range(1100)) + " END"


SUMMARY = "Goal: lists. Next: more. Lists were made. " * 4


@pytest.mark.parametrize("resumed", sample([False, True], 2, 1), ids=["at once", "resumed"])
@pytest.mark.parametrize("summary", sample(["", SUMMARY], 2), ids=["truncated", "compacted"])
def test_a_long_request_and_its_steering_stand_in_every_request_of_a_long_run(
    summary: str, resumed: bool, place: Path
) -> None:
    calls = 0

    def model(body: Any) -> dict[str, Any]:
        nonlocal calls
        last = content(body, "chat")[-1]
        if FORK in last.text or TRANSCRIPT in last.text:
            return {"text": summary}
        calls += 1
        if calls > 16:
            return {"text": "done"}
        return {"calls": [{"name": "bash", "arguments": {"command": f"seq {calls} {calls + 300}"}}]}

    async def live(around: World) -> str:
        session = around.open()
        seen = 0

        def act(event: Any, number: int) -> None:
            nonlocal seen
            seen += isinstance(event, ToolResultEvent)
            if isinstance(event, ToolResultEvent) and seen in (2, 9):
                session.steer(f"STEER{seen} and mind this")
            if isinstance(event, ToolResultEvent) and seen in (3, 6, 11) and resumed:
                session.cancel("person")

        ended = outcome(await say(session, WORDS, act))
        while ended.finish == "aborted":
            await session.aclose()
            session = around.open(session.id)
            ended = outcome(await say(session, "", act))
        assert ended.ok, ended.error
        available = session.engine.context.budget.available
        await session.aclose()
        floor = int(session.engine.context.countable(available) * REQUEST_FLOOR)
        for request in around.server.requests:
            said = "\n".join(str(m["content"]) for m in request.body["messages"] if m["role"] == "user")
            if "tools" not in request.body:
                continue
            shown = next(text for text in said.split("\n\n") if "BEGIN" in text)
            assert exact(shown) >= 0.9 * floor, f"request {request.number}: {exact(shown)} of at least {floor}"
        return session.id

    with world(place, model, window=WINDOW, steps=40) as around:
        session = asyncio.run(live(around))
        with the_ledger() as ledger:
            sent = assert_laws(ledger, session, around.server.requests)
            main = ledger.session(session).main_lane
            epochs = {one.row.manifest.epoch for one in sent if one.row.lane == main}
            assert len(epochs) > 1, "the window was never cut"


def measure(message: Message, preamble: str) -> int:
    """Four characters to the token, with some overhead."""
    calls = sum(8 + len(str(call.arguments)) // 4 for call in message.tool_calls)
    return 4 + len(message.content + preamble) // 4 + calls


texts = st.integers(1, 160).map(lambda n: "word " * n)


@st.composite
def windows(draw: st.DrawFn) -> tuple[list[Group], int]:
    """Groups of a window that begins with a user message, and the entry with which its run began."""
    items: list[WindowItem] = []

    def add(role: Role, text: str, **more: Any) -> None:
        message = Message(role, text, **more)
        items.append(WindowItem(len(items) + 1, ItemForm.FULL, message, tokens=measure(message, "")))

    run = 1
    add(Role.USER, draw(texts))
    for _ in range(draw(st.integers(0, 14))):
        what = draw(st.sampled_from(["turn", "steer", "answer", "batch", "batch"]))
        if what in ("turn", "steer"):
            run = len(items) + 1 if what == "turn" else run
            add(Role.USER, draw(texts))
        elif what == "answer":
            add(Role.ASSISTANT, draw(texts))
        else:
            first = len(items) + 1
            calls = tuple(ToolCall(f"c{first}{n}", "bash", {"command": "x"}) for n in range(draw(st.integers(1, 4))))
            add(Role.ASSISTANT, draw(st.sampled_from(["", "words"])), tool_calls=calls)
            for call in draw(st.permutations(calls)):
                add(Role.TOOL, draw(texts), tool_call_id=call.id)
    return group_tool_calls(items), run


def assert_whole_groups(before: list[Group], after: list[WindowItem]) -> None:
    """What stays of a window is whole groups, in order, each call with its result."""
    assert flatten(group_tool_calls(after)) == after
    ids = [item.entry for item in after if item.form in (ItemForm.FULL, ItemForm.ELIDED)]
    kept = [group for group in before if group[0].entry in ids]
    assert ids == [item.entry for group in kept for item in group]


@given(windows(), st.integers(500, 1500), st.floats(0.3, 1.0), st.sampled_from(sorted(STRATEGIES)))
def test_a_cut_keeps_whole_groups_the_request_and_its_steering(
    window: tuple[list[Group], int], hard: int, share: float, strategy: str
) -> None:
    groups, run = window
    floor = hard // 4
    elider = MessageElider(lambda text: len(text) // 4, measure, lambda item: plain_marker, lambda item: plain_marker)
    result = truncate_window(
        groups,
        hard=hard,
        soft=int(hard * share),
        floor=floor,
        strategy=STRATEGIES[strategy],
        elider=elider,
        summaries=True,
        run=run,
    )
    after = flatten(result.groups)
    assert_whole_groups(groups, after)
    assert after[0].message.role is Role.USER
    requests = [group[0] for group in groups if group[0].message.role is Role.USER and group[0].entry >= run]
    shown = {item.entry: item for item in after}
    assert {item.entry for item in requests} <= set(shown), "a part of the request was left out"
    was, now = sum(item.tokens for item in requests), sum(shown[item.entry].tokens for item in requests)
    assert now >= min(was, floor) * 0.8, f"{now} of {was} tokens of the request stay, the floor is {floor}"
    assert groups[-1][0].entry in shown
    missing = {item.entry for group in groups for item in group} - set(shown)
    told = {n for hole in result.holes for n in range(hole.first, hole.last + 1)}
    assert missing <= told, "a hole that nobody is told of"
    if len(requests) <= 3:
        assert sum(sum_tokens(group) for group in result.groups) <= hard


@given(windows(), st.integers(400, 4000), st.floats(0.1, 0.6))
def test_a_compaction_plan_keeps_whole_groups_the_request_and_the_newest(
    window: tuple[list[Group], int], available: int, share: float
) -> None:
    groups, run = window
    made = planning.plan(
        groups, available=available, target=int(available * share), count=lambda text: len(text) // 4, run=run
    )
    if made is None:
        return
    kept = list(made.kept)
    assert_whole_groups(groups, kept)
    assert sorted(item.entry for item in [*kept, *flatten(made.gone)]) == list(range(1, sum(map(len, groups)) + 1))
    entries = {item.entry for item in kept}
    said = [group[0].entry for group in groups if group[0].message.role is Role.USER and group[0].entry >= run]
    assert set(said) <= entries and {item.entry for item in groups[-1]} <= entries
    first, last = made.entries
    assert all(first <= item.entry <= last for item in flatten(made.gone))
