"""What a terminal does not show, in text that a person decides on."""

from __future__ import annotations

import pytest

from nexus_cli.text.hidden_signs import find_hidden_sign, mark_hidden_signs, mark_on_one_line

IGNORABLE = """
00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8
1BCA0-1BCA3 1D173-1D17A E0000-E0FFF
"""
"""Unicode 15.1, DerivedCoreProperties: Default_Ignorable_Code_Point."""


def ignorable() -> list[str]:
    spans = [span.split("-") for span in IGNORABLE.split()]
    return [chr(code) for span in spans for code in range(int(span[0], 16), int(span[-1], 16) + 1)]


def test_every_ignorable_character_is_found_and_marked() -> None:
    signs = [*ignorable(), *"\u2800\U00016fe4\U0001bc9d\U0001d159\u00a0\u2003\u3000\u2028\u200d\x85\ue000\ud800"]
    missed = [f"{ord(one):04X}" for one in signs if f"<U+{ord(one):04X}>" not in mark_hidden_signs(f"rm a{one}b")]
    silent = [f"{ord(one):04X}" for one in signs if not find_hidden_sign(f"rm a{one}b").startswith("U+")]
    assert not missed and not silent


@pytest.mark.parametrize("emoji", ["\u2764\ufe0f", "\u26a0\ufe0f", "1\ufe0f\u20e3", "\U0001f6e0\ufe0f"])
def test_the_selector_of_an_emoji_is_marked_but_is_no_cause_to_ask(emoji: str) -> None:
    text = f"git commit -m 'Fix {emoji} icon'"
    assert find_hidden_sign(text) == ""
    assert mark_hidden_signs(text) == text.replace("\ufe0f", "<U+FE0F>")


@pytest.mark.parametrize(
    "text", ["rm a\ufe0f", "rm 1\ufe0f", "rm \u2764\ufe0f\ufe0f", "rm \u2764\ufe01", "rm \u00e9\ufe0f"]
)
def test_a_selector_elsewhere_is_a_hidden_sign(text: str) -> None:
    assert find_hidden_sign(text).startswith("U+FE0")


@pytest.mark.parametrize(
    "text", ["Gr\u00f6\u00dfe \u6f22\u5b57 \u043a\u043e\u0442", "e\u0301", "a\tb\nc", "\U0001f389 done", "a   b"]
)
def test_writing_stays_as_it_is(text: str) -> None:
    assert mark_hidden_signs(text) == text and find_hidden_sign(text) == ""


def test_a_line_keeps_its_runs_of_blanks_and_shows_its_tabs() -> None:
    assert mark_on_one_line(" rm 'x   y'\t z\n") == "rm 'x   y'\u2409 z"
    assert mark_on_one_line("\x1b[31mrm\u00a0x") == "\u241b[31mrm<U+00A0>x"
