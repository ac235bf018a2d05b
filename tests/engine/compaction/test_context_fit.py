"""Room for the next request: what a run keeps through compactions, and what is refused rather than sent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL, Answer, Played, the_ledger

from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import CompactionDone, ContextDrop, ContextPlan, Event, Notice, Outcome, StepStart, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import Part
from nexus_cli.core.request import Request
from nexus_cli.reports.check_replay import check
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

MORNING = datetime(2026, 1, 13, 9, 30, tzinfo=timezone(timedelta(hours=1)))
SUMMARY = "Goal: as said. Next: go on. SUMMARY: the work goes on. " + "detail " * 20


def summing_up(request: Request) -> bool:
    """Whether a summary is asked for."""
    said = request.messages[-1]["content"]
    return isinstance(said, str) and ("about to be replaced" in said or "SUMMARY:" in said)


def working(answer: Callable[[Request, int], Answer], summary: Answer = SUMMARY) -> Played:
    """A model that sums up when it is asked to, and answers else as it is told; steps count from 1."""
    step = 0

    def script(request: Request) -> Answer:
        nonlocal step
        if summing_up(request):
            return summary
        step += 1
        return answer(request, step)

    return Played(script)


def lived(
    provider: Played,
    folder: Path,
    *said: str | Trigger,
    window: int = 16_000,
    again: str = "",
    compact: CompactSettings | None = None,
    **options: Any,
) -> tuple[str, list[Event], list[Outcome]]:
    """A session of these turns: its id, all its events, how its turns ended."""
    limits, now = options.pop("limits", Limits(max_steps=80)), MORNING + timedelta(days=options.pop("days", 0))
    asked = Options(options.pop("cwd", folder), MODEL, allow="all", limits=limits, resume=again, **options)
    settings = Settings(models={MODEL: {"window": window}}, compact=compact or CompactSettings())
    session = open_session(asked, settings, approver=None, provider=provider, clock=lambda: now)

    async def live() -> list[Event]:
        try:
            return [event for words in said async for event in session.run(words)]
        finally:
            await session.aclose()

    events = asyncio.run(live())
    return session.id, events, [event.outcome for event in events if isinstance(event, TurnEnd)]


def compactions(events: Sequence[Event]) -> list[CompactionDone]:
    return [event for event in events if isinstance(event, CompactionDone)]


def assert_replays(session: str) -> None:
    with the_ledger() as ledger:
        assert check(ledger, session)["ok"]


def listing(request: Request, step: int) -> Answer:
    return [("bash", {"command": f"seq {step}000 {step}600"})]


def many(command: str, number: int) -> Answer:
    return [("bash", {"command": command.format(place)}) for place in range(number)]


@pytest.mark.matrix
@pytest.mark.parametrize("share", sample([0.4, 0.59], 2))
def test_a_large_request_does_not_keep_a_run_from_being_summed_up(share: float, tmp_path: Path) -> None:
    room = 20_000 / 1.1 - 1100
    provider = working(listing, "Goal: as said. Next: go on. SUMMARY: " + "detail " * 300)
    _, events, ends = lived(
        provider, tmp_path, "build " + "word " * int(room * share), window=32_000, limits=Limits(max_steps=14)
    )
    assert ends[0].finish == "limit"
    done = compactions(events)
    assert done and all(one.ok for one in done), "a summary of ordinary length is accepted"
    wanted = re.compile("about to be replaced|^SUMMARY:$", re.MULTILINE)
    asked = sum(1 for sent in provider.seen if wanted.search(str(sent[-1]["content"])))
    assert asked == len(done) <= 5, "and each is paid once"


@pytest.mark.matrix
def test_no_summary_is_paid_for_that_could_free_nothing(tmp_path: Path) -> None:
    provider = working(lambda request, step: many("seq {} 2000", 9) if step == 1 else "done")
    _, events, ends = lived(provider, tmp_path, "list")
    assert ends[0].ok
    assert [one.ok for one in compactions(events)] == [False]
    assert not any("SUMMARY:" in str(sent[-1]["content"]) for sent in provider.seen)
    assert len(provider.seen) == 2


def test_what_the_person_said_first_outlives_every_compaction(tmp_path: Path) -> None:
    def answer(request: Request, step: int) -> Answer:
        done = request.messages[-1]["role"] == "tool" and step % 5 == 0
        return "done" if done else [("bash", {"command": f"seq {step}000 {step}200"})]

    provider = working(answer)
    turns = [f"turn {number} go on" for number in range(8)]
    session, events, _ = lived(provider, tmp_path, "RULE-ONE: never touch legacy.py", *turns)
    assert sum(one.ok for one in compactions(events)) >= 3
    assert all("> RULE-ONE: never touch legacy.py" in json.dumps(sent) for sent in provider.seen[-5:])
    assert_replays(session)


def images(number: int) -> Trigger:
    return Trigger("look", parts=tuple(Part("image/png", b"x" * 100, f"{n}.png") for n in range(number)))


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_request_that_the_provider_refuses_as_too_long_is_sent_once_more_and_shorter(
    refusals: int, tmp_path: Path
) -> None:
    sent: list[int] = []

    def answer(request: Request, step: int) -> Answer:
        if "and now" not in str(request.messages):
            return [("bash", {"command": f"seq {step}000 {step}400"})] if step < 6 else "done"
        sent.append(len(json.dumps(list(request.messages))))
        if len(sent) <= refusals:
            raise ProviderError("overflow", "the request is too long")
        return "done"

    session, events, ends = lived(working(answer), tmp_path, "go", "and now")
    assert len(sent) == 2 and sent[1] < sent[0]
    assert [end.ok for end in ends] == [True, refusals == 1] and ends[1].finish == ("overflow", "stop")[refusals == 1]
    assert [event for event in events if isinstance(event, Notice) and "refused the request as too long" in event.text]
    planned = [event.plan["step"] for event in events if isinstance(event, ContextPlan)]
    assert planned == [event.step for event in events if isinstance(event, StepStart)]
    assert_replays(session)


@pytest.mark.parametrize("extract", [False, True])
def test_facts_are_taken_out_before_a_compaction_only_where_the_settings_say_so(extract: bool, tmp_path: Path) -> None:
    asked: list[str] = []

    def script(request: Request) -> Answer:
        last = str(request.messages[-1]["content"])
        asked.append("summary" if summing_up(request) else "facts" if "[nexus: older parts" in last else "step")
        return {"summary": SUMMARY, "facts": "none"}.get(asked[-1]) or listing(request, len(asked))

    settings = CompactSettings(extract=extract)
    _, events, _ = lived(Played(script), tmp_path, "list", window=48_000, compact=settings, limits=Limits(max_steps=20))
    assert any(one.ok for one in compactions(events))
    assert asked[: asked.index("summary")].count("facts") == int(extract)


def test_images_that_do_not_fit_are_refused_by_name_and_never_sent(tmp_path: Path) -> None:
    provider = working(lambda request, step: "ok")
    _, _, ends = lived(provider, tmp_path, "hello", images(30), "go on without")
    assert [end.exit for end in ends] == [0, 3, 0]
    error = ends[1].error
    assert error is not None and "30 images" in error["message"] and "0.png" in error["message"]
    assert "image_url" not in json.dumps(provider.seen)


def test_every_request_leaves_room_for_an_answer(tmp_path: Path) -> None:
    caps: list[int] = []

    def answer(request: Request, step: int) -> Answer:
        caps.append(request.max_output)
        return "ok"

    _, _, ends = lived(working(answer), tmp_path, images(5), "word " * 9000, window=16_860)
    assert all(end.ok for end in ends)
    assert min(caps) >= 1024


@pytest.mark.matrix
def test_a_call_too_large_to_be_cut_is_refused_with_the_largest_parts_named(tmp_path: Path) -> None:
    def answer(request: Request, step: int) -> Answer:
        return [(f"nothing{place}", {}) for place in range(150)] if step == 1 else "ok"

    provider = working(answer)
    _, _, ends = lived(provider, tmp_path, "go", "go on", window=6000)
    assert [end.exit for end in ends] == [3, 0]
    error = ends[0].error
    assert error is not None and "the newest step" in error["message"]


@pytest.mark.matrix
def test_recalled_pieces_cut_short_cite_the_drop_they_come_from(tmp_path: Path) -> None:
    def answer(request: Request, step: int) -> Answer:
        if step == 1:
            return [("bash", {"command": "seq 1 9000"})]
        if step == 2:
            return [("recall", {"id": "d1", "range": f"{n}000:{n + 5}000"}) for n in range(0, 30, 5)]
        return "done"

    provider = working(answer, "")
    session, events, ends = lived(provider, tmp_path, "one")
    assert ends[0].ok
    dropped = [event.drop for event in events if isinstance(event, ContextDrop)]
    assert not [drop for drop in dropped if drop.what.startswith("part of")]
    pieces = [message["content"] for message in provider.seen[-1] if message["role"] == "tool"]
    assert any('left out: recall("d1")' in piece for piece in pieces)
    assert_replays(session)


@pytest.mark.matrix
def test_recall_gives_back_every_message_that_went_behind_an_old_request(tmp_path: Path) -> None:
    good = True

    def script(request: Request) -> Answer:
        nonlocal good
        if summing_up(request):
            return SUMMARY if good else ""
        if request.messages[-1]["role"] == "user" or (good and len(provider.seen) < 20):
            return [("bash", {"command": f"seq {len(provider.seen)}00 {len(provider.seen) + 9}00"})]
        return "done"

    provider = Played(script)
    folder = tmp_path
    session, events, _ = lived(provider, folder, "LONG RUN " + "word " * 200, window=24_000)
    assert any(one.ok for one in compactions(events))
    good = False
    session, events, _ = lived(provider, folder, *(f"next {n}" for n in range(9)), window=24_000, again=session)
    drops = [event.drop for event in events if isinstance(event, ContextDrop) and event.drop.cause is Cause.TRUNCATION]
    assert any(drop.entries for drop in drops)
    with the_ledger() as ledger:
        for drop in drops:
            if drop.entries:
                assert drop.entries[0] <= drop.entries[1]
                assert f"[{drop.entries[0]}] " in (ledger.log(session).original(drop.id) or "")
    assert_replays(session)


@pytest.mark.matrix
def test_a_notice_that_a_preamble_had_no_room_for_waits_for_the_next_one(tmp_path: Path) -> None:
    provider = working(lambda request, step: [("bash", {"command": "true"})] if step == 2 else "ok")
    session, _, _ = lived(provider, tmp_path, "hi", window=3500)
    moved = tmp_path / ("a-folder-with-a-long-name-" * 4)
    moved.mkdir(parents=True)
    lived(provider, tmp_path, "where are we?", window=3500, again=session, cwd=moved, days=1)
    told = [index for index, sent in enumerate(provider.seen) if "working folder is now" in json.dumps(sent)]
    assert "working folder is now" not in json.dumps(provider.seen[1]), "there is no room beside the date"
    assert told == [2]
    assert_replays(session)


@pytest.mark.matrix
def test_the_date_is_told_again_after_a_compaction_in_the_middle_of_a_run(tmp_path: Path) -> None:
    def answer(request: Request, step: int) -> Answer:
        return listing(request, step) if 2 < step < 14 else "done"

    provider = working(answer)
    session, events, _ = lived(provider, tmp_path, "one", "two", "three, a long run")
    done = compactions(events)
    assert done and all(one.ok for one in done)
    last = json.dumps(provider.seen[-1])
    assert last.count("Date: 2026-01-13") == 1
    assert_replays(session)
    lived(provider, tmp_path, "four", again=session)
    assert json.dumps(provider.seen[-1]).count("Date: 2026-01-13") == 1, "and a resumed session knows it"
    assert_replays(session)
