"""The prompt cache of a session: what is expected of it, what is missed, and who is to blame."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from epochs import make_header as EpochHeader
from ledger.conftest import on
from search import sample
from session.played import run_turns, the_ledger
from session.prefix_cache import (
    MODEL,
    OTHER,
    SETTINGS,
    STEP,
    Remembering,
    expectations,
    lived,
    opened,
    results,
    working,
)

from nexus_cli.commands.cache import cache_report, miss_report
from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.cache_diagnosis import tolerated_miss
from nexus_cli.conversation.fingerprints import Fingerprint, render_fingerprint
from nexus_cli.conversation.groups import flatten, group_tool_calls
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.entry import ItemForm, WindowItem
from nexus_cli.core.event import CacheResult, Event
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import UsageDelta
from nexus_cli.provider.prompt_cache import OPENAI
from nexus_cli.session.session import Session

FIRST = "read the code " + "and think of every part " * 300


def listing(request: Any, step: int) -> Any:
    """Three steps of work, then an answer, turn by turn."""
    return "done" if step % 4 == 0 else [("bash", {"command": f"seq {step}000 {step}300"})]


def told(session: str, step: int | None = None, settings: Settings = SETTINGS) -> Mapping[str, Any]:
    with the_ledger() as ledger:
        return miss_report(ledger, session, settings, step)


def every(session: str) -> Mapping[str, Any]:
    with the_ledger() as ledger:
        return cache_report(ledger, session, SETTINGS)


@pytest.mark.matrix
def test_an_unchanged_session_is_blamed_for_nothing(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    events = run_turns(session, FIRST, "go on", "and on")
    provider.clock.forward(minutes=4)
    events += run_turns(opened(provider, tmp_path, session.id), "more, in another process")
    told_of = results(events)
    assert len(told_of) == 16 and not any(one.missed or one.why for one in told_of)
    assert [one.expected for one in told_of] == expectations(events)
    assert told_of[0].expected == 0 and all(one.expected == one.read > 1024 for one in told_of[1:])
    total = every(session.id)["total"]
    assert (total["misses"], total["ours"], total["not_ours"]) == (0, 0, 0) and total["hit"] > 0.8
    assert told(session.id)["cause"] == "hit" and told(session.id)["difference"] is None


def by_section(session: Session, provider: Remembering, folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder / "NEXUS.md").write_text("Answer in rhyme, please.\n" * 20)
    session.reload()


def by_tool(session: Session, provider: Remembering, folder: Path, patch: pytest.MonkeyPatch) -> None:
    prompt = session.engine.prompt
    draft_epoch = prompt.draft_epoch

    async def another(context: ContextManager) -> Any:
        now = (await draft_epoch(context)).epoch
        tools = json.loads(json.dumps(now.tools))
        next(tool for tool in tools if tool["function"]["name"] == "grep")["function"]["description"] += " Quick."
        return Rewrite(replace(now, tools=tuple(tools)))

    patch.setattr(prompt, "draft_epoch", another)
    session.reload()


def by_entry(session: Session, provider: Remembering, folder: Path, patch: pytest.MonkeyPatch) -> None:
    lane = session.engine.conversation
    items = flatten(lane.groups())
    place = next(n for n, item in enumerate(items) if item.message.role is Role.TOOL)
    message = Message(Role.TOOL, "[gone]", tool_call_id=items[place].message.tool_call_id)
    items[place] = replace(items[place], form=ItemForm.STUB, message=message, tokens=8)
    lane.rewrite(items, "pruned", ())


def by_time(session: Session, provider: Remembering, folder: Path, patch: pytest.MonkeyPatch) -> None:
    provider.clock.forward(hours=2)


def by_nobody(session: Session, provider: Remembering, folder: Path, patch: pytest.MonkeyPatch) -> None:
    lost = len(provider.seen) + 1
    provider.forgets = lambda number: number == lost


CHANGES = [
    (by_section, "section", True, "instructions", "NEXUS.md"),
    (by_tool, "tool", True, "grep", "a reload"),
    (by_entry, "message", True, "entry 3", "stale results"),
    (by_time, "expired", False, "unused for 2 h", "1 h"),
    (by_nobody, "provider", False, "although it had not changed", ""),
]


@pytest.mark.parametrize(("change", "kind", "ours", "named", "also"), CHANGES, ids=[row[1] for row in CHANGES])
def test_one_change_at_a_time_is_named_as_the_cause(
    change: Callable[..., None],
    kind: str,
    ours: bool,
    named: str,
    also: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "NEXUS.md").write_text("Answer in prose.\n" * 20)
    provider = working(listing)
    session = opened(provider, tmp_path)

    async def live() -> tuple[list[Event], list[Event]]:
        try:
            before = await lived(session, FIRST)
            change(session, provider, tmp_path, monkeypatch)
            return before, await lived(session, "go on")
        finally:
            await session.aclose()

    before, after = (results(events) for events in asyncio.run(live()))
    assert not any(one.missed for one in [*before, *after[1:]]), "only the first request after it"
    missed = after[0]
    assert missed.missed > 1000 and named in missed.why and also in missed.why
    assert missed.cost_usd == pytest.approx(missed.missed * 1.5 / 1e6)
    value = told(session.id)
    assert (value["step"], value["cause"], value["ours"], value["why"]) == (5, kind, ours, missed.why)
    assert (value["missed"], value["expected"], value["read"]) == (missed.missed, missed.expected, missed.read)
    total = every(session.id)["total"]
    assert (total["misses"], total["ours"], total["not_ours"]) == (1, int(ours), int(not ours))
    found = value["difference"]
    assert (found is None) == (not ours) and (found is None or (found["kind"] == kind and found["by"]))


@pytest.mark.matrix
def test_another_model_is_named_as_the_cause_also_by_another_process(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    run_turns(session, FIRST)
    events = run_turns(opened(provider, tmp_path, session.id, OTHER), "go on")
    first, *rest = results(events)
    assert first.expected == first.read == 0 and f"from {MODEL} to {OTHER}" in first.why
    assert not any(one.missed for one in rest)
    value = told(session.id)
    assert (value["cause"], value["ours"], value["step"], value["expected"]) == ("model", True, 5, 0)
    (memo,) = every(session.id)["rewrites"]
    assert memo["cause"] == "model" and memo["cold"] > 3000 and memo["cost"] > 0 and not memo["pays"]


@pytest.mark.matrix
async def test_what_a_new_epoch_has_in_common_with_the_old_one_is_still_expected(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("".join(f"Rule {number}: be careful.\n" for number in range(400)))
    provider = working(listing)
    session = opened(provider, tmp_path)

    try:
        await lived(session, FIRST)
        engine = session.engine
        items = flatten(engine.conversation.groups())
        text = Message(Role.USER, "what was done so far " * 200)
        engine.conversation.rewrite(
            [replace(items[0], form=ItemForm.SUMMARY, message=text, tokens=900)], "compaction", ()
        )
        first = results(await lived(session, "go on"))[0]
    finally:
        await session.aclose()
    assert 2000 < first.expected < 5000, "system text and tools are as they were"
    assert abs(first.expected - first.read) <= STEP + tolerated_miss(OPENAI, first.read)
    assert "compaction" in first.why and "entry 1" in first.why
    assert told(session.id)["ours"] is True


@pytest.mark.matrix
async def test_a_head_that_keeps_its_beginning_expects_it_and_marks_its_end(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    ends: list[int] = []
    script = provider.script

    def noting(request: Any) -> Any:
        ends.append(request.previous_end)
        return script(request)

    provider.script = noting

    try:
        await lived(session, FIRST, "go on")
        lane = session.engine.conversation
        items = flatten(lane.groups())
        place = max(n for n, item in enumerate(items) if item.message.role is Role.TOOL)
        short = replace(items[place].message, content="[gone]")
        items[place] = replace(items[place], form=ItemForm.STUB, message=short, tokens=8)
        lane.rewrite(items, "pruned", ())
        events = await lived(session, "and on")
    finally:
        await session.aclose()
    first = results(events)[0]
    assert first.read > 3000 and abs(first.expected - first.read) <= STEP + tolerated_miss(OPENAI, first.read)
    assert ends[8] == 1 + place, "the system message and what stands before the stub"
    assert not first.missed, "what came behind it is little"


@pytest.mark.matrix
async def test_a_session_below_what_a_provider_keeps_expects_nothing_and_misses_nothing(tmp_path: Path) -> None:
    provider = working(lambda request, step: "ok")
    session = opened(provider, tmp_path)

    async def small(context: ContextManager, words: str = "") -> Rewrite:
        return Rewrite(EpochHeader(MODEL, "be brief", ()))

    try:
        session.engine.prompt.draft_epoch = small  # type: ignore[method-assign]
        await lived(session, "hi")
        session.reload()
        events = await lived(session, "again", "and again")
    finally:
        await session.aclose()
    assert expectations(events)[1] == 0 and not results(events)[1].missed
    value = told(session.id, 3)
    assert (value["cause"], value["ours"], value["missed"]) == ("minimum", None, 0) and "1,024" in value["why"]


@pytest.mark.matrix
async def test_a_fork_expects_what_its_parent_sent(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)

    try:
        await lived(session, FIRST)
        side = session.engine.fork("reflect", "what was learned?")
    finally:
        await session.aclose()
    sent = side.conversation.sent.last
    assert sent is session.engine.conversation.sent.last and sent is not None and sent.tokens > 1024


@pytest.mark.matrix
@pytest.mark.parametrize("jump", sample([{"days": -400}, {"days": -1}, {"days": 365 * 30}], 3))
async def test_a_clock_that_jumps_blames_nobody_wrongly(jump: dict[str, float], tmp_path: Path) -> None:
    provider = working(listing)
    provider.forgets = lambda number: number == 5
    session = opened(provider, tmp_path)

    try:
        await lived(session, FIRST)
        provider.clock.forward(**jump)
        first = results(await lived(session, "go on"))[0]
    finally:
        await session.aclose()
    assert first.missed and "unknown when the cache was last used" in first.why
    value = told(session.id, 5)
    assert (value["cause"], value["ours"], value["age_seconds"]) == ("unknown", None, None)
    assert all(row["cause"] == "unknown" or row["missed"] == 0 for row in every(session.id)["requests"])


@pytest.mark.matrix
def test_what_the_ledger_has_of_a_request_is_what_its_lines_are(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    run_turns(session, FIRST, "go on")
    with the_ledger() as ledger:
        lane = ledger.session(session.id).main_lane
        epoch = on(ledger, lane).current_epoch()
        assert epoch is not None
        last = on(ledger, lane).requests()[-1].manifest.last
        items = [*epoch.head, *map(WindowItem.of, on(ledger, lane).read(epoch.base + 1, last))]
        made = render_fingerprint(epoch, items)
        head, entries = on(ledger, lane).line_hashes(epoch.id, last)
        assert [sha for _, sha in made.messages] == [line.hex() for line in head] + [line.hex() for _, line in entries]
        assert made.first_difference(Fingerprint.of(epoch, made.messages[:-2])) is None
        assert len(made.messages) == len(flatten(group_tool_calls(items)))


@pytest.mark.matrix
def test_a_provider_that_never_told_of_a_cache_is_blamed_for_nothing(tmp_path: Path) -> None:
    provider = working(listing)
    provider.forgets = lambda number: True
    session = opened(provider, tmp_path)
    events = run_turns(session, FIRST, "go on")
    assert not any(one.missed or one.why for one in results(events))
    assert every(session.id)["total"]["misses"] == 0 and told(session.id)["cause"] == "none"


def test_a_request_without_figures_is_no_miss_and_no_measure(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)
    silent = {3, 4}

    async def stream(request: Any) -> Any:
        number = len(provider.seen) + 1
        async for delta in Remembering.stream(provider, request):
            if number not in silent or not isinstance(delta, UsageDelta):
                yield delta

    provider.stream = stream  # type: ignore[method-assign]
    events = run_turns(session, FIRST, "go on")
    assert not any(one.missed or one.why for one in results(events))
    rows = every(session.id)["requests"]
    assert [row["cause"] for row in rows[1:6]] == ["hit", "unreported", "unreported", "hit", "hit"]
    assert rows[2]["read"] is None and every(session.id)["total"]["misses"] == 0


def test_requests_that_are_not_there_are_named() -> None:
    with the_ledger() as ledger, pytest.raises(Exception, match="no such session"):
        miss_report(ledger, "nowhere", SETTINGS)


@pytest.mark.matrix
async def test_figures_are_kept_for_every_rewrite(tmp_path: Path) -> None:
    provider = working(listing)
    session = opened(provider, tmp_path)

    try:
        await lived(session, FIRST)
        session.reload()
        await lived(session, "go on")
    finally:
        await session.aclose()
    (memo,) = every(session.id)["rewrites"]
    assert memo["cause"] == "reload" and {"epoch", "cold", "saved", "steps", "cost", "gain", "pays", "why"} <= set(memo)
    assert memo["saved"] == 0 and memo["pays"] is False and memo["cold"] < 600, "the same text is still in the cache"


def test_result_events_carry_what_json_promises() -> None:
    assert [*CacheResult.__slots__] == ["expected", "read", "written", "missed", "cost_usd", "why", "ours"]
