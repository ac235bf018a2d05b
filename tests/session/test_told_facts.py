"""The facts that a request tells are in its plan, once, and a person sees them in two lines at most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.played import Played, opened, say
from ui.kept_stream import KeptStream

from nexus_cli.config.paths import places
from nexus_cli.core.event import ContextPlan, Event
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.ledger import Ledger
from nexus_cli.reports.event_texts import describe_told_facts
from nexus_cli.text.cells import cells
from nexus_cli.ui.print.notice_lines import NoticeLines
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme


def keep(folder: Path, slot: MemorySlot, text: str) -> None:
    ledger = Ledger.open(places().ledger)
    ledger.facts.add(
        slot, text, state=FactState.KEPT, at="2026-01-13T14:30:00.000Z", actor="person", project=str(folder)
    )
    ledger.close()


def plans(events: Sequence[Event]) -> list[list[dict[str, Any]]]:
    return [list(event.plan["facts"]) for event in events if isinstance(event, ContextPlan)]


def test_a_fact_stands_in_the_plan_of_the_request_that_tells_it(tmp_path: Path) -> None:
    keep(tmp_path, MemorySlot.PROJECT, "Deploys run (remembered by nobody) with fly deploy --now")
    keep(tmp_path, MemorySlot.USER, "Likes answers in short sentences")
    keep(tmp_path, MemorySlot.AGENT, "x" * 50 + " deploy " + "and more " * 30)
    (tmp_path / "a.txt").write_text("x")

    def script(request: Any) -> Any:
        over = any(message["role"] == "tool" for message in request.messages)
        return "done" if over else [("read_file", {"path": "a.txt"})]

    events, outcome = say(opened(Played(script), tmp_path), "how do I deploy this?")
    assert outcome.ok
    first, second = plans(events)
    found = {one["id"]: (one["slot"], one["text"]) for one in first}
    assert found["m1"] == ("project", "Deploys run (remembered by nobody) with fly deploy --now")
    assert found["m2"] == ("user", "Likes answers in short sentences")
    assert found["m3"][0] == "agent" and found["m3"][1].startswith("x" * 50) and second == []
    loud, silent = KeptStream(width=100), KeptStream(width=100)
    shown = RichRenderer(loud.write, lambda: 100, Theme(colour=False), drawn=False, commands=False)
    for event in events:
        shown.feed(event)
        NoticeLines(silent).feed(event)
    assert loud.text.count("remembered facts sent: ") == 1 and "remembered facts sent" not in silent.text


def test_a_fact_that_waits_is_a_notice_also_where_nobody_looks_at_progress(tmp_path: Path) -> None:
    calls = [("remember", {"text": "Look before you leap", "slot": "agent"})]

    def script(request: Any) -> Any:
        return "done" if any(message["role"] == "tool" for message in request.messages) else calls

    events, _ = say(opened(Played(script), tmp_path), "look around")
    silent = KeptStream(width=100)
    for event in events:
        NoticeLines(silent).feed(event)
    assert silent.text == "nexus: m1 (agent): proposed; you can accept it: nexus memory accept m1\n"


def test_without_facts_nothing_is_told(tmp_path: Path) -> None:
    events, _ = say(opened(Played(lambda request: "done"), tmp_path), "how do I deploy this?")
    assert plans(events) == [[]] and describe_told_facts({"facts": []}) == describe_told_facts({}) == ""


FACTS = st.lists(st.fixed_dictionaries({"id": st.just("m1"), "text": st.text(max_size=300)}), min_size=1, max_size=5)


@pytest.mark.matrix
@given(FACTS, st.integers(10, 120))
def test_what_is_told_takes_two_lines_at_most(facts: list[dict[str, str]], width: int) -> None:
    put: list[str] = []
    RichRenderer(put.append, lambda: width, Theme(colour=False)).feed(ContextPlan({"facts": facts}))
    lines = "".join(put).removesuffix("\n").split("\n")
    assert 1 <= len(lines) <= 2 and all(cells(line) <= width for line in lines)
