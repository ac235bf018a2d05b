"""`/goal TEXT --until COMMAND` at the REPL: what is said first, the status line, the end, and `/goal clear`."""

from __future__ import annotations

from typing import Any

import pytest
from search import sample
from terminal.repl import Opens, Repl

CHECK = "test -e built"


def status_line(made: Repl) -> str:
    """The last row: the status line."""
    return next(line for line in reversed(made.lines()) if "of" in line and "k" in line)


@pytest.mark.parametrize("columns", sample([60, 100, 160], 3, 1))
def test_a_goal_is_worked_for_until_its_command_passes(repl: Opens, columns: int) -> None:
    def builds(body: Any) -> Any:
        users = [one for one in body["messages"] if one["role"] == "user"]
        if len(users) == 3 and body["messages"][-1]["role"] == "user":
            return {"calls": [{"name": "bash", "arguments": {"command": "sleep 1; touch built"}}]}
        return f"Answer {len(users)}."

    made = repl(builds, columns=columns, rows=40, arguments=("--allow", "auto"))
    made.send(f"/goal build it --until '{CHECK}'\r")
    made.requested(3)
    assert f"until {CHECK}" in status_line(made) or columns == 60
    made.wait_for("Answer 3.")
    made.wait_for(lambda one: f"`{CHECK}` exited 0 after 3 rounds" in " ".join(one.text.split()))
    made.wait_for(lambda one: "until" not in status_line(made))
    made.idle()
    text = " ".join(made.text.split())
    limits = "at most 200 requests, no cost limit (limits.max_cost), no time limit (limits.timeout)"
    assert f"working until `{CHECK}` exits 0: {limits}" in text
    assert len(made.server.requests) == 4, "no request breaks the goal down"
    made.send("/goal\r")
    made.wait_for("[x] g1 build it")
    made.say("thanks")
    assert len(made.server.requests) == 5


def test_the_command_is_asked_about_once_and_a_no_costs_nothing(repl: Opens) -> None:
    def answers(body: Any) -> Any:
        if "Not done yet" in str(body["messages"][-1]["content"]):
            return {"calls": [{"name": "write_file", "arguments": {"path": "built", "content": "x"}}]}
        return "An answer."

    made = repl(answers, columns=100, rows=40, arguments=("--allow", "edit"))
    for key in ("n", "y"):
        made.send("/goal build --until 'touch seen; test -e built'\r")
        made.asked_about("bash")
        assert not made.server.requests
        made.send(key + "\r")
        if key == "n":
            made.wait_for("is not allowed to run")
            made.idle()
            assert "until" not in status_line(made)
    made.wait_for("exited 0 after 2 rounds")
    made.idle()
    assert made.times("Run this?") == 0 and (made.folder / "built").exists()
    assert made.times("needs approval: touch seen") == 2


def test_esc_stops_a_round_and_clear_ends_the_work(repl: Opens) -> None:
    def sleeps(body: Any) -> Any:
        if body["messages"][-1]["role"] == "user":
            return {"calls": [{"name": "bash", "arguments": {"command": "sleep 50"}}]}
        return "Done."

    made = repl(sleeps, columns=100, rows=40, arguments=("--allow", "auto"))
    made.send(f'/goal --until "{CHECK}" build it\r')
    made.wait_for("sleep 50")
    made.wait_for(f"until {CHECK}")  # the status line comes after the call
    made.send("/goal clear\r")
    made.wait_for(f"Cleared the --until command `{CHECK}`.")
    made.send(f"/goal build --until {CHECK}\r")  # waits for the end of the turn
    made.send("\x1b")
    made.wait_for("Interrupted")
    made.idle()
    assert len(made.server.requests) == 1
    made.send("/goal clear\r")
    made.wait_for("no goal has an --until command")
    made.send("/goal build --until 'make\r")
    made.wait_for("the quote ' is not closed")
    assert len(made.server.requests) == 1
    assert made.times("unknown action") == 0


def test_esc_does_not_repeat_what_the_command_has_just_printed(repl: Opens) -> None:
    def sleeps(body: Any) -> Any:
        if "Not done yet" in str(body["messages"][-1]["content"]):
            return {"calls": [{"name": "bash", "arguments": {"command": "sleep 50"}}]}
        return "Done."

    made = repl(sleeps, columns=100, rows=40, arguments=("--allow", "auto"))
    made.send("/goal build it --until 'echo still red; exit 3'\r")
    made.wait_for("bash sleep 50")
    made.send("\x1b")
    made.wait_for("Interrupted")
    made.idle()
    assert made.times("last output of") == 0 and made.times("    still red") == 1, made.picture()
