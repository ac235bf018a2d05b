"""The verdict: what a summary keeps, which lines bring the rest back, and when it will not do."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest
from context.fidelity.generated import History, corrupted, sentence, summarised
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus_cli.context.fidelity import Commitment, CommitmentKind, Verdict, added_room, commitments, judge
from nexus_cli.context.fidelity.keys import commitment
from nexus_cli.context.fidelity.lines import shortened
from nexus_cli.context.fidelity.standing import Standing
from nexus_cli.context.plan import SUMMARY_SHARE
from nexus_cli.context.tokens import SimpleTokenCounter
from nexus_cli.core.message import Message, Role, ToolCall

COUNT = SimpleTokenCounter().count
BUDGET = 184_000
"""Of a window of 200,000 tokens."""
ROOM = added_room(int(BUDGET * SUMMARY_SHARE))
Kind = CommitmentKind


def verdict(
    found: Sequence[Commitment], summary: str, room: int, kept: Sequence[Message] = (), recallable: bool = False
) -> Verdict:
    return judge(found, summary, kept, room=room, count=COUNT, recallable=lambda _: recallable)


@pytest.mark.parametrize("seed", range(8))
def test_a_summariser_that_loses_half_leaves_nearly_all_in_the_window(seed: int) -> None:
    history = History(seed, turns=20)
    found = commitments(history.numbered())
    result = verdict(found, summarised(found, seed), ROOM, history.messages[-6:])
    added = COUNT("\n".join(result.added))
    print(f"{result.retained} of {result.total} retained, {result.restored} by {added} tokens of at most {ROOM}")
    assert len(found) > 150
    assert result.score >= 0.95
    assert result.ok
    assert added <= ROOM


@pytest.mark.parametrize("seed", range(4))
def test_every_commitment_stands_in_its_own_wording_and_in_its_own_line(seed: int) -> None:
    found = commitments(History(seed, turns=10).numbered())
    assert {commitment.kind for commitment in found} == set(Kind)
    whole = Standing(summarised(found, seed, lost=0, broken=0))
    lines = Standing("\n".join(verdict(found, "", 1_000_000).added))
    for one in found:
        assert Standing(sentence(one)).holds(one)
        assert whole.holds(one)
        assert lines.holds(one)


@given(st.integers(0, 200))
def test_a_changed_digit_or_word_is_never_taken_for_the_thing_itself(seed: int) -> None:
    found = commitments(History(seed, turns=1).numbered())
    for one in found:
        if one.kind is Kind.IDENTIFIER:
            continue
        text = corrupted(one.text, random.Random(seed))
        told = {Kind.FILE: f"{text} was {one.state}", Kind.COMMAND: f"{text} -> exit {one.exit}"}.get(one.kind, text)
        assert not Standing(told).holds(one)


def test_the_most_important_comes_back_first() -> None:
    found = [
        commitment(Kind.IDENTIFIER, "8081", 1, about="on port 8081"),
        commitment(Kind.COMMAND, "pytest -q", 2, exit=1),
        commitment(Kind.FILE, "src/a.py", 3, state="changed"),
        commitment(Kind.CONSTRAINT, "Don't touch the API.", 4),
    ]
    lines = verdict(found, "", 1000).added
    assert lines == (
        "- constraint (entry 4): Don't touch the API.",
        "- changed: src/a.py",
        "- ran: pytest -q -> exit 1",
        "- exact values: on port 8081",
    )
    assert verdict(found, "", COUNT(lines[0]) + 4).added == lines[:1]


LONG = {
    Kind.CONSTRAINT: (
        "Please leave the column order of the nightly export exactly alone, because the macros of the accountants "
        "count the columns from the left, and nobody there has known for years how these macros are to be changed or "
        "where they are kept.",
        "Please leave the column order of the nightly export exactly alone",
    ),
    Kind.QUESTION: (
        "With a limit per key a tenant simply gets around the limit by making more keys, and with a limit per tenant "
        "the two largest of them would run into it every morning at nine, so where should the limit live?",
        "where should the limit live?",
    ),
}


@pytest.mark.parametrize("kind", LONG)
def test_a_long_saying_comes_back_as_its_telling_clause_with_the_entry_to_recall_the_rest_by(kind: Kind) -> None:
    text, telling = LONG[kind]
    result = verdict([commitment(kind, text, 7)], "", 60)
    (line,) = result.added
    assert line.startswith(f"- {kind} (entry 7): ") and telling in line and "…" in line
    assert COUNT(line) <= 60
    assert (result.retained, result.restored) == (1, 1)
    assert verdict([commitment(kind, text, 7)], text, 0).retained == 1
    assert verdict([commitment(kind, text, 7)], telling, 0).retained == 0


@given(st.sampled_from(sorted(Kind)), st.text(min_size=1, max_size=600), st.integers(20, 200))
def test_what_is_cut_is_a_span_of_what_was_said_and_no_longer_than_asked(kind: Kind, text: str, width: int) -> None:
    found = commitment(kind, text, 1)
    short = shortened(found, width)
    if short.cut:
        assert short.text in " ".join(text.split()) and 0 < len(short.text) <= width
    else:
        assert short == found


def test_sayings_are_cut_shorter_where_not_all_of_them_fit() -> None:
    text = LONG[Kind.CONSTRAINT][0]
    names = enumerate(("import", "mail"), 1)
    found = [commitment(Kind.CONSTRAINT, text.replace("export", name), number) for number, name in names]
    wide = verdict(found[:1], "", 1000).added[0]
    assert verdict(found, "", COUNT(wide) * 2 - 6).retained == 2


def test_several_files_and_commands_share_a_line() -> None:
    found = [
        commitment(Kind.FILE, "a.py", 1, state="created", digest="1a2b3c4d5e6f"),
        commitment(Kind.FILE, "b.py", 2, state="created"),
        commitment(Kind.COMMAND, "make", 3, exit=2),
        commitment(Kind.COMMAND, "make test", 4, exit=2),
    ]
    assert verdict(found, "", 1000).added == (
        "- created: a.py (sha 1a2b3c4d), b.py",
        "- ran, exit 2: `make`; `make test`",
    )


def test_kept_turns_count_with_what_their_calls_did() -> None:
    call = ToolCall("c1", "write_file", {"path": "a.py", "content": ""})
    kept = [Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, "replaced a.py, 0 lines", tool_call_id="c1")]
    found = [commitment(Kind.FILE, "a.py", 1, state="changed")]
    assert verdict(found, "", 0, kept).retained == 1
    assert verdict(found, "", 0).missing == 1


def test_a_lost_constraint_refuses_the_summary_even_if_it_could_be_recalled() -> None:
    found = [commitment(Kind.CONSTRAINT, "Don't touch the API.", 1)]
    result = verdict(found, "All is well.", 0, recallable=True)
    assert (result.recallable, result.missing, result.ok) == (1, 0, False)
    assert verdict(found, "All is well.", 100).ok


def test_losing_commands_and_errors_is_borne_while_they_can_be_recalled() -> None:
    found = [commitment(Kind.COMMAND, f"make {name}", 1, exit=0) for name in "abcdef"]
    assert verdict(found, "", 0, recallable=True).ok
    assert not verdict(found, "", 0).ok


def test_without_commitments_every_summary_will_do() -> None:
    result = verdict([], "", 0)
    assert (result.ok, result.score, result.added) == (True, 1.0, ())


def test_a_verdict_is_plain_json() -> None:
    found = commitments(History(1, turns=2).numbered())
    told = verdict(found, "", 100).described()
    assert json.loads(json.dumps(told)) == told
    assert {"total", "retained", "recallable", "missing", "added", "ok", "score"} <= set(told)


@given(st.integers(0, 30), st.integers(0, 1500), st.floats(0, 1), st.integers(0, 3))
def test_the_room_is_never_exceeded_and_the_parts_make_the_whole(seed: int, room: int, lost: float, kind: int) -> None:
    history = History(seed, turns=3)
    found = commitments(history.numbered())
    summary = summarised(found, seed, lost=lost * 0.9, broken=0.1)
    result = judge(
        found, summary, history.messages[-4:], room=room, count=COUNT, recallable=lambda one: len(one.text) % 4 >= kind
    )
    assert COUNT("\n".join(result.added)) <= room
    assert result.retained + result.recallable + result.missing == result.total == len(found)
    assert 0 <= result.restored <= result.retained
    without = verdict(found, summary, 0, history.messages[-4:])
    assert without.added == ()
    assert result.retained >= without.retained
    assert result.retained - result.restored == without.retained


def test_added_lines_may_take_a_share_of_the_summary_and_always_a_few_tokens() -> None:
    assert added_room(0) == 64
    assert added_room(10_000) == 1500


@given(st.integers(0, 200), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_what_is_absent_is_what_is_not_retained_and_no_added_line_names_it(seed: int, room: int) -> None:
    found = commitments(History(seed, turns=2).numbered())
    told = verdict(found, "", room)
    assert len(told.absent) == told.total - told.retained
    added = Standing("\n".join(told.added))
    assert not any(added.holds(one) for one in told.absent)
