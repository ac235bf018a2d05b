"""Who comes back: the list of sessions, the one that is gone on with, and the conversation as it was."""

from __future__ import annotations

from collections.abc import Callable

from terminal.repl import Opens, Place, Repl
from terminal.stories import call
from terminal.terminal import ENTER, ESCAPE, Terminal, ctrl


def test_sessions_are_picked_and_shown_as_they_were(
    repl: Opens, places: Callable[..., Place], opened: Callable[[Terminal], Terminal]
) -> None:
    here = places([call("bash", command="echo out of ls"), "It is **done**.", "short", "from a script", "again"])
    first = repl(at=here, arguments=("--allow", "all"))
    first.say("fix the discount")
    leave(first)
    second = repl(at=here)
    second.say("login page")
    leave(second)
    asked = opened(Repl(here, "ask", "asked by a script"))
    assert asked.status() == 0

    made = repl(at=here, arguments=("-r",), columns=60)
    made.wait_for("> login page")
    shown = "\n".join(made.lines())
    assert "fix the discount" in shown and "just now" in shown and "1 turn" in shown
    assert "asked by a script" not in shown, "runs are kept apart"
    made.send("disc")
    made.wait_for("> fix the discount")
    made.send(ENTER)
    made.wait_for("It is done.")
    assert made.times("echo out of ls") == 1 and made.times("out of ls") == 2 and made.times("fix the discount") >= 1
    leave(made)

    undecided = repl(at=here, arguments=("-r",))
    undecided.wait_for("> login page")
    undecided.send(ESCAPE)
    assert undecided.status() == 0

    newest = repl(at=here, arguments=("-c",))
    newest.wait_for("login page")
    newest.wait_for("short")
    assert newest.times("asked by a script") == 0, "and to look into a session is not to use it"
    leave(newest)
    again = opened(Repl(here, "ask", "-c", "and again"))
    assert again.status() == 0
    assert "asked by a script" in str(here.server.requests[-1].body["messages"])

    plain = repl(at=here, arguments=("-r",), env={"TERM": "dumb"})
    plain.wait_for("Number (Enter to cancel):")
    assert plain.times("1  login page") == 1 and plain.times("2  fix the discount") == 1
    plain.wait_quiet(0.3)
    plain.send("2" + ENTER)
    plain.wait_for("It is done.")
    assert b"\x1b[" not in plain.raw
    leave(plain)


def test_a_session_of_another_terminal_is_stopped_from_the_list(repl: Opens, places: Callable[..., Place]) -> None:
    here = places(["one", "two"])
    first, second = repl(at=here), repl(at=here)
    first.say("the first task")
    first.wait_for("one")
    second.say("the second task")
    second.wait_for("two")
    second.send("/sessions --running" + ENTER)
    second.wait_for("/sessions stop ID")
    (first_id,) = (row.split()[1] for row in second.lines() if "the first task" in row and "idle" in row)
    (own_id,) = (row.split()[1] for row in second.lines() if "the second task" in row and "idle" in row)
    second.send(f"/sessions stop {own_id}" + ENTER)
    second.wait_for("this is the current session")
    second.send(f"/sessions stop {first_id} --yes" + ENTER)
    second.wait_for("was asked to stop")
    first.wait_for("Resume with")
    first.status()
    leave(second)


def leave(made: Repl) -> None:
    made.send(ctrl("d"))
    assert made.status() == 0


def test_missing_walls_stand_in_the_status_line_before_the_first_command(repl: Opens) -> None:
    made = repl(["fine"], columns=100, settings='[sandbox]\nbackend = "off"\n')
    made.wait_for("sandbox: none")
    made.send("/permissions run" + ENTER)
    made.wait_for("without a sandbox every command needs approval")
    made.send("/clear" + ENTER)
    made.wait_for("sandbox: none")
    made.send("/permissions all" + ENTER)
    made.wait_for("everything that no rule denies, without sandbox")
    made.wait_for(lambda screen: not any("sandbox: none" in line for line in screen.lines()))
    leave(made)
