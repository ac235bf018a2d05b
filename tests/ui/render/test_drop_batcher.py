"""What a person typed or attached is told when it is left out, what one request cuts short in one line; sections of
nexus's own are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from ui.kept_stream import KeptStream

from nexus_cli.core import event as e
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.ui.print.notice_lines import NoticeLines
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme


def section(number: int) -> e.ContextDrop:
    return e.ContextDrop(Drop(f"d{number}", f"section s{number}", number, Cause.SECTION_BUDGET, ""))


MESSAGES = e.ContextDrop(Drop("d9", "messages 1 to 18 of the conversation", 4868, Cause.TRUNCATION, ""))


def said(*events: e.Event) -> list[str]:
    stream = KeptStream(width=200)
    remarks = NoticeLines(stream)
    for event in events:
        remarks.feed(event)
    return stream.text.splitlines()


def put(*events: e.Event) -> list[str]:
    pieces: list[str] = []
    renderer = RichRenderer(pieces.append, lambda: 200, Theme("dark", False))
    for event in events:
        renderer.feed(event)
    return "".join(pieces).splitlines()


def part(number: int) -> e.ContextDrop:
    return e.ContextDrop(Drop(f"d{number}", f"part of the result of c{number}", 89, Cause.TRUNCATION, ""))


def test_sections_of_nexus_itself_are_not_told() -> None:
    own = Drop("d1", "part of section episodic.more (earlier sessions)", 57, Cause.SECTION_BUDGET, "")
    pruned = Drop("d2", "result of c1", 900, Cause.PRUNED, "")
    events: list[e.Event] = [e.ContextDrop(own), section(3), e.ContextDrop(pruned), e.StepStart(1), e.Notice("over")]
    assert said(*events) == ["nexus: over"] and put(*events) == ["! over"]
    assert not own.is_missed and not pruned.is_missed
    for slot in ("user_memory", "project_memory"):
        assert replace(own, what=f"section {slot}.f1 (ledger)").is_missed, "a person wrote or accepted it"


def test_instructions_are_told_by_their_file() -> None:
    cut = Drop("d1", "part of section instructions.project (NEXUS.md)", 57, Cause.SECTION_BUDGET, "")
    assert said(e.ContextDrop(cut), e.StepStart(1)) == [
        "nexus: left out as d1: part of NEXUS.md, 57 tokens (over the section budget); `nexus drops show d1`"
    ]
    assert cut.is_missed


def test_results_that_were_cut_short_together_are_one_line() -> None:
    lines = said(part(2), part(3), MESSAGES, part(4), e.StepStart(1))
    assert lines[0].startswith("nexus: left out as d9: messages 1 to 18")
    assert lines[1:] == ["nexus: 3 parts left out, 267 tokens: d2 to d4; `nexus drops`"]
    assert put(part(2), part(3), e.TurnStart("x"), part(5), e.StepStart(1)) == [
        "! 3 parts left out, 267 tokens: d2 to d3, d5; /drops"
    ]


def test_one_or_two_parts_are_told_one_by_one() -> None:
    events: list[e.Event] = [part(1), part(2), e.StepStart(1), part(3), e.Notice("that is all")]
    assert [line.split(":")[1] for line in said(*events)[:3]] == [f" left out as d{number}" for number in (1, 2, 3)]
    assert [line.split(":")[0] for line in put(*events)[:3]] == [f"! left out as d{number}" for number in (1, 2, 3)]
    assert said(*events)[3] == "nexus: that is all"


@pytest.mark.parametrize("way", ["print_notice", "print_error", "print_next_step"])
def test_nothing_is_held_back_where_no_event_follows(way: str) -> None:
    stream = KeptStream(width=200)
    remarks = NoticeLines(stream)
    remarks.feed(part(1))
    getattr(remarks, way)("over")
    assert stream.text.startswith("nexus: left out as d1: part of the result of c1")
    assert stream.text.endswith("over\n")
    pieces: list[str] = []
    renderer = RichRenderer(pieces.append, lambda: 200, Theme("dark", False))
    renderer.feed(part(1))
    renderer.show_note("over")
    assert "left out as d1" in pieces[0] and "over" in pieces[-1]


class Session:
    """A session that is kept in the ledger, until it is not."""

    id = "01M7XF8TR9YCT57DNMJRJ284QH"
    saved = True


def test_what_is_advised_names_the_session_and_no_command_where_nothing_is_kept() -> None:
    stream, session = KeptStream(width=200), Session()
    remarks = NoticeLines(stream)
    remarks.session = cast(Any, session)
    named, lost = "--session J284QH`", "kept only until this run ends"
    for end in (named, lost):
        session.saved = end is named
        for event in (MESSAGES, part(1), part(2), part(3), e.StepStart(1)):
            remarks.feed(event)
    single, several, single_lost, several_lost = stream.text.splitlines()
    assert single.endswith(f"; `nexus drops show d9 {named}")
    assert several.endswith(f": d1 to d3; `nexus drops {named}")
    assert single_lost.endswith(f"; {lost}") and several_lost.endswith(f": d1 to d3; {lost}")


def test_quiet_tells_of_no_part() -> None:
    stream = KeptStream(width=200)
    remarks = NoticeLines(stream, quiet=True)
    for event in (part(1), part(2), part(3), e.StepStart(1)):
        remarks.feed(event)
    assert stream.text == ""


def test_an_overflow_is_told_in_one_line_beside_what_it_left_out() -> None:
    events: list[e.Event] = [
        e.Notice("m reports a context window of 8,192 tokens; used from now on", warning=False),
        e.CompactionStart("overflow", 12_000),
        e.CompactionDone(False, 12_000, 12_000, e.NOTHING_TO_SUMMARIZE, cut=True),
        part(1),
        e.StepStart(1),
    ]
    for lines in (said(*events), put(*events)):
        assert len(lines) == 2 and "8,192" in lines[0] and "left out as d1" in lines[1], lines
    failed = e.CompactionDone(False, 12_000, 12_000, "the summary was empty", cut=True)
    assert "the summary was empty" in said(failed)[0], "a summary that failed is told"
