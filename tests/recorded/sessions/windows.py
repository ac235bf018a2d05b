"""Windows that fill: summaries asked for and by themselves, pins, an overflow, small windows."""

from __future__ import annotations

from recorded.person import Person
from recorded.sessions.answers import SHOP, STORY, SUMMARY, call, rule

SMALL = '[models."openai/small"]\nwindow = 16000\nmax_output = 1000\n'
TINY = '[models."openai/tiny"]\nwindow = 8192\nmax_output = 1000\n'
SUMMARIZES = rule(SUMMARY, contains="summar")
"""Answers the request for a summary."""


def _talk(p: Person, turns: int) -> None:
    p.settings(SMALL)
    p.uses("openai/small")
    for number in range(1, turns + 1):
        p.nexus("ask", *(["-c"] if number > 1 else []), f"tell part {number}")


def compacted_by_itself(p: Person) -> None:
    """Long answers fill a small window: it is summarised once, and the talk goes on."""
    p.model(rules=(SUMMARIZES,), default={"text": STORY, "numbered": True})
    _talk(p, 8)


def a_failed_summary(p: Person) -> None:
    """The summary comes back empty: the oldest messages are left out instead."""
    p.model(rules=(rule({"text": "", "finish": "stop"}, contains="summar"),), default={"text": STORY, "numbered": True})
    _talk(p, 8)


def refused_as_too_long(p: Person) -> None:
    """The provider refuses a request as too long: a summary, then the turn goes on."""
    p.file("shop.py", SHOP)
    p.model(call("read_file", path="shop.py"), {"text": STORY}, {"text": STORY})
    p.nexus("ask", "tell me of the shop")
    p.nexus("ask", "-c", "more")
    p.model({"fault": "overflow"}, default="Shorter now.", rules=(SUMMARIZES,))
    p.nexus("ask", "-c", "and more")


def a_tiny_window(p: Person) -> None:
    """8,192 tokens: fewer tools, a long project file and a long output cut to fit, an input above its cap."""
    p.settings(TINY)
    p.uses("openai/tiny")
    p.file("NEXUS.md", "".join(f"- Rule {number}: keep part {number} short.\n" for number in range(150)))
    p.file("long.txt", "".join(f"row {number}\n" for number in range(3000)))
    p.model(call("read_file", path="long.txt"), call("grep", pattern="row 29", path="long.txt"), "Rows.")
    p.nexus("ask", "what is in long.txt?")
    p.model("Too long for me.", rules=(SUMMARIZES,))
    p.nexus("ask", "-c", "and this?", stdin="".join(f"line {number}\n" for number in range(3000)).encode())


def a_long_turn(p: Person) -> None:
    """Sixteen steps of one turn in a small window: old results are pruned or summarised, the request stays."""
    p.settings(SMALL)
    p.uses("openai/small")
    for number in range(16):
        p.file(f"part{number}.txt", f"part {number}\n" + STORY)
    reads = [call("read_file", path=f"part{number}.txt") for number in range(16)]
    p.model(*reads, "All parts are read.", rules=(SUMMARIZES,))
    p.nexus("ask", "read all parts, one after the other, and remember the word lantern")


def compacted_and_taken_back(p: Person) -> None:
    """`/pin`, `/compact` with words, a turn, `/uncompact`, a turn."""
    p.model({"text": STORY}, {"text": STORY}, {"text": STORY}, {"text": STORY}, rules=(SUMMARIZES,), default="Yes.")
    with p.terminal() as seat:
        for number in range(4):
            seat.say(f"tell part {number}")
        seat.say("/pin The till opens with the green key.", 0)
        seat.say("/compact keep the prices", 1)
        seat.say("which key?")
        seat.say("/uncompact", 0)
        seat.say("and now?")


SESSIONS = (
    a_long_turn,
    compacted_by_itself,
    a_failed_summary,
    refused_as_too_long,
    a_tiny_window,
    compacted_and_taken_back,
)
