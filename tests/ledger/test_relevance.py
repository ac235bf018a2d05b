"""Which texts fit a query or a message: words in any form and script, ranked by FTS5's stems."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.ledger import relevance
from nexus_cli.ledger.relevance import rank_relevant


def rank_matches(texts: list[str], query: str) -> list[int]:
    return relevance.rank_matches(texts, query, 100)


def matters(fact: str, said: str) -> bool:
    return rank_relevant([fact], said) == [0]


@pytest.mark.parametrize(
    "forms",
    [
        "file files",
        "tests testing tested",
        "commit commits committed committing",
        "policy policies",
        "class classes",
        "runner runners",
        "box boxes",
        "needed needing",
        "deploy deploys deployed deploying",
        "cache caches cached caching",
        "Größe grösse",
        "naïve naive",
        "Ada's ada",
        "Straße STRASSE",
    ],
)
def test_the_forms_of_a_word_match_one_another(forms: str) -> None:
    for one in forms.split():
        assert len(rank_matches(forms.split(), one)) == len(forms.split())


def test_other_words_and_other_languages_are_told_apart() -> None:
    assert rank_matches(["status", "string", "C", "3.11"], "state") == []
    assert rank_matches(["Größe", "Grüße", "Обновить сервер", "café"], "сервер") == [2]
    assert rank_matches(["Größe", "Grüße"], "grüße") == [1]


def test_scripts_without_spaces_match_by_pairs_of_characters() -> None:
    assert rank_matches(["我喜欢制表符", "空格"], "制表") == [0]
    assert rank_matches(["いつも日本語で答える"], "日本語") == [0]
    assert matters("我喜欢制表符", "用制表符缩进") and not matters("我喜欢空格", "用制表符缩进")


def test_stop_words_count_only_where_there_is_nothing_else() -> None:
    texts = ["what is this?", "deploy this"]
    assert rank_matches(texts, "how do I deploy this?") == [1]
    assert rank_matches(texts, "what is this?") == [0, 1]
    assert rank_matches(texts, "!? \0") == []


@pytest.mark.matrix
@given(st.lists(st.text()), st.text())
def test_any_text_can_be_ranked(texts: list[str], query: str) -> None:
    for found in (rank_matches(texts, query), rank_relevant(texts, query, allow_common=True)):
        assert len(set(found)) == len(found) <= len(texts)


RELEVANT = [
    ("Use pnpm, never npm", "install the dependencies with npm"),
    ("Deploys go through fly, never heroku", "how do I deploy this?"),
    ("Run make check before committing", "commit what we have"),
    ("The staging database is called orion", "connect to the staging database"),
    ("Prefers tabs over spaces in Go", "reformat main.go with the right tabs"),
    ("Migrations live in db/migrate and are written by hand", "add a migration for the users table"),
    ("The API key for the weather service comes from vault", "why does the weather request fail with 401?"),
    ("Ada maintains the billing module", "who maintains billing?"),
    ("pytest needs -p no:asyncio here", "run pytest"),
    ("Release notes are written in German", "write the release notes for 2.1"),
    ("Never touch the generated files under src/proto", "regenerate the proto sources"),
    ("CI runs on Debian 12 with Python 3.11", "the CI fails on Debian, look into it"),
]
UNRELATED = [
    ("Use pnpm, never npm", "fix the failing login test"),
    ("Deploys go through fly, never heroku", "rename this function"),
    ("Prefers tabs over spaces in Go", "write code that parses CSV"),
    ("The staging database is called orion", "add a new file for the parser"),
    ("Migrations live in db/migrate and are written by hand", "what does this error mean?"),
    ("The person's name is Ada", "name the second value"),
    ("Ada maintains the billing module", "hello"),
    ("Run make check before committing", "make the list shorter"),
    ("Release notes are written in German", "look at the last line and fix it"),
    ("pytest needs -p no:asyncio here", ""),
    ("CI runs on Debian 12 with Python 3.11", "run the code and show what changed"),
    ("The API key for the weather service comes from vault", "explain what this function does, please"),
]


@pytest.mark.parametrize(("fact", "said"), RELEVANT)
def test_what_shares_its_subject_matters(fact: str, said: str) -> None:
    assert matters(fact, said)


@pytest.mark.parametrize(("fact", "said"), UNRELATED)
def test_what_shares_only_words_of_every_request_does_not(fact: str, said: str) -> None:
    assert not matters(fact, said)


@pytest.mark.parametrize(
    ("text", "message"), [("use it", "make the parser useful"), ("hello", "héllo wörld"), ("thanks", "be thankful")]
)
def test_a_text_of_stop_words_that_another_form_of_one_finds_is_not_relevant(text: str, message: str) -> None:
    assert rank_relevant([text], message) == []
    assert rank_relevant([text, message], message) == [1]


def test_a_long_message_makes_nothing_relevant_by_single_words() -> None:
    fact = "Deploys go through fly, never heroku"
    log = "deploy " + " ".join(f"word{number}" for number in range(200))
    assert matters(fact, "deploy") and not matters(fact, log) and matters(fact, log + " fly heroku")


SOME = "tabs spaces deploy fly heroku file fix staging billing"


@given(st.lists(st.sampled_from(SOME.split()), max_size=8))
def test_more_of_the_same_words_never_matter_less(said: list[str]) -> None:
    fact = "Deploys to staging go through fly"
    ranked = [matters(fact, " ".join(said[:upto])) for upto in range(len(said) + 1)]
    assert ranked == sorted(ranked)


BUSY = """
from nexus_cli.text.untrusted_text import neutralize
from nexus_cli.core.typed_text import enclosing_words, split_attachments, typed_text
from nexus_cli.ledger.relevance import rank_matches, rank_relevant
from nexus_cli.session.acts.goal import parse_steps
ONES = ("\\n", " ", "\\t", "<", "[", "-", "(", "'", '"', "`", ".", "?", "a", "\\n ", "\\n<")
for one in (*ONES, "\\n```", "a?\\n", "recall "):
    text = "fix " + one * (30_000 // len(one)) + "x"
    for said in (text, "```" + text, "- " + text, "[" + text, "recall(" + text):
        own, part = typed_text(said), said[:4_000]
        split_attachments(said + "</file>")
        rank_relevant([part], own or said[:2_000])
        rank_matches([part], said, 9)
        enclosing_words(said, part)
        enclosing_words(part, said)
        neutralize(said)
        parse_steps(said)
"""


@pytest.mark.matrix
def test_a_long_run_of_one_letter_is_looked_at_once() -> None:
    """In a process of its own: what a regular expression does nothing can end. Its seconds are of CPU."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (20, 20))"
    subprocess.run([sys.executable, "-c", limit + BUSY], check=True, timeout=200)
