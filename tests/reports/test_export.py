"""An exported session is JSON for every reader, whatever numbers a model wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.wire import json_text
from nexus_cli.ledger import Ledger
from nexus_cli.reports.export import session_pieces

AT = "2026-01-01T00:00:00.000Z"


def strict(text: str) -> Any:
    """`text` as a reader takes it that knows RFC 8259 and nothing more."""

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("escaped", [False, True])
def test_numbers_that_json_does_not_have_are_null_in_every_line(tmp_path: Path, escaped: bool) -> None:
    ledger = Ledger.open(None)
    made = ledger.create_session(folder="/f", project="/f", model="m", recipe="ask", at=AT)
    log = ledger.log(made.id)
    odd = {"timeout": float("nan"), "rest": [float("inf"), -1e308 * 10, 1.5], "wört": "\u202e\x9b1m"}
    log.append(Entry(1, AT, "person", Kind.USER, Message(Role.USER, "go"), "", 1))
    calls = (ToolCall("c2a", "bash", odd),)
    log.append(Entry(2, AT, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, "", tool_calls=calls), "", 1))
    info = ledger.session(made.id)
    lines = "".join(session_pieces(log, info, "jsonl", escaped=escaped))
    rows = [strict(line) for line in lines.removesuffix("\n").split("\n")]
    assert rows[2]["calls"][0]["arguments"] == {"timeout": None, "rest": [None, None, 1.5], "wört": "\u202e\x9b1m"}
    assert lines.isascii() is escaped
    block = "".join(session_pieces(log, info, "md")).split("```json\n")[1].split("\n```")[0]
    assert strict(block)["timeout"] is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_json_is_one_line_for_a_reader_that_knows_every_line_end() -> None:
    value = {"text": "é\u0085a\u2028b\u2029c\x1ed\x0b"}
    text = json_text(value, escaped=False)
    assert text.splitlines() == [text] and json.loads(text) == value and "é" in text


@pytest.mark.matrix
@given(VALUES, st.booleans(), st.booleans())
def test_any_value_is_json_and_what_json_has_comes_back(value: Any, escaped: bool, dense: bool) -> None:
    back = strict(json_text(value, escaped=escaped, dense=dense))
    assert len(json_text(value, escaped=escaped, dense=dense).splitlines()) == 1
    assert json_text(back, escaped=escaped, dense=dense) == json_text(value, escaped=escaped, dense=dense)
