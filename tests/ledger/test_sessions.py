"""Sessions are listed without reading them, and found by id, beginning or name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nexus_cli.core.errors import NexusError
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.lane_state import LaneState, read_state
from nexus_cli.ledger.sessions import add_cost, key_of, ulid


def test_ids_sort_by_time_and_use_crockfords_letters() -> None:
    moments = ["1970-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z", "9999-01-01T00:00:00Z"]
    made = [ulid(moment) for moment in moments]
    assert made == sorted(made) and len({ulid(moments[1]) for _ in range(100)}) == 100
    assert all(len(one) == 26 and set(one) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for one in made)
    assert made[0].startswith("0000000000") and len(ulid("no time")) == 26


def test_a_new_session_is_known_as_it_is_recorded(ledger: Ledger) -> None:
    values: Any = {"folder": "/p\ud800", "project": "/p", "model": "m", "recipe": "chat", "at": "2026-01-01T00:00:00Z"}
    for more in ({}, {"name": " a\nname ", "front": "ask", "worktree": "w"}, {"locks": True}):
        made = ledger.create_session(**values, **more)
        assert ledger.session(made.id) == made and made.main_lane
        assert ledger.is_locked(made.id) == bool(more.get("locks") and ledger.server)
        if ledger.server:
            other = ledger.reconnect()
            assert other.lock(made.id) != ledger.is_locked(made.id)
            other.close()


def test_an_opening_reads_nothing_twice_until_something_is_written(
    ledger: Ledger, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = make.new(ledger)
    ledger.log(info.id).append(make.user(1))
    asked, real = list[str](), ledger.db._ask

    def ask(sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        asked.append(sql)
        return real(sql, values)

    monkeypatch.setattr(ledger.db, "_ask", ask)
    with ledger.opening(info):
        assert read_state(ledger.db, info.main_lane) == read_state(ledger.db, info.main_lane) == LaneState(1, turns=1)
        assert len(asked) == (not ledger.server), "a server was asked ahead"
        ledger.log(info.id).append(make.user(2))
        assert read_state(ledger.db, info.main_lane).last == 2
    ledger.log(info.id).append(make.user(3))
    assert read_state(ledger.db, info.main_lane).last == 3


def test_a_listing_shows_what_happened_without_reading_a_text(
    ledger: Ledger, path: Path, make: SimpleNamespace
) -> None:
    info = make.new(ledger, at="2026-01-01T00:00:00.000Z", name=" my\nname ")
    ledger.log(info.id).append(make.user(1, "é" * 300))
    ledger.log(info.id).append(make.calling(2))
    ledger.log(info.id).append(make.result(3))
    ledger.log(info.id).append(make.user(4, "more"))
    statements: list[str] = []
    ledger.db.connection.set_trace_callback(statements.append)
    (shown,) = ledger.sessions("/p")
    ledger.db.connection.set_trace_callback(None)
    assert (shown.entries, shown.turns, shown.first_text, shown.name) == (4, 2, "é" * 200, "my name")
    assert (shown.created, shown.updated) == ("2026-01-01T00:00:00.000Z", make.at)
    assert statements and not [s for s in statements if "blobs" in s or "entries " in s.replace("entries,", "")]


def test_the_newest_session_of_a_folder_is_the_one_used_last(ledger: Ledger, make: SimpleNamespace) -> None:
    assert ledger.newest_session("/p") is None
    one, two = make.new(ledger), make.new(ledger)
    make.new(ledger, folder="/elsewhere")
    assert ledger.newest_session("/p") == ledger.session(two.id)
    ledger.log(one.id).append(make.user(1))
    assert ledger.newest_session("/p") == ledger.session(one.id), "in the other one nothing happened yet"
    ledger.log(two.id).append(make.user(1))
    assert ledger.newest_session("/p") == ledger.session(two.id)
    ledger.touch_session(one.id, model="other/m")
    ledger.log(one.id).append(replace(make.user(2), at="2027-01-01T00:00:00.000Z"))
    assert ledger.newest_session("/p") == ledger.session(one.id)
    assert ledger.session(one.id).model == "other/m"
    ledger.log(one.id).append(replace(make.user(3), at="2020-01-01T00:00:00.000Z"))
    assert ledger.session(one.id).updated == "2027-01-01T00:00:00.000Z"
    assert [info.id for info in ledger.sessions("/p")] == [one.id, two.id]
    assert len(ledger.sessions()) == 3 and len(ledger.sessions(limit=2)) == 2


def test_a_session_is_found_by_id_beginning_or_name(ledger: Ledger, make: SimpleNamespace) -> None:
    one = make.new(ledger, at="2026-01-01T00:00:00.000Z", name="parser fix")
    two = make.new(ledger, at="2030-01-01T00:00:00.000Z")
    for key in (one.id, one.id.lower(), one.id[:10], one.id[-6:], "parser fix", " parser  fix "):
        assert ledger.find_session(key).id == one.id
    assert ledger.find_session(two.id[:8]).id == two.id
    ledger.rename_session(two.id, "second")
    assert ledger.find_session("second").id == two.id


@pytest.mark.parametrize(
    ("key", "says"), [("parser fi", "Did you mean `parser fix`"), ("", "empty"), ("*", "there is no such session")]
)
def test_an_unknown_key_names_the_nearest(ledger: Ledger, make: SimpleNamespace, key: str, says: str) -> None:
    make.new(ledger, name="parser fix")
    with pytest.raises(NexusError) as caught:
        ledger.find_session(key)
    assert caught.value.kind == "usage" and says in caught.value.line


def test_a_key_that_names_several_lists_them(ledger: Ledger, make: SimpleNamespace) -> None:
    made = [make.new(ledger) for _ in range(7)]
    ledger.db.run("UPDATE sessions SET name = 'same'")  # as in a ledger from before names were looked at
    with pytest.raises(NexusError, match="matches 7 sessions") as caught:
        ledger.find_session("same")
    assert made[-1].id in caught.value.why and "and 2 more" in caught.value.why
    with pytest.raises(NexusError, match="matches 7 sessions"):
        ledger.find_session(made[0].id[:5])


def test_a_name_that_finds_another_session_is_refused(ledger: Ledger, make: SimpleNamespace) -> None:
    one, two = (make.new(ledger, at=f"20{year}-01-01T00:00:00.000Z") for year in (26, 30))
    ledger.rename_session(one.id, "parser fix")
    taken = {
        " parser\tfix ": f"session {one.id} has this name",
        one.id[:6].lower(): f"the id of session {one.id} begins with this name",
    }
    for name, why in taken.items():
        for give in (
            lambda name=name: ledger.rename_session(two.id, name),
            lambda name=name: ledger.fork_session(two.id, name=name, at=make.at),
        ):
            with pytest.raises(NexusError, match="is taken") as caught:
                give()
            assert (caught.value.kind, caught.value.why) == ("usage", why)
    assert len(ledger.sessions()) == 2 and ledger.session(two.id).name == ""
    for name in ("parser fix", one.id[:8], "parser", ""):
        ledger.rename_session(one.id, name)
    ledger.rename_session(two.id, "parser fix")
    assert ledger.find_session("parser fix").id == two.id


@pytest.mark.matrix
def test_the_work_of_resuming_does_not_grow_with_the_session(make: SimpleNamespace) -> None:
    assert _resume_work(make, 3_000) <= 1.2 * _resume_work(make, 60)


def _resume_work(make: SimpleNamespace, entries: int) -> int:
    """Steps of SQLite's machine to resume a session of so many entries, 50 of them after the epoch's base."""
    ledger = Ledger.open(None)
    info = make.new(ledger)
    for number in range(1, entries + 1):
        ledger.log(info.id).append(make.user(number))
        if number == entries - 50:
            head = tuple(make.slot(number) for _ in range(5))
            ledger.log(info.id).begin_epoch(make.epoch(0, None, head, number), [])
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    ledger.db.connection.set_progress_handler(count, 1)
    found = ledger.find_session(info.id)
    epoch = ledger.log(found.id).current_epoch()
    assert epoch is not None
    assert len(ledger.log(found.id).read(epoch.base + 1, ledger.log(found.id).last_id())) == 50
    ledger.log(found.id).cursor(), ledger.log(found.id).step(), ledger.log(found.id).next_epoch()
    ledger.db.connection.set_progress_handler(None, 0)
    ledger.close()
    return steps


def test_the_session_that_was_used_last_is_the_newest_also_where_the_clock_was_set_back(
    ledger: Ledger, make: SimpleNamespace
) -> None:
    first = make.new(ledger, at="2026-11-20T10:00:00.000Z")
    second = make.new(ledger, at="2026-11-19T09:00:00.000Z")
    for session in (first, second):
        ledger.log(session.id).append(replace(make.user(1, "words"), at=session.created))
    newest = ledger.newest_session(first.folder)
    assert newest is not None and newest.id == second.id
    ledger.log(first.id).append(replace(make.user(2, "more"), at="2026-11-18T08:00:00.000Z"))
    assert [one.id for one in ledger.sessions(first.folder)] == [first.id, second.id]
    ledger.touch_session(second.id, model="openai/other")
    assert [one.id for one in ledger.sessions()] == [first.id, second.id], "to look into one is not to use it"
    ledger.log(second.id).append(replace(make.user(2, "more"), at="2026-11-18T08:00:00.000Z"))
    assert [one.id for one in ledger.sessions()] == [second.id, first.id]


def test_a_search_of_titles_reaches_every_session_and_counts_those_beyond_its_limit(
    ledger: Ledger, make: SimpleNamespace
) -> None:
    made = [make.new(ledger, front="chat") for _ in range(5)]
    for number, info in enumerate(made):
        ledger.log(info.id).append(make.user(1, f"Ärger mit der Seite {number}"))
    make.new(ledger, front="chat")
    ledger.rename_session(made[0].id, "login page")
    found, count = ledger.search_titles("", "/p", 2, runs=False)
    assert [info.id for info in found] == [made[4].id, made[3].id] and count == 5, "an empty session is none"
    for words, sought in (("LOGIN 0", 0), ("ärger 3", 3), (made[2].id[:20].lower(), 2), (made[1].id[-6:-1].lower(), 1)):
        found, count = ledger.search_titles(words, "/p", 2)
        assert [info.id for info in found] == [made[sought].id] and count == 1, words
    assert ledger.search_titles("login 1", "/p") == ([], 0), "every word counts"
    assert ledger.search_titles("ärger", "/p", without=made[4].id)[1] == 4
    assert ledger.search_titles("ärger", "/elsewhere") == ([], 0)
    assert ledger.count_sessions("/p") == 6 and ledger.count_sessions("/elsewhere") == 0


def test_the_keys_of_a_search_read_the_titles_once(
    ledger: Ledger, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, asked, ask = make.new(ledger, front="chat"), list[str](), ledger.db._ask
    ledger.log(info.id).append(make.user(1, "fix the login page"))

    def counted(sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        asked.append(sql)
        return ask(sql, values)

    monkeypatch.setattr(ledger.db, "_ask", counted)
    for words in ("f", "fi", "fix"):
        assert [found.id for found in ledger.search_titles(words, "/p")[0]] == [info.id]
        ledger.short_ids([info.id])
    count = sum("WHERE key IN" not in sql for sql in asked)
    assert count == 2 or ledger.db.is_shared, "the titles, and the ids"
    later = make.new(ledger, front="chat")
    ledger.log(later.id).append(make.user(1, "fix another page"))
    assert [found.id for found in ledger.search_titles("fix", "/p")[0]] == [later.id, info.id]


def test_runs_of_ask_are_kept_apart_and_found_when_asked_for(ledger: Ledger, make: SimpleNamespace) -> None:
    talk, run = make.new(ledger, front="chat"), make.new(ledger, front="ask")
    for info in (talk, run):
        ledger.log(info.id).append(make.user(1))
    assert [info.id for info in ledger.sessions("/p")] == [run.id, talk.id]
    assert [info.id for info in ledger.sessions("/p", runs=False)] == [talk.id]
    newest = (ledger.newest_session("/p"), ledger.newest_session("/p", runs=False))
    assert [info and info.id for info in newest] == [run.id, talk.id] and ledger.count_runs("/p") == 1
    assert ledger.session(ledger.fork_session(run.id, at=make.at).id).front == "ask", "a copy stays what it was"
    ledger.touch_session(run.id, front="chat")
    assert ledger.newest_session("/p", runs=False) == ledger.session(run.id), "from now on it is a session"


def test_a_short_id_is_the_end_of_the_id_and_names_one_session(ledger: Ledger, make: SimpleNamespace) -> None:
    ids = [make.new(ledger).id for _ in range(3)]
    short = ledger.short_ids(ids)
    assert short == [one[-6:] for one in ids], "made in one moment they have one beginning"
    assert [ledger.find_session(one.lower()).id for one in short] == ids
    for twin in ("7" * 20 + ids[0][-6:], ids[1][-6:] + "7" * 20):
        info = make.new(ledger)
        with ledger.db.write():
            ledger.db.run("UPDATE sessions SET id = ? WHERE id = ?", twin, info.id)
    assert ledger.short_ids(ids) == [ids[0], ids[1], short[2]], "the whole id where another has these characters"
    with pytest.raises(NexusError, match="matches 2 sessions"):
        ledger.find_session(short[0])


def test_no_name_is_the_short_id_of_another_session(ledger: Ledger, make: SimpleNamespace) -> None:
    first, second = (make.new(ledger).id for _ in range(2))
    with pytest.raises(NexusError, match=f"the id of session {first} ends with this name"):
        ledger.rename_session(second, first[-6:].lower())
    ledger.rename_session(first, first[-6:])
    assert ledger.find_session(first[-6:]).id == first
    ledger.db.run("UPDATE sessions SET name = ? WHERE id = ?", first[-6:], second)
    with pytest.raises(NexusError, match="matches 2 sessions"):
        ledger.find_session(first[-6:])


def test_a_worker_is_found_with_the_session_it_works_for_and_costs_that_one(
    ledger: Ledger, make: SimpleNamespace
) -> None:
    main = make.new(ledger)
    common = {"folder": main.folder, "project": main.project, "model": main.model, "recipe": "worker", "at": make.at}
    worker = ledger.create_session(**common, front="worker", spawner=main.id, worktree="fix")
    nested = ledger.create_session(**common, front="worker", spawner=worker.id)
    for session in (main, worker, nested):
        with ledger.db.write():
            add_cost(ledger.db, key_of(ledger.db, session.id), Usage(cost_usd=0.25))
    assert [one.id for one in ledger.workers(main.id)] == [worker.id]
    assert ledger.workers(main.id)[0].worktree == "fix"
    costs = [ledger.session(one.id).cost_usd for one in (main, worker, nested)]
    assert costs == pytest.approx([0.75, 0.5, 0.25])
    assert [one.id for one in ledger.sessions()] == [one.id for one in ledger.sessions(main.folder)] == [main.id]
    assert ledger.newest_session(main.folder) == ledger.session(main.id)
    ledger.delete_session(main.id)
    with pytest.raises(NexusError):
        ledger.session(nested.id)


def test_the_root_of_a_project_lists_and_searches_the_sessions_of_its_worktrees(
    ledger: Ledger, make: SimpleNamespace
) -> None:
    here = make.new(ledger, front="chat")
    apart = make.new(ledger, "/data/worktrees/p-1/fix", project="/p", front="chat", worktree="fix")
    run = make.new(ledger, "/data/worktrees/p-1/fix", project="/p", front="ask", worktree="fix")
    below = make.new(ledger, "/p/sub", project="/p", front="chat")
    for info in (here, apart, run, below):
        ledger.log(info.id).append(make.user(1, "count the herons"))
    assert [info.id for info in ledger.sessions("/p", runs=False)] == [apart.id, here.id]
    assert ledger.count_sessions("/p", runs=False) == 2 and ledger.count_runs("/p") == 1
    assert [info.id for info in ledger.search_titles("herons", "/p", runs=False)[0]] == [apart.id, here.id]
    assert [info.id for info in ledger.search_titles("fix herons", "/p", runs=False)[0]] == [apart.id]
    assert {hit.session for hit in ledger.search("herons", "/p").hits} == {here.id, apart.id, run.id}
    assert [info.id for info in ledger.sessions("/p/sub")] == [below.id]
    assert [info.id for info in ledger.sessions(apart.folder, runs=False)] == [apart.id]
    assert ledger.newest_session("/p") == ledger.session(here.id), "--continue stays in the folder itself"
