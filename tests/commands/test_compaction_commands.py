"""`/compact --preview`, `/uncompact`, `/pin` at the context."""

from __future__ import annotations

import json

import pytest
from commands.conftest import FakeContext
from search import sample
from session.played import Answer

from nexus_cli.commands import find
from nexus_cli.commands.forms import find_form
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.event import CompactionDone, Notice, Retry
from nexus_cli.core.request import Request
from nexus_cli.core.usage import Usage
from nexus_cli.provider import retry
from nexus_cli.provider.retry import RetryingProvider


def filled(context: FakeContext) -> FakeContext:
    """A session worth a compaction."""
    for number in range(8):
        context.turn(f"{number} " + "some words to sum up " * 60)
    context.provider.script = lambda request: "Goal: a summary. Next: more."
    return context


def said(context: FakeContext) -> str:
    """What the last notice was."""
    return next(event.text for event in reversed(context.fed) if isinstance(event, Notice))


@pytest.mark.matrix
def test_a_preview_is_shown_and_the_compaction_that_follows_can_be_undone(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(context)
    sent, used = len(context.provider.seen), context.session.status().used
    context.run("compact --preview keep the names")
    form, value = context.shown[-1]
    assert form == "compaction" and value["possible"] and value["instructions"] == "keep the names"
    assert value["session"] == context.session.id and len(context.provider.seen) == sent
    json.dumps(value)
    shown: list[int] = []

    def fail_once(request: Request) -> Answer:
        shown.append(sum(isinstance(event, Retry) for event in context.fed))
        if len(shown) == 1:
            raise ProviderError("overloaded", "busy", transient=True)
        return "Goal: a summary. Next: more."

    context.provider.script = fail_once
    context.session.engine.provider = RetryingProvider(context.provider)
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.0)
    context.run("compact")
    assert shown == [0, 1], "a retry is shown when it happens"
    done = context.fed[-1]
    assert isinstance(done, CompactionDone) and done.ok
    assert context.reported == {"version": 1, "ids": [context.session.id], "message": ""}
    context.run("uncompact")
    assert context.reported["ids"] == [context.session.id] and context.reported["message"] == context.said[-1]
    assert "compaction undone" in said(context) and "cache" in context.said[-1]
    assert abs(context.session.status().used - used) < used // 20
    with pytest.raises(NexusError, match="nothing to undo"):
        context.run("uncompact")


@pytest.mark.matrix
def test_a_provider_that_reports_less_than_we_count_does_not_hide_what_a_compaction_gains(context: FakeContext) -> None:
    context.provider.usage = Usage(3_800, 10)
    for number in range(3):
        context.turn(f"{number} " + "some words here " * 140)
    context.provider.script = lambda request: "Goal: a summary. Next: more."
    assert context.run("compact --preview").shown[-1][1]["possible"]
    context.run("compact")
    assert isinstance(done := context.fed[-1], CompactionDone) and done.ok


@pytest.mark.matrix
def test_pins_are_made_listed_and_taken_back(context: FakeContext) -> None:
    context.provider.usage = Usage(2_000, 10)  # about our own count
    filled(context)
    context.run("pin")
    assert context.shown[-1][1]["pins"] == [] and "nexus pin add TEXT" in find_form("pins")(context.shown[-1][1], 80)
    context.run("pin always use tabs").run("pin 1").run("pin")
    rows = context.shown[-1][1]["pins"]
    assert [(row["id"], row["entry"]) for row in rows] == [("p1", 0), ("p2", 1)]
    assert "Pinned message 1 as p2" in context.said[-1]
    complete = context.commands["pin"].complete
    assert complete is not None and list(complete(context))[-2:] == ["remove p1", "remove p2"]
    context.run("pin remove p1").run("pin")
    assert [row["id"] for row in context.shown[-1][1]["pins"]] == ["p2"]
    for line in ("pin 4711", "pin remove p1", "pin remove", "pin remove p9"):
        with pytest.raises(NexusError) as caught:
            context.run(line)
        assert caught.value.kind == "usage" and "\n" not in caught.value.line


@pytest.mark.matrix
def test_pins_of_another_session_are_not_there(context: FakeContext) -> None:
    context.turn("words")
    context.run("pin 1").run("clear").turn("other")
    with pytest.raises(NexusError, match="has no message 9"):
        context.run("pin 9")
    context.run("pin")
    assert context.shown[-1][1]["pins"] == []


@pytest.mark.matrix
@pytest.mark.parametrize(
    "line", sample(["--prevew", "--preview=1 names", "-- keep names", "-keep names", "\u2014preview"], 3)
)
def test_an_option_that_there_is_not_compacts_nothing(line: str, context: FakeContext) -> None:
    filled(context)
    sent = len(context.provider.seen)
    with pytest.raises(NexusError) as caught:
        context.run(f"compact {line}")
    assert caught.value.kind == "usage" and "--preview" in caught.value.hint
    assert len(context.provider.seen) == sent
    context.run("compact - keep the names")
    assert isinstance(context.fed[-1], CompactionDone)


@pytest.mark.matrix
@pytest.mark.parametrize("line", sample(["preview", "-preview", "-p", "--PREVIEW", "-p keep the names"], 3))
def test_a_preview_is_meant_with_one_dash_two_or_none_and_sends_nothing(line: str, context: FakeContext) -> None:
    filled(context)
    sent = len(context.provider.seen)
    form, value = context.run(f"compact {line}").shown[-1]
    assert form == "compaction" and value["instructions"] == ("keep the names" if " " in line else "")
    assert len(context.provider.seen) == sent


@pytest.mark.matrix
def test_words_that_begin_with_preview_are_instructions(context: FakeContext) -> None:
    filled(context)
    context.run("compact preview builds matter most")
    assert isinstance(context.fed[-1], CompactionDone)


@pytest.mark.matrix
def test_pin_alone_lists_the_newest_messages_with_their_numbers(context: FakeContext) -> None:
    before = context.run("pin").shown[-1][1]
    assert before["messages"] == [] and "`nexus pin add NUMBER` pins a message" in find_form("pins")(before, 120)
    for number in range(12):
        context.turn(f"message {number}\nof several lines")
    value = context.run("pin").shown[-1][1]
    assert [one["text"] for one in value["messages"]] == [f"message {n} of several lines" for n in range(2, 12)]
    entry = value["messages"][-1]["entry"]
    text = find_form("pins")(value, 80)
    assert "newest messages (to pin: nexus pin add NUMBER):" in text and text.splitlines()[-1].split()[0] == str(entry)
    complete = find("pin", context.commands).complete
    assert complete is not None and complete(context)[0] == str(entry)
    context.run(f"pin {entry}")
    assert context.run("pin").shown[-1][1]["pins"][0]["entry"] == entry


def test_pin_remove_takes_a_pin_back_and_pin_add_pins_words_that_begin_so(context: FakeContext) -> None:
    context.run("pin keep the old names").run("pin remove p1")
    assert not context.run("pin").shown[-1][1]["pins"]
    for words in ("pin remove old logs before the release", "pin remove p7"):
        with pytest.raises(NexusError, match="no such pin"):
            context.run(words)
    context.run("pin add remove old logs before the release")
    assert [pin["text"] for pin in context.run("pin").shown[-1][1]["pins"]] == ["remove old logs before the release"]
    context.run("pin remove remove old logs before the release")
    assert [pin["text"] for pin in context.run("pin").shown[-1][1]["pins"]] == []
