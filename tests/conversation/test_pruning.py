"""Stale results: what counts as stale, and that nothing but the stale text changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.groups import Group, flatten, group_tool_calls
from nexus_cli.conversation.pruning import AGED, LEAST, OLD, RECENT, find_stale, with_stubs
from nexus_cli.core.entry import ItemForm, WindowItem
from nexus_cli.core.entry import sum_tokens as group_tokens
from nexus_cli.core.message import SAME, Message, Role, ToolCall
from nexus_cli.tools.registry import find_tool

BODY = "a line of some file that is long enough\n" * 40


def measure(message: Message, preamble: str) -> int:
    return 4 + (len(message.content) + len(preamble)) // 4 + 10 * len(message.tool_calls)


def item(entry: int, message: Message, form: ItemForm = ItemForm.FULL, preamble: str = "") -> WindowItem:
    return WindowItem(entry, form, message, preamble, measure(message, preamble))


class Window:
    """A window under construction: what was asked of tools, and what they said."""

    def __init__(self) -> None:
        self.items = [item(1, Message(Role.USER, "go on"))]

    def call(self, name: str, text: str = BODY, preamble: str = "", raw: str = "", **arguments: Any) -> int:
        """One call and its result; the entry of the result."""
        entry = self.items[-1].entry + 1
        call = ToolCall(f"c{entry}a", name, arguments, raw)
        self.items.append(item(entry, Message(Role.ASSISTANT, "", (call,))))
        self.items.append(item(entry + 1, Message(Role.TOOL, text, tool_call_id=call.id), preamble=preamble))
        return entry + 1

    def later(self) -> Window:
        """The work goes on, so that nothing of it is recent any more."""
        for _ in range(RECENT):
            self.call("bash", "ok", command="true")
        return self

    @property
    def stale(self) -> dict[int, str]:
        """What is stale, and why."""
        return {one.item.entry: f"{one.what}: {one.why}" for one in find_stale(group_tool_calls(self.items), find_tool)}


def read(path: str = "src/a.py", **lines: Any) -> dict[str, Any]:
    return {"name": "read_file", "path": path, **lines}


def test_a_file_that_was_read_again_is_stale_where_it_was_read_before() -> None:
    window = Window()
    first = window.call(**read())
    other = window.call(**read("src/b.py"))
    window.call(**read("./src//a.py"))
    assert window.later().stale == {first: "read_file src/a.py: read again below"} and other not in window.stale


@pytest.mark.parametrize(
    ("early", "late", "gone"),
    [
        ({}, {"offset": 10, "limit": 5}, False),
        ({"offset": 10, "limit": 5}, {}, True),
        ({"offset": 10, "limit": 5}, {"offset": 8, "limit": 7}, True),
        ({"offset": 10, "limit": 5}, {"offset": 11, "limit": 50}, False),
        ({"offset": 10}, {"offset": 5, "limit": 500}, False),
        ({"offset": 10, "limit": 5}, {"offset": 10, "limit": 5}, True),
    ],
)
def test_a_part_of_a_file_is_stale_when_a_later_part_holds_it(
    early: dict[str, Any], late: dict[str, Any], gone: bool
) -> None:
    window = Window()
    first = window.call(**read(**early))
    window.call(**read(**late))
    assert (first in window.later().stale) == gone


def test_a_later_reading_that_was_cut_short_replaces_only_the_same_one() -> None:
    cut = BODY + '[... 900 tokens (characters 1:2 of 3) left out: recall("d1", "1:2") ...]'
    window = Window()
    part = window.call(**read(offset=3, limit=90))
    window.call(**read(), text=cut)
    same = window.call(**read(), text=cut)
    window.later()
    assert part not in window.stale and same - 2 in window.stale


@pytest.mark.parametrize("name", ["edit_file", "write_file"])
def test_a_file_that_we_changed_is_stale_where_it_was_read(name: str) -> None:
    window = Window()
    first = window.call(**read())
    window.call(name, "@@ -1 +1 @@\n-a\n+b", path="src/a.py")
    after = window.call(**read(), text=BODY + "new")
    assert window.later().stale == {first: "read_file src/a.py: changed below"} and after not in window.stale


@pytest.mark.parametrize(
    "text",
    [
        "src/a.py: changed on disk since it was read: read it again\nNothing was changed.",
        "src/a.py: exists and was not read yet: read it first, or use edit_file",
        "the person said no",
        "Declined: leave it",
        "not permitted: writes outside the project, and nobody here can approve it (--allow read)",
        "edit_file failed: OSError: no",
        "bad arguments for edit_file: `edits` is missing",
        "outcome unknown: the process ended while this ran. Look before you run it again.",
    ],
)
def test_an_edit_that_failed_changed_nothing(text: str) -> None:
    window = Window()
    window.call(**read())
    window.call("edit_file", text, path="src/a.py")
    assert window.later().stale == {}


def test_a_search_is_stale_when_the_same_one_was_made_again() -> None:
    window = Window()
    searched = window.call("grep", pattern="x", path="src")
    listed = window.call("glob", pattern="**/*.py")
    other = window.call("grep", pattern="x", path="tests")
    command = window.call("bash", command="ls")
    window.call("grep", path="src", pattern="x")
    window.call("glob", pattern="**/*.py")
    window.call("bash", command="ls")
    assert window.later().stale == {
        searched: "grep x: searched again below",
        listed: "glob **/*.py: listed again below",
    }
    assert not {other, command} & set(window.stale), "a command may have said something else each time"


def test_what_is_recent_small_cut_already_or_an_error_stays() -> None:
    window = Window()
    small = window.call(**read("s.py"), text="x = 1")
    error = window.call(**read("e.py"), text="e.py: " + "no such file " * 100)
    window.call(**read("s.py"), text="x = 1")
    window.call(**read("e.py"))
    stub = window.call(**read("t.py"))
    window.items[-1] = item(stub, Message(Role.TOOL, BODY, tool_call_id=f"c{stub - 1}a"), ItemForm.ELIDED)
    window.call(**read("t.py"))
    old = window.call(**read())
    for _ in range(RECENT - 2):
        window.call("bash", "ok", command="true")
    window.call(**read())
    assert window.stale == {}, "the first reading is still among the newest groups"
    window.call("bash", "ok", command="true")
    assert set(window.stale) == {old} and not {small, error, stub} & set(window.stale)


PATHS = st.sampled_from(["a.py", "b.py", "./a.py", "src/c.py"])
CALLS = st.one_of(
    st.builds(
        lambda path, offset: {"name": "read_file", "path": path, **offset},
        PATHS,
        st.sampled_from([{}, {"offset": 2}, {"offset": 2, "limit": 9}, {"offset": "x"}, {"limit": None}]),
    ),
    st.builds(lambda name, path: {"name": name, "path": path}, st.sampled_from(["edit_file", "write_file"]), PATHS),
    st.builds(lambda name, what: {"name": name, "pattern": what}, st.sampled_from(["grep", "glob"]), PATHS),
    st.just({"name": "bash", "command": "ls"}),
    st.just({"name": "read_file", "raw": "{no json"}),
    st.just({"name": "nothing"}),
)
TEXTS = st.sampled_from([BODY, BODY * 3, "short", "a.py: no such file", "the person said no", ""])
BATCHES = st.lists(st.lists(st.tuples(CALLS, TEXTS, st.booleans()), min_size=0, max_size=3), min_size=1, max_size=30)


def made(batches: list[Any]) -> list[Group]:
    """A window of these batches of calls; where the third of a call is False it has no result yet."""
    items = [item(1, Message(Role.USER, "go on"))]
    for batch in batches:
        entry = items[-1].entry + 1
        calls = tuple(
            ToolCall(
                f"c{entry}{n}",
                one["name"],
                {k: v for k, v in one.items() if k not in ("name", "raw")},
                one.get("raw", ""),
            )
            for n, (one, _, _) in enumerate(batch)
        )
        items.append(item(entry, Message(Role.ASSISTANT, "" if calls else "words", calls)))
        for call, (_, text, answered) in zip(calls, batch, strict=True):
            if answered:
                entry += 1
                items.append(item(entry, Message(Role.TOOL, text, tool_call_id=call.id), preamble="told"))
    return group_tool_calls(items, measure)


@given(BATCHES)
def test_pruning_changes_the_text_of_stale_results_and_nothing_else(batches: list[Any]) -> None:
    groups = made(batches)
    found = find_stale(groups, find_tool)
    stubs = {one.item.entry: one.stub(f"d{n}", measure) for n, one in enumerate(found, 1)}
    head = with_stubs(groups, stubs)
    before, after = flatten(groups), flatten(group_tool_calls(head, measure))
    assert len(before) == len(after), "pairs stay whole"
    for old, new in zip(before, after, strict=True):
        if old.entry in stubs and old.message.role is Role.TOOL:
            assert new.form is ItemForm.STUB and new.tokens < old.tokens and old.tokens > LEAST
            assert (new.entry, new.preamble, new.message.tool_call_id) == (
                old.entry,
                old.preamble,
                old.message.tool_call_id,
            )
            assert 'recall("d' in new.message.content and "\n" not in new.message.content
        else:
            assert new == old
    assert group_tokens(tuple(after)) <= group_tokens(tuple(before)), "the window never gets larger"
    newest = {one.entry for group in groups[-RECENT:] for one in group}
    assert not newest & set(stubs), "and what is recent stays"
    users = [one for one in before if one.message.role is Role.USER]
    assert users == [one for one in after if one.message.role is Role.USER], "the request stays as it is"


@given(BATCHES)
def test_pruning_what_was_pruned_finds_nothing_more(batches: list[Any]) -> None:
    groups = made(batches)
    stubs = {one.item.entry: one.stub("d1", measure) for one in find_stale(groups, find_tool)}
    again = find_stale(group_tool_calls(with_stubs(groups, stubs), measure), find_tool)
    assert {one.item.entry for one in again} == set()


@given(BATCHES, CALLS)
def test_every_stale_result_has_what_replaces_it_below(batches: list[Any], more: dict[str, Any]) -> None:
    groups = made(batches)
    for one in find_stale(groups, find_tool):
        kept = [group for group in groups if group[0].entry > one.item.entry or one.item in group]
        calls = [call for group in kept for call in group[0].message.tool_calls]
        name, _, subject = one.what.partition(" ")
        assert any(call.name in (name, "edit_file", "write_file") for call in calls) and subject


def test_a_reference_to_a_reading_above_does_not_replace_it() -> None:
    window = Window()
    first = window.call(**read())
    window.call(**read(), text=f"{SAME}: the result of read_file src/a.py above has it.]")
    assert first not in window.later().stale


def test_an_outline_is_replaced_by_the_same_alone_and_replaces_no_text() -> None:
    window = Window()
    part, outline = window.call(**read(offset=1, limit=1)), window.call(**read(limit=0))
    assert not window.later().stale
    window.call(**read(limit=0))
    stale = window.later().stale
    assert stale[outline].endswith("read again below") and stale[part].endswith(AGED)


@pytest.mark.parametrize(
    ("late", "gone"),
    [
        (["src/b.py:1-9"], True),
        (["src/b.py:2-9"], False),
        (["src/b.py"], False),
        (["src/c.py:1-9"], False),
        ([], False),
    ],
)
def test_a_reading_of_several_parts_is_stale_when_the_same_parts_are_read_again(late: list[str], gone: bool) -> None:
    window = Window()
    first = window.call(**read(more=["src/b.py:1-9"]))
    window.call(**read(more=late))
    assert (first in window.later().stale) == gone


def test_a_reading_of_several_files_is_stale_once_one_of_them_changed() -> None:
    window = Window()
    first = window.call(**read(more=["src/b.py:1-9"]))
    window.call("edit_file", "@@ -1 +1 @@\n-a\n+b", path="src/b.py")
    assert window.later().stale == {first: "read_file src/a.py: changed below"}


def test_what_was_read_searched_or_run_long_ago_is_stale_by_its_age_and_edits_are_not() -> None:
    window = Window()
    first = window.call(**read())
    searched = window.call("grep", pattern="x")
    ran = window.call("bash", BODY + "[exit status 1]", command="make")
    wrote = window.call("edit_file", path="src/b.py")
    for _ in range(OLD - 4):
        window.call("bash", "ok", command="true")
    assert window.stale == {}
    for number in range(4):
        assert len(window.stale) == min(number, 3)
        window.call("bash", "ok", command="true")
    assert window.stale == {
        first: f"read_file src/a.py: {AGED}",
        searched: f"grep x: {AGED}",
        ran: f"bash make: {AGED}",
    }
    assert wrote not in window.stale


def test_what_a_recent_reference_points_at_does_not_age() -> None:
    window = Window()
    read_file, make = window.call(**read()), window.call("bash", command="make")
    for _ in range(OLD):
        window.call("bash", "ok", command="true")
    assert {read_file, make} <= set(window.stale)
    window.call(**read(), text=f"{SAME}: the result of read_file src/a.py above has it.]")
    window.call("bash", f"{SAME}: the result of bash make above is the same.]", command="make")
    assert window.stale == {}
    assert set(window.later().stale) == {read_file, make}


def test_the_stub_of_a_command_keeps_its_exit_status() -> None:
    window = Window()
    window.call("bash", BODY + "[exit status 1]", command="make")
    window.call("bash", BODY + "x" * 500, command="cat")
    for _ in range(OLD):
        window.call("bash", "ok", command="true")
    texts = [one.stub("d7", measure).message.content for one in find_stale(group_tool_calls(window.items), find_tool)]
    assert texts == [f'[bash make: {AGED}; recall("d7")]\n[exit status 1]', f'[bash cat: {AGED}; recall("d7")]']
