"""Fingerprints of requests: the first part that differs is named, whatever else differs behind it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.fingerprints import (
    SYSTEM,
    Difference,
    Fingerprint,
    common_messages,
    name_of,
    render_fingerprint,
)
from nexus_cli.core.entry import Epoch, ItemForm, WindowItem
from nexus_cli.core.message import Message, Role
from nexus_cli.core.wire import WireRules

ONE = Fingerprint(
    "m",
    "",
    "auto",
    (("bash", "1"), ("grep", "2")),
    (("rules", "3"), ("environment", "4"), (SYSTEM, "5")),
    (("entry 1", "6"), ("entry 2", "7"), ("entry 3", "8")),
)
SCHEMA = {"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": {}}}


def epoch(system: str = "be brief", sections: list[dict[str, Any]] | None = None, **values: Any) -> Epoch:
    base: dict[str, Any] = {
        "id": 0,
        "parent": None,
        "cause": "start",
        "model": "m",
        "system": system,
        "tools": (SCHEMA,),
        "rules": WireRules().dumps(),
        "head": (),
        "base": 0,
        "sections": json.dumps(sections or []),
    }
    return Epoch(**base | values)


def items(*texts: str) -> list[WindowItem]:
    return [WindowItem(n, ItemForm.FULL, Message(Role.USER, text), tokens=5) for n, text in enumerate(texts, 1)]


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"model": "n"}, Difference("model", "n", "m", "n")),
        ({"effort": "high"}, Difference("effort", "effort", "", "high")),
        ({"tool_choice": "none"}, Difference("effort", "tool choice", "auto", "none")),
        ({"tools": (("bash", "1"), ("grep", "9"))}, Difference("tool", "grep", "2", "9")),
        ({"tools": (("bash", "1"),)}, Difference("tool", "grep", "2", "")),
        ({"tools": (("ask", "0"), *ONE.tools)}, Difference("tool", "ask", "", "0")),
        ({"tools": ONE.tools[::-1]}, Difference("order", "tools", "bash", "grep")),
        ({"sections": (("rules", "x"), *ONE.sections[1:])}, Difference("section", "rules", "3", "x")),
        ({"sections": (*ONE.sections[:2], (SYSTEM, "x"))}, Difference("section", SYSTEM, "5", "x")),
        (
            {"messages": (("entry 1", "6"), ("a stub of entry 2", "x"))},
            Difference("message", "entry 2", "entry 2", "a stub of entry 2"),
        ),
        ({"messages": ONE.messages[:1]}, None),
        ({"messages": (*ONE.messages, ("entry 4", "9"))}, None),
        ({}, None),
    ],
)
def test_one_change_is_found_and_named(changed: dict[str, Any], found: Difference | None) -> None:
    assert ONE.first_difference(replace(ONE, **changed)) == found


parts = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("01")), max_size=4, unique_by=lambda p: p[0])
prints = st.builds(
    lambda model, effort, tools, sections, messages: Fingerprint(
        model, effort, "auto", tuple(tools), (*sections, (SYSTEM, str(sections))), tuple(messages)
    ),
    st.sampled_from("mn"),
    st.sampled_from(["", "high"]),
    parts,
    parts,
    parts,
)


@given(prints, prints)
def test_what_begins_alike_has_no_difference_and_what_differs_is_named(one: Fingerprint, two: Fingerprint) -> None:
    found, same = one.first_difference(two), common_messages(one, two)
    beginning = [one.model, one.effort, one.tools, one.sections] == [two.model, two.effort, two.tools, two.sections]
    if found is None:
        assert beginning and same == min(len(one.messages), len(two.messages))
    elif found.kind == "message":
        assert beginning and one.messages[same][1] != two.messages[same][1] and found.before == one.messages[same][0]
    else:
        assert not beginning and same == -1
    assert one.first_difference(one) is None


def test_a_section_is_told_by_its_hash_or_of_an_older_epoch_by_what_else_tells() -> None:
    named = {"id": "rules", "form": "full", "tokens": 5}
    new = [{**named, "sha256": "aa"}], [{**named, "sha256": "bb"}]
    assert render_fingerprint(epoch("a", new[0]), []).first_difference(
        render_fingerprint(epoch("b", new[1]), [])
    ) == Difference("section", "rules", "aa", "bb")
    old = render_fingerprint(epoch("a", [named]), []).first_difference(
        render_fingerprint(epoch("bb", [{**named, "tokens": 6}]), [])
    )
    assert old is not None and old.what == "rules"
    blind = render_fingerprint(epoch("a", [named]), []).first_difference(render_fingerprint(epoch("b", [named]), []))
    assert blind is not None and blind.what == SYSTEM, "nothing tells which, but that it changed is seen"


def test_the_messages_of_a_request_are_told_by_the_hashes_of_their_lines() -> None:
    before, after = render_fingerprint(epoch(), items("a", "b")), render_fingerprint(epoch(), items("a", "c", "d"))
    assert before.first_difference(after) == Difference("message", "entry 2", "entry 2", "entry 2")
    assert common_messages(before, after) == 1 and before == Fingerprint.of(epoch(), before.messages)


def test_slots_are_named_by_what_they_show() -> None:
    forms = {form: name_of(WindowItem(7, form, Message(Role.USER, "x"))) for form in ItemForm}
    assert forms[ItemForm.FULL] == "entry 7" and forms[ItemForm.SUMMARY] == "a summary up to entry 7"
    assert forms[ItemForm.STUB] == "a stub of entry 7"
