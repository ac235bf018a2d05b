"""The door: nothing that steers a terminal or hides from the eye gets through, and nothing else is changed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nexus_cli.text.terminal_sanitizer import StreamSanitizer, sanitize, sanitize_output

TRICKY = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\r\n\t\x00\x07\x7f\x9b\x9d\u200b\u200c\u200d\u202e\u2028\ufeff\ufe0f\ufe0e👩💻🏳فر❤1#a["),
        st.characters(min_codepoint=0xE0000, max_codepoint=0xE0FFF),
    )
)
WRITING = ["Größe 漢字 кот", "می‌خواهم", "क्‍ष", "👩‍💻 👨‍👩‍👧 ❤️ 1️⃣ ☎︎", "naïve e\u0301", "\tx\ny", "┌─┐ →"]


def hidden(char: str) -> bool:
    if char in "\n\t\u200c\u200d\ufe0e\ufe0f":
        return False
    return (
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
        or 0xE0000 <= ord(char) <= 0xE0FFF
        or char in ("\u00ad\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff")
    )


@pytest.mark.matrix
@given(TRICKY)
def test_nothing_that_steers_or_hides_gets_through(text: str) -> None:
    assert not any(hidden(char) for char in sanitize(text))


@given(TRICKY, st.data())
def test_however_a_text_is_cut_its_pieces_join_to_the_same(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    door = StreamSanitizer()
    pieces = [door.feed(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(pieces) + door.flush() == sanitize(text)


@given(TRICKY)
@example("\ufe0f\u200d\u0627")
def test_what_came_through_is_not_changed_again(text: str) -> None:
    once = sanitize(text)
    assert sanitize(once) == once


@pytest.mark.parametrize("text", WRITING)
def test_ordinary_writing_stays_as_it_is(text: str) -> None:
    assert sanitize(text) == text


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\u115f\u1160\u3164\uffa0")))
def test_letters_signs_and_spaces_stay_as_they_are(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b31m", "<U+009B>31m"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("user\u202etxt.exe", "user<U+202E>txt.exe"),
        ("pass\u200dword", "pass<U+200D>word"),
        ("\U000e0041", "<U+E0041>"),
        ("a\ufe0f\ufe0f", "a<U+FE0F><U+FE0F>"),
        ("\ud800", "<U+D800>"),
        ("\x7f\x00", "␡␀"),
        ("\ufeffx", "<U+FEFF>x"),
    ],
)
def test_tricks_are_made_visible(text: str, shown: str) -> None:
    assert sanitize(text) == shown


def test_of_an_overwritten_line_of_output_its_last_state_is_shown() -> None:
    assert sanitize_output("Rebasing (1/2)\r      \rDone.\nnext 1%\rnext 2%\r") == "Done.\nnext 2%"
    assert sanitize_output("a\r\nb\x1b\r\n") == "a\nb␛\n"
