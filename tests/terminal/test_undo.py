"""What an undo asks on the screen: about files that the person may have saved while a command ran."""

from __future__ import annotations

import time

import pytest
from program.stage import until
from search import sample
from terminal.repl import Opens

from nexus_cli.undo.unsure_changes import SECONDS

COMMAND = "touch began; while [ ! -e ended ]; do sleep 0.05; done"


@pytest.mark.parametrize(("keys", "text"), sample([("yes\r", "old\n"), ("\r", "mine\n")], 2))
def test_undo_asks_before_it_takes_back_what_the_person_may_have_saved(repl: Opens, keys: str, text: str) -> None:
    steps = [{"calls": [{"name": "bash", "arguments": {"command": COMMAND}}]}, "All pass."]
    made = repl(steps, columns=80, rows=24, arguments=("--allow", "all"))
    mine = made.folder / "mine.txt"
    mine.write_text("old\n")
    made.send("test it\r")
    assert until((made.folder / "began").exists)
    mine.write_text("mine\n")
    time.sleep(SECONDS + 0.2)
    (made.folder / "ended").touch()
    made.wait_for("All pass.")
    made.send("/undo\r")
    made.wait_for("Also revert changes that may be yours?")
    made.send(keys)
    made.wait_for("Undid turn 1")
    assert mine.read_text() == text, made.picture()
