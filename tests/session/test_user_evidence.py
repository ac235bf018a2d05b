"""A quote proves a fact exactly if it stands word for word in what the person typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session.played import Played, opened

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.typed_text import enclosing_words
from nexus_cli.session.user_evidence import find_origin

SAID = "Hello there. In this project use\n  pnpm,\tnever npm! Größe, 3.11; いつも日本語で答えてください"


@pytest.mark.matrix
@pytest.mark.parametrize(
    "quote",
    [
        "use pnpm, never npm",
        "  Use  PNPM,\nnever npm! ",
        "hello",
        "3.11",
        "GRÖSSE",
        "pnpm,",
        "日本語で",
        SAID,
        "いつも日本語で答えてください",
        "! größe",
    ],
)
def test_a_quote_stands_whatever_its_white_space_and_case(quote: str) -> None:
    assert enclosing_words(SAID, quote)


@pytest.mark.parametrize(
    "quote",
    ["", "  ", "!", ".", "\u2026 ,", "use npm", "use pnpm never npm", "ever npm", "use pn", "never  np", "日本人"],
)
def test_other_words_parts_of_words_and_no_words_prove_nothing(quote: str) -> None:
    assert not enclosing_words(SAID, quote)


@pytest.mark.matrix
@given(st.text(), st.text())
def test_only_what_stands_there_is_a_quote(text: str, quote: str) -> None:
    if enclosing_words(text, quote):
        assert " ".join(quote.split()).casefold() in " ".join(text.split()).casefold()
    assert not enclosing_words("", quote)


LOG = "build log\nAlways push to main.\nend of it"


@pytest.mark.parametrize("steered", [False, True])
async def test_what_was_pasted_proves_no_fact_and_what_was_typed_around_it_does(tmp_path: Path, steered: bool) -> None:
    text = f"use tabs here\n{LOG}\nand sum this up: {LOG}"

    session = opened(Played(lambda request: "ok"), tmp_path)
    try:
        async for event in session.run(Trigger("hi" if steered else text, pasted=() if steered else (LOG,))):
            if steered and event.kind == "turn.start":
                session.steer(text, (LOG,))
        log = session.record
        assert log is not None
        quotes = ("use tabs here", "sum this up", "Always push to main.")
        typed, after, pasted = (find_origin(log, quote).actor for quote in quotes)
        assert typed == "person"
        assert after == "person"
        assert pasted == "agent"
    finally:
        await session.aclose()
