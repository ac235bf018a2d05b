"""`/timeline` over what a person did in a session: pins, goals, compaction and its undo, another model."""

from __future__ import annotations

import pytest
from commands.conftest import FakeContext

from nexus_cli.commands.forms import find_form
from nexus_cli.core.event import CompactionDone


@pytest.mark.matrix
def test_what_a_person_did_to_the_window_is_in_the_timeline(context: FakeContext) -> None:
    context.run("timeline")
    assert [row["kind"] for row in context.shown[-1][1]["rows"]] == ["start"]
    for number in range(8):
        context.turn(f"{number} " + "some words to sum up " * 60)
    context.provider.script = lambda request: "Goal: a summary. Next: more."
    context.run("pin always use tabs").run("pin remove p1").run("compact").run("uncompact").turn("and then")
    context.run("timeline --last 500")
    form, value = context.shown[-1]
    assert form == "timeline" and value["earlier"] == 0
    rows = {row["kind"]: row for row in value["rows"]}
    assert [row["text"] for row in value["rows"] if row["kind"] == "pin"] == ["p1 always use tabs", "p1 removed"]
    assert rows["lane"]["lane"] == "compact" and rows["lane"]["requests"] == 1 and rows["lane"]["tokens"] > 0
    made, back = rows["compaction"], rows["undo"]
    assert back["after"] and made["epoch"] < back["epoch"]
    (ended,) = (event for event in context.fed if isinstance(event, CompactionDone))
    assert (made["before"], made["after"]) == (ended.before, ended.after), "as /compact has told it"
    kinds = [row["kind"] for row in value["rows"]]
    assert kinds.index("pin") < kinds.index("lane") < kinds.index("compaction") < kinds.index("undo")
    text = find_form(form)(value, 80)
    assert "for summaries · 1 request" in text and " You: and then\n" in text and "p1 always use tabs" in text
    assert " nexus: " in text and not any(mark in text for mark in ("[SEEN]", "[NEW]", "TRIGGER", "Agent"))
    assert context.run("timeline 3").shown[-1][1]["rows"] == value["rows"][-3:]
    assert "not shown (--last 15" in find_form(form)(context.shown[-1][1], 80)


@pytest.mark.matrix
def test_another_model_is_a_row_that_names_both(context: FakeContext) -> None:
    context.turn("first")
    context.run("model fast").turn("second")
    context.run("timeline")
    (row,) = (row for row in context.shown[-1][1]["rows"] if row["kind"] == "model")
    assert row["text"] == "openai/played to openai/quick" and row["at"] and row["before"] and row["after"]
    assert [one["model"] for one in context.shown[-1][1]["rows"] if one["kind"] == "request"][-1] == "openai/quick"
