"""A quote proves a fact exactly if it stands word for word in what the person typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.session.memory.user_evidence import has_quote

SAID = "Hello there. In this project use\n  pnpm,\tnever npm! Größe, 3.11; いつも日本語で答えてください"


@pytest.mark.parametrize(
    "quote",
    [
        "use pnpm, never npm", "  Use  PNPM,\nnever npm! ", "hello", "3.11", "GRÖSSE", "pnpm,", "日本語で", SAID,
        "いつも日本語で答えてください", "! größe",
    ],
)  # fmt: skip
def test_a_quote_stands_whatever_its_white_space_and_case(quote: str) -> None:
    assert has_quote(SAID, quote)


@pytest.mark.parametrize(
    "quote",
    ["", "  ", "!", ".", "\u2026 ,", "use npm", "use pnpm never npm", "ever npm", "use pn", "never  np", "日本人"],
)
def test_other_words_parts_of_words_and_no_words_prove_nothing(quote: str) -> None:
    assert not has_quote(SAID, quote)


@given(st.text(), st.text())
def test_only_what_stands_there_is_a_quote(text: str, quote: str) -> None:
    if has_quote(text, quote):
        assert " ".join(quote.split()).casefold() in " ".join(text.split()).casefold()
    assert not has_quote("", quote)
