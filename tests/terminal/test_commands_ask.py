"""Commands of the shell ask as a session does: the same keys, the same words, and Esc is no."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from search import sample
from terminal.repl import Opens, Place
from terminal.terminal import ENTER, ESCAPE, RIGHT, ctrl

from nexus_cli.ui.screen.question import ALONE, QUIET

DUMB = {"TERM": "dumb"}
SEEN = "Trust it?"
AWHILE = QUIET + ALONE
"""Seconds in which a letter alone becomes an answer."""


@pytest.fixture
def here(places: Callable[..., Place]) -> Place:
    """A project with configuration that is not trusted."""
    made = places()
    (made.folder / ".nexus").mkdir()
    (made.folder / ".nexus" / "config.toml").write_text("[limits]\nmax_steps = 7\n")
    return made


@pytest.mark.parametrize(
    ("keys", "is_trusted"),
    sample(
        [
            ("y" + ENTER, True),
            ("y", True),
            ("yes" + ENTER, True),
            (RIGHT + ENTER, True),
            (ENTER, False),
            ("no" + ENTER, False),
            (ESCAPE, False),
            (ctrl("d"), False),
        ],
        8,
    ),
)
def test_an_answer_is_a_key_or_its_word_and_esc_is_no(here: Place, repl: Opens, keys: str, is_trusted: bool) -> None:
    made = repl(at=here, arguments=("trust",))
    made.wait_for("Esc no")
    made.send(keys)
    made.wait_for("is trusted." if is_trusted else "nothing was changed.")
    assert made.status() == 0 and SEEN not in made.text, "an answered question is taken away"


@pytest.mark.parametrize("dumb", [True, False])
def test_an_unclear_answer_is_asked_about_and_changes_nothing(here: Place, repl: Opens, dumb: bool) -> None:
    made = repl(at=here, arguments=("trust",), env=DUMB if dumb else None)
    made.wait_for("[y]es · [N]o:" if dumb else "Esc no")
    made.send("ok" + ENTER)
    made.wait_for("ok is not an answer. Please answer y or n")
    made.wait_quiet(AWHILE)
    made.send("n" + ENTER)
    made.wait_for("nothing was changed.")


def test_ctrl_c_ends_the_command_and_leaves_the_terminal_as_it_was(here: Place, repl: Opens) -> None:
    made = repl(at=here, arguments=("trust",))
    made.wait_for("Esc no")
    made.send(ctrl("c"))
    assert made.status() == 130 and "Cancelled." in made.text
