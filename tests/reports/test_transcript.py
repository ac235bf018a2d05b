"""The transcript: everything that was said and printed, whole where the model was given a part."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from session.played import Answer, Played, opened, say, the_ledger

from nexus_cli.commands.forms import find_form
from nexus_cli.core.entry import Memo
from nexus_cli.core.event import ToolResultEvent
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import Request
from nexus_cli.reports.conversation import Replay, newest_turns
from nexus_cli.reports.transcript import transcript_of


def transcript(session: str) -> JsonObject:
    with the_ledger() as ledger:
        replay = Replay(ledger.log(session), is_whole=True)
        return transcript_of(replay, ledger.session(session))


@pytest.mark.matrix
def test_outputs_and_messages_are_whole_where_the_request_had_a_part(tmp_path: Path) -> None:
    quoted = '[... 9 tokens (characters 1:2 of 3) left out: recall("d1", "1:2") ...]'

    def script(request: Request) -> Answer:
        results = sum(message["role"] == "tool" for message in request.messages)
        first = [("bash", {"command": "seq 20000"}), ("bash", {"command": f"echo '{quoted}'"})]
        write = {"path": "a.txt", "content": "one\ntwo\n"}
        return "all [bold]done[/bold]" if results > 2 else [("write_file", write)] if results else first

    provider = Played(script)
    session = opened(provider, tmp_path)
    words = "look at this\n" + "x y z\n" * 30_000
    assert say(session, words)[1].ok
    assert max(len(str(message.get("content"))) for message in provider.seen[-1]) < 60_000
    value = transcript(session.id)
    assert [line["text"] for line in value["events"] if line["type"] == "turn.start"] == [words]
    results = [line["result"]["output"] for line in value["events"] if line["type"] == "tool.result"]
    assert results[0].split("\n")[:20_000] == [str(number) for number in range(1, 20_001)]
    assert results[1].startswith(quoted), "what an output quotes is no hole in it"
    text = find_form("transcript")(value, 60)
    for part in (
        "* bash seq 20000\n    1\n    2\n",
        "    19999\n    20000\n",
        "> look at this\n  x y z\n",
        "-> write_file a.txt\n    content:\n    one\n    two\n",
        "all [bold]done[/bold]",
    ):
        assert part in text, part
    assert text.startswith(f"session {session.id} · openai/played · ") and "\n\n\n" not in text


@pytest.mark.matrix
def test_a_message_with_a_part_of_an_output_keeps_the_words_that_were_typed(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "fine"), tmp_path)
    output = asyncio.run(session.share("make", "a line of output\n" * 9_000))
    words = f"why does this fail?\n\n{output}"
    assert 'left out: recall("d1"' in words and say(session, words)[1].ok
    assert transcript(session.id)["events"][0]["text"] == words


@pytest.mark.matrix
def test_a_message_is_broken_between_words(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "I changed src/humanize/number.py and tests"), tmp_path)
    assert say(session, "please look at src/humanize/number.py again")[1].ok
    lines = find_form("transcript")(transcript(session.id), 30).split("\n")
    assert lines[-1] == "tests", lines
    assert all(line.count("number") == line.count("number.py") for line in lines), lines


@pytest.mark.matrix
def test_outputs_of_shell_lines_stand_where_they_were_typed(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "fine"), tmp_path)
    assert say(session, "hello")[1].ok
    allowed = {
        "type": "notice",
        "text": "Allowed: bash \N{MIDDLE DOT} undo: /permissions remove bash",
        "warning": False,
    }
    with the_ledger() as ledger:
        log = ledger.log(session.id)
        log.record_memo(Memo("event", "2026-01-13T14:30:00+00:00", log.last_id(), allowed))
    shell = [{"after": after, "title": f"! ls {after}", "text": f"of {after}\n"} for after in (0, 2)]
    lines = find_form("transcript")({**transcript(session.id), "shell": shell}, 60).split("\n")
    kept = [line for line in lines if line.startswith(("* ", "> ", "fine", "    of"))]
    assert kept == ["* ! ls 0", "    of 0", "> hello", "fine", "* ! ls 2", "    of 2"]
    assert [line for line in lines if "Allowed: bash" in line and "undo" not in line], "it is past"


@pytest.mark.matrix
def test_results_of_calls_that_ran_together_stand_in_call_order_whichever_ended_first(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tea\n" * 1000)
    together = [("grep", {"pattern": "t.*a"}), ("glob", {"pattern": "*.txt"}), ("read_file", {"path": "a.txt"})]
    steps: list[Answer] = [together, "done"]
    session = opened(Played(lambda request: steps.pop(0)), tmp_path)
    assert say(session, "look")[1].ok
    with the_ledger() as ledger:
        log = ledger.log(session.id)
        ends = [entry.actor for entry in log.read(1, log.last_id()) if entry.actor.startswith("tool:")]
    assert ends[0] != "tool:grep", "a worker process is started for it"
    results = [line for line in transcript(session.id)["events"] if line["type"] == "tool.result"]
    assert [line["actor"] for line in results] == ["tool:grep", "tool:glob", "tool:read_file"]
    again = opened(Played(lambda request: "nothing"), tmp_path, session.id)
    shown = [one.call.name for one in next(newest_turns(again)) if isinstance(one, ToolResultEvent)]
    assert shown == ["grep", "glob", "read_file"]


def test_a_session_in_which_nothing_was_said_has_no_transcript() -> None:
    assert find_form("transcript")({"version": 1, "events": []}, 60) == "No messages in this session yet."


def test_a_line_break_in_a_name_breaks_no_line() -> None:
    message = {"type": "turn.start", "text": "look", "at": "2026-01-01T00:00:00Z", "entry": 1, "actor": "person"}
    notice = {
        "type": "notice",
        "text": "a\nb.txt was not attached",
        "warning": True,
        "at": message["at"],
        "entry": None,
    }
    value = {"id": "", "events": [message | {"images": ["red\nblue.png"]}, notice | {"at": message["at"]}]}
    text = find_form("transcript")(value, 80)
    assert "[image red blue.png]" in text and " a b.txt was not attached" in text


def test_a_line_of_output_in_a_notice_keeps_its_blanks() -> None:
    notice = {
        "type": "notice",
        "text": "|     return  1",
        "warning": False,
        "at": "2026-01-01T00:00:00Z",
        "entry": None,
    }
    assert find_form("transcript")({"id": "", "events": [notice]}, 80).endswith(" |     return  1")
