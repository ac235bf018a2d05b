"""Commands that take long, on the screen: their last lines, and their way to the background."""

from __future__ import annotations

import pytest
from search import sample
from terminal.repl import Opens
from terminal.stories import call
from terminal.terminal import ctrl

SERVES = "for n in $(seq 60); do echo request $n; sleep 0.5; done"


@pytest.mark.parametrize("columns", sample([80, 40], 2))
def test_a_long_command_shows_its_last_lines_and_goes_to_the_background(repl: Opens, columns: int) -> None:
    steps = [call("bash", command=SERVES), call("jobs", action="stop", job="j1"), "It was a server."]
    made = repl(steps, columns=columns, rows=24, arguments=("--allow", "all"))
    made.send("run it\r")
    made.wait_for("request 2")
    shown = [line for line in made.lines() if line.startswith("    request")]
    assert len(shown) == 1, made.lines()
    made.wait_for(lambda t: sum(line.startswith("    request") for line in t.lines()) == 5)
    if columns == 80:
        made.wait_for("esc to stop · ctrl+b: background")
    made.send(ctrl("b"))
    made.wait_for("moved j1 to the background")
    made.wait_for("It was a server.")
    result = str(made.server.requests[1].body["messages"][-1]["content"])
    assert "request 1\n" in result and "job j1" in result, result
    made.send("/jobs\r")
    made.wait_for("stopped after")


def test_leaving_names_the_jobs_that_it_ends(repl: Opens) -> None:
    made = repl([call("bash", command="sleep 60", background=True), "Started."], arguments=("--allow", "all"))
    made.say("serve")
    made.send(ctrl("d"))
    assert made.status() == 0
    shown = made.lines()
    assert "job j1 ended with the session: sleep 60" in shown, made.picture()
    assert any(line.startswith("Resume with") for line in shown)
