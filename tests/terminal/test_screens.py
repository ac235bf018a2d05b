"""Whole screens of the real program: one conversation in each of the ways in which a terminal may want it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from search import sample
from terminal.golden import check, masked, styled
from terminal.repl import Opens, Repl
from terminal.stories import ANSWER, SHOP, call, conversation

SGR = re.compile(rb"\x1b\[[0-9;:]*m")


def talked(repl: Opens, script: list[Any] | None = None, *, settings: str = "", **options: Any) -> Repl:
    """The conversation from its first word to the prompt after it."""
    made = repl(script or conversation(), settings=settings, files={"shop.py": SHOP}, **options)
    made.say("add a discount to the total", ends=False)
    for tool in ("edit_file", "bash"):
        made.asked_about(tool)
        made.send("y\r")
    made.wait_for("too.", back=True)
    made.idle()
    return made


def test_a_conversation_at_80_columns(repl: Opens) -> None:
    made = talked(repl, rows=100)
    check("conversation_80", styled(made.cells()))


@pytest.mark.matrix
def test_a_conversation_at_40_columns(repl: Opens) -> None:
    made = talked(repl, rows=120, columns=40)
    check("conversation_40", styled(made.cells()))


@pytest.mark.matrix
def test_a_conversation_on_a_light_ground(repl: Opens) -> None:
    made = talked(repl, rows=100, settings='[ui]\ntheme = "light"\n')
    check("conversation_light", styled(made.cells()))


def test_without_colours_the_same_is_said_by_signs(repl: Opens) -> None:
    made = talked(repl, rows=100, env={"NO_COLOR": "1"})
    check("conversation_no_color", styled(made.cells()))
    used = {code for found in SGR.findall(made.raw) for code in found[2:-1].split(b";")}
    assert b"1" in used and used <= {b"", b"0", b"1", b"2", b"3", b"4", b"7"}, used


def test_a_dumb_terminal_gets_lines_and_no_codes(repl: Opens) -> None:
    made = repl(conversation(), files={"shop.py": SHOP}, rows=100, env={"TERM": "dumb"})
    made.say("add a discount to the total", ends=False)
    for tool in ("edit_file", "bash"):
        made.asked_about(tool)
        made.send("y\r")
    made.wait_for("too.", back=True)
    made.idle()
    check("conversation_dumb", made.lines())
    assert b"\x1b" not in made.raw, made.raw[:2000]


def test_in_a_dumb_terminal_a_line_answers_a_question_and_several_at_once_do_not(repl: Opens) -> None:
    words = ("yes", "always", "always", "no", "words", "last")
    script = [call("bash", command=f"echo {word} >> ran") for word in words]
    made = repl([*script, "All done.", "Then done."], rows=100, env={"TERM": "dumb"})
    made.say("run them", ends=False)
    for word, answer in (("yes", "y"), ("always", "a"), ("no", "n not now"), ("words", "use make instead")):
        made.wait_for(f"echo {word} >> ran")
        made.asked_about("bash")
        made.send(f"{answer}\r")
    made.wait_for("echo last >> ran")
    made.asked_about("bash")
    made.send("y\rand this\r")
    made.wait_for("Pasted lines do not answer the question.")
    assert (made.folder / "ran").read_text().split() == ["yes", "always", "always"]
    made.asked_about("bash")
    made.send("y\r")
    made.wait_for("All done.")
    made.say("")
    made.wait_for("Then done.")
    results = [one["content"] for one in made.server.requests[-1].body["messages"] if one["role"] == "tool"]
    assert (made.folder / "ran").read_text().split() == ["yes", "always", "always", "last"]
    assert "Declined" in results[3] and "use make instead" in results[4]
    assert made.server.requests[-1].body["messages"][-1]["content"].endswith("y\nand this")
    assert b"\x1b" not in made.raw


def test_a_question_shows_what_will_happen(repl: Opens) -> None:
    made = repl(conversation(), files={"shop.py": SHOP}, rows=40)
    made.say("add a discount to the total", ends=False)
    made.asked_about("edit_file")
    check("question", styled(made.cells()))


@pytest.mark.parametrize("columns", sample([80, 33], 2, 1))
def test_an_answer_cut_at_every_byte_looks_like_one_in_one_piece(repl: Opens, columns: int) -> None:
    made = [
        repl([{"text": ANSWER, **how}], columns=columns, rows=60) for how in ({"chunk": 0}, {"chunk": 1, "write": 1})
    ]
    for one in made:
        one.say("go")
        one.wait_for("too.")
    whole, cut = ([masked(line) for line in styled(one.cells())] for one in made)
    assert cut == whole


def test_every_line_of_a_long_conversation_stands_in_the_scrollback_once(repl: Opens) -> None:
    made = talked(repl, rows=24)
    everything = made.scrollback()
    for text in (
        "add a discount to the total",
        "I look at it first.",
        "The total now takes",
        "Ready: 日本語",
        "no tests here",
    ):
        assert sum(text in line for line in everything) >= 1, text
    for text in ("add a discount to the total", "I look at it first.", "The total now takes", "Ready: 日本語"):
        assert sum(text in line for line in everything) == 1, "\n".join(everything)
