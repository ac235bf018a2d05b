"""The job: "go on with last week's work": one session is resumed on eight days and summarized twice meanwhile. On the
last day it is renamed and copied, an answer of the second day is found, all of it is exported, and the cost is by day.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jobs.test_long_task import asks_for_summary
from program.stage import MODEL, Done, Stage, calls, stage
from server.blocks import first_difference, is_prefix

pytestmark = pytest.mark.matrix
WINDOW = f'[models."{MODEL}"]\nwindow = 12000\nmax_output = 2000\ninput_price = 2.0\noutput_price = 8.0\n'
FIRST = "Day 1: never touch the ledger of 2019. Read part1.txt."
REASONS = "Each line of the part has it, as that of the day before had it. " * 50
DAYS = 8
CLOCK = """
import datetime as library
from nexus_cli.core import clock
class Shifted(library.datetime):
    @classmethod
    def now(cls, tz=None):
        return library.datetime.now(tz) + library.timedelta(seconds={seconds})
clock.datetime = Shifted
"""
"""Sets the clock of one process forward by so many seconds."""


def model(body: Any) -> dict[str, Any]:
    """Reads the part of the day, and says what the day's code word is."""
    newest = str(body["messages"][-1]["content"])
    if asks_for_summary(body):
        return {"text": "## Decisions\nThe parts are read one a day.\n## Next\nThe part of the next day."}
    if part := re.search(r"Read (part\d\.txt)", newest):
        return calls(("read_file", {"path": part[1]}))
    if word := re.search(r"the code word of (\d)", newest):
        return {"text": f"The code word of day {word[1]} is ZEBRA-{word[1]}. {REASONS}"}
    return {"text": "Nothing to add."}


class Week:
    """One person who comes back every day."""

    def __init__(self, place: Stage) -> None:
        self.place = place
        self.noon = datetime.now().astimezone().replace(hour=12)

    def on(self, day: int, *arguments: str) -> Done:
        """Run nexus at noon of a day of the week; the last one is today."""
        shift = self.noon - timedelta(days=DAYS - day) - datetime.now().astimezone()
        done = self.place.run(*arguments, bug=CLOCK.format(seconds=shift.total_seconds()))
        assert done.status == 0, done
        return done

    def date(self, day: int) -> str:
        return f"{self.noon - timedelta(days=DAYS - day):%Y-%m-%d}"

    def work(self, day: int) -> Done:
        """Let the model read the part of the day."""
        words = FIRST if day == 1 else f"Day {day}: Read part{day}.txt."
        return self.on(day, "ask", *(["-c"] if day > 1 else []), "--json", words)


def test_a_session_of_a_week_loses_nothing_and_is_found_again(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        place.settings(WINDOW)
        for day in range(1, DAYS + 1):
            text = "".join(f"{day}.{line}: the code word of {day} stands here\n" for line in range(160))
            (place.folder / f"part{day}.txt").write_text(text)
        week = Week(place)
        done = [week.work(day) for day in range(1, DAYS + 1)]
        session = done[0].result["session"]
        assert {one.result["session"] for one in done} == {session}
        check_requests(week)
        compacted = [line for one in done for line in one.told if line.startswith("nexus: compacted: ")]
        assert len(compacted) >= 2, [one.told for one in done]
        check_last_day(week, session)


def check_requests(week: Week) -> None:
    """The first day's words are in every request, each day's date is told, and only a summary ends the prefix."""
    sent = week.place.server.requests
    turns = [one for one in sent if not asks_for_summary(one.body)]
    assert all(FIRST in str(one.body["messages"]) for one in sent)
    for day in range(1, DAYS + 1):
        assert any(f"Date: {week.date(day)}" in str(one.body["messages"][-1]["content"]) for one in turns), day
    broken = [
        first_difference(before.blocks, after.blocks)
        for before, after in pairwise(turns)
        if not is_prefix(before.blocks, after.blocks)
    ]
    assert len(broken) == len(sent) - len(turns), broken


def check_last_day(week: Week, session: str) -> None:
    place = week.place
    found = week.on(DAYS, "sessions", "search", "ZEBRA-2").text
    assert f"{week.date(2)}" in found and "1 match" in found, found
    week.on(DAYS, "sessions", "rename", session, "the week")
    copy = week.on(DAYS, "sessions", "fork", "the week", "--name", "another way").text.strip()
    asked = week.on(DAYS, "ask", "-r", "another way", "--json", "What next?").result
    assert asked["session"] == copy != session
    assert FIRST in str(place.server.requests[-1].body["messages"]), "the copy knows it too"
    exported = week.on(DAYS, "sessions", "export", "the week", "--markdown").text
    assert exported.count("## You\n") == DAYS, "the copy's message is not in it, and a summary replaces none"
    assert all(f"ZEBRA-{day}." in exported and week.date(day) in exported for day in range(1, DAYS + 1))
    usage = week.on(DAYS, "usage", "--json").result
    days = {row["day"]: row["requests"] for row in usage["days"]}
    assert list(days) == [week.date(day) for day in range(1, DAYS + 1)]
    assert sum(days.values()) == len(place.server.requests)
    assert week.on(DAYS, "replay", "--session", "the week").status == 0
