"""What nobody should type, paste or answer, and yet somebody does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from search import sample
from terminal.repl import Opens, Place, Repl
from terminal.stories import call
from terminal.terminal import Terminal, ctrl

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


def test_spaces_alone_are_nothing_to_say(repl: Opens) -> None:
    made = repl()
    made.send("   \r\r \t \r")
    made.idle()
    assert made.server.requests == []
    made.send(ctrl("u"))
    made.say("words")
    assert sent(made).endswith("words")


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


def test_a_large_paste_is_folded_and_sent_whole(repl: Opens) -> None:
    made = repl()
    made.paste("\n".join(f"pasted {number}" for number in range(214)))
    made.wait_for("[pasted 214 lines]")
    made.send("\r")
    made.requested(1)
    assert "pasted 213" in sent(made) and "pasted 0\npasted 1\n" in sent(made)


@pytest.mark.matrix
def test_fifty_megabytes_are_pasted(repl: Opens) -> None:
    made = repl()
    line = "x" * 63 + "\n"
    feeder = threading.Thread(target=made.paste, args=(line * (50_000_000 // 64),))
    feeder.start()
    made.wait_for("[pasted", 120)
    feeder.join(120)
    made.send(" look\r")
    made.requested(1, 60)
    made.wait_for("answer (1)", 30, back=True)
    assert sent(made).endswith("look") or "look" in sent(made)[-400:]


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


def test_a_history_that_cannot_be_read_or_written_is_told_once(
    places: Callable[..., Place], opened: Callable[[Terminal], Terminal], repl: Opens
) -> None:
    here = places()
    history = here.nexus_home / "data" / "history"
    history.mkdir(parents=True)
    (history / "in the way").write_text("x")
    made = repl(at=here)
    made.say("hello")
    made.wait_for("answer (1)")
    made.say("hello again")
    made.wait_for("answer (2)")
    assert "Traceback" not in "\n".join(made.scrollback())


@pytest.mark.parametrize("editor", sample(["false", "rm -f", "no-such-editor-at-all", "sh -c 'kill -9 $$'"], 4))
def test_an_editor_that_fails_leaves_the_words_as_they_were(repl: Opens, editor: str) -> None:
    made = repl(env={"EDITOR": editor, "VISUAL": None})
    made.send("precious words")
    made.wait_for("precious words")
    made.send(ctrl("g"))
    made.wait_for("nexus:", 120)
    made.idle()
    made.wait_for("precious words")
    made.say(" stay")
    assert "precious words stay" in sent(made)


def test_the_editor_changes_the_words(repl: Opens) -> None:
    made = repl(env={"EDITOR": "sed -i s/old/new/", "VISUAL": None})
    made.send("old words")
    made.wait_for("old words")
    made.send(ctrl("g"))
    made.wait_for("new words", 120)
    made.say("")
    assert sent(made).endswith("new words")


def test_a_second_repl_on_one_session_is_refused_and_the_first_goes_on(
    repl: Opens, opened: Callable[[Terminal], Terminal]
) -> None:
    first = repl(["first answer", "second answer"])
    first.say("hello")
    first.wait_for("first answer")
    second = opened(Repl(first.place, "-c"))
    assert second.status() == 2
    assert "open elsewhere" in " ".join(second.lines()) and "nexus sessions fork" in " ".join(second.lines())
    first.say("hello again")
    first.wait_for("second answer")
    first.send(ctrl("d"))
    assert first.status() == 0
    third = repl(at=first.place, arguments=("-c",))
    third.wait_for("second answer")


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


def test_an_unwritable_home_is_no_reason_not_to_talk(places: Callable[..., Place], repl: Opens, tmp_path: Path) -> None:
    here = places()
    if os.getuid() == 0:
        (here.home / "file").write_text("x")
        here.environment["NEXUS_HOME"] = str(here.home / "file" / "nexus")
    else:
        here.nexus_home.chmod(0o500)
    made = repl(at=here)
    made.say("hello")
    made.wait_for("answer (1)")
