"""The recap of a run takes the messages of a space from the fields of its entries, whatever words they are in."""

from __future__ import annotations

from typing import Any

from nexus_cli.conversation.compaction.recap import OwnForms, describe_call, make_recap
from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.message import Message, Role, ToolCall

HEADER, FIRST, SECOND = "## History of Alpha", "#1 Ann said: hello", "#2 Ann said: [Bob (human)]\nbye"
STATE, AWAITED = " (new)", " (new) (awaited)"
ENTRY = "\n".join([HEADER, FIRST + STATE, SECOND + AWAITED])


def parts(*texts: tuple[str, str]) -> list[list[int]]:
    """The offsets of these texts, each with its ending, in `ENTRY`."""
    starts = [ENTRY.index(text) for text, _ in texts]
    ends = [start + len(text) for start, (text, _) in zip(starts, texts, strict=True)]
    return [[start, end, end + len(more)] for start, end, (_, more) in zip(starts, ends, texts, strict=True)]


def recap(history: dict[str, Any], *, later: bool) -> list[str]:
    """The lines on `ENTRY`, with or without an answer of the agent after it."""
    entries = [Entry(1, "2026-02-18T14:50:00.000Z", "Ann (human, ent-1)", Kind.MESSAGE, Message(Role.USER, ENTRY))]
    if later:
        said = Message(Role.ASSISTANT, "done")
        entries.insert(0, Entry(2, "2026-02-18T14:51:00.000Z", "agent", Kind.ASSISTANT, said))
    made = make_recap(entries, {}, 9_000, len, {}, OwnForms({1: {"name": "Alpha", **history}}))
    assert made.missing == 0 and {line.space for line in made.lines if line.entry == 1} == {"Alpha"}
    return [line.text for line in made.lines if line.entry == 1]


def test_the_messages_of_a_space_are_cut_out_by_their_offsets_and_seen_once_something_followed() -> None:
    told = {"parts": parts((FIRST, STATE), (SECOND, AWAITED))}
    assert recap(told, later=False) == [FIRST + STATE, SECOND + AWAITED]
    assert recap(told, later=True) == [f"{FIRST}  [SEEN]", f"{SECOND}  [SEEN]"]


def test_an_entry_of_an_older_ledger_is_told_whole() -> None:
    assert recap({}, later=False) == recap({}, later=True) == [ENTRY]


def test_a_message_that_the_model_sent_is_told_whole() -> None:
    asked = f"@Ana {'1999 cents gives 2378, ' * 20}which one?"
    calls = [ToolCall("c", name, {"text": asked}) for name in ("send_message", "x")]
    sent, other = (describe_call(call, None, {call.name: "text"}) for call in calls)
    assert asked in sent and "which one?" not in other


def test_what_started_the_run_has_a_quarter_of_the_room_and_without_it_all_room_is_for_the_newest() -> None:
    at, started = "2026-02-18T14:50:00.000Z", Message(Role.USER, "x" * 4000)
    did = Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "bash", {"command": "y" * 80}),))
    entries = [Entry(number, at, "agent", Kind.ASSISTANT, did) for number in range(20, 1, -1)]
    entries.append(Entry(1, at, "person", Kind.USER, started))
    marked, plain = (make_recap(entries, {}, 1000, len, {"bash": "command"}, OwnForms(trigger=one)) for one in (1, 0))
    trigger, *newest = marked.lines
    assert trigger.entry == 1 and 150 < trigger.text.count("x") <= 250
    assert [line.entry for line in newest] == [16, 17, 18, 19, 20] and marked.missing == 14
    assert [line.entry for line in plain.lines] == [14, 15, 16, 17, 18, 19, 20] and plain.missing == 13
