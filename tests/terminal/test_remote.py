"""`nexus --connect`: the REPL in front of an agent of another process."""

from __future__ import annotations

import base64
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from program.nursery import PIPE, Child, born
from terminal.repl import Opens, Place, Repl
from terminal.stories import call

from nexus_cli.ledger import Ledger

RED = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")


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


def agent_of(made: Repl) -> str:
    """The id of the agent that a terminal is connected to."""
    return next(word for line in made.scrollback() for word in line.split() if word.startswith("agent-"))


def test_a_conversation_its_commands_and_the_way_back(served: Any, repl: Opens) -> None:
    here, url = served(["the **first** answer", "the second answer"])
    made = repl(at=here, arguments=("--connect", url))
    made.say("hello there")
    made.wait_for("the first answer")
    assert made.times("hello there") == 1
    for line, seen in (
        ("/context", "next request"),
        ("/cost", "1 request"),
        ("/rename the walk", 'Renamed to "the walk".'),
        ("/why", "allow"),
        ("/config", "nexus config set KEY VALUE"),
        ("/login openai", "/login: not available over --connect"),
        ("/permissions all", "The level all is more than the server allows"),
        ("/permissions deny bash(*)", "/permissions deny: not available over --connect"),
        ("!seq 7770 7772", "7771"),
        ("/nonsense", "no such command"),
        ("/directory", "in a session on the server's machine"),
        ("/help all", "/uncompact"),
    ):
        made.send(f"{line}\r")
        made.wait_for(seen, back=True)
        made.idle()
    listed = "\n".join(made.scrollback()).rpartition("/help all")[2]
    assert "/export" in listed and "/login" not in listed, "it lists what works here"
    made.send("?")
    made.wait_for("pastes an image")
    assert "runs a shell command" in made.text and "back to an earlier" in made.text
    made.send("\x7f")
    made.send("exit\r")
    made.wait_for("Reconnect with: nexus --connect")
    assert "Without a client it refuses calls that need approval." in made.text
    made.wait_for("Or on the server's machine, after the server has stopped: nexus --resume")
    again = repl(at=here, arguments=("--connect", url, "-r", agent_of(made)))
    again.wait_for("the first answer")
    assert again.times("hello there") == 1 and "the walk" in again.text and "cut short" not in again.text
    again.say("and now")
    again.wait_for("the second answer")
    sent = here.server.requests[-1].body["messages"]
    assert "the **first** answer" in str(sent), "it is the same session"


def test_files_and_images_of_this_machine_go_along(served: Any, repl: Opens) -> None:
    here, url = served(["seen"] * 3)
    (here.folder / "notes.txt").write_text("only here\n")
    (here.folder / "red.png").write_bytes(RED)
    made = repl(at=here, arguments=("--connect", url))
    made.say("look at @notes.txt and @red.png")
    made.wait_for("Attached notes.txt, 1 line; red.png, an image")
    newest = str(here.server.requests[-1].body["messages"][-1])
    assert "only here" in newest and base64.b64encode(RED).decode() in newest
    made.idle()
    again = repl(at=here, arguments=("--connect", url, "-r", agent_of(made), "what else is there?"))
    again.requested(2)
    again.idle()
    assert "look at @notes.txt and @red.png" in again.text and "only here" not in again.text
    assert "what else is there?" in str(here.server.requests[-1].body["messages"][-1])


@pytest.mark.matrix
def test_an_agent_has_to_be_named_and_the_way_back_names_the_token_file(served: Any, repl: Opens, opened: Any) -> None:
    here, url = served(["the first answer"])
    (here.folder / "a token").write_text(next((here.nexus_home / "data/serve").glob("*.token")).read_text())
    made = repl(at=here, arguments=("--connect", url, "--token-file", "a token"), columns=160)
    made.say("hello there")
    made.send("/exit\r")
    made.wait_for(f"nexus --connect {url} --token-file 'a token' -r {agent_of(made)}")
    unnamed: Repl = opened(Repl(here, "--connect", url, "-r", columns=160))
    unnamed.wait_for(f"--connect requires the id of an agent or session. Agents: {agent_of(made)}.")


def test_another_terminal_sees_a_turn_that_runs_and_leaving_does_not_stop_it(served: Any, repl: Opens) -> None:
    here, url = served([], "--allow", "all")
    here.server.load([slow_command(here.folder), "it woke"])
    made = repl(at=here, arguments=("--connect", url))
    made.say("go on", ends=False)
    made.wait_for(lambda terminal: (here.folder / "begun").exists(), 120)
    other = repl(at=here, arguments=("--connect", url, "-r", agent_of(made)))
    other.wait_for("go on")
    assert "cut short" not in other.text
    made.send("/exit\r")
    assert made.status() == 0
    other.send("hurry\r")
    other.wait_for("sending after this step: hurry")
    (here.folder / "go").touch()
    other.wait_for("it woke")


def test_a_question_is_answered_here_and_the_call_runs_there(served: Any, repl: Opens) -> None:
    handed = [call("agent", task="THE PART"), call("bash", command="mkdir part"), "the report", "the part is done"]
    here, url = served([call("bash", command="touch made-there; echo it ran"), "done with it", *handed])
    made = repl(at=here, arguments=("--connect", url))
    made.say("do it", ends=False)
    made.asked_about("bash")
    assert "s session: touch *" in made.text and "a always" not in made.text, "no rule is stored from here"
    assert not (here.folder / "made-there").exists()
    made.send("s\r")
    made.wait_for("done with it")
    assert "bash(touch *) \N{MIDDLE DOT} until the server ends this agent" in made.text
    assert (here.folder / "made-there").exists()
    made.idle()
    made.say("hand it over", ends=False)
    made.wait_for("worker w1 asks: bash  mkdir part")
    made.asked_about("bash")
    assert "n no, ends w1" in made.text
    made.send("y\r")
    made.wait_for("the part is done")


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
    made.wait_for(f"; reconnecting to {url}")
    made.send("are you there\r")
    made.wait_for("disconnected from", 120)
    made.wait_for("not sent: are you there", back=True)
    session = Ledger.open_for_reading(here.nexus_home / "data" / "ledger.db").sessions()[0].id
    said = " ".join(made.text.split())
    assert f"If the server still runs, reconnect with: nexus --connect {url} -r agent-" in said
    assert f"After the server has exited, resume the session there: nexus --resume {session}" in said
    assert "Cannot connect" not in said and "TransferEncoding" not in said and "stopped" not in said, said
    assert made.status() == 1


def test_wrong_places_are_one_line(repl: Opens, places: Callable[..., Place], opened: Any) -> None:
    here = places(["x"])
    for arguments, said in (
        (("--connect", "http://127.0.0.1:9"), "found no token for this server"),
        (("--connect", "http://127.0.0.1:9", "-r", "agent-1"), "sessions list --all"),
        (("--connect", "http://127.0.0.1:99999"), "not a server URL"),
        (("--connect", "http://[::1"), "not a server URL"),
        (("--connect", "somewhere"), "not a server URL"),
        (("--connect", "http://127.0.0.1:9", "-c"), "--connect"),
        (("--connect", "http://127.0.0.1:9", "sessions", "list"), "command"),
    ):
        made: Repl = opened(Repl(here, *arguments))
        made.wait_for(said)
        assert made.text.count("nexus: ") == 1


def test_a_resource_of_a_server_is_read_where_the_agent_runs(served: Any, repl: Opens) -> None:
    pytest.importorskip("mcp")
    here, url = served(["seen"])
    notes = here.folder / "notes.txt"
    notes.write_text("buy milk\n")
    config = here.nexus_home / "config" / "config.toml"
    server = [sys.executable, str(Path(__file__).parent.parent / "jobs" / "notes_server.py"), str(notes)]
    config.write_text(f"{config.read_text()}\n[mcp.notes]\nstart_seconds = 30\ncommand = {json.dumps(server)}\n")
    made = repl(at=here, arguments=("--connect", url))
    made.say("what is in @notes:note://all?")
    made.wait_for("seen")
    (asked,) = here.server.requests
    sent = str(asked.body["messages"][-1]["content"])
    assert '<resource server="notes" uri="note://all">' in sent and "buy milk" in sent
