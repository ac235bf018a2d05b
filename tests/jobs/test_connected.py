"""The job: an hour of work in front of an agent of `nexus serve`, and the same hour in front of a session.

A person plans, answers questions, lets the agent work until a command passes, goes back, exports, leaves and returns.
What the two terminals show is the same, but for the name of the server.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from program.nursery import PIPE, born
from search import sample
from terminal.repl import Place, Repl, place
from terminal.terminal import ENTER

LENGTHS = re.compile(r"^[\d.]+k(?= of )|\d+\.\d+|\d+(?=% cached)")
SHIFT_TAB = "\x1b[Z"
SHOP = 'PRICE = {"tea": 4}\n\n\ndef total(names):\n    return sum(PRICE[name] for name in names)\n'
CHANGE = [
    {"name": "edit_file", "arguments": {"path": "shop.py", "edits": [{"old": "(names):", "new": "(names, share=0):"}]}},
    {"name": "bash", "arguments": {"command": "touch note.txt"}},
]
ASKED = {
    "name": "use_tool",
    "arguments": {
        "name": "ask_person",
        "arguments": {"questions": [{"question": "Which name?", "choices": ["rebate"]}]},
    },
}
RULES = {
    "rules": [
        {"when": {"last_role": "tool"}, "then": {"text": "It is done."}},
        {"when": {"contains": "add a share"}, "then": {"text": "First I look.", "calls": CHANGE}},
        {"when": {"contains": "which name"}, "then": {"calls": [ASKED]}},
        {"when": {"contains": "Translate the prices to"}, "then": {"text": "Translated."}},
        {"when": {"contains": "how would you"}, "then": {"text": "1. Change shop.py\n2. Test it"}},
        {"when": {"contains": "Proceed with the plan"}, "then": {"text": "Carried out."}},
        {
            "when": {"contains": "make it pass"},
            "then": {"calls": [{"name": "bash", "arguments": {"command": "touch passed.txt"}}]},
        },
    ],
    "default": {"text": "an answer"},
}
PRICES = '[models."openai/gpt-4o"]\nwindow = 128000\nmax_output = 8192\ninput_price = 2.0\noutput_price = 8.0\n'


@contextmanager
def project(root: Path) -> Iterator[Place]:
    """A repository with one commit, and a model that plays by `RULES`."""
    with place(root, RULES, name="shop") as here:
        here.settings((here.nexus_home / "config" / "config.toml").read_text() + PRICES)
        (here.folder / "shop.py").write_text(SHOP)
        guide = here.nexus_home / "config" / "commands" / "prices.md"
        guide.parent.mkdir(parents=True)
        guide.write_text("Translate the prices to $ARGUMENTS.")
        for words in ("init -q -b trunk", "add .", "-c user.name=a -c user.email=a@b commit -qm first"):
            subprocess.run(["git", *words.split()], cwd=here.folder, check=True)
        yield here


@contextmanager
def served(here: Place, level: str) -> Iterator[str]:
    """A server at a place; its URL."""
    child = born(["serve", "--json", "--allow", level], env=here.environment, cwd=here.folder, stdout=PIPE)
    assert child.stdout is not None
    try:
        yield str(json.loads(child.stdout.readline())["url"])
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=120)
        child.stdout.close()


def status_of(one: Repl) -> list[str]:
    """The parts of the status line, without the server, and without the figures that the length of its text changes."""
    parts = [line for line in one.lines() if line][-1].split(" \N{MIDDLE DOT} ")
    return [LENGTHS.sub("N", part) for part in parts if not part.startswith("at ")]


def play(one: Repl, folder: Path, *, highest: str) -> list[list[str]]:
    """The hour; the status lines after each part of it."""
    seen: list[list[str]] = []

    def note() -> None:
        one.idle()
        seen.append(status_of(one))

    one.say("add a share to total", ends=False)
    one.asked_about("edit_file")
    one.send("A" + ENTER)
    one.wait_for("It is done.")
    one.wait_for("2 files (+1 -1) \N{MIDDLE DOT} 1 command")
    one.wait_for("/undo to revert")
    note()
    one.send("/rewind" + ENTER)
    one.wait_for("#1  add a share to total")
    one.send(ENTER)
    one.wait_for("files and conversation")
    one.send(ENTER)
    one.wait_for("Rewound to before message 1.")
    one.wait_for("> add a share to total")
    assert (folder / "shop.py").read_text() == SHOP and not (folder / "note.txt").exists()
    note()
    one.send("\x15" + "/redo" + ENTER)
    one.idle()
    for _ in range(3):
        one.send(SHIFT_TAB)
        one.idle()
        if status_of(one)[1] == "plan":
            break
    one.say("how would you do it", ends=False)
    one.wait_for("Proceed with this plan?")
    one.wait_for("or type what to do instead")
    one.send("y" + ENTER)
    one.wait_for(f"Plan mode is off. Permission level: {highest}.")
    one.wait_for("Carried out.")
    note()
    one.send("/goal make it pass --until 'test -e passed.txt'" + ENTER)
    one.wait_for("limits.max_cost")
    one.asked_about("bash")
    one.send("y" + ENTER)
    one.wait_for("`test -e passed.txt` exited 0 after 1 round")
    note()
    one.send("/undo" + ENTER)
    one.wait_for("removed   passed.txt")
    one.say("which name should it have", ends=False)
    one.wait_for("or your own answer")
    one.send("1" + ENTER)
    one.wait_for("> rebate")
    note()
    assert "    > rebate" in map(str.rstrip, one.scrollback()), "the answer of the person is below the call"
    one.send("/prices Welsh" + ENTER)
    one.wait_for("Translated.")
    note()
    one.send("/export md notes.md" + ENTER)
    one.wait_for("Written to")
    one.send("/model" + ENTER)
    one.wait_for("Search:")
    one.send("\x1b")
    one.wait_for(lambda screen: ">" in map(str.rstrip, screen.lines()))
    one.send("/context" + ENTER)
    one.wait_for("next request")
    note()
    return seen


@pytest.mark.parametrize("columns", sample([100, 60], 2))
def test_a_day_in_front_of_a_server_is_that_in_front_of_a_session(tmp_path: Path, columns: int) -> None:
    shown: list[list[list[str]]] = []
    for name in ("local", "remote"):
        with project(tmp_path / name) as here, served(here, "edit") as url:
            arguments = ("--connect", url) if name == "remote" else ()
            with Repl(here, *arguments, "--allow", "ask", columns=columns, rows=40) as one:
                one.ready()
                shown.append(play(one, here.folder, highest="edit"))
                assert (here.folder / "notes.md").read_text().count("Carried out.") == 1
                one.send("exit" + ENTER)
                assert one.status() == 0
    for local, remote in zip(*shown, strict=True):
        assert local == remote


def test_a_server_at_a_lower_level_and_a_terminal_that_returns(tmp_path: Path) -> None:
    with project(tmp_path) as here, served(here, "ask") as url:
        with Repl(here, "--connect", url, columns=100, rows=40) as one:
            one.ready()
            one.send("/plan how would you do it" + ENTER)
            one.wait_for("or type what to do instead")
            one.send("y" + ENTER)
            one.wait_for("Plan mode is off. Permission level: ask.")
            one.wait_for("Carried out.")
            one.idle()
            one.say("add a share to total", ends=False)
            one.asked_about("edit_file")
            agent = next(word for line in one.scrollback() for word in line.split() if word.startswith("agent-"))
        assert (here.folder / "shop.py").read_text() == SHOP, "the window was closed, nobody has answered"
        with Repl(here, "--connect", url, "-r", agent, columns=100, rows=40) as again:
            again.wait_for("Make this change?")
            again.asked_about("edit_file")
            again.send("A" + ENTER)
            again.wait_for("It is done.")
            again.wait_for("/undo to revert")
            again.idle()
            assert "(trunk)" in status_of(again)[2]
            again.send("/undo" + ENTER)
            again.wait_for("restored  shop.py")
        assert (here.folder / "shop.py").read_text() == SHOP


def test_a_question_of_the_model_waits_for_the_terminal_that_returns(tmp_path: Path) -> None:
    with project(tmp_path) as here, served(here, "ask") as url:
        with Repl(here, "--connect", url, columns=100, rows=40) as one:
            one.ready()
            one.say("which name should it have", ends=False)
            one.wait_for("or your own answer")
            agent = next(word for line in one.scrollback() for word in line.split() if word.startswith("agent-"))
            one.signal(signal.SIGKILL)
        with Repl(here, "--connect", url, "-r", agent, columns=100, rows=40) as again:
            again.wait_for("or your own answer")
            again.send("1" + ENTER)
            again.wait_for("It is done.")
            assert "    > rebate" in map(str.rstrip, again.scrollback())


@pytest.mark.matrix
def test_a_closed_window_ends_the_client_alone(tmp_path: Path) -> None:
    with project(tmp_path) as here, served(here, "auto") as url:
        with Repl(here, "--connect", url, columns=100, rows=40) as one:
            one.ready()
            one.say("make it pass", ends=False)
            one.wait_for("It is done.")
            one.idle()
            agent = next(word for line in one.scrollback() for word in line.split() if word.startswith("agent-"))
            one.hang_up()
            assert one.status() == 129
        with Repl(here, "--connect", url, "-r", agent, columns=100, rows=40) as again:
            again.wait_for("It is done.")
