"""Forks share what they came from, go on by themselves, and keep what they need when it is deleted."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger.conftest import AT, on

from nexus_cli.core.entry import Kind, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import to_record
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import Ledger, SessionInfo, SessionLog, blobs, entries, lanes, sessions


def grown(ledger: Ledger, make: SimpleNamespace, entries: int) -> SessionInfo:
    """A session with so many entries, sent up to the last but one under epoch 0."""
    info: SessionInfo = make.new(ledger)
    ledger.log(info.id).begin_epoch(make.epoch(0), [])
    for number in range(1, entries + 1):
        ledger.log(info.id).append(make.user(number))
        if number < entries:
            ledger.log(info.id).record_request(make.manifest(number, number), [make.fixed(number)], [])
    return info


def texts(ledger: Ledger, lane: int, first: int = 1, last: int = 999) -> list[str]:
    return [entry.message.content for entry in on(ledger, lane).read(first, last)]


@pytest.mark.matrix
def test_a_forked_session_goes_on_with_ids_of_its_own(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 5)
    fork = ledger.fork_session(parent.id, name="other way", at=make.at, entry=3)
    ledger.log(fork.id).append(make.user(4, "fork 4"))
    ledger.log(parent.id).append(make.user(6))
    assert texts(ledger, fork.main_lane) == ["words 1", "words 2", "words 3", "fork 4"]
    assert texts(ledger, parent.main_lane)[3:] == ["words 4", "words 5", "words 6"]
    assert texts(ledger, fork.main_lane, 3, 4) == ["words 3", "fork 4"]
    shown = ledger.session(fork.id)
    assert (shown.entries, shown.turns, shown.parent, shown.name) == (4, 4, parent.id, "other way")
    assert shown.first_text == "words 1"


def test_notes_are_those_of_the_source_too_and_of_before_the_first_entry(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 2)
    for entry in (0, 2):
        ledger.log(parent.id).record_memo(Memo("work", AT, entry, {"at": entry}))
    fork = ledger.fork_session(parent.id, at=make.at, entry=2)
    for lane in (parent.main_lane, fork.main_lane):
        assert [memo.entry for memo in lanes.notes(ledger.db, lane).values()] == [0, 2]
    assert [memo.entry for memo in lanes.notes(ledger.db, fork.main_lane, first=1).values()] == [2]
    assert not lanes.notes(ledger.db, fork.main_lane, own=True)


def test_a_transaction_that_fails_leaves_nothing_that_a_later_lane_would_see(
    ledger: Ledger, make: SimpleNamespace
) -> None:
    parent = grown(ledger, make, 3)
    session = ledger.log(parent.id).session
    key = sessions.key_of(ledger.db, session.id)
    with pytest.raises(KeyError), ledger.db.write():
        lost = lanes.open_lane(ledger.db, key, "lost", "ask", parent.main_lane, 2)
        assert len(lanes.ancestry(ledger.db, lost)) == 2
        raise KeyError
    with ledger.db.write():
        kept = lanes.open_lane(ledger.db, key, "kept", "ask", None, 0)
    assert [segment.lane for segment in lanes.ancestry(ledger.db, kept)] == [kept]


def test_what_never_changes_is_read_once(ledger: Ledger, path: Path, make: SimpleNamespace) -> None:
    log = ledger.log(grown(ledger, make, 3).id)
    assert path.exists() and not log.memos("seen") and not log.drops()
    queries: list[str] = []
    ledger.db.connection.set_trace_callback(queries.append)
    for _ in range(3):
        assert not log.memos("seen") and not log.drops()
    assert len(queries) == 6 and all("memos m" in query or "FROM drops" in query for query in queries), queries


@pytest.mark.matrix
def test_a_fork_of_a_fork_reads_the_notes_of_all_three_with_one_query(
    ledger: Ledger, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [grown(ledger, make, 3)]
    for generation in range(3):
        log = ledger.log(sessions[-1].id)
        log.record_memo(Memo("seen", make.at, 3, {"in": generation}))
        log.record_memo(Memo("other", make.at, 3, {}))
        sessions.append(ledger.fork_session(sessions[-1].id, at=make.at))
        log.append(make.user(4))
        log.record_memo(Memo("seen", make.at, 4, {"in": "after the fork"}))
    log = ledger.log(sessions[-1].id)
    queries: list[str] = []
    read = ledger.db.all

    def note_query(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        queries.append(sql)
        return read(sql, *values)

    monkeypatch.setattr(ledger.db, "all", note_query)
    seen = log.memos("seen")
    monkeypatch.undo()
    assert [memo.value["in"] for memo in seen] == [0, 1, 2]
    assert len(log.memos()) == 6 and not log.memos(own=True) and not log.memos(first=4)
    assert sum("memos m" in sql for sql in queries) == 1


@pytest.mark.matrix
def test_a_fork_begins_under_the_epoch_that_was_in_force(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 5)
    later = make.epoch(1, 0, (make.slot(5),), 5)
    ledger.log(parent.id).begin_epoch(later, [])
    early = ledger.fork_session(parent.id, at=make.at, entry=4)
    late = ledger.fork_session(parent.id, at=make.at)
    assert ledger.log(early.id).current_epoch() == make.epoch(0)
    assert ledger.log(late.id).current_epoch() == later
    assert ledger.log(early.id).line_hashes(0, 4) == ledger.log(parent.id).line_hashes(0, 4)
    assert ledger.log(early.id).cursor() == ledger.log(late.id).cursor() == 4
    assert ledger.log(late.id).epoch(0) == make.epoch(0)
    with pytest.raises(NexusError, match="epoch 1: the session has no such epoch"):
        ledger.log(early.id).epoch(1)
    assert (ledger.log(early.id).next_epoch(), ledger.log(late.id).next_epoch()) == (1, 2)
    ledger.log(early.id).begin_epoch(make.epoch(1, 0, (make.slot(4),), 4), [])
    assert ledger.log(early.id).epoch(1).base == 4 and ledger.log(parent.id).epoch(1).base == 5


@pytest.mark.matrix
def test_an_epoch_that_was_begun_later_is_not_taken_by_an_earlier_fork(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 6)
    ledger.log(parent.id).begin_epoch(make.epoch(1, 0, (make.slot(2),), 2), [])
    early = ledger.fork_session(parent.id, at=make.at, entry=4)
    late = ledger.fork_session(parent.id, at=make.at, entry=6)
    assert [ledger.log(fork.id).current_epoch() for fork in (early, late)] == [
        make.epoch(0),
        make.epoch(1, 0, (make.slot(2),), 2),
    ]


def test_a_file_read_after_the_fork_is_read_anew_by_the_fork(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 2)
    ledger.log(parent.id).note("/p/before", "aa", "read")
    ledger.log(parent.id).append(make.user(3))
    ledger.log(parent.id).note("/p/after", "bb", "read")
    ledger.log(parent.id).append(make.user(4))
    fork = ledger.fork_session(parent.id, at=make.at, entry=3)
    assert ledger.log(fork.id).files() == [("/p/before", "read")]


def test_a_fork_adds_no_text(ledger: Ledger, path: Path, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 5)
    ledger.log(parent.id).record_drop(make.drop(ledger.log(parent.id).next_drop(), "left out"))
    with sqlite3.connect(path) as connection:
        before = connection.execute("SELECT (SELECT count(*) FROM blobs), (SELECT count(*) FROM entries)").fetchone()
        ledger.fork_session(parent.id, at=make.at)
        after = connection.execute("SELECT (SELECT count(*) FROM blobs), (SELECT count(*) FROM entries)").fetchone()
    connection.close()
    assert before == after


def test_parent_and_fork_may_settle_a_waiting_entry_each_for_itself(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 5)
    fork = ledger.fork_session(parent.id, at=make.at)
    ledger.log(fork.id).record_request(make.manifest(1, 5), [make.fixed(5, "fork's clock")], [])
    ledger.log(parent.id).record_request(make.manifest(5, 5), [make.fixed(5, "parent's clock")], [])
    grandchild = ledger.fork_session(fork.id, at=make.at)
    side = ledger.log(fork.id).open_lane("compact", 5).lane
    for lane, preamble in (
        (parent.main_lane, "parent's clock"),
        (fork.main_lane, "fork's clock"),
        (grandchild.main_lane, "fork's clock"),
        (side, "fork's clock"),
    ):
        assert on(ledger, lane).read(5, 5)[0].preamble == preamble
        assert on(ledger, lane).line_hashes(0, 5)[1][-1] == (5, make.fixed(5, preamble).line)
    for lane, step in ((fork.main_lane, 2), (grandchild.main_lane, 1)):
        with pytest.raises(ValueError, match="sent before"):
            on(ledger, lane).record_request(make.manifest(step, 5), [make.fixed(5, "a third clock")], [])
    on(ledger, parent.main_lane).record_request(make.manifest(6, 5), [make.fixed(5, "a third clock")], [])
    assert on(ledger, parent.main_lane).read(5, 5)[0].preamble == "parent's clock"


def test_what_the_parent_had_sent_is_settled_for_the_fork_too(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 3)
    fork = ledger.fork_session(parent.id, at=make.at)
    ledger.log(fork.id).record_request(make.manifest(1, 2), [make.fixed(2)], [])
    with pytest.raises(ValueError, match="sent before"):
        ledger.log(fork.id).record_request(make.manifest(2, 2), [make.fixed(2, "another")], [])


@pytest.mark.matrix
def test_a_side_lane_of_a_session_settles_for_its_parent(ledger: Ledger, make: SimpleNamespace) -> None:
    info = grown(ledger, make, 3)
    side = ledger.log(info.id).open_lane("compact", 3).lane
    on(ledger, side).append(make.user(4, "summarise"))
    on(ledger, side).record_request(make.manifest(1, 4), [make.fixed(3, "now"), make.fixed(4)], [])
    assert ledger.log(info.id).read(3, 3)[0].preamble == "now"
    assert ledger.log(info.id).cursor() == 2 and on(ledger, side).cursor() == 4
    assert ledger.session(info.id).entries == 3
    ledger.log(info.id).append(make.user(4, "go on"))
    assert texts(ledger, side, 4, 4) == ["summarise"] and texts(ledger, info.main_lane, 4, 4) == ["go on"]


@pytest.mark.matrix
def test_a_fork_knows_the_drops_and_files_of_its_past_only(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 2)
    ledger.log(parent.id).record_drop(make.drop(ledger.log(parent.id).next_drop(), entries=(1, 2)))
    ledger.log(parent.id).note("/p/a", "aa", "read")
    ledger.log(parent.id).append(make.user(3))
    ledger.log(parent.id).append(make.user(4))
    ledger.log(parent.id).record_drop(make.drop(ledger.log(parent.id).next_drop(), "second"))
    ledger.log(parent.id).note("/p/b", "bb", "read")
    fork = ledger.fork_session(parent.id, at=make.at, entry=3)
    assert [drop.id for drop in ledger.log(fork.id).drops()] == ["d1"]
    assert ledger.log(fork.id).original("d1") == ledger.log(parent.id).original("d1")
    assert ledger.log(fork.id).digest("/p/a") == "aa" and ledger.log(fork.id).digest("/p/b") is None
    assert ledger.log(fork.id).next_drop() == "d3" and ledger.log(parent.id).next_drop() == "d3"
    ledger.log(fork.id).count_recall("d1")
    assert [drop.recalls for drop in ledger.log(parent.id).drops()] == [0, 0]
    whole = ledger.fork_session(parent.id, at=make.at)
    assert ledger.log(whole.id).digest("/p/b") == "bb" and len(ledger.log(whole.id).drops()) == 2


def test_a_call_that_the_parent_started_is_known_as_started(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = grown(ledger, make, 1)
    ledger.log(parent.id).append(make.calling(2))
    ledger.log(parent.id).record_start("c1", "bash")
    fork = ledger.fork_session(parent.id, at=make.at)
    ledger.delete_session(parent.id)
    assert ledger.log(fork.id).was_started("c1")


@pytest.mark.parametrize("entry", [-1, 4, 10**9])
def test_a_session_is_forked_at_an_entry_that_it_has(ledger: Ledger, make: SimpleNamespace, entry: int) -> None:
    parent = grown(ledger, make, 3)
    with pytest.raises(NexusError, match="cannot be forked at") as caught:
        ledger.fork_session(parent.id, at=make.at, entry=entry)
    assert caught.value.kind == "usage" and len(ledger.sessions()) == 1


@pytest.mark.matrix
def test_deletion_takes_the_text_out_of_the_files(ledger: Ledger, path: Path, make: SimpleNamespace) -> None:
    kept, gone = make.new(ledger), make.new(ledger)
    ledger.log(kept.id).append(make.user(1, "KEPT-4711"))
    for number in range(1, 200):
        ledger.log(gone.id).append(make.user(number, f"SECRET-{number}-" + "".join(map(str, range(number, 900)))))
    ledger.log(gone.id).record_drop(make.drop(ledger.log(gone.id).next_drop(), "SECRET-drop"))
    ledger.log(gone.id).note("/p/SECRET-file", "aa", "read")
    ledger.lock(gone.id)
    log = ledger.log(gone.id)
    assert any(b"SECRET-1" in part.read_bytes() for part in path.parent.glob("ledger.db*"))
    before = sum(part.stat().st_size for part in path.parent.glob("ledger.db*"))
    freed = ledger.delete_session(gone.id)
    after = {part.name: part.read_bytes() for part in path.parent.glob("ledger.db*")}
    assert not [name for name, data in after.items() if b"SECRET" in data]
    assert any(b"KEPT-4711" in data for data in after.values())
    assert freed > 100_000 and sum(map(len, after.values())) <= before - freed
    assert not list((path.parent / "locks").glob(f"{gone.id}*"))
    with pytest.raises(NexusError, match="there is no such session"):
        ledger.session(gone.id)
    with pytest.raises(NexusError, match="another process has deleted it"):
        log.append(make.user(200))


@dataclass
class Model:
    """What a live session should still be able to read."""

    lane: int
    seen: list[str]
    side: list[tuple[int, list[str]]] = field(default_factory=list)
    epochs: dict[int, str] = field(default_factory=dict)
    drops: dict[str, str] = field(default_factory=dict)
    born: dict[str, int] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["new", "append", "append", "fork", "epoch", "drop", "side", "delete"]), st.integers(0, 999)
    ),
    min_size=8,
    max_size=40,
)


@pytest.mark.matrix
@given(STEPS)
def test_after_deletions_what_remains_is_exactly_what_is_reachable(
    make: SimpleNamespace, steps: list[tuple[str, int]]
) -> None:
    ledger = Ledger.open(None)
    models: dict[str, Model] = {}
    for number, (action, choice) in enumerate(steps):
        _act(ledger, make, models, action if models else "new", choice, number)
        if action == "delete":
            _assert_exact(ledger, make, models)
    _assert_exact(ledger, make, models)
    for identity in list(models):
        ledger.delete_session(identity)
    assert _stored(ledger) == set()
    tables = ("sessions", "lanes", "entries", "epochs", "slots", "schemas", "requests", "drops", "blobs", "fixes")
    assert [t for t in tables if ledger.db.one(f"SELECT 1 FROM {t}")] == []
    ledger.close()


def _act(
    ledger: Ledger, make: SimpleNamespace, models: dict[str, Model], action: str, choice: int, number: int
) -> None:
    if action == "new":
        info = make.new(ledger)
        models[info.id] = Model(info.main_lane, [])
        return
    identity = sorted(models)[choice % len(models)]
    model, text = models[identity], f"text {number}"
    if action == "append":
        on(ledger, model.lane).append(make.user(len(model.seen) + 1, text))
        model.seen.append(text)
    elif action == "epoch":
        new, parent = on(ledger, model.lane).next_epoch(), max(model.epochs, default=None)
        on(ledger, model.lane).begin_epoch(make.epoch(new, parent, system=text, base=len(model.seen)), [])
        model.epochs[new], model.began[new] = text, len(model.seen)
    elif action == "side":
        upto = choice % (len(model.seen) + 1)
        lane = on(ledger, model.lane).open_lane("side", upto).lane
        on(ledger, lane).append(make.user(upto + 1, text))
        model.side.append((lane, [*model.seen[:upto], text]))
    elif action == "drop":
        drop = ledger.log(identity).next_drop()
        on(ledger, model.lane).record_drop(make.drop(drop, text))
        model.drops[drop], model.born[drop] = text, len(model.seen)
    elif action == "fork":
        upto = choice % (len(model.seen) + 1)
        fork = ledger.fork_session(identity, at=make.at, entry=upto)
        models[fork.id] = Model(
            fork.main_lane,
            model.seen[:upto],
            [],
            {key: value for key, value in model.epochs.items() if model.began[key] <= upto},
            {key: value for key, value in model.drops.items() if model.born[key] <= upto},
            dict(model.born),
            dict(model.began),
        )
    elif action == "delete":
        ledger.delete_session(identity)
        del models[identity]


def _assert_exact(ledger: Ledger, make: SimpleNamespace, models: dict[str, Model]) -> None:
    expected: set[bytes] = set()
    for identity, model in models.items():
        assert texts(ledger, model.lane) == model.seen
        assert [(lane, texts(ledger, lane)) for lane, _ in model.side] == model.side
        assert {drop.id: ledger.log(identity).original(drop.id) for drop in ledger.log(identity).drops()} == model.drops
        for key, text in model.epochs.items():
            assert on(ledger, model.lane).epoch(key).system == text
            blank = make.epoch(key)
            expected |= {text.encode(), blank.rules.encode(), blank.sections.encode()}
            expected |= {canonical(tool) for tool in blank.tools}
        expected |= {canonical(to_record(make.user(1, text).message)) for text in _seen(model)}
        expected |= {text.encode() for text in model.drops.values()}
    assert _stored(ledger) == expected


def _seen(model: Model) -> list[str]:
    return [*model.seen, *(text for _, seen in model.side for text in seen)]


def _stored(ledger: Ledger) -> set[bytes]:
    return {blobs.unpack(*row) for row in ledger.db.all("SELECT hash, codec, data FROM blobs")}


def test_a_transcript_shows_arguments_that_were_no_object_as_they_came(make: SimpleNamespace) -> None:
    from nexus_cli.core.entry import Entry, Kind, format_transcript
    from nexus_cli.core.message import Message, Part, Role, ToolCall

    call = ToolCall("c9", "bash", {}, '{"command": ')
    parts = (Part("image/png", b"x", "shot.png"), Part("image/gif", b"y"))
    told = format_transcript(
        [Entry(4, make.at, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, "", (call,), parts=parts))]
    )
    lines = ["[4] assistant", "[image shot.png: image/png]", "[image without name: image/gif]"]
    assert told.splitlines() == [*lines, '-> bash({"command": ) c9']
    assert json.dumps(format_transcript([])) == '""'


def test_a_session_knows_its_turns_when_it_goes_on_and_in_a_fork(ledger: Ledger, make: SimpleNamespace) -> None:
    info = make.new(ledger)
    new = SessionLog.for_session(ledger, info.id, require_save=True, warn=print, is_new=True)
    for entry in (make.user(1), replace(make.user(2), kind=Kind.STEER), make.user(3), make.user(4)):
        new.append(entry)
    new.open_lane("side").append(make.user(1))
    fork = ledger.fork_session(info.id, at=AT, entry=3)
    again, forked = (SessionLog.for_session(ledger, one, require_save=True, warn=print) for one in (info.id, fork.id))
    assert [log.count_turns() for log in (new, again, forked)] == [3, 3, 2]
    forked.append(make.user(4))
    assert forked.count_turns() == ledger.log(fork.id).count_turns() == 3


@pytest.mark.matrix
@pytest.mark.parametrize("base", [0, 2, 4])
def test_the_window_of_a_lane_is_read_over_its_ancestors(ledger: Ledger, make: SimpleNamespace, base: int) -> None:
    """An epoch of the parent, or one of the fork behind its own entry."""
    parent = grown(ledger, make, 3)
    if base == 2:
        ledger.log(parent.id).begin_epoch(make.epoch(1, 0, base=2), [])
    fork = ledger.fork_session(parent.id, at=AT)
    log = ledger.log(fork.id)
    for number in (4, 5):
        log.append(make.user(number))
    if base == 4:
        log.begin_epoch(make.epoch(1, 0, base=4), [])
    log.record_request(make.manifest(4, 5, min(base, 1)), [make.fixed(5)], [])
    found = entries.read_window(ledger.db, log.lane, base)
    assert [entry for entry, _ in found] == log.read(base + 1, 5)
    assert [(entry.id, line) for entry, line in found if line] == entries.line_hashes(ledger.db, log.lane, base + 1, 5)
