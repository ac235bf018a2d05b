"""What nobody should type, paste or answer, and yet somebody does."""

from __future__ import annotations

import pytest
from terminal.repl import Opens, Repl
from terminal.stories import call
from terminal.terminal import ctrl

MARKUP = "[/bold] [red]{} %s %(x)d {0!r} \\n <b>&amp; $HOME `id` [link=http://x]"


def sent(made: Repl, number: int = -1) -> str:
    return str(made.server.requests[number].body["messages"][-1]["content"])


def test_text_that_looks_like_markup_stays_as_it_is(repl: Opens) -> None:
    made = repl(
        [{"text": f"```\n{MARKUP}\n```", **call("bash", command=f"sh -c 'exit 1'; echo '{MARKUP}'; exit 1")}, "done"]
    )
    made.say(MARKUP, ends=False)
    made.asked_about("bash")
    made.send("y\r")
    made.wait_for("done")
    made.idle()
    assert MARKUP in sent(made, 0)
    assert made.times(MARKUP) >= 3, "\n".join(made.scrollback())


def test_nuls_and_broken_characters_do_no_harm(repl: Opens) -> None:
    made = repl()
    made.send(b"a\x00b")
    made.paste(b"c\x00d\xff\xfe\xed\xa0\x80e")
    made.send("f\r")
    made.requested(1)
    made.idle()
    text = sent(made)
    assert text.endswith("f") and "\x00" not in text.replace("c\x00d", "")
    assert not any(0xD800 <= ord(char) < 0xE000 for char in text)


def test_a_paste_never_submits(repl: Opens) -> None:
    made = repl()
    made.paste("first line\nsecond line\rthird\n")
    made.idle()
    assert made.server.requests == []
    made.send("\r")
    made.requested(1)
    assert "first line\nsecond line\nthird" in sent(made)


@pytest.mark.matrix
def test_a_model_that_says_fifty_megabytes_without_a_newline_can_be_stopped(repl: Opens) -> None:
    made = repl([{"text": "abcdefghij", "repeat": 5_000_000, "chunk": 65536}], emulate=False)
    made.say("go", ends=False)
    made.wait_for(lambda terminal: b"abcdefghij" in terminal.raw, 120)
    made.send("x")
    made.send(ctrl("c"))
    made.wait_for(lambda terminal: b"nterrupted" in terminal.raw or b"stopped" in terminal.raw, 120)
    made.wait_quiet(0.5, 30)
    made.send(ctrl("c"))
    made.send("still there?\r")
    made.wait_for(lambda terminal: b"answer (" in terminal.raw, 120)


def test_the_editor_changes_the_words(repl: Opens) -> None:
    made = repl(env={"EDITOR": "sed -i s/old/new/", "VISUAL": None})
    made.send("old words")
    made.wait_for("old words")
    made.send(ctrl("g"))
    made.wait_for("new words", 120)
    made.say("")
    assert sent(made).endswith("new words")


def test_hostile_text_reaches_the_terminal_only_made_visible(repl: Opens) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\U000e0041\x1bP1$r\x1b\\"
    made = repl(
        [{"text": f"look {hostile} here", "chunk": 1, **call("bash", command=f"printf '%s' '{hostile}'")}, "done"]
    )
    made.say("go", ends=False)
    made.asked_about("bash")
    made.send("y\r")
    made.wait_for("done")
    made.idle()
    assert not any("owned" in told for told in made.told), made.told
    assert made.times("look") >= 1 and made.times("␛") >= 1
    raw = bytes(made.raw).decode("utf-8", "replace")
    assert not any(mark in raw for mark in ("\x9b", "\u202e", "\U000e0041", "\x1b]0;owned", "\x1bP"))
