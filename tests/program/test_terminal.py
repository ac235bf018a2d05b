"""The program in a real terminal: what is untrusted stays visible, it asks before it acts, Ctrl-C ends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from program.stage import Seen, Stage, calls, play, stage
from program.terminal_run import TerminalRun
from terminal.emulator import Emulator

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202etxt\U000e0041"
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[[0-9]*[A-DGJK]|\x1b[78]|\x1b\[\?(?:1|7|12|25|2004)[lh]")
"""Colours, how a line of progress is rewritten, and the marks of a paste while a question is open."""


def terminal(place: Stage, *arguments: str) -> TerminalRun:
    return TerminalRun(*arguments, env={**place.environment, "TERM": "xterm-256color"}, cwd=place.folder)


def approved(root: Path) -> dict[str, Any]:
    script: list[Any] = [
        calls(("bash", {"command": f"echo '{HOSTILE}' > made"})),
        calls(("bash", {"command": "touch refused"})),
        {"text": f"# Done\n\nIt **works** {HOSTILE}\n", "chunk": 1},
    ]
    with stage(root, script) as place, terminal(place, "ask", "do it") as child:
        child.expect("what to do instead")
        first = str(child.before)
        child.send("y")
        child.expect("what to do instead")
        child.send("n leave it\r")
        rest = child.finish()
        return {
            "first": first,
            "rest": rest,
            "status": child.exitstatus,
            "left": sorted(path.name for path in place.folder.iterdir()),
            "sent": str(place.server.requests[-1].body),
        }


def interrupted(root: Path) -> dict[str, Any]:
    # Paragraphs: one is shown when the next begins, and one without an end would be long in coming.
    script = {"default": {"text": "word " * 8 + "\n\n", "repeat": 4000, "pace": 0.02}}
    with stage(root, script) as place:
        with terminal(place, "ask", "talk") as child:
            child.expect("word word")
            child.send("\x03")
            ends = [(child.finish(), child.exitstatus)]
        place.run("schedule", "add", "talk", "--in", "1h")
        with terminal(place, "schedule", "run", "plan-1") as child:
            child.expect("ctrl\\+c to stop")
            child.send("\x03")
            ends.append((child.finish(), child.exitstatus))
        return {"ends": ends}


def piped(root: Path) -> dict[str, Any]:
    answer = {"text": "It **works**.", "delay": 0.6}
    with stage(root, [answer, answer]) as place:
        lines = []
        for colour in ({}, {"NO_COLOR": "1"}):
            environment = {**place.environment, "TERM": "xterm-256color", **colour}
            with open(place.folder / "answer", "wb") as file:
                child = TerminalRun("ask", "hi", env=environment, cwd=place.folder, stdout=file.fileno())
            with child:
                lines.append(child.finish())
        return {"lines": lines, "answer": (place.folder / "answer").read_text()}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, approved, interrupted, piped)


def test_it_asks_before_a_command_and_does_what_it_is_told(seen: Seen) -> None:
    shown = seen["approved"]
    assert shown["status"] == 0 and shown["left"] == ["made"], shown
    assert "Declined: leave it" in shown["sent"]


def test_nothing_untrusted_reaches_the_terminal_raw(seen: Seen) -> None:
    shown = seen["approved"]["first"] + seen["approved"]["rest"]
    plain = OURS.sub("", shown)
    assert not any(mark in plain for mark in ("\x1b", "\x07", "\x9b", "\u202e", "\U000e0041")), repr(plain)
    screen = Emulator(80, 24)
    screen.feed(shown.encode())
    lines = "\n".join(screen.lines_of_all())
    assert "␛" in lines and "works" in lines and "Done" in lines and "**works**" not in lines


@pytest.mark.matrix
def test_ctrl_c_ends_the_turn_and_says_how_to_go_on(seen: Seen) -> None:
    resumed = ("Resume with: nexus ask -r ", "nexus: run-1 was interrupted. Resume with: nexus runs resume run-1")
    for (rest, status), line in zip(seen["interrupted"]["ends"], resumed, strict=True):
        assert status == 130 and "Traceback" not in rest
        assert OURS.sub("", rest).strip().splitlines()[-1].startswith(line), rest


@pytest.mark.matrix
def test_a_person_sees_that_it_works_also_where_the_answer_goes_to_a_file(seen: Seen) -> None:
    shown = seen["piped"]
    assert shown["answer"] == "It **works**.\n"
    drawn, plain = shown["lines"]
    assert "waiting for the model" in drawn and "works" not in drawn
    assert "\r\x1b[K" in drawn.rpartition("waiting")[2], "the line is taken off"
    assert plain.startswith("· 1 step ") and "works" not in plain
