"""`nexus --connect`: the REPL in front of an agent of another process."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from program.nursery import PIPE, Child, born
from terminal.repl import Opens, Place, Repl
from terminal.stories import call


@pytest.fixture
def served(places: Callable[..., Place]) -> Iterator[Callable[..., tuple[Place, str]]]:
    """A function that starts `nexus serve` at a new place: `served(script, *arguments)` gives the place and the URL."""
    children: list[Child] = []

    def start(script: Any, *arguments: str) -> tuple[Place, str]:
        here = places(script)
        child = born(["serve", "--json", *arguments], env=here.environment, cwd=here.folder, stdout=PIPE)
        children.append(child)
        assert child.stdout is not None
        return here, str(json.loads(child.stdout.readline())["url"])

    start.children = children  # type: ignore[attr-defined]
    yield start
    for child in children:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=120)
        assert child.stdout is not None
        child.stdout.close()


def slow_command(folder: Path) -> dict[str, Any]:
    """A command that runs until there is a file `go`."""
    waits = f"touch {folder}/begun; for i in $(seq 1200); do [ -e {folder}/go ] && break; sleep 0.1; done; echo woke"
    return call("bash", command=waits)


def test_a_conversation_its_reports_and_the_way_back(served: Any, repl: Opens) -> None:
    here, url = served(["the **first** answer", "the second answer"])
    made = repl(at=here, arguments=("--connect", url))
    made.say("hello there")
    made.wait_for("the first answer")
    assert made.times("hello there") == 1
    made.send("/context\r")
    made.wait_for("history: 2 entries")
    made.send("/cost\r")
    made.wait_for("1 turns seen here")
    made.send("/why\r")
    made.wait_for("not supported over --connect")
    made.send("!ls\r")
    made.wait_for("a ! line is not supported")
    made.send("exit\r")
    made.wait_for("Come back with: nexus --connect")
    agent = next(line for line in made.scrollback() if "agent-" in line).partition("  ")[2].split()[0]
    again = repl(at=here, arguments=("--connect", url, "-r", agent))
    again.say("and now")
    again.wait_for("the second answer")
    sent = here.server.requests[-1].body["messages"]
    assert "the **first** answer" in str(sent), "it is the same session"


def test_a_question_is_answered_here_and_the_call_runs_there(served: Any, repl: Opens) -> None:
    here, url = served([call("bash", command="touch made-there; echo it ran"), "done with it"])
    made = repl(at=here, arguments=("--connect", url))
    made.say("do it", ends=False)
    made.asked_about("bash")
    assert "s session: touch *" in made.text and "a always" not in made.text, "no rule is stored from here"
    assert not (here.folder / "made-there").exists()
    made.send("s\r")
    made.wait_for("done with it")
    assert "bash(touch *) \N{MIDDLE DOT} until the server ends this agent" in made.text
    assert (here.folder / "made-there").exists()


def test_words_steer_the_turn_and_esc_stops_it(served: Any, repl: Opens) -> None:
    here, url = served([], "--allow", "all")
    here.server.load([slow_command(here.folder), "steered", slow_command(here.folder), "never"])
    made = repl(at=here, arguments=("--connect", url))
    made.say("go on", ends=False)
    made.wait_for(lambda terminal: (here.folder / "begun").exists(), 120)
    made.send("to the left\r")
    made.wait_for("sending after this step: to the left")
    (here.folder / "go").touch()
    made.wait_for("steered")
    assert "to the left" in str(here.server.requests[-1].body["messages"][-1])
    for name in ("go", "begun"):
        (here.folder / name).unlink()
    made.idle()
    made.say("again", ends=False)
    made.wait_for(lambda terminal: (here.folder / "begun").exists(), 120)
    made.send("\x1b")
    made.wait_for("Interrupted.")
    here.server.load(["went on"])
    made.send("/continue\r")
    made.wait_for("went on")


def test_two_in_front_of_one_agent_see_the_same_question_and_one_answers(served: Any, repl: Opens) -> None:
    here, url = served([call("bash", command="touch made-there; echo it ran"), "done with it", "a second answer"])
    one = repl(at=here, arguments=("--connect", url))
    one.say("do it", ends=False)
    one.asked_about("bash")
    agent = next(word for word in one.text.split() if word.startswith("agent-"))
    other = repl(at=here, arguments=("--connect", url, "-r", agent))
    other.asked_about("bash")
    other.send("y")
    for made in (one, other):
        made.wait_for("done with it")
        made.idle()
    other.say("from the other")
    one.wait_for("a second answer")
    assert one.times("from the other") == other.times("from the other") == 1


def test_a_server_that_goes_away_in_mid_turn_is_told_and_ends_it(served: Any, repl: Opens) -> None:
    here, url = served([], "--allow", "all")
    here.server.load([slow_command(here.folder)])
    made = repl(at=here, arguments=("--connect", url))
    made.say("go on", ends=False)
    made.wait_for(lambda terminal: (here.folder / "begun").exists(), 120)
    served.children[-1].kill()
    made.wait_for("connection lost")
    made.send("are you there\r")
    made.wait_for("has ended", 120)
    assert made.status() == 1


def test_wrong_places_are_one_line(repl: Opens, places: Callable[..., Place], opened: Any) -> None:
    here = places(["x"])
    for arguments, said in (
        (("--connect", "http://127.0.0.1:9"), "token file"),
        (("--connect", "http://127.0.0.1:99999"), "no address"),
        (("--connect", "http://[::1"), "no address"),
        (("--connect", "somewhere"), "no address"),
        (("--connect", "http://127.0.0.1:9", "-c"), "--connect"),
        (("--connect", "http://127.0.0.1:9", "sessions", "list"), "command"),
    ):
        made: Repl = opened(Repl(here, *arguments))
        made.wait_for(said)
        assert made.text.count("nexus: ") == 1
