"""Law 5: whatever is left out can be read again, whole, by the person and by the model."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws.check import assert_laws
from laws.model import FORK, TRANSCRIPT
from laws.world import World, outcome, say, the_ledger, world
from ledger.conftest import on
from search import sample
from server.blocks import content

from nexus_cli.core.elide import drop_marker, elide_text
from nexus_cli.core.entry import Cause, format_transcript
from nexus_cli.core.event import ContextRecall

MARKER = re.compile(
    r"\[\.\.\. ([\d,]+) tokens \((?:lines? [\d-]+, )?"
    r'characters (\d+):(\d+) of (\d+)\) left out: recall\("(d\d+)", "\2:\3"\) \.\.\.\]'
)
PIECE = re.compile(
    r'\[(d\d+), characters (\d+):(\d+) of (\d+)(?:; next: recall\("\1", "(\d+):(\d+)"\))?\]\n(.*)\Z', re.DOTALL
)
LONG = ["seq 1 4000", "printf '%0.sä漢🙂 ' $(seq 1 3000)", "yes | head -c 40000 | tr -d '\\n'"]
COMPACT = "/compact"
WINDOW = 9000


@dataclass
class Reader:
    """A model that makes a long output and reads back all that was left out of anything, piece by piece."""

    command: str = "seq 1 4000"
    pieces: dict[str, list[str]] = field(default_factory=dict)
    """Drop to the pieces that it was given."""
    told: list[str] = field(default_factory=list)
    """Texts of results and words as they were sent."""

    def __call__(self, body: Any) -> dict[str, Any]:
        """The next piece while there is one, then one word."""
        last = content(body, "chat")[-1]
        text = body["messages"][-1]["content"]
        if FORK in text or TRANSCRIPT in text:
            return {"text": "Goal: as said. Next: go on. SUMMARY: pieces were read " * 9}
        self.told.append(text)
        if last.role == "user":
            return self._from(text) or {"calls": [{"name": "bash", "arguments": {"command": self.command}}]}
        piece = PIECE.fullmatch(text)
        if piece is None:
            return self._from(text) or {"text": "nothing is missing"}
        name, start, end, total, following, until, shown = piece.groups()
        shown, told = shown[: int(end) - int(start)], shown[int(end) - int(start) :]
        assert int(end) - int(start) == len(shown) and int(end) <= int(total)
        assert told == "" or told.startswith("\n\n"), "what we add stands behind the piece"
        self.pieces.setdefault(name, []).append(shown)
        if following is None:
            return {"text": f"read {name} whole"}
        return {"calls": [{"name": "recall", "arguments": {"id": name, "range": f"{following}:{until}"}}]}

    def _from(self, text: str) -> dict[str, Any] | None:
        marker = MARKER.search(text)
        if marker is None:
            return None
        return {"calls": [{"name": "recall", "arguments": {"id": marker[5], "range": ":"}}]}


def lived(place: Path, model: Any, words: list[str], **more: Any) -> tuple[World, str]:
    """Run these turns in one session."""
    with world(place, model, **({"window": WINDOW, "steps": 60} | more)) as around:

        async def live() -> str:
            session = around.open()
            try:
                for said in words:
                    if said == COMPACT:
                        await session.compact()
                        continue
                    events = await say(session, said)
                    assert outcome(events).ok, outcome(events).error
                    recalled = [event for event in events if isinstance(event, ContextRecall)]
                    cap = session.engine.context.budget.output_cap
                    assert all(event.tokens <= cap + 8 for event in recalled)
            finally:
                await session.aclose()
            return session.id

        return around, asyncio.run(live())


@pytest.mark.parametrize("command", sample(LONG, 3, 1))
def test_a_long_output_is_read_back_in_pieces_that_join_to_the_original(command: str, place: Path) -> None:
    model = Reader(command)
    around, session = lived(place, model, ["READ it"])
    with the_ledger(place) as ledger:
        assert_laws(ledger, session, around.server.requests)
        drop = next(drop for drop in ledger.log(session).drops() if drop.cause is Cause.OUTPUT_CAP)
        whole = ledger.log(session).original(drop.id)
        assert whole is not None and "".join(model.pieces[drop.id]) == whole
        assert drop.recalls == len(model.pieces[drop.id]), "a recalled piece is a drop of its own, or is not counted"
        assert_holes_are_true(model.told, {drop.id: whole})
        # Pieces of a drop make no new drop for the output cap.
        assert sum(one.cause is Cause.OUTPUT_CAP for one in ledger.log(session).drops()) == 1


@pytest.mark.matrix
def test_words_beyond_the_input_cap_are_read_back_as_they_were_said(place: Path) -> None:
    words = "LONG " + "".join(f"line {n} of what is asked\n" for n in range(3000))
    model = Reader()
    around, session = lived(place, model, [words])
    with the_ledger(place) as ledger:
        assert_laws(ledger, session, around.server.requests)
        drop = ledger.log(session).drops()[0]
        assert (drop.cause, ledger.log(session).original(drop.id)) == (Cause.INPUT_CAP, words)
        assert "".join(model.pieces[drop.id]) == words
        assert_holes_are_true(model.told, {drop.id: words})


def test_what_a_truncation_or_compaction_left_out_is_the_entries_themselves(place: Path) -> None:
    def model(body: Any) -> dict[str, Any]:
        last = content(body, "chat")[-1]
        if FORK in last.text or TRANSCRIPT in last.text:
            return {"text": "Goal: as said. Next: go on. " + "SUMMARY " * 12 if "NOW" in str(body["messages"]) else ""}
        number = len(body["messages"])
        listing = {"name": "bash", "arguments": {"command": f"seq {number} {number + 449}"}}
        return {"text": "listed"} if last.role == "tool" else {"calls": [listing]}

    turns = [f"TURN{n} list" for n in range(14)]
    around, session = lived(place, model, [*turns, "NOW list", COMPACT, "NOW2 list"])
    with the_ledger(place) as ledger:
        assert_laws(ledger, session, around.server.requests)
        main = ledger.session(session).main_lane
        drops = ledger.log(session).drops()
        assert {Cause.TRUNCATION, Cause.COMPACTION} <= {drop.cause for drop in drops}
        for drop in drops:
            if drop.entries is not None:
                assert ledger.log(session).original(drop.id) == format_transcript(on(ledger, main).read(*drop.entries))


def assert_holes_are_true(told: list[str], originals: dict[str, str]) -> None:
    """Head, hole and tail of every text that was sent short join to its original."""
    found = 0
    for text in told:
        marker = MARKER.search(text)
        if marker is None:
            continue
        found += 1
        whole = originals[marker[5]]
        start, end, total = int(marker[2]), int(marker[3]), int(marker[4])
        assert total == len(whole)
        tail = text[marker.end() :].removeprefix("\n")
        assert whole.endswith(tail) and len(tail) in (total - end, total - end - 1)
        head = text[: marker.start()]
        assert head.removesuffix("\n").endswith(whole[:start].removesuffix("\n")[-200:])
    assert found


@pytest.mark.matrix
@given(st.text(max_size=4000), st.integers(40, 400))
def test_head_hole_and_tail_of_any_cut_join_to_the_original(text: str, cap: int) -> None:
    cut = elide_text(text, cap, lambda part: len(part.encode("utf-8", "replace")) // 4, drop_marker("d7"))
    if cut.is_whole:
        assert cut.text == text
        return
    line = MARKER.search(cut.text)
    assert line is not None and (int(line[2]), int(line[3]), int(line[4])) == (cut.start, cut.end, len(text))
    head, tail = cut.text[: line.start()], cut.text[line.end() :]
    assert head in (text[: cut.start], text[: cut.start] + "\n")
    assert tail in (text[cut.end :], "\n" + text[cut.end :])
