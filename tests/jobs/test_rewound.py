"""The job: "no, not like this": five turns, then back to before the second one, with files and conversation, and on.

The person works in a wide and in a narrow terminal, and loses the machine in the middle of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from program.stage import calls
from project_files import write_files
from search import sample, some
from terminal.repl import Place, Repl, place
from terminal.terminal import ENTER, Terminal, ctrl
from undo.world import Tree, files, tree

TODO = ({"text": "plan it", "state": "doing"}, {"text": "test it", "state": "open"})
TURNS = {
    "one: plan it": (("todo", {"items": list(TODO)}), ("write_file", {"path": "plan.md", "content": "the plan\n"})),
    "two: set the price": (
        ("bash", {"command": "sed -i s/16/19/ price.py && rm -rf src"}),
        ("todo", {"items": [{"text": "plan it", "state": "done"}, {"text": "tell a lie", "state": "doing"}]}),
    ),
    "three: explain": (),
    "four: write tests": (("write_file", {"path": "tests/test_price.py", "content": "def test(): ...\n"}),),
    "five: tidy up": (("bash", {"command": "rm -f .env plan.md; echo 20 > price.py; mkdir out; echo x > out/x"}),),
    "two: keep the price": (("write_file", {"path": "note.md", "content": "kept\n"}),),
}
DIES = """
import os, signal
from nexus_cli.undo import restore
_write, _count = restore.write_state, [0]
def write_and_die(*arguments, **more):
    done = _write(*arguments, **more)
    _count[0] += 1
    if _count[0] == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
restore.write_state = write_and_die
"""
"""Run in the program first: it dies after having written so many files of an undo."""


def model(body: Any) -> dict[str, Any]:
    """Does what the newest message names."""
    messages = body["messages"]
    last = max(at for at, one in enumerate(messages) if one["role"] == "user")
    words = next((turn for turn in TURNS if turn in str(messages[last]["content"])), "")
    if not words:
        return {"text": "I see."}
    made = TURNS[words]
    if made and messages[-1]["role"] == "user":
        return calls(*made)
    return {"text": f"Done with {words.partition(':')[0]}."}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    """A folder with files of which there is no copy."""
    with place(tmp_path, model) as made:
        write_files(made.folder, {"src/deep/main.py": "print(1)\n", "price.py": "16\n", ".env": "KEY=1\n"})
        (made.folder / ".env").chmod(0o600)
        yield made


def now(here: Place) -> Tree:
    return files(tree(here.folder))


def is_now(here: Place, expected: Tree) -> bool:
    """Compare the files with `expected` while a rewind may remove them under the look."""
    try:
        return now(here) == expected
    except FileNotFoundError:
        return False


def work(here: Place) -> dict[int, Tree]:
    """The five turns, each in a process of its own; return the files before each of them."""
    before = {}
    with Repl(here, "--allow", "all", columns=100, rows=40) as repl:
        repl.ready()
        for number, words in enumerate(list(TURNS)[:5], 1):
            before[number] = now(here)
            repl.say(words, ends=False)
            repl.wait_for(f"Done with {words.partition(':')[0]}.", back=True)
            repl.idle()
        repl.send(ctrl("d"))
        assert repl.status() == 0
    before[6] = now(here)
    return before


def spoken(here: Place) -> str:
    """What the newest request holds of the conversation."""
    return str(here.server.requests[-1].body["messages"][1:])


def brought_back(count: int, one: Terminal) -> bool:
    """Whether so many turns were brought back on this screen."""
    return "\n".join(one.scrollback()).count("Redid") == count


@pytest.mark.parametrize("columns", sample([80, 40], 2))
def test_a_day_goes_back_to_its_second_turn_and_on(here: Place, columns: int) -> None:
    before = work(here)
    with Repl(here, "-c", "--allow", "all", columns=columns, rows=30) as one:
        one.ready()
        one.wait_for("Done with five.")
        one.send("/rewind" + ENTER)
        one.wait_for("#1  one: plan it")
        shown = "\n".join(one.lines())
        assert "#5  five: tidy up" in shown and "#2  two: set the price" in shown and "2 files (+1 -2)" in shown
        assert all(len(line) <= columns for line in one.lines())
        one.send("two:")
        one.wait_for(lambda screen: not any("five: tidy" in line for line in screen.lines()[-12:]))
        one.send(ENTER)
        one.wait_for("Rewind to before message")
        one.wait_for("files and conversation")
        one.send(ENTER)
        one.wait_for("Undid turns 2 to 5")
        one.wait_for("Rewound to before message 2.", back=True)
        one.wait_for("> two: set the price")
        assert now(here) == before[2]
        one.send("\x7f" * 13 + "keep the price" + ENTER)
        one.wait_for("Done with two.")
        assert "one: plan it" in spoken(here) and "two: keep the price" in spoken(here)
        assert not any(words in spoken(here) for words in ("set the price", "three:", "tell a lie", "took back"))
        after = now(here)
        one.send("/exit" + ENTER)
        assert one.status() == 0
    with Repl(here, "-c", "--allow", "all", columns=columns, rows=30) as one:
        one.ready()
        one.wait_for("Done with two.")
        for command, text, expected in (
            ("/undo", "Undid turn 2: 1 file removed.", before[2]),
            ("/undo", "Undid turn 1: 1 file removed.", before[1]),
            ("/redo", "Redid turn 1", before[2]),
            ("/redo", "Redid turn 2", after),
        ):
            one.send(command + ENTER)
            one.wait_for(text, back=True)
            assert now(here) == expected, command
        one.send("/undo" + ENTER)
        one.wait_for(lambda screen: "\n".join(screen.scrollback()).count("Undid turn 2") == 2)
        one.send("/resume five" + ENTER)
        one.wait_for("Done with five.", back=True)
        for count in range(1, 4):
            one.send("/redo" + ENTER)
            one.wait_for(partial(brought_back, count + 2))
        assert now(here) == before[6]


@pytest.mark.parametrize("at", some([1, 2, 3, 4], 2))
def test_a_killed_rewind_is_completed_by_the_next_one(here: Place, at: int) -> None:
    before = work(here)
    with Repl(here, "-c", "--allow", "all", columns=100, rows=40, bug=DIES.format(at=at)) as repl:
        repl.ready()
        repl.send("/rewind 2 both" + ENTER)
        assert repl.status() == -signal.SIGKILL
    assert now(here) != before[2] or at == 4
    with Repl(here, "-c", "--allow", "all", columns=100, rows=40) as repl:
        repl.ready()
        repl.send("/rewind 2 both" + ENTER)
        repl.wait_for("Rewound to before message 2.")
        assert now(here) == before[2]
        assert not [name for name in os.listdir(here.folder) if name.startswith(".nexus-")]
