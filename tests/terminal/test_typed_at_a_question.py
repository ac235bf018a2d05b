"""Words typed at the pace of a person while a question stands there: nothing is approved, and the words arrive."""

from __future__ import annotations

import time

import pytest
from search import sample
from terminal.repl import Opens, Repl
from terminal.stories import call
from terminal.terminal import ENTER

PACE = 0.3
"""Seconds between two keys: 40 words a minute."""
FIRST = [call("bash", command="touch made"), call("bash", command="touch more"), "As you say."]


def typed(made: Repl, words: str) -> None:
    for key in words:
        made.send(key)
        time.sleep(PACE)


def nothing_ran(made: Repl) -> bool:
    settings = (made.place.nexus_home / "config" / "config.toml").read_text()
    return not (made.folder / "made").exists() and "rules" not in settings


@pytest.mark.parametrize(("columns", "dumb"), sample([(80, False), (40, False), (80, True)], 3))
@pytest.mark.parametrize("words", sample(["stop", "add a test first"], 2))
def test_the_first_words_that_come_to_mind_refuse_with_words(repl: Opens, columns: int, dumb: bool, words: str) -> None:
    made = repl(FIRST, columns=columns, env={"TERM": "dumb"} if dumb else None)
    made.say("mend it", ends=False)
    made.asked_about("bash")
    typed(made, words)
    assert nothing_ran(made)
    made.send(ENTER)
    made.wait_for(lambda one: f"Declined: {words}" in str(made.server.requests[-1].body["messages"]))
    made.asked_about("touch more")
    assert nothing_ran(made)


def test_the_question_shows_the_blanks_and_the_hidden_characters_of_a_command(repl: Opens) -> None:
    made = repl([call("bash", command="touch 'x   y' a\u034fb \u2764\ufe0f"), "As you say."])
    made.say("mend it", ends=False)
    made.asked_about("bash")
    made.wait_for(lambda one: any("touch 'x   y' a<U+034F>b \u2764<U+FE0F>" in line for line in one.lines()))
