"""The factors by kind of content: a provider whose tokenizer differs by kind is followed after a few requests."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.meter import Meter as ServerMeter
from server.meter import quarter

from nexus_cli.context import kinds
from nexus_cli.context.factors import LEAST, MOST, Factors
from nexus_cli.context.kinds import NOTHING, Kind, Profiles, kind_of, profile, tokens, total
from nexus_cli.context.meter import Meter
from nexus_cli.context.tokens import OVERHEAD_PER_MESSAGE, TiktokenCounter, count_message
from nexus_cli.core.entry import Form, Slot
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.services import Calibration

SENTENCES = """the parser reads each line and keeps what it knows about a file when something fails it says so
then goes on with next one we should keep old names for now because other people use them every day"""
WORDS = SENTENCES.split()
WIDE = "上下文管理器负责保存对话的历史记录并在窗口不足时进行压缩用户可以随时查看被省略的内容并恢复它们"
COUNT = TiktokenCounter("o200k_base").count
SYSTEM = 1500


def text(dice: random.Random, kind: str) -> str:
    """A text of one kind."""
    match kind:
        case "prose":
            return " ".join(dice.choice(WORDS) for _ in range(dice.randint(30, 400)))
        case "code":
            lines = []
            for number in range(dice.randint(20, 60)):
                one, two, three = (dice.choice(WORDS) for _ in range(3))
                lines.append(f"    {one}_{two} = self.{two}({three}={number})  # {one}")
            return "\n".join(lines)
        case "json":
            rows = [{"id": dice.randrange(10**6), "name": dice.choice(WORDS)} for _ in range(dice.randint(3, 40))]
            return json.dumps(rows)
    return "".join(dice.choice(WIDE) for _ in range(dice.randint(60, 500)))


class Conversation:
    """A window that grows, our meter over it, and the server's count of the same."""

    def __init__(self, seed: int, server: ServerMeter) -> None:
        self.dice, self.server = random.Random(seed), server
        self.slots: list[Slot] = []
        self.reported = SYSTEM
        self.meter = Meter()
        self.meter.since = lambda last: total(slot for slot in self.slots if slot.entry > last)

    @property
    def counted(self) -> int:
        return SYSTEM + sum(slot.tokens for slot in self.slots)

    def add(self, role: Role, kind: str, calls: bool = False) -> None:
        """One more message, on both sides."""
        call = ToolCall(f"c{len(self.slots)}", "write_file", {"content": text(self.dice, "code")}, "")
        message = Message(role, text(self.dice, kind), (call,) if calls else ())
        self.slots.append(Slot(len(self.slots) + 1, Form.FULL, message, tokens=count_message(message, COUNT)))
        self.reported += self.server.overhead + self.server.tokens(message.content, str(role.value))
        if calls:
            self.reported += self.server.tokens(call.name + json.dumps(call.arguments), "assistant")

    def request(self) -> tuple[float, float]:
        """What the estimate of the unsent tail, and of the whole, is off by, as shares; then the report comes."""
        estimate, anchor = self.meter.estimate(self.counted), self.meter.anchor
        sent = anchor.reported if anchor else 0
        off = abs(estimate - self.reported) / (self.reported - sent), abs(estimate - self.reported) / self.reported
        self.meter.report(len(self.slots), self.counted, self.reported)
        return off


KINDS = ("prose", "code", "json", "wide")


def off_after_ten(seed: int, server: ServerMeter) -> list[tuple[float, float]]:
    """A session in which every kind has come up: how far the estimates of the later requests are off."""
    talk, found = Conversation(seed, server), []
    for step in range(16):
        talk.add(Role.USER, KINDS[(step + seed) % 4])
        off = talk.request()
        if step >= 10:
            found.append(off)
        talk.add(Role.ASSISTANT, "prose", calls=step % 3 == 0)
        talk.add(Role.TOOL, talk.dice.choice(KINDS[:3]))
    return found


@pytest.mark.parametrize("count", [COUNT, quarter], ids=["like our table", "by length"])
@pytest.mark.parametrize(
    "factors",
    [
        {},
        {"json": 1.6, "code": 1.25, "cjk": 0.7, "prose": 0.95},
        {"tool": 1.5, "user": 0.9, "assistant": 1.2},
        {"tool": 1.3, "json": 1.5, "cjk": 0.6, "code": 1.2},
    ],
    ids=["none", "by kind", "by role", "by both"],
)
def test_after_ten_requests_the_tail_is_known_within_ten_per_cent(
    factors: Mapping[str, float], count: Callable[[str], int]
) -> None:
    off = [found for seed in range(8) for found in off_after_ten(seed, ServerMeter(count, 1.0, factors))]
    tails = sorted(tail for tail, _ in off)
    assert tails[int(len(tails) * 0.95)] <= 0.10, "of twenty estimates nineteen"
    assert sum(tails) / len(tails) <= 0.04
    assert max(whole for _, whole in off) <= 0.03


def test_what_was_learned_helps_the_next_session() -> None:
    server = ServerMeter(COUNT, 1.0, {"json": 1.8, "code": 1.3, "cjk": 0.6})
    first = Conversation(1, server)
    for step in range(12):
        first.add(Role.USER, KINDS[step % 4])
        first.request()
    learned = first.meter.calibration
    assert len(learned.kinds) == len(Kind)

    def misses(calibration: Calibration) -> float:
        talk = Conversation(2, server)
        talk.meter = Meter(calibration)
        talk.meter.since = lambda last: total(slot for slot in talk.slots if slot.entry > last)
        talk.add(Role.USER, "prose")
        talk.request()
        found = 0.0
        for kind in ("json", "wide", "code"):
            talk.add(Role.USER, kind)
            found += talk.request()[0]
        return found

    assert misses(learned) < misses(Calibration(learned.factor)) / 2


CALLS = st.builds(ToolCall, st.just("c1"), st.just("bash"), st.just({"command": "ls"}), st.just(""))
MESSAGES = st.builds(
    Message,
    st.sampled_from([Role.USER, Role.ASSISTANT, Role.TOOL]),
    st.text(max_size=300),
    st.lists(CALLS, max_size=2).map(tuple),
)


@given(MESSAGES, st.integers(OVERHEAD_PER_MESSAGE, 100_000))
def test_a_profile_adds_up_to_the_count(message: Message, counted: int) -> None:
    found = profile(Slot(1, Form.FULL, message, tokens=counted))
    if message.content or message.tool_calls:
        assert tokens(found) == pytest.approx(counted)
    assert all(part >= 0 for part in found)


@given(
    st.lists(
        st.tuples(st.lists(st.floats(0, 1e5), min_size=len(Kind), max_size=len(Kind)), st.floats(0, 1e6)), max_size=12
    ),
    st.lists(st.floats(0, 1e5), min_size=len(Kind), max_size=len(Kind)),
)
def test_no_report_makes_an_estimate_absurd(
    reports: list[tuple[list[float], float]], asked: list[float]
) -> None:
    factors = Factors.of(1.0)
    for seen, reported in reports:
        factors = factors.learned(seen, reported)
    assert LEAST * tokens(asked) - 1e-6 <= factors.estimate(asked) <= MOST * tokens(asked) + 1e-6
    assert factors.estimate(NOTHING) == 0


def test_kinds_are_told_by_a_look() -> None:
    assert kind_of('{"a": [1, 2]}') is Kind.DATA
    assert kind_of("def f(x):\n    return {x: [x]}\n") is Kind.CODE
    assert kind_of("窗口不足时进行压缩") is Kind.WIDE
    assert kind_of("Please look at the parser.") is kind_of("") is Kind.PROSE


def test_a_profile_is_made_once_for_each_slot_and_anew_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = kinds.profile

    def noted(slot: Slot) -> kinds.Profile:
        made.append(slot.entry)
        return real(slot)

    monkeypatch.setattr(kinds, "profile", noted)
    slots = [Slot(n, Form.FULL, Message(Role.USER, "words " * n), tokens=10 * n) for n in range(1, 30)]
    profiles = Profiles()
    for first in (0, 28, 0, 0):
        assert tokens(profiles.total(slots[first:])) == pytest.approx(sum(slot.tokens for slot in slots[first:]))
    assert made == list(range(1, 30))
    slots[-1] = Slot(29, Form.FULL, Message(Role.USER, "other"), "with a preamble", 50)
    profiles.total(slots)
    assert made[-1] == 29 and len(made) == 30


def test_an_old_report_does_not_anchor_for_ever() -> None:
    meter = Meter()
    meter.report(1, 1000, 1000)
    for number in range(2):
        assert meter.report(2 + number, 2000, 100) is None
    assert meter.anchor is not None
    meter.report(9, 2000, 100)
    assert meter.anchor is None and meter.basis == "estimate"
