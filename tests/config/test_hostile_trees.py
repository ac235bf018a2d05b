"""Folders of other agents as nobody should have them: the program works in each, and runs nothing before trust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from config.hostile_trees import CANARY, TREES
from program.stage import Done, stage
from search import sample

MAX_LINES, LONGEST_LINE = 6, 700
"""What may be told on stderr."""


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(TREES, 6))
def test_a_hostile_tree_is_named_and_harms_nothing(tmp_path: Path, name: str) -> None:
    make, said = TREES[name]
    with stage(tmp_path, lambda body: {"text": "Done."}) as place:
        make(place.folder)
        check(place.ask("hi"), 0)
        trusted = place.run("trust", stdin=b"y\n")
        check(trusted, 2 if trusted.status else 0)
        assert not (place.folder / CANARY).exists(), "nothing runs before trust"
        told = " ".join((trusted.text + trusted.stderr.decode()).split())
        assert said in told, told
        assert not {"\x1b", "\u202e", "\r"} & set(told)
        check(place.ask("hi"), 0)


def check(done: Done, status: int) -> None:
    assert done.status == status and b"Traceback" not in done.stderr, done
    assert len(done.told) <= MAX_LINES and all(len(line) <= LONGEST_LINE for line in done.told), done.told
    if status == 0 and done.text.startswith("Done"):
        assert done.text == "Done.\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with stage(tmp_path, lambda body: {"text": "Done."}) as place:
        TREES["unreadable"][0](place.folder)
        told = place.run("trust", stdin=b"y\n")
        assert told.text.count("Permission denied") == 2 and not (place.folder / CANARY).exists()
