"""What one request leaves out of its sections, and what it cuts short, is one line each for the person; what is left
out else is told at once."""

from __future__ import annotations

import pytest

from nexus_cli.core import event as e
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.ui.print.progress_lines import ProgressLines
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme


class Kept:
    """A stream that keeps what it is given."""

    terminal = False
    colour = False
    width = 200

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        """Keep it."""
        self.text += text


def section(number: int) -> e.ContextDrop:
    return e.ContextDrop(Drop(f"d{number}", f"section s{number}", number, Cause.SECTION_BUDGET, ""))


MESSAGES = e.ContextDrop(Drop("d9", "messages 1 to 18 of the conversation", 4868, Cause.TRUNCATION, ""))


def said(*events: e.Event) -> list[str]:
    stream = Kept()
    remarks = ProgressLines(stream)
    for event in events:
        remarks.feed(event)
    return stream.text.splitlines()


def put(*events: e.Event) -> list[str]:
    pieces: list[str] = []
    renderer = RichRenderer(pieces.append, lambda: 200, Theme("dark", False))
    for event in events:
        renderer.feed(event)
    return "".join(pieces).splitlines()


def test_several_sections_of_one_request_are_one_line_with_all_their_tokens() -> None:
    events: list[e.Event] = [section(1), section(2), e.TurnStart("x"), section(3), section(5), e.StepStart(1)]
    assert said(*events) == ["nexus: 4 sections shortened or left out, 11 tokens: d1 to d3, d5; `nexus drops`"]
    assert put(*events) == ["! 4 sections shortened or left out, 11 tokens: d1 to d3, d5; /drops"]


def test_results_that_were_cut_short_together_are_one_line_too() -> None:
    parts = [e.ContextDrop(Drop(f"d{n}", f"part of the result of c{n}", 89, Cause.TRUNCATION, "")) for n in (2, 3, 4)]
    lines = said(*parts, MESSAGES, section(10), e.StepStart(1))
    assert lines[0].startswith("nexus: left out as d9: messages 1 to 18")
    assert lines[1] == "nexus: 3 messages cut short, 267 tokens: d2 to d4; `nexus drops`"
    assert lines[2].startswith("nexus: left out as d10: section s10") and len(lines) == 3


def test_one_or_two_sections_are_told_one_by_one() -> None:
    events: list[e.Event] = [section(1), section(2), e.StepStart(1), section(3), e.Notice("that is all")]
    assert [line.split(":")[1] for line in said(*events)[:3]] == [f" left out as d{number}" for number in (1, 2, 3)]
    assert [line.split(":")[0] for line in put(*events)[:3]] == [f"! left out as d{number}" for number in (1, 2, 3)]
    assert said(*events)[3] == "nexus: that is all"


def test_messages_that_were_cut_are_told_at_once_and_alone() -> None:
    lines = said(section(1), section(2), MESSAGES, section(3), e.StepStart(1))
    assert lines[0].startswith("nexus: left out as d9: messages 1 to 18") and len(lines) == 2
    assert "3 sections" in lines[1]


@pytest.mark.parametrize("way", ["notice", "error", "last"])
def test_nothing_is_held_back_where_no_event_follows(way: str) -> None:
    stream = Kept()
    remarks = ProgressLines(stream)
    remarks.feed(section(1))
    getattr(remarks, way)("over")
    assert stream.text.startswith("nexus: left out as d1: section s1")
    assert stream.text.endswith("over\n")
    pieces: list[str] = []
    renderer = RichRenderer(pieces.append, lambda: 200, Theme("dark", False))
    renderer.feed(section(1))
    renderer.show_note("over")
    assert "left out as d1" in pieces[0] and "over" in pieces[-1]


class Session:
    """A session that is kept in the ledger, until it is not."""

    id = "01M7XF8TR9YCT57DNMJRJ284QH"
    saved = True


def test_what_is_advised_names_the_session_and_no_command_where_nothing_is_kept() -> None:
    stream, session = Kept(), Session()
    remarks = ProgressLines(stream)
    remarks.session = session
    named, lost = "--session 01M7XF8TR9YCT`", "kept until the end of this run only"
    for end in (named, lost):
        session.saved = end is named
        for event in (MESSAGES, section(1), section(2), section(3), e.StepStart(1)):
            remarks.feed(event)
    single, several, single_lost, several_lost = stream.text.splitlines()
    assert single.endswith(f"; `nexus drops show d9 {named} prints it")
    assert several.endswith(f": d1 to d3; `nexus drops {named}")
    assert single_lost.endswith(f"; {lost}") and several_lost.endswith(f": d1 to d3; {lost}")


def test_quiet_tells_of_no_section() -> None:
    stream = Kept()
    remarks = ProgressLines(stream, quiet=True)
    for event in (section(1), section(2), section(3), e.StepStart(1)):
        remarks.feed(event)
    assert stream.text == ""
