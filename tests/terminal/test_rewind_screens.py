"""Whole screens of a rewind: the list of turns, the choice of what goes back, and what is said after it."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from search import sample
from terminal.golden import check, styled
from terminal.repl import Opens, Repl
from terminal.stories import SHOP, call
from terminal.terminal import ENTER

TODO = [
    {"text": "add the discount", "state": "done"},
    {"text": "write the tests", "state": "doing"},
    {"text": "publish it on the old server", "state": "dropped"},
    {"text": "tell the shop", "state": "open"},
]
ALL: dict[str, Any] = {"arguments": ("--allow", "all")}
LONG = "and now tell me at length why a shop that sells tea should not give a discount to people who never drink tea"
SCRIPT = [
    call("edit_file", path="shop.py", edits=[{"old": '"tea": 4', "new": '"tea": 5'}]),
    "Tea is dearer.",
    "They would not notice it.",
    call("todo", items=TODO),
    call("bash", command="rm shop.py; seq 1200 > numbers.txt; mkdir docs; echo a > docs/a.md"),
    "All of it is done.",
]


def told(repl: Opens, columns: int, **options: Any) -> Repl:
    """Three turns: an edit, an answer alone, a list of steps with a command that removes a file."""
    made = repl(SCRIPT, columns=columns, rows=60, files={"shop.py": SHOP}, **ALL, **options)
    for words, last in (("raise the price", "1 file (+1 -1)"), (LONG, "· 1 step "), ("discount", "3 files (+1,201")):
        made.send(words + ENTER)
        made.wait_for(last, back=True)
        made.idle()
    return made


def seen(made: Repl) -> list[str]:
    """The screen without the blank rows below it."""
    lines = styled(made.cells())
    while lines and not lines[-1]:
        lines.pop()
    return lines


@pytest.mark.parametrize("columns", sample([60, 100, 160], 3, 1))
def test_a_rewind(repl: Opens, columns: int) -> None:
    made = told(repl, columns)
    screens = seen(made)
    made.send("\x0c/rewind" + ENTER)
    made.wait_for("#1  raise the price")
    screens += ["=" * columns, *seen(made)]
    made.send("\x1b[B\x1b[B" + ENTER)
    made.wait_for("files only")
    made.wait_quiet(0.2)
    screens += ["=" * columns, *seen(made)]
    made.send(ENTER)
    made.wait_for("Rewound to before message 1.")
    made.idle()
    check(f"rewind_{columns}", [*screens, "=" * columns, *seen(made)])


@pytest.mark.matrix
def test_a_rewind_without_a_screen(repl: Opens) -> None:
    made = told(repl, 60, env={"TERM": "dumb"})
    made.send("/rewind" + ENTER)
    made.wait_for("Number (Enter to cancel)")
    made.wait_quiet(0.4)
    made.send("3" + ENTER)
    made.wait_for("files only")
    made.wait_quiet(0.4)
    made.send("1" + ENTER)
    made.wait_for("Rewound to before message 1.")
    made.idle()
    check("rewind_dumb", made.lines())
    assert b"\x1b" not in made.raw


def test_a_turn_that_removed_an_ignored_file_alone_says_how_to_take_it_back(repl: Opens) -> None:
    made = repl([call("bash", command="ls -A"), "I see.", call("bash", command="rm .env"), "Gone."], **ALL)
    subprocess.run(["git", "init", "-q"], cwd=made.folder, env=made.place.environment, check=True)
    (made.folder / ".gitignore").write_text(".env\n")
    (made.folder / ".env").write_text("KEY=1\n")
    made.say("look")
    assert made.times("/undo to revert") == 0
    made.send("remove it" + ENTER)
    made.wait_for("1 file (+0 -1) · 1 command")
    made.wait_for("/undo to revert")
