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
from nexus_cli.context.contents import Contents
from nexus_cli.context.factors import LEAST, MOST, Factors
from nexus_cli.context.kinds import NOTHING, Kind, Profiles, kind_of, profile, tokens
from nexus_cli.context.meter import Meter
from nexus_cli.context.tokens.counter import OVERHEAD_PER_MESSAGE, TiktokenCounter, count_message
from nexus_cli.core.budget import Used
from nexus_cli.core.entry import Epoch, Form, Slot
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

    def __init__(self, seed: int, server: ServerMeter, fixed: int = SYSTEM) -> None:
        self.dice, self.server = random.Random(seed), server
        self.slots: list[Slot] = []
        self.last = 0
        self.reported = fixed
        self.epoch = Epoch(0, None, "start", "", "", (), "", (), 0, system_tokens=SYSTEM)
        self.meter = Meter(contents=self.contents())

    def contents(self) -> Contents:
        """What stands in the window."""
        return Contents(lambda: (self.epoch, self.slots))

    @property
    def counted(self) -> int:
        return SYSTEM + sum(slot.tokens for slot in self.slots)

    def add(self, role: Role, kind: str, calls: bool = False) -> None:
        """One more message, on both sides."""
        call = ToolCall(f"c{self.last}", "write_file", {"content": text(self.dice, "code")}, "")
        message = Message(role, text(self.dice, kind), (call,) if calls else ())
        self.last += 1
        self.slots.append(Slot(self.last, Form.FULL, message, tokens=count_message(message, COUNT)))
        self.reported += self.size(message)

    def request(self) -> tuple[float, float]:
        """What the estimate of the unsent tail, and of the whole, is off by, as shares; then the report comes."""
        estimate, anchor = self.meter.estimate(self.counted), self.meter.anchor
        sent = anchor.reported if anchor else 0
        off = abs(estimate - self.reported) / (self.reported - sent), abs(estimate - self.reported) / self.reported
        self.meter.report(self.last, self.counted, self.reported)
        return off

    def step(self, number: int) -> tuple[float, float]:
        """A request with what comes before and after it."""
        self.add(Role.USER, KINDS[number % 4])
        off = self.request()
        self.add(Role.ASSISTANT, "prose", calls=number % 3 == 0)
        self.add(Role.TOOL, self.dice.choice(KINDS[:3]))
        return off

    def begin_anew(self, kept: int) -> None:
        """A new epoch that shows only the newest `kept` messages."""
        gone, self.slots = self.slots[:-kept], self.slots[-kept:]
        self.reported -= sum(self.size(slot.message) for slot in gone)
        self.meter.forget()

    def size(self, message: Message) -> int:
        """What the server counts for a message."""
        called = sum(self.server.tokens(c.name + json.dumps(c.arguments), "assistant") for c in message.tool_calls)
        return self.server.overhead + self.server.tokens(message.content, str(message.role.value)) + called


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
        talk.meter = Meter(calibration, talk.contents())
        talk.add(Role.USER, "prose")
        talk.request()
        found = 0.0
        for kind in ("json", "wide", "code"):
            talk.add(Role.USER, kind)
            found += talk.request()[0]
        return found

    assert misses(learned) < misses(Calibration(learned.factor)) / 2


OWN = {"json": 1.5, "code": 1.2, "tool": 1.3, "cjk": 0.7}
HEAVY = 2 * SYSTEM
"""What a server makes of the system text that counts words otherwise than we do."""


@pytest.mark.parametrize("seed", range(4))
def test_a_window_that_was_cut_down_is_known_within_three_per_cent_before_it_is_sent(seed: int) -> None:
    talk = Conversation(seed, ServerMeter(COUNT, 1.0, OWN), HEAVY)
    for number in range(12):
        talk.step(number + seed)
    for kept in (3, 1, 6):
        ratio = talk.reported / talk.counted
        talk.begin_anew(kept)
        assert abs(talk.reported / talk.counted - ratio) / ratio > 0.05, "the ratio of the last report is no guide"
        assert abs(talk.meter.estimate(talk.counted) - talk.reported) <= 0.03 * talk.reported
        assert talk.step(kept)[1] <= 0.03
        for number in range(3):
            talk.step(number)


def test_a_new_session_knows_the_system_text_and_does_not_mistake_it_for_messages() -> None:
    server = ServerMeter(COUNT, 1.0, OWN)
    before = Conversation(1, server, HEAVY)
    for number in range(12):
        before.step(number)
    talk = Conversation(2, server, HEAVY)
    talk.meter = Meter(before.meter.calibration, talk.contents())
    assert abs(talk.meter.estimate(talk.counted) - HEAVY) <= 0.03 * HEAVY
    assert before.meter.calibration.factor < 1.5 < HEAVY / SYSTEM
    assert talk.meter.countable(HEAVY) <= SYSTEM < talk.meter.countable(HEAVY * 2)
    talk.add(Role.USER, "prose")
    assert talk.request()[1] <= 0.03


def test_the_system_text_is_as_many_tokens_at_every_step_of_an_epoch() -> None:
    talk = Conversation(3, ServerMeter(COUNT, 1.0, OWN), HEAVY)
    sent = []
    for number in range(12):
        talk.add(Role.USER, KINDS[number % 4])
        talk.request()
        sent.append((Used(SYSTEM, 0, talk.counted - SYSTEM - 20, 20), talk.reported))
    found = [talk.meter.layers(counted, reported) for counted, reported in sent]
    assert [one.total for one in found] == [reported for _, reported in sent]
    assert max(one.system for one in found) - min(one.system for one in found) <= 0.02 * HEAVY
    assert abs(found[-1].system - HEAVY) <= 0.05 * HEAVY


@given(
    st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 30_000)), max_size=8),
    st.tuples(*[st.integers(0, 50_000)] * 4),
    st.one_of(st.none(), st.integers(0, 200_000)),
    st.integers(0, 100_000),
)
def test_layers_come_to_the_whole_and_what_is_countable_fits(
    reports: list[tuple[int, int]], counts: tuple[int, int, int, int], reported: int | None, room: int
) -> None:
    epoch = Epoch(0, None, "start", "", "", (), "", (), 0, system_tokens=counts[0], tools_tokens=counts[1])
    slots: list[Slot] = []
    meter = Meter(contents=Contents(lambda: (epoch, slots)))
    for number, (counted, said) in enumerate(reports):
        slots.append(Slot(number, Form.FULL, Message(Role.TOOL, "word " * counted), tokens=counted))
        meter.report(number, counts[0] + counts[1] + sum(slot.tokens for slot in slots), said)
    used = meter.layers(Used(*counts), reported)
    if sum(counts):
        assert used.total == (meter.estimate(sum(counts)) if reported is None else reported)
    assert min(used.system, used.tools, used.history, used.event) >= 0
    meter.forget()
    assert meter.upper(meter.countable(room)) <= room
    assert meter.countable(room) <= meter.countable(room + 1)


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
