"""How it ends and comes back: left, closed, stopped and continued, ended from outside."""

from __future__ import annotations

import signal
import termios
import time

import pytest
from program.blocks import bug
from terminal.repl import MARK, Opens, Repl, everywhere
from terminal.stories import call, numbered, rows_of
from terminal.terminal import ctrl
from terminal.test_turns import gone

ROWS = [f"row {number:04d}" for number in range(60)]
PACED = {"text": numbered(len(ROWS)) + "\nend of it\n", "chunk": 4, "pace": 0.01}


def local_modes(made: Repl) -> int:
    return int(termios.tcgetattr(made._master)[3])


def test_ctrl_d_leaves_and_says_how_to_come_back(repl: Opens) -> None:
    made = repl()
    made.say("hello")
    made.send(ctrl("d"))
    assert made.status() == 0
    assert any(line.startswith("Resume with: nexus -r ") for line in made.lines()), made.picture()
    assert local_modes(made) & termios.ICANON


def test_a_session_in_which_nothing_was_said_is_left_without_a_word(repl: Opens) -> None:
    made = repl()
    made.send(ctrl("d"))
    assert made.status() == 0
    assert not any("Resume with" in line for line in made.lines())


@pytest.mark.parametrize("dumb", [True, False])
def test_one_ctrl_c_as_a_signal_does_not_end_the_session_later(repl: Opens, dumb: bool) -> None:
    late = "from nexus_cli.cli import loop_watchdog; loop_watchdog.TICK = 0.05"
    made = repl(bug=late, env={"TERM": "dumb"} if dumb else {})
    if dumb:
        made.send(ctrl("c"))
    else:
        made.signal(signal.SIGINT)
    made.wait_for("Ctrl+C again")
    time.sleep(1.5)  # what has to end is ended after one second here
    made.say("hello")
    made.send(ctrl("d"))
    assert made.status() == 0


def test_a_closed_window_ends_it_and_the_session_can_be_resumed(repl: Opens) -> None:
    made = repl([{"text": "half of it, " * 200, "pace": 0.05}, "the other half"])
    made.say("go", ends=False)
    made.wait_for("half of it")
    made.hang_up()
    assert made.status() == 129
    again = repl(at=made.place, arguments=("-c",))
    again.wait_for("half of it")
    again.say("go on")
    again.wait_for("the other half")
    assert "half of it" in str(again.server.requests[-1].body["messages"])


def test_a_signal_to_end_ends_it_with_the_terminal_as_it_was(repl: Opens) -> None:
    made = repl([{"text": "half of it, " * 200, "pace": 0.05}])
    made.say("go", ends=False)
    made.wait_for("half of it")
    made.signal(signal.SIGTERM)
    assert made.status() == 143
    assert local_modes(made) & termios.ICANON and local_modes(made) & termios.ECHO
    assert any("Resume with: nexus" in line for line in made.lines()), made.picture()


def test_ctrl_z_and_fg_at_the_prompt_keep_what_was_typed(repl: Opens) -> None:
    made = repl()
    made.send("half a sentence")
    made.wait_for("half a sentence")
    made.suspend()
    assert local_modes(made) & termios.ICANON, "the shell would get a terminal in raw mode"
    made.resume()
    made.wait_for(lambda terminal: not local_modes(made) & termios.ICANON)
    made.wait_for("half a sentence")
    made.say(" and the rest")
    assert "half a sentence and the rest" in str(made.server.requests[-1].body["messages"])


def test_ctrl_z_and_fg_in_a_turn_lose_no_row(repl: Opens) -> None:
    made = repl([PACED])
    made.say("go", ends=False)
    made.wait_for("row 0005", back=True)
    for _ in range(3):
        made.suspend()
        made.resize(60, 20)
        time.sleep(0.1)
        made.resume()
        time.sleep(0.2)
    made.wait_for("end of it", 120, back=True)
    made.idle()
    assert rows_of(made.scrollback()) == ROWS


@pytest.mark.matrix
def test_a_signal_to_end_ends_the_pager_too(repl: Opens) -> None:
    pager = f"sh -c 'cat >/dev/null; echo paging; exec sleep 97543.{MARK}'"
    made = repl([call("bash", command="seq 99"), "done"], arguments=("--allow", "all"), env={"PAGER": pager})
    made.say("go")
    made.send(ctrl("o"))
    made.wait_for("paging")
    made.wait_for(lambda terminal: everywhere(f"sleep 97543.{MARK}"))
    made.signal(signal.SIGTERM)
    assert made.status() == 143
    assert gone(f"sleep 97543.{MARK}")
    assert local_modes(made) & termios.ICANON and local_modes(made) & termios.ECHO


def test_ctrl_c_stops_a_turn_whose_loop_is_blocked_and_the_session_goes_on(repl: Opens) -> None:
    made = repl([{"text": "some words of an answer that goes on", "chunk": 10}], bug=bug("a call that a signal ends"))
    made.say("go", ends=False)
    made.requested(1)
    made.wait_for(lambda terminal: local_modes(made) & termios.ISIG)
    made.send(ctrl("c"))
    made.wait_for(lambda terminal: not local_modes(made) & termios.ISIG)
    made.idle()
    made.send("typed afterwards")
    made.wait_for("typed afterwards")
    made.send(ctrl("u"))
    made.wait_for(lambda terminal: "typed afterwards" not in terminal.text)
    made.send(ctrl("d"))
    assert made.status() == 0
    assert local_modes(made) & termios.ICANON


def test_a_block_that_nothing_breaks_ends_the_session_with_the_terminal_as_it_was(repl: Opens) -> None:
    way = "a loop that swallows what is raised in it"
    made = repl([{"text": "some words of an answer that goes on", "chunk": 10}], bug=bug(way))
    made.say("go", ends=False)
    made.requested(1)
    made.wait_for(lambda terminal: local_modes(made) & termios.ISIG)
    made.send(ctrl("c"))
    assert made.status() == 130
    assert any(line.startswith("Resume with: nexus -r ") for line in made.lines()), made.picture()
    assert local_modes(made) & termios.ICANON
