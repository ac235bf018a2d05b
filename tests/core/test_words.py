"""What counts as the same word, and when a remembered text matters for what was just said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.words import LONGEST, Topic, apart, content, spoken, terms, words


@pytest.mark.parametrize(
    "forms",
    [
        "file files", "use uses using used", "test tests testing tested", "commit commits committed committing",
        "policy policies", "class classes", "run runs running", "make makes making", "box boxes", "need needs needed",
        "deploy deploys deployed deploying", "cache caches cached caching",
    ],
)  # fmt: skip
def test_the_forms_of_a_word_are_one(forms: str) -> None:
    assert len({words(form)[0] for form in forms.split()}) == 1


def test_short_and_foreign_words_stay_as_they_are() -> None:
    assert words("status string Größe C 3.11 x_y Ada's") == [
        "status", "string", "grösse", "c", "3", "11", "x", "y", "ada",
    ]  # fmt: skip


def test_scripts_without_spaces_become_pairs() -> None:
    assert words("制表符 ok") == ["制表", "表符", "ok"]
    assert Topic("用制表符缩进").score("我喜欢制表符") > 0


@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_plain_letters_give_the_same_words_alone_and_beside_other_scripts(text: str) -> None:
    assert [*spoken(text), "字"] == list(spoken(f"{text} 字"))


def test_what_has_no_content_is_looked_for_as_it_stands() -> None:
    assert content("what is this?") == [] and terms("what is this?") == ["what", "is", "this"]
    assert terms("!? \0") == []


@given(st.text())
def test_any_text_has_words_and_they_are_bounded(text: str) -> None:
    found = words(text)
    assert all(word and not word.isspace() for word in found)
    assert 0 <= Topic(text).score(text) < float("inf")
    assert words("a" + " b" * LONGEST)[-1] == "b" and len(words(" b" * LONGEST)) == LONGEST // 2


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
    assert Topic(said).score(fact) > 0


@pytest.mark.parametrize(("fact", "said"), UNRELATED)
def test_what_shares_only_words_of_every_request_does_not(fact: str, said: str) -> None:
    assert Topic(said).score(fact) == 0


def test_a_long_message_makes_nothing_relevant_by_single_words() -> None:
    log = "deploy " + " ".join(f"word{number}" for number in range(200))
    assert Topic("deploy").score("Deploys go through fly, never heroku") > 0
    assert Topic(log).score("Deploys go through fly, never heroku") == 0
    assert Topic(log + " fly heroku").score("Deploys go through fly, never heroku") > 0


SOME = "tabs spaces deploy fly heroku file fix staging billing"


@given(st.lists(st.sampled_from(SOME.split()), max_size=8))
def test_more_of_the_same_words_never_matter_less(said: list[str]) -> None:
    fact = "Deploys to staging go through fly"
    scores = [Topic(" ".join(said[:upto])).score(fact) for upto in range(len(said) + 1)]
    assert scores == sorted(scores)


@pytest.mark.parametrize("block", ["stdin", "file", "folder", "shell", "recalled"])
def test_what_is_attached_is_not_what_the_person_said_whatever_it_says(block: str) -> None:
    attached = f'<{block} x="1">\nold\n</{block}>\n\nNever test.\n\n<{block}>\nNever ask.\n</{block}>'
    assert apart(f"look at this\n\n{attached}") == ("look at this", attached)
    assert apart(attached) == ("", attached)
    cut = f"look [..\n[... 1,204 tokens left out ...]\nNever ask.\n</{block}>"
    assert apart(cut)[0] == "look [.."


@given(st.text(max_size=200))
def test_a_message_without_an_attachment_is_the_persons_own(text: str) -> None:
    own, attached = apart(text)
    assert (own, attached) == (text, "") or text.rstrip().endswith(">")
    assert apart(f"<file> {text} is what I mean.") == (f"<file> {text} is what I mean.", "")
