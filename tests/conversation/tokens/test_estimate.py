"""The token estimator: an anchor and a ratio per kind of content follow any tokenizer after five reports."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import pytest
from conversation.tokens.held_estimate import HeldEstimate
from conversation.tokens.held_estimate import count_window as WindowContents
from hypothesis import given, settings
from hypothesis import strategies as st
from server.meter import Meter as ServerMeter

from nexus_cli.context import ContextManager
from nexus_cli.conversation.tokens.content_kinds import (
    EMPTY,
    ContentKind,
    kind_of,
    slot_by_kind,
    slots_by_kind,
)
from nexus_cli.conversation.tokens.content_kinds import ItemCounts as KindSums
from nexus_cli.conversation.tokens.counter import OVERHEAD_PER_MESSAGE, TiktokenCounter
from nexus_cli.conversation.tokens.estimate import FAR, KEPT, LEAST, LEAST_RATIO, MOST, MOST_RATIO, Ratios
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.entry import Epoch, ItemForm, WindowItem
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.section_rows import apportion
from nexus_cli.core.services import Calibration

SENTENCES = """the parser reads each line and keeps what it knows about a file when something fails it says so
then goes on with next one we should keep old names for now because other people use them every day"""
WORDS = SENTENCES.split()
WIDE = "上下文管理器负责保存对话的历史记录并在窗口不足时进行压缩用户可以随时查看被省略的内容并恢复它们"
COUNTER = TiktokenCounter("o200k_base")
COUNT = COUNTER.count
SYSTEM = 1500
HEAVY = 2 * SYSTEM
"""What a server makes of the system text that counts schemas otherwise than we do."""
KINDS = ("prose", "code", "json", "wide")


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
    """A window that grows, our estimator over it, and the server's count of the same."""

    def __init__(
        self, seed: int, rates: Mapping[str, float], fixed: int = SYSTEM, count: Callable[[str], int] = COUNT
    ) -> None:
        self.dice, self.server = random.Random(seed), ServerMeter(count, 1.0, rates)
        self.items: list[WindowItem] = []
        self.last = 0
        self.reported = fixed
        self.epoch = Epoch(0, None, "start", "", "", (), "", (), 0, system_tokens=SYSTEM)
        self.meter = HeldEstimate(window=self.window)

    def window(self) -> tuple[Epoch, Sequence[WindowItem]]:
        return self.epoch, self.items

    @property
    def counted(self) -> int:
        return SYSTEM + sum(item.tokens for item in self.items)

    def add(self, role: Role, kind: str, calls: bool = False) -> None:
        """One more message, on both sides."""
        call = ToolCall(f"c{self.last}", "write_file", {"content": text(self.dice, "code")}, "")
        message = Message(role, text(self.dice, kind), (call,) if calls else ())
        self.last += 1
        self.items.append(WindowItem(self.last, ItemForm.FULL, message, tokens=COUNTER.count_message(message)))
        self.reported += self.size(message)

    def request(self) -> float:
        """What the estimate is off by, as a share; then the report comes."""
        off = abs(self.meter.estimate(self.counted) - self.reported) / self.reported
        self.meter.learn(self.last, self.counted, self.reported)
        return off

    def step(self, number: int) -> float:
        """A request with what comes before and after it."""
        self.add(Role.USER, KINDS[number % 4])
        off = self.request()
        self.add(Role.ASSISTANT, "prose", calls=number % 3 == 0)
        self.add(Role.TOOL, self.dice.choice(KINDS))
        return off

    def begin_anew(self, kept: int) -> None:
        """A new epoch that shows only the newest `kept` messages."""
        gone, self.items = self.items[:-kept], self.items[-kept:]
        self.reported -= sum(self.size(item.message) for item in gone)
        self.meter.forget()

    def size(self, message: Message) -> int:
        """What the server counts for a message."""
        called = sum(self.server.tokens(c.name + json.dumps(c.arguments), "assistant") for c in message.tool_calls)
        return self.server.overhead + self.server.tokens(message.content, str(message.role.value)) + called


RATE = st.floats(0.8, 1.4)
"""What tokenizers make of a kind: those that we know lie in this range."""


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), RATE, RATE, RATE, RATE, st.integers(1, 12))
def test_after_five_reports_any_request_is_known_within_twelve_per_cent(
    seed: int, prose: float, code: float, wide: float, fixed: float, kept: int
) -> None:
    rates = {"prose": prose, "code": code, "json": code, "cjk": wide}
    talk = Conversation(seed, rates, round(fixed * SYSTEM))
    for number in range(5):
        talk.step(number)
    assert talk.step(seed) <= 0.12, "the window grew"
    talk.begin_anew(kept)
    assert talk.step(seed + 1) <= 0.12, "the window was cut"
    after = Conversation(seed + 1, rates, round(fixed * SYSTEM))
    after.meter = HeldEstimate(talk.meter.calibration, after.window)
    assert after.step(seed + 2) <= 0.12, "another session"


OWN = {"json": 1.5, "code": 1.5, "cjk": 0.7}


@pytest.mark.parametrize("seed", range(4))
def test_a_window_that_was_cut_down_is_known_before_it_is_sent_though_its_ratio_is_another(seed: int) -> None:
    talk = Conversation(seed, OWN, HEAVY)
    for number in range(12):
        talk.step(number + seed)
    for kept in (3, 1, 6):
        ratio = talk.reported / talk.counted
        talk.begin_anew(kept)
        assert abs(talk.reported / talk.counted - ratio) / ratio > 0.02, "the ratio of the last report is no guide"
        assert talk.step(kept) <= 0.10
        for number in range(3):
            talk.step(number)


@pytest.mark.parametrize(
    ("table", "total", "tail", "cut"), [("cl100k_base", 0.03, 0.15, 0.05), ("p50k_base", 0.04, 0.40, 0.06)]
)
def test_a_real_tokenizer_is_known_better_the_more_it_is_like_ours(
    table: str, total: float, tail: float, cut: float
) -> None:
    totals, tails, cuts = list[float](), list[float](), list[float]()
    for seed in range(3):
        talk = Conversation(seed, {}, HEAVY, count=TiktokenCounter(table).count)
        for number in range(24):
            if number in (14, 20):
                talk.begin_anew(4)
                cuts.append(abs(talk.meter.estimate(talk.counted) - talk.reported) / talk.reported)
            before = talk.meter.anchor
            off = talk.step(number)
            if number >= 10 and before is not None and (anchor := talk.meter.anchor):
                totals.append(off)
                tails.append(off * anchor.reported / (anchor.reported - before.reported))
    assert max(totals) <= total and max(tails) <= tail and max(cuts) <= cut, (max(totals), max(tails), max(cuts))


def test_a_new_session_knows_the_system_text_and_does_not_mistake_it_for_messages() -> None:
    before = Conversation(1, OWN, HEAVY)
    for number in range(12):
        before.step(number)
    talk = Conversation(2, OWN, HEAVY)
    talk.meter = HeldEstimate(before.meter.calibration, talk.window)
    assert abs(talk.meter.estimate(talk.counted) - HEAVY) <= 0.03 * HEAVY
    assert talk.meter.countable(HEAVY) <= 1.03 * SYSTEM < talk.meter.countable(HEAVY * 2)
    talk.add(Role.USER, "prose")
    assert talk.request() <= 0.03


def test_the_system_text_is_as_many_tokens_at_every_step_of_an_epoch() -> None:
    talk = Conversation(3, OWN, HEAVY)
    sent = []
    for number in range(12):
        talk.add(Role.USER, KINDS[number % 4])
        talk.request()
        sent.append((UsedTokens(SYSTEM, 0, talk.counted - SYSTEM - 20, 20), talk.reported))
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
    items: list[WindowItem] = []
    meter = HeldEstimate(window=lambda: (epoch, items))
    for number, (counted, said) in enumerate(reports):
        items.append(WindowItem(number, ItemForm.FULL, Message(Role.TOOL, "word " * counted), tokens=counted))
        meter.learn(number, counts[0] + counts[1] + sum(item.tokens for item in items), said)
    used = meter.layers(UsedTokens(*counts), reported)
    if sum(counts):
        assert used.total == (meter.estimate(sum(counts)) if reported is None else reported)
    assert min(used.system, used.tools, used.history, used.event) >= 0
    meter.forget()
    assert meter.upper(meter.countable(room)) <= room
    assert meter.countable(room) <= meter.countable(room + 1)


# -- one kind: counts that no window shows are prose ------------------------------------------------------------

TOKENS = st.integers(0, 200_000)
REPORTS = st.lists(st.tuples(st.integers(1, 200_000), st.integers(0, 400_000)), max_size=12)


def taught(reports: list[tuple[int, int]]) -> HeldEstimate:
    meter = HeldEstimate()
    for number, (counted, reported) in enumerate(reports):
        meter.learn(number, counted, reported)
    return meter


@given(REPORTS, TOKENS, TOKENS)
def test_more_counted_is_never_estimated_as_less(reports: list[tuple[int, int]], one: int, two: int) -> None:
    meter = taught(reports)
    low, high = sorted((one, two))
    assert meter.estimate(low) <= meter.estimate(high)
    assert meter.upper(low) <= meter.upper(high)
    assert meter.countable(low) <= meter.countable(high)
    assert meter.estimate(low) <= meter.upper(low)


@given(REPORTS, st.one_of(st.none(), TOKENS), st.one_of(st.none(), TOKENS))
def test_what_is_stored_stays_within_its_bounds(
    reports: list[tuple[int, int]], reported: int | None, limit: int | None
) -> None:
    meter = taught(reports)
    for _ in range(2):
        known = meter.calibration
        assert LEAST == 0.5 <= known.factor <= MOST == 2.5
        assert all(LEAST_RATIO <= ratio <= MOST_RATIO for ratio in known.ratios)
        assert 0 <= known.worst <= 1 and len(known.misses) <= KEPT
        meter.learn_from_overflow(1000, reported, limit)
    assert meter.anchor is None


@given(REPORTS, st.integers(1, 160_000), st.floats(LEAST, MOST))
def test_a_report_anchors_the_estimate_of_what_was_sent(
    reports: list[tuple[int, int]], counted: int, ratio: float
) -> None:
    reported = min(max(round(ratio * counted), math.ceil(LEAST * counted)), math.floor(MOST * counted))
    meter = taught(reports)
    meter.learn(99, counted, reported)
    assert meter.estimate(counted) == meter.upper(counted) == reported
    assert meter.basis == "reported+estimate"
    meter.forget()
    assert meter.basis == "estimate"


@given(TOKENS, REPORTS)
def test_what_is_countable_fits_with_the_known_error(tokens: int, reports: list[tuple[int, int]]) -> None:
    meter = taught(reports)
    meter.forget()
    assert meter.upper(meter.countable(tokens)) <= tokens


@given(REPORTS, st.integers(1, 200_000), st.sampled_from([0.0, 0.01, 0.49, 2.51, 40.0]))
def test_an_absurd_report_leaves_everything_as_it_was(
    reports: list[tuple[int, int]], counted: int, ratio: float
) -> None:
    meter = taught([*reports, *[(1000, 1000)] * 5])
    before = (meter.calibration, meter.anchor, meter.error)
    assert meter.learn(99, counted, int(ratio * counted) if ratio < 1 else int(ratio * counted) + 1) is None
    assert (meter.calibration, meter.anchor, meter.error) == before


@pytest.mark.parametrize("odd", [510, 2490])
def test_one_odd_report_teaches_nothing(odd: int) -> None:
    meter = taught([(1000, 1100)] * 8)
    before = meter.calibration
    assert meter.learn(50, 2000, 2 * odd) is None
    assert meter.calibration == before
    assert meter.error > 0.5, "until the next report says which of them was odd"
    meter.forget()
    assert meter.learn(51, 1000, 1100) is not None
    assert meter.estimate(1000) == 1100 and meter.error < 0.1


@pytest.mark.parametrize("odd", [510, 2490])
def test_what_two_reports_agree_on_is_believed_and_outlived_when_it_was_wrong(odd: int) -> None:
    meter = taught([(1000, 1100)] * 8)
    meter.learn(50, 2000, 2 * odd)
    meter.forget()
    assert meter.learn(51, 2000, 2 * odd) is not None
    meter.forget()
    assert meter.estimate(2000) == pytest.approx(2 * odd, rel=0.02)
    assert meter.error > 0.5
    for number in range(KEPT + 10):
        meter.forget()
        meter.learn(60 + number, 1000, 1100)
    meter.forget()
    assert meter.error < 0.05
    assert meter.estimate(1000) == pytest.approx(1100, rel=0.02)


def test_a_request_with_images_teaches_nothing_beyond_itself() -> None:
    meter = HeldEstimate()
    assert meter.learn(1, 10_000, 6000, teaches=False) is None
    assert meter.calibration == Calibration()
    assert meter.estimate(10_100) == 6100


def test_the_error_is_ten_per_cent_until_five_reports_then_the_largest_seen() -> None:
    meter = HeldEstimate()
    for number in range(4):
        meter.learn(number, 1000 * (number + 1), 1030 * (number + 1))
    assert meter.error == 0.10
    meter.learn(5, 5000, 5300)
    assert 0.02 < meter.error < 0.10
    meter.learn(6, 6000, 9000)
    largest = meter.error
    assert largest > 0.10
    for number in range(KEPT - 1):
        meter.forget()
        meter.learn(10 + number, 6000, 9000)
    assert meter.error == largest, "as long as its report is kept"
    meter.learn(99, 6000, 9000)
    assert meter.error < largest


def test_small_and_empty_reports_teach_nothing() -> None:
    meter = HeldEstimate()
    assert meter.learn(1, 100, 180) is None
    assert meter.learn(2, 1000, 0) is None
    assert meter.calibration == Calibration()


def test_an_old_report_does_not_anchor_for_ever() -> None:
    meter = HeldEstimate()
    meter.learn(1, 1000, 1000)
    for number in range(2):
        assert meter.learn(2 + number, 2000, 100) is None
    assert meter.anchor is not None
    meter.learn(9, 2000, 100)
    assert meter.anchor is None and meter.basis == "estimate"


@pytest.mark.parametrize(
    ("reported", "limit", "low", "high"), [(15_000, None, 1.5, 1.5), (None, 12_000, 1.2, 1.4), (None, None, 1.2, 1.4)]
)
def test_an_overflow_raises_the_estimate(reported: int | None, limit: int | None, low: float, high: float) -> None:
    meter = HeldEstimate()
    meter.learn_from_overflow(10_000, reported, limit)
    assert low * 10_000 <= meter.estimate(10_000) <= high * 10_000


SAID = st.one_of(st.none(), st.integers(1, 10**9))
REFUSALS = st.lists(st.tuples(st.integers(1, 200_000), SAID, SAID), min_size=1, max_size=12)


@given(REPORTS, REFUSALS, st.integers(100, 200_000))
def test_no_refusals_change_an_estimate_by_more_than_half_and_none_of_them_is_stored(
    reports: list[tuple[int, int]], refusals: list[tuple[int, int | None, int | None]], counted: int
) -> None:
    meter = taught(reports)
    meter.forget()
    before, known = meter.estimate(counted), meter.calibration
    for asked, reported, limit in refusals:
        meter.learn_from_overflow(asked, reported, limit)
        assert before / FAR - 1 <= meter.estimate(counted) <= before * FAR + 1
    assert (meter.calibration.ratios, meter.calibration.factor) == (known.ratios, known.factor)


@given(REFUSALS, st.floats(0.8, 1.25), st.integers(2_000, 100_000))
def test_a_report_ends_what_refusals_said(
    refusals: list[tuple[int, int | None, int | None]], truth: float, counted: int
) -> None:
    meter = taught([(5_000, round(5_000 * truth))] * 6)
    for asked, reported, limit in refusals:
        meter.learn_from_overflow(asked, reported, limit)
    meter.learn(99, counted, round(counted * truth))
    meter.forget()
    assert abs(meter.estimate(counted) - counted * truth) <= 0.05 * counted * truth
    meter.learn_from_overflow(counted, 10**9, None)
    assert meter.estimate(counted) <= FAR * 1.05 * counted * truth + 1


def test_a_refusal_that_a_report_agrees_with_is_believed() -> None:
    meter = HeldEstimate()
    meter.learn_from_overflow(10_000, 15_000, None)
    meter.learn(1, 10_000, 14_800)
    meter.forget()
    assert 14_000 <= meter.estimate(10_000) <= 15_500 and meter.calibration.factor == 1.48
    meter.learn_from_overflow(10_000, 20_000, None)
    assert 19_000 <= meter.estimate(10_000) <= 22_500, "the next refusal may change it again"


def test_a_fork_knows_what_its_parent_knows_and_each_learns_for_both() -> None:
    meter = taught([(1000, 1500)])
    fork = meter.fork()
    assert fork.estimate(2000) == meter.estimate(2000) and fork.anchor == meter.anchor
    fork.learn(2, 2000, 2000)
    assert meter.calibration == fork.calibration
    assert meter.anchor != fork.anchor, "what was reported of its window is each lane's own"


# -- kinds of content -------------------------------------------------------------------------------------------


def test_the_kind_is_found_by_a_look() -> None:
    assert kind_of("1000\n1001\n") is kind_of("a 3.25, b 17.5, c 0.125") is ContentKind.DATA
    assert kind_of("words " * 600 + "12.5, " * 2000 + "words " * 600) is ContentKind.DATA
    assert kind_of('{"a": [1, 2], "word": "word", "letter": "letter"}') is ContentKind.CODE
    assert kind_of("def f(x):\n    return {x: [x]}\n") is ContentKind.CODE
    assert kind_of("窗口不足时进行压缩") is ContentKind.WIDE
    assert kind_of("Please look at the parser.") is kind_of("") is ContentKind.PROSE


CALLS = st.builds(ToolCall, st.just("c1"), st.just("bash"), st.just({"command": "ls"}), st.just(""))
MESSAGES = st.builds(
    Message,
    st.sampled_from([Role.USER, Role.ASSISTANT, Role.TOOL]),
    st.text(max_size=300),
    st.lists(CALLS, max_size=2).map(tuple),
)


@given(MESSAGES, st.integers(OVERHEAD_PER_MESSAGE, 100_000))
def test_the_kinds_of_a_message_come_to_its_count(message: Message, counted: int) -> None:
    found = slot_by_kind(WindowItem(1, ItemForm.FULL, message, tokens=counted))
    assert sum(found) == pytest.approx(counted) and min(found) >= 0


PARTS = st.lists(st.floats(0, 1e5), min_size=len(ContentKind), max_size=len(ContentKind))


@given(st.lists(st.tuples(PARTS, st.floats(0, 1e6)), max_size=12), PARTS)
def test_no_report_makes_an_estimate_absurd(reports: list[tuple[list[float], float]], asked: list[float]) -> None:
    ratios = Ratios.start(1.0)
    for seen, reported in reports:
        ratios = ratios.observe(tuple(seen), reported)
    assert LEAST_RATIO * sum(asked) - 1e-6 <= ratios.tokens(tuple(asked)) <= MOST_RATIO * sum(asked) + 1e-6
    assert ratios.tokens(EMPTY) == 0


@given(st.lists(st.tuples(st.sampled_from(["say", "cut", "again"]), st.integers(0, 60)), max_size=60))
def test_a_window_that_grows_and_is_cut_is_what_its_messages_are(steps: list[tuple[str, int]]) -> None:
    manager = ContextManager()
    lane = manager.conversation
    shown = list(lane.items)
    counts = KindSums()
    for what, number in steps:
        if what == "say":
            manager.add_user_message(f"{number} words " * number + '{"a": 1}')
            shown.append(lane.items[-1])
        elif what == "cut":
            del shown[: min(number, len(shown))]
        elif shown:
            shown[max(0, len(shown) - 1 - number % 3)] = lane.items[-1]
        contents = WindowContents(lane.epoch, tuple(shown), counts=counts)
        assert contents.messages() == pytest.approx(slots_by_kind(shown))
        later = [item for item in shown if item.entry > number]
        if [item.entry for item in shown] == sorted(item.entry for item in shown):
            assert contents.since(number) == pytest.approx(slots_by_kind(later), abs=1e-6)


# -- parts of a whole -------------------------------------------------------------------------------------------


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), max_size=40))
def test_the_parts_come_to_the_total_and_each_is_its_share_rounded(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    assert len(parts) == len(weights)
    assert sum(parts) == (total if sum(weights) else 0)
    for part, weight in zip(parts, weights, strict=True):
        assert part >= 0 and abs(part - Fraction(total * weight, sum(weights) or 1)) < 1
        assert weight or not part


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40))
def test_where_nothing_is_scaled_nothing_changes(weights: list[int]) -> None:
    assert apportion(sum(weights), weights) == weights
