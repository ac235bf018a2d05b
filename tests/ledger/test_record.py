"""What is recorded comes back as it was: entries, epochs, requests, drops, traces, figures."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger.conftest import on

from nexus_cli.config.ledger_place import LedgerPlace
from nexus_cli.core.entry import Entry, ItemForm, Kind, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import Message, Opaque, Part, Role, ToolCall, replace_surrogates
from nexus_cli.core.services import Calibration
from nexus_cli.core.usage import Cost, Usage
from nexus_cli.ledger import Ledger

ANY_TEXT = st.text(st.characters(), max_size=60)  # lone surrogates too
MESSAGES = st.builds(
    Message,
    st.sampled_from([Role.USER, Role.ASSISTANT, Role.TOOL]),
    ANY_TEXT,
    st.lists(st.builds(ToolCall, st.just("c1"), ANY_TEXT, st.dictionaries(ANY_TEXT, ANY_TEXT | st.integers()))),
    st.none() | st.just("c1"),
    st.lists(
        st.builds(
            Part, st.just("image/png"), st.binary(max_size=40), st.just("a.png"), st.sampled_from(["", "result of x"])
        )
    ).map(tuple),
    st.none() | st.builds(Opaque, st.just("anthropic"), st.just("m"), st.binary(max_size=40)),
)


@pytest.mark.matrix
@given(st.lists(st.tuples(MESSAGES, ANY_TEXT, st.sampled_from(list(Kind))), max_size=6))
def test_every_entry_comes_back_as_it_was_recorded(things: list[tuple[Message, str, Kind]]) -> None:
    ledger = Ledger.open(None)
    info = ledger.create_session(folder="/p", project="/p", model="m", recipe="chat", at="2026-01-01T00:00:00.000Z")
    entries = [
        Entry(n, "at", "tool:x", kind, m, replace_surrogates(pre), n) for n, (m, pre, kind) in enumerate(things, 1)
    ]
    for entry in entries:
        ledger.log(info.id).append(entry)
    assert ledger.log(info.id).read(1, 99) == entries
    assert ledger.log(info.id).last_id() == len(entries)
    ledger.close()


def test_a_range_is_read_with_both_ends_and_no_more(ledger: Ledger, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    for number in range(1, 10):
        on(ledger, lane).append(make.user(number))
    assert [entry.id for entry in on(ledger, lane).read(3, 5)] == [3, 4, 5]
    assert on(ledger, lane).read(6, 5) == []
    assert [entry.id for entry in on(ledger, lane).read(8, 1000)] == [8, 9]


def test_an_entry_that_is_not_the_next_is_refused(ledger: Ledger, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    log = on(ledger, lane)
    log.append(make.user(1))
    with pytest.raises(ValueError, match="does not follow"):
        log.append(make.user(3))
    with pytest.raises(NexusError, match="another process continued the session"):
        on(ledger, lane).append(make.user(1))
    assert [entry.id for entry in on(ledger, lane).read(1, 9)] == [1]


def test_an_epoch_comes_back_byte_for_byte(ledger: Ledger, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    on(ledger, lane).append(make.user(1))
    on(ledger, lane).append(make.user(2))
    first = make.epoch(0)
    head = (make.slot(1), make.slot(2, "elided", ItemForm.ELIDED), make.slot(2, "marker", ItemForm.MARKER))
    second = make.epoch(1, parent=0, head=head, base=2, tool_choice="none", effort="high")
    assert on(ledger, lane).current_epoch() is None and on(ledger, lane).next_epoch() == 0
    on(ledger, lane).begin_epoch(first, [])
    on(ledger, lane).begin_epoch(second, [])
    assert on(ledger, lane).epoch(0) == first
    assert on(ledger, lane).current_epoch() == second
    assert list(second.tools[0]["function"]) == list(on(ledger, lane).epoch(1).tools[0]["function"])
    assert on(ledger, lane).next_epoch() == 2
    with pytest.raises(NexusError, match="epoch 7: the session has no such epoch"):
        on(ledger, lane).epoch(7)


def test_an_epoch_is_begun_once_and_follows_a_known_one(ledger: Ledger, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    on(ledger, lane).begin_epoch(make.epoch(0), [])
    with pytest.raises(NexusError, match="another process continued the session"):
        on(ledger, lane).begin_epoch(make.epoch(0), [])
    with pytest.raises(ValueError, match="not recorded"):
        on(ledger, lane).begin_epoch(make.epoch(2, parent=1), [])


def test_an_epoch_and_its_drops_are_recorded_together_or_not_at_all(ledger: Ledger, make: SimpleNamespace) -> None:
    info = make.new(ledger)
    ledger.log(info.id).begin_epoch(make.epoch(0), [make.drop(ledger.log(info.id).next_drop(), "text")])
    with pytest.raises(NexusError, match="could not be written"):
        ledger.log(info.id).begin_epoch(make.epoch(1, 0), [make.drop("d1", "an id that is taken")])
    assert ledger.log(info.id).current_epoch() == make.epoch(0)
    assert [drop.id for drop in ledger.log(info.id).drops()] == ["d1"]


def test_a_slot_that_shows_its_entry_whole_adds_no_text(ledger: Ledger, path: Path, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    on(ledger, lane).append(make.user(1))
    on(ledger, lane).begin_epoch(make.epoch(0), [])
    before = _blobs(path)
    on(ledger, lane).begin_epoch(make.epoch(1, 0, (make.slot(1),), 1, effort="low"), [])
    assert _blobs(path) == before + 1  # the other system text


def _blobs(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        count: int = connection.execute("SELECT count(*) FROM blobs").fetchone()[0]
    connection.close()
    return count


def test_a_request_settles_its_entries_and_moves_the_cursor(ledger: Ledger, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    on(ledger, lane).append(make.user(1))
    on(ledger, lane).append(make.calling(2))
    on(ledger, lane).begin_epoch(make.epoch(0), [])
    assert on(ledger, lane).cursor() == 0 and on(ledger, lane).step() == 0
    on(ledger, lane).record_request(make.manifest(1, 1), [make.fixed(1, "now")], [])
    assert on(ledger, lane).cursor() == 1 and on(ledger, lane).step() == 1
    assert [(e.preamble, e.tokens) for e in on(ledger, lane).read(1, 2)] == [("now", 7), ("", 0)]
    assert on(ledger, lane).line_hashes(0, 2) == ([], [(1, make.fixed(1, "now").line)])


def test_what_was_sent_is_never_settled_otherwise(ledger: Ledger, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    on(ledger, lane).append(make.user(1))
    on(ledger, lane).begin_epoch(make.epoch(0, head=(make.slot(1),), base=0), [])
    line = sha256(b"slot").digest()
    on(ledger, lane).record_request(make.manifest(1, 1), [make.fixed(1)], [line])
    on(ledger, lane).record_request(make.manifest(2, 1), [make.fixed(1)], [line])
    before = on(ledger, lane).read(1, 1)
    for step, other in enumerate((make.fixed(1, "later"), make.fixed(1, tokens=8)), 3):
        on(ledger, lane).record_request(make.manifest(step, 1), [other], [sha256(b"other").digest()])
    with pytest.raises(NexusError, match="another process continued the session"):
        on(ledger, lane).record_request(make.manifest(4, 1), [], [])
    assert on(ledger, lane).step() == 4 and on(ledger, lane).read(1, 1) == before
    assert on(ledger, lane).line_hashes(0, 1) == ([line], [(1, make.fixed(1).line)])


def test_requests_come_back_with_what_they_used(ledger: Ledger, make: SimpleNamespace) -> None:
    info = make.new(ledger)
    ledger.log(info.id).append(make.user(1))
    ledger.log(info.id).begin_epoch(make.epoch(0), [])
    ledger.log(info.id).record_request(make.manifest(1, 1), [make.fixed(1)], [])
    ledger.log(info.id).record_request(make.manifest(2, 1), [], [])
    used = Usage(100, 20, 50, 10, 5, 0.25, Cost(0.1, 0.05, 0.04, 0.06, 0.2))
    ledger.log(info.id).record_reply(None, 1, used, "stop", True)
    ledger.log(info.id).record_reply(None, 1, used, "stop", True)
    one, two = ledger.log(info.id).requests()
    assert (one.manifest, one.usage, one.finish, one.reported) == (make.manifest(1, 1), used, "stop", True)
    assert (two.manifest, two.usage, two.finish, two.reported) == (make.manifest(2, 1), None, None, False)
    assert ledger.session(info.id).cost_usd == 0.25
    assert ledger.session(info.id).saved_usd == 0.2 and ledger.usage(info.id).cost == used.cost
    ledger.log(info.id).record_reply(None, 2, Usage(1, 1, cost_usd=None), "length", False)
    assert ledger.session(info.id).cost_usd is None
    ledger.log(info.id).record_reply(None, 2, used, "stop", True)
    assert ledger.log(info.id).requests()[1].finish == "length", "an outcome stays as it is"
    assert ledger.session(info.id).known_usd == 0.25, "and is paid for once"


@pytest.mark.matrix
def test_a_request_row_takes_at_most_a_kilobyte(ledger: Ledger, path: Path, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    on(ledger, lane).append(make.user(1))
    on(ledger, lane).begin_epoch(make.epoch(0), [])
    for step in range(1, 300):
        on(ledger, lane).record_request(make.manifest(step, 1), [], [])
    ledger.close()
    with sqlite3.connect(path) as connection:
        statement = "SELECT sum(pgsize) FROM dbstat WHERE name = 'requests'"
        try:
            taken = connection.execute(statement).fetchone()[0]
        except sqlite3.OperationalError:  # SQLite built without dbstat
            pages, page = (connection.execute(f"PRAGMA {n}").fetchone()[0] for n in ("page_count", "page_size"))
            taken = pages * page
    connection.close()
    assert taken / 299 <= 1024


def test_a_drop_gives_its_original_back(ledger: Ledger, make: SimpleNamespace) -> None:
    info = make.new(ledger)
    for entry in (make.user(1, "please"), make.calling(2), make.result(3, "listing")):
        ledger.log(info.id).append(entry)
    text, span, nothing = (ledger.log(info.id).next_drop() for _ in range(3))
    ledger.log(info.id).record_drop(make.drop(text, "x" * 100_000, uncounted=5))
    ledger.log(info.id).record_drop(make.drop(span, entries=(1, 3)))
    ledger.log(info.id).record_drop(make.drop(nothing, uncounted=9))
    assert [text, span, nothing] == ["d1", "d2", "d3"]
    assert ledger.log(info.id).original("d1") == "x" * 100_000
    told = '[1] user\nplease\n\n[2] assistant\nanswer 2\n-> bash({"command":"ls"}) c1\n\n[3] tool\nlisting'
    assert ledger.log(info.id).original("d2") == told
    assert ledger.log(info.id).original("d3") == ""
    assert [ledger.log(info.id).original(bad) for bad in ("d4", "d0", "d01", "x", "", "d" + "9" * 30)] == [None] * 6
    assert ledger.log(info.id).drops()[0] == replace(make.drop("d1", uncounted=5), after=3)
    assert [drop.entries for drop in ledger.log(info.id).drops()] == [None, (1, 3), None]
    ledger.log(info.id).count_recall("d2")
    assert [drop.recalls for drop in ledger.log(info.id).drops()] == [0, 1, 0]


def test_the_sections_that_a_project_left_out_are_counted_over_its_newest_sessions(
    ledger: Ledger, make: SimpleNamespace
) -> None:
    def leave_out(folder: str, *sections: str, recalled: str = "") -> None:
        log = ledger.log(make.new(ledger, folder).id)
        log.append(make.user(1, "please"))
        for section in sections:
            name = log.next_drop()
            log.record_drop(make.drop(name, f"text of {section}"))
            log.record_memo(Memo("left_out", make.at, 1, {"section": section, "sha256": "", "drop": name}))
            if section == recalled:
                log.count_recall(name)
                log.count_recall(name)

    assert ledger.count_misses("/p") == {}
    assert ledger.count_misses("/\udcff") == {}
    leave_out("/p", "a", "b")
    leave_out("/p", "a", recalled="a")
    leave_out("/other", "a", "c", recalled="c")
    assert ledger.count_misses("/p") == {"a": (2, 1), "b": (1, 0)}


def test_a_tool_call_starts_once(ledger: Ledger, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    assert not on(ledger, lane).was_started("c1")
    on(ledger, lane).record_start("c1", "bash")
    assert on(ledger, lane).was_started("c1") and not on(ledger, lane).was_started("c2")
    with pytest.raises(NexusError, match="could not be written"):
        on(ledger, lane).record_start("c1", "bash")


def test_files_are_remembered_by_their_exact_name(ledger: Ledger, make: SimpleNamespace) -> None:
    info = make.new(ledger)
    ledger.log(info.id).note("/p/\udcff", "aa", "read")
    ledger.log(info.id).note("/p/\udcfe", "bb", "read")
    ledger.log(info.id).note("/p/\udcfe", "cc", "changed")
    assert ledger.log(info.id).digest("/p/\udcff") == "aa"
    assert ledger.log(info.id).digest("/p/\udcfe") == "cc"
    assert ledger.log(info.id).digest("/p/\ufffd") is None
    assert sorted(ledger.log(info.id).files()) == [("/p/\udcfe", "changed"), ("/p/\udcff", "read")]


def test_a_file_that_was_created_or_changed_stays_so(ledger: Ledger, make: SimpleNamespace) -> None:
    info = make.new(ledger)
    uses = {"/p/new": ("created", "changed", "read"), "/p/old": ("read", "changed", "read"), "/p/seen": ("read",)}
    for path, hows in uses.items():
        for n, how in enumerate(hows):
            ledger.log(info.id).note(path, f"{n}", how)
    assert ledger.log(info.id).files() == [("/p/new", "created"), ("/p/old", "changed"), ("/p/seen", "read")]
    assert ledger.log(info.id).digest("/p/new") == "2"


@pytest.mark.matrix
def test_figures_outlive_the_process(place: LedgerPlace, make: SimpleNamespace) -> None:
    ledger = Ledger.open(place)
    info = make.new(ledger)
    digests = [sha256(b"%d" % n).digest() for n in range(300)]
    ledger.calibrate("m", Calibration(1.25, 4, (0.5,)))
    ledger.calibrate("full", Calibration(1.25, 4, (0.5, 0.25), (1.5, 1.0, 0.75, 2.0)))
    for number, digest in enumerate(digests):
        ledger.log(info.id).store_count("o200k_base", digest, number)
    ledger.close()
    again = Ledger.open(place)
    assert again.calibration("m") == Calibration(1.25, 4, (0.5,))
    assert again.calibration("m at 127.0.0.1:8000") == Calibration(1.25, 4, (0.5,)), "at first as under its name"
    assert again.calibration("full") == Calibration(1.25, 4, (0.5, 0.25), (1.5, 1.0, 0.75, 2.0))
    again.calibrate("m at here", Calibration(2.0, 1))
    assert again.calibration("m at here") == Calibration(2.0, 1) and again.calibration("m").factor == 1.25
    assert again.calibration("other") == again.calibration("other at here") == Calibration()
    assert [again.log(info.id).stored_count("o200k_base", digest) for digest in digests] == list(range(300))
    assert again.log(info.id).stored_count("cl100k_base", digests[1]) is None
    again.close()


@pytest.mark.parametrize("column", ["data", "hash"])
def test_one_flipped_byte_is_found_when_the_text_is_read(
    ledger: Ledger, path: Path, make: SimpleNamespace, column: str
) -> None:
    lane = make.new(ledger).main_lane
    on(ledger, lane).append(make.user(1, "some words that are long enough to be packed " * 9))
    with sqlite3.connect(path) as connection:
        stored = bytearray(connection.execute(f"SELECT {column} FROM blobs").fetchone()[0])
        stored[len(stored) // 2] ^= 1
        connection.execute(f"UPDATE blobs SET {column} = ?", (bytes(stored),))
    connection.close()
    with pytest.raises(NexusError) as caught:
        on(ledger, lane).read(1, 1)
    assert caught.value.kind == "ledger"


def test_a_closed_ledger_says_so_and_may_be_closed_again(ledger: Ledger, make: SimpleNamespace) -> None:
    lane = make.new(ledger).main_lane
    ledger.close()
    ledger.close()
    with pytest.raises(NexusError, match="closed"):
        on(ledger, lane).append(make.user(1))
    with pytest.raises(NexusError, match="closed"):
        on(ledger, lane).read(1, 1)


@pytest.mark.parametrize("kinds", ["[]", "[1.1, 1.2, 1.3, 0.7, 0.0, 0.1, 1.0, 0.0, 2.0, 1.9]"])
def test_what_an_older_release_learned_of_a_model_is_used_as_far_as_it_is_the_same(path: Path, kinds: str) -> None:
    Ledger.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO calibrations VALUES ('m', 1.25, 30, 0.07, 8000, ?)", (kinds,))
    db.close()
    ledger = Ledger.open(path)
    assert ledger.calibration("m") == Calibration(1.25, 30, (0.07,))
    ledger.close()
