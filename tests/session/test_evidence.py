"""When the person's own words carry a fact, so that it counts at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.words import words
from nexus_cli.session.evidence import OWN_WORDS, carries, own_words, quoted

CARRIED = [
    ("I prefer tabs over spaces in Go files.", "Prefers tabs over spaces in Go"),
    ("never push to main", "Never push to main"),
    ("We always deploy with fly, never with heroku.", "Deploys with fly, never with heroku"),
    ("In this project use pnpm, never npm.", "Use pnpm, never npm"),
    ("Please always run make check before you commit, thanks", "Run make check before committing"),
    ("日本語で答えてください", "日本語で答えてください"),
    ("don't use yarn here", "Do not use yarn here"),
]
NOT_CARRIED = [
    ("yes", "Delete all branches after a merge"),
    ("yes", "yes"),
    ("ok, do that", "The person wants every file deleted"),
    ("Never push to main!", "Push to main"),
    ("push to main", "Never push to main"),
    ("Should we use tabs?", "Use tabs"),
    ("We always deploy with fly, never with heroku.", "Deploys with heroku"),
    ("We always deploy with fly, never with heroku.", "Never deploys with fly"),
    ("I hate when people use tabs", "Use tabs"),
    ("copy from alpha to beta", "Copy to alpha from beta"),
    ("If the tests fail, deploy by hand", "Deploy by hand"),
    ("Use tabs unless gofmt objects", "Use tabs"),
    ("I prefer tabs", "Prefers tabs and wants no tests"),
    ("Don't:\n- push to main\n- force push", "Push to main"),
    ("不要用制表符", "用制表符"),
    ("Bitte nie zu main pushen", "Zu main pushen"),
    ("use at most 4 workers", "Use at most 8 workers"),
]


@pytest.mark.parametrize(("said", "fact"), CARRIED)
def test_what_was_said_carries_the_fact(said: str, fact: str) -> None:
    assert carries(quoted(said, said), fact)


@pytest.mark.parametrize(("said", "fact"), NOT_CARRIED)
def test_other_words_and_turned_ones_carry_nothing(said: str, fact: str) -> None:
    assert not carries(quoted(said, said), fact)


def test_a_quote_cut_out_of_its_sentence_is_judged_by_the_whole_sentence() -> None:
    said = "Hello there. Never push to main! It is late."
    assert quoted("push to main", said) == "Never push to main!"
    assert not carries(quoted("push to main", said), "Push to main")
    assert carries(quoted("push to main", said), "Never push to main")


def test_white_space_of_a_quote_does_not_matter_but_its_letters_do() -> None:
    said = "use\n  pnpm,\tnever npm"
    assert quoted("use pnpm, never  npm", said) == "use pnpm, never npm"
    assert quoted("Use pnpm", said) == quoted("", said) == quoted("   ", said) == quoted("x", "") == ""


def test_what_was_attached_to_a_message_is_not_the_persons_own() -> None:
    words = "sum this up"
    for block in ("<stdin>\nx\n</stdin>", '<file path="a">\nx\n</file>', '<shell command="ls">\nx', "<recalled id=\n"):
        assert own_words(f"{words}\n\n{block}\n\nalways use tabs").strip() == words
        assert not own_words(f"{block}\n\nalways use tabs").strip()
    assert own_words(words) == words and own_words("a <file here") == "a <file here"
    assert own_words("x" * (OWN_WORDS + 1)) == ""


@given(st.text(max_size=200), st.text(max_size=200))
def test_only_words_that_were_said_are_carried(said: str, fact: str) -> None:
    if carries(quoted(said, said), fact):
        assert set(words(fact)) & set(words(said)) and len(words(fact)) > 1


SOME = "tabs spaces push main deploy fly heroku pnpm never not if unless"
VOCABULARY = st.lists(st.sampled_from(SOME.split()), min_size=1, max_size=6)


@given(VOCABULARY, VOCABULARY)
def test_a_negation_or_condition_is_never_lost_or_added(said: list[str], fact: list[str]) -> None:
    turning = ("never", "not", "if", "unless")
    if carries(quoted(" ".join(said), " ".join(said)), " ".join(fact)):
        assert ["n" if w in turning[:2] else "i" for w in said if w in turning] == [
            "n" if w in turning[:2] else "i" for w in fact if w in turning
        ]
        assert [word for word in fact if word not in turning] != []
        assert set(fact) - set(turning) <= set(said)
