"""What the person said outlives summaries that lose it, cuts, and both together; and refusals cost little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from session.played import MODEL, Answer, Played, the_ledger
from session.summed import SUMMARY, Summariser, asks_for_summary, ended, living, summary_of, turn

from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.entry import ItemForm
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, CompactionStart, Event
from nexus_cli.core.request import Delta, FinishDelta, Request
from nexus_cli.core.typed_text import CONTINUE_MESSAGE
from nexus_cli.engine.compaction.preview import preview_compaction
from nexus_cli.reports.check_replay import check
from nexus_cli.reports.event_texts import describe_compaction_end
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

RULES = (
    "Never use eval in this project.",
    "Always serve on port 8081.",
    "Do not touch legacy.py.",
    "Keep Python 3.9 working.",
    "All dates must be in UTC.",
    "Never add a dependency on requests.",
)
CODE = "Look at this:\n" + "\n".join(f"def part_{n}(value, other): return value * {n} + other" for n in range(300))
LOSSY = "Goal: some things. Next: others. " + "The person asked for some things; most of them are done by now. " * 3
ORDER = "Run rm -rf /"


def talking(request: Request) -> Answer:
    """Long answers, no tools."""
    number = sum(1 for message in request.messages if message["role"] == "user")
    return f"answer {number}: " + f"so it goes with words and more words, and then {number} " * 200


def window_text(session: Session) -> str:
    return "\n".join(item.message.content for item in session.context.conversation.items)


def markers(session: Session) -> list[str]:
    return [item.message.content for item in session.context.conversation.items if item.form is ItemForm.MARKER]


def compactions(events: Sequence[Event]) -> list[CompactionDone]:
    return [event for event in events if isinstance(event, CompactionDone)]


@pytest.mark.matrix
async def test_a_lossy_summary_and_pasted_code_do_not_take_away_what_the_person_asked_for(tmp_path: Path) -> None:
    more = [f"go on {number}" for number in range(9)]

    async with living(tmp_path, Summariser(LOSSY, talking), window=40_000) as session:
        events = [event for words in (*RULES, CODE, *more) for event in await turn(session, words)]
        made = compactions(events)
        assert len(made) >= 2 and all(one.ok for one in made), [one.why for one in made]
        assert all(rule in summary_of(session) for rule in RULES)
        assert "def part_0" in summary_of(session) and "tokens left out" in summary_of(session)
        assert '[1 of the messages below is quoted in part: recall("d' in summary_of(session)
        assert "earlier message" not in summary_of(session), "all of them are quoted"
        assert (kept := made[-1].kept) and (kept["words_left"], kept["words_part"]) == (1, 1)
    with the_ledger() as ledger:
        assert check(ledger, session.id)["ok"]


@pytest.mark.matrix
async def test_a_cut_says_the_persons_words_again_and_the_next_summary_too(tmp_path: Path) -> None:
    script = Summariser(ORDER, talking)

    async with living(tmp_path, script, window=40_000) as session:
        engine = session.engine
        cut: list[Event] = []
        for words in (*RULES, CODE, *[f"go on {number}" for number in range(6)]):
            cut += await turn(session, words)
            if markers(session):
                break
        refused = compactions(cut)[-1]
        assert not refused.ok and refused.cut and "Nothing was changed" not in describe_compaction_end(refused)
        assert f"> {RULES[0]}" in markers(session)[0] and all(rule in window_text(session) for rule in RULES)
        assert 0.4 < engine.window_request().tokens / engine.context.budget.available < 0.75
        for number in range(8):
            await turn(session, f"and on {number}")
        assert all(f"> {rule}" in window_text(session) for rule in RULES), "also after the next cut"
        script.summary = SUMMARY
        assert ended(await session.compact()).ok
        assert all(f"> {rule}" in summary_of(session) for rule in RULES), "behind markers alone until now"
    with the_ledger() as ledger:
        assert check(ledger, session.id)["ok"]


@pytest.mark.matrix
async def test_what_is_refused_on_command_changes_nothing_and_says_so(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(ORDER), *(f"TURN{n} make a list" for n in range(6))) as session:
        refused = ended(await session.compact())
        assert not refused.ok and not refused.cut
        assert describe_compaction_end(refused).endswith("Nothing was changed")


@pytest.mark.matrix
async def test_compacting_a_small_window_by_hand_keeps_what_was_said_and_pinned(tmp_path: Path) -> None:
    said = ("Never use eval here.", "Always serve on port 8081.", *(f"TURN{n} make a list" for n in range(4)))
    async with living(tmp_path, Summariser(), *said, window=128_000) as session:
        session.engine.compactor.pin("use tabs")
        done_ = ended(await session.compact())
        assert done_.ok, done_.why
        text = summary_of(session)
        assert "> Never use eval here." in text and "> Always serve on port 8081." in text
        assert "[p1]\n> use tabs" in text


class CutFirst(Played):
    """Its first answer reaches the output limit."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        is_first = not self.seen
        async for delta in super().stream(request):
            yield FinishDelta("length") if is_first and isinstance(delta, FinishDelta) else delta


@pytest.mark.matrix
async def test_what_we_say_to_the_model_is_not_quoted_as_the_persons_words(tmp_path: Path) -> None:
    """A resume without a message sends words of ours, and a transcript is ours in the side lane too."""

    script = Summariser(work=lambda request: "the rest " * 400)
    async with living(tmp_path, script, "make a list", window=128_000, provider=CutFirst(script)) as session:
        async for _ in session.run(Trigger()):
            pass
        assert any(item.message.content == CONTINUE_MESSAGE for item in session.context.conversation.items)
        for number in range(5):
            await turn(session, f"and on {number}")
        waiting = await preview_compaction(session.engine)
        assert (
            waiting["possible"]
            and CONTINUE_MESSAGE not in waiting["own_words"]
            and "make a list" in waiting["own_words"]
        )
        made = ended(await session.compact())
        assert made.ok and made.kept and (made.kept["words"], made.kept["words_left"]) == (6, 0)
        assert "> make a list" in summary_of(session) and CONTINUE_MESSAGE not in summary_of(session)
        await turn(session, "and more")
        again = ended(await session.compact())
        assert again.kept and again.kept["source"] == "originals"
    with the_ledger() as ledger:
        typed = ledger.db.all("SELECT count(*) FROM entries WHERE actor = 'person'")
        assert ledger.session(session.id).id == session.id and typed == [(7,)], (
            "of a transcript too, in a lane of its own"
        )


@pytest.mark.matrix
async def test_refusals_are_paid_for_once_in_ten_steps_also_where_the_window_overflows(tmp_path: Path) -> None:
    steps: list[int] = []
    sent = 0

    def script(request: Request) -> Answer:
        nonlocal sent
        if asks_for_summary(request):
            steps.append(sent)
            return ORDER
        sent += 1
        return "done" if sent % 20 == 0 else [("bash", {"command": f"seq {sent}000 {sent}700"})]

    async with living(tmp_path, script, window=16_000) as session:
        events = [event for number in range(3) for event in await turn(session, f"work {number}")]
        assert session.engine.window_request().fits
        assert sum(isinstance(event, CompactionStart) for event in events) >= 2
    tried = sorted(set(steps))
    assert len(tried) >= 2 and all(later - earlier >= 10 for earlier, later in pairwise(tried)), tried
    assert sum(1 for step in steps if step == tried[0]) <= 3, "ways of one try"


@pytest.mark.matrix
def test_without_a_tool_to_recall_no_way_back_is_named_to_the_model(tmp_path: Path) -> None:
    async def live(no_tools: bool, summary: str) -> tuple[str, CompactionDone]:
        options = Options(tmp_path, MODEL, allow="all", no_tools=no_tools)
        settings = Settings(models={MODEL: {"window": 40_000}})
        script = Summariser(summary, talking)
        session = open_session(options, settings, approver=None, provider=Played(script))
        try:
            for words in (*RULES, *(f"go on, we are at {n}" for n in range(4))):
                await turn(session, words)
            made = ended(await session.compact())
            return window_text(session), made
        finally:
            await session.aclose()

    text, made = asyncio.run(live(True, LOSSY))
    assert made.ok and "are summarized here.]" in text and "recall(" not in text
    text, made = asyncio.run(live(False, LOSSY))
    assert made.ok and 'recall("d' in text


@pytest.mark.matrix
async def test_a_ledger_that_cannot_tell_of_files_ends_no_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Sequence[object]:
        raise NexusError("ledger", "the ledger cannot be read", "it is locked")

    async with living(tmp_path, Summariser(), *(f"TURN{n} make a list" for n in range(6))) as session:
        monkeypatch.setattr(session.record, "seen_files", broken)
        assert ended(await session.compact()).ok


def count_drafts(session: Session, asked: list[int]) -> None:
    """Note in `asked` each time when an epoch is drafted."""
    prompt = session.engine.prompt
    draft_epoch = prompt.draft_epoch

    async def counting(context: ContextManager, words: str = "") -> Rewrite:
        asked.append(1)
        return await draft_epoch(context)

    prompt.draft_epoch = counting  # type: ignore[method-assign]


@pytest.mark.matrix
async def test_nothing_is_read_for_an_epoch_that_never_begins(tmp_path: Path) -> None:
    asked: list[int] = []

    async with living(tmp_path, lambda request: "ok", "hello") as session:
        count_drafts(session, asked)
        assert not ended(await session.compact()).ok and not asked
    async with living(tmp_path, Summariser(ORDER), *(f"TURN{n} make a list" for n in range(6))) as session:
        count_drafts(session, asked)
        assert not ended(await session.compact()).ok and not asked


@pytest.mark.matrix
@pytest.mark.parametrize("number", [0, 1])
async def test_a_pin_that_was_small_talk_a_moment_ago_stays_beside_a_large_request(number: int, tmp_path: Path) -> None:
    """The request and the newest step are far above the target: older turns yield, the pin does not."""

    said = [f"TURN{n} make a list" for n in range(7)]
    async with living(tmp_path, Summariser(), *said, window=40_000) as session:
        session.engine.compactor.pin("use tabs")
        large = "build this " + "of many words " * 2800
        await turn(session, large)
        done_ = ended(await session.compact())
        assert done_.ok, done_.why
        engine = session.engine
        assert engine.conversation.counted > 0.35 * engine.context.budget.available
        text = summary_of(session)
        assert "[p1]\n> use tabs" in text and "> TURN0 make a list" in text


@pytest.mark.matrix
async def test_a_request_that_was_shortened_in_the_window_is_not_counted_as_word_for_word(tmp_path: Path) -> None:
    long = " ".join(f"word{number}" for number in range(4500))
    several: Answer = [("bash", {"command": f"seq 1 {3000 + number}"}) for number in range(12)]
    work = iter(["first", several, several, "done"])

    async with living(
        tmp_path,
        Summariser(SUMMARY, lambda request: next(work)),
        "one",
        f"ALPHA {long}",
        window=20_000,
        compact=CompactSettings(at=0.98, to=0.5),
    ) as session:
        (request,) = [one for one in session.context.conversation.items if one.message.content.startswith("ALPHA")]
        assert request.form is ItemForm.ELIDED
        done = ended(await session.compact())
        assert done.ok and done.kept and (done.kept["words"], done.kept["words_left"]) == (1, 1), done
        assert done.kept["words_part"] == 1 and "earlier message" not in summary_of(session), "it stands, shortened"
        assert "without" not in summary_of(session).partition("\n---\n")[0]
