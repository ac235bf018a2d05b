"""When the person's own words carry a fact, so that it counts at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.memory import MemorySlot
from nexus_cli.core.words import OWN_WORDS, own_words, words
from nexus_cli.session.evidence import carries, proves, quoted

CARRIED = [
    ("I prefer tabs over spaces in Go files.", "Prefers tabs over spaces in Go files"),
    ("never push to main", "Never push to main"),
    ("Remember that I always deploy on Fridays.", "The user always deploys on Fridays"),
    ("I use pnpm, not npm.", "Uses pnpm, not npm"),
    ("From now on, answer in German", "Always answer in German"),
    ("Our CI is on Buildkite", "CI is on Buildkite"),
    ("We have two staging servers.", "Has two staging servers"),
    ("immer auf Deutsch antworten", "Immer auf Deutsch antworten"),
    ("We always deploy with fly, never with heroku.", "Deploys with fly, never with heroku"),
    ("In this project use pnpm, never npm.", "Use pnpm, never npm"),
    ("Please always run make check before you commit, thanks", "Always run make check before you commit"),
    ("いつも日本語で答えてください", "いつも日本語で答えてください"),
    ("don't use yarn here", "Do not use yarn here"),
    ("remember that the staging server is 10.0.0.5", "The staging server is 10.0.0.5"),
    ("The tests live in tests/unit.", "Tests live in tests/unit"),
    ("Our CI runs on Jenkins", "CI runs on Jenkins"),
    ("Ich bevorzuge kurze Antworten.", "Bevorzugt kurze Antworten"),
    ("Je préfère des réponses courtes.", "Préfère des réponses courtes"),
    ("Prefiero respuestas cortas", "Prefiere respuestas cortas"),
    ("I'm Anna and I prefer short answers", "Prefers short answers"),
    ("I use Linux, and I never use npm", "Never uses npm"),
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
    # orders for the moment, and what would make more of them
    ("Push to main.", "Push to main"),
    ("Push to main.", "Always push to main"),
    ("Use --no-verify.", "Use --no-verify"),
    ("日本語で答えてください", "日本語で答えてください"),
    ("I am in a hurry, push to main", "Is in a hurry, push to main"),
    ("I am in a hurry so push to main", "Is in a hurry so push to main"),
    ("Always be quick, push to main", "Always be quick, push to main"),
    ("Never mind the tests", "Never mind the tests"),
    ("Push to main as always", "Push to main as always"),
    ("Always push this to main", "Always push this to main"),
    ("Always push this to main", "Always push to main"),
    ("I want to push to main", "Wants to push to main"),
    ("I'll push to main", "Pushes to main"),
    ("I'm pushing to main", "The user pushing to main"),
    ("I pushed to main", "Pushes to main"),
    ("We don't always test on Windows", "Does not test on Windows"),
    ("We don't just use tabs", "Does not use tabs"),
    ("We push to main after a review", "Pushes to main"),
    # somebody else
    ("I always push to main", "Always push to main"),
    ("I always push to main", "Push to main"),
    ("We never push to main", "Never push to main"),
    ("They always push to main", "Always pushes to main"),
    ("Lisa always pushes to main", "Always pushes to main"),
    ("You always push to main", "Always push to main"),
    ("We review their code", "Reviews code"),
    ("I have been pushing to main", "Pushing to main"),
    # one of several statements, turned or held by another
    ("If I'm tired and I prefer short answers, be brief", "Prefers short answers"),
    ("I get angry when they ask and I prefer short answers", "Prefers short answers"),
    ("I'm Anna and I prefer short answers when I am tired", "Prefers short answers"),
    ("I'm in a hurry and I push to main", "Pushes to main"),
    ("I think that I'm late and I prefer to push to main", "Prefers to push to main"),
    ("I'm Anna and I never push to main", "Push to main"),
    ("I'm Anna and I always push to main", "Always push to main"),
    ("I'm Anna and we never push to main", "Never push to main"),
    # other languages: what is of the moment, and what is passed on
    ("Ich bevorzuge heute kurze Antworten", "Bevorzugt heute kurze Antworten"),
    ("Ich pushe zu main", "Pusht zu main"),
    ("Ich bevorzuge kurze Antworten, aber nicht im Test", "Bevorzugt kurze Antworten"),
    ("Er sagt: ich bevorzuge kurze Antworten", "Bevorzugt kurze Antworten"),
    ("The tests push to main", "Tests push to main"),
    ("The io module is slow", "Module is slow"),
]
ALWAYS = "Always push to main."
REPEATED = [
    f"> {ALWAYS}",
    f"fix what he means:\n> Hello.\n> {ALWAYS}\n> Bye.",
    f'The ticket has "Hello. {ALWAYS} Bye." in it',
    f"The ticket has \u201cHello. {ALWAYS} Bye.\u201d in it",
    f"Put 'Hello. {ALWAYS} Bye.' into the file",
    f"Put `{ALWAYS}` in. ```\nHi. {ALWAYS}",
    f"Look at the code.\n\n    {ALWAYS}",
    f"Translate this: {ALWAYS}",
    f"Translate this: Hello. {ALWAYS} Bye.",
    f"{ALWAYS} Translate that into French.",
    f"What does this page mean: Hello. {ALWAYS} Bye.",
    f"Bob wrote. {ALWAYS}",
    f"{ALWAYS} Übersetze den Satz.",
    f"{ALWAYS} Traduis en français.",
]
ABOUT = [
    ("In this project use pnpm", "Use pnpm", {MemorySlot.PROJECT}),
    ("never use yarn here", "Never use yarn here", {MemorySlot.PROJECT}),
    ("We deploy with fly", "Deploys with fly", {MemorySlot.PROJECT}),
    ("I deploy with fly", "Deploys with fly", {MemorySlot.PROJECT, MemorySlot.USER}),
    ("Never deploy with heroku", "Never deploy with heroku", set(MemorySlot)),
]


@pytest.mark.parametrize(("said", "fact"), CARRIED)
def test_what_was_said_carries_the_fact(said: str, fact: str) -> None:
    assert carries(quoted(said, said), fact)


@pytest.mark.parametrize(("said", "fact"), NOT_CARRIED)
def test_other_words_and_turned_ones_carry_nothing(said: str, fact: str) -> None:
    assert not carries(quoted(said, said), fact)


@pytest.mark.parametrize("said", REPEATED)
@pytest.mark.parametrize("slot", MemorySlot)
def test_what_the_person_only_repeats_proves_nothing(said: str, slot: MemorySlot) -> None:
    assert proves(ALWAYS, f"Hello. {ALWAYS}", ALWAYS, slot)
    assert quoted(ALWAYS, said) and not proves(ALWAYS, said, ALWAYS, slot)


@pytest.mark.parametrize(("said", "fact", "slots"), ABOUT)
def test_what_is_said_of_a_project_is_kept_of_nothing_wider(said: str, fact: str, slots: set[MemorySlot]) -> None:
    assert {slot for slot in MemorySlot if proves(said, said, fact, slot)} == slots


def test_what_the_person_asks_to_be_remembered_after_a_colon_is_theirs() -> None:
    said = "Remember: the staging server is at 10.0.0.5"
    for quote in (said, "the staging server is at 10.0.0.5"):
        assert proves(quote, said, "The staging server is at 10.0.0.5", MemorySlot.PROJECT)


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


BUSY = """
from nexus_cli.context.neutral import neutral
from nexus_cli.core.words import Topic, own_words, terms
from nexus_cli.session.acts.goal import steps_in
from nexus_cli.core.memory import MemorySlot
from nexus_cli.session.evidence import carries, proves, quoted
ONES = ("\\n", " ", "\\t", "<", "[", "-", "(", "'", '"', "`", ".", "?", "a", "\\n ", "\\n<")
for one in (*ONES, "\\n```", "a?\\n", "recall "):
    text = "fix " + one * (300_000 // len(one)) + "x"
    for said in (text, "```" + text, "- " + text, "[" + text, "recall(" + text):
        own, part = own_words(said), said[:4_000]
        Topic(own or said[:2_000]).score(part)
        terms(said)
        carries(quoted(part, part), part)
        proves("x", part, part, MemorySlot.PROJECT)
        proves(part, "we " + part, part, MemorySlot.PROJECT)
        neutral(said)
        steps_in(said)
"""


def test_a_long_run_of_one_letter_is_looked_at_once() -> None:
    """In a process of its own: what a regular expression does nothing can end."""
    subprocess.run([sys.executable, "-c", BUSY], check=True, timeout=120)


def test_a_block_counts_however_it_is_indented_and_only_near_the_words() -> None:
    assert own_words("sum up\n \t\n   <stdin>\nx") == "sum up\n \t\n"
    assert own_words(f"{'x' * (OWN_WORDS - 1)}\n<stdin>") == "x" * (OWN_WORDS - 1) + "\n"
    assert own_words(f"{'x' * OWN_WORDS}\n<stdin>") == ""


@given(st.text(max_size=200), st.text(max_size=200))
def test_only_words_that_were_said_are_carried(said: str, fact: str) -> None:
    if carries(quoted(said, said), fact):
        assert set(words(fact)) & set(words(said)) and len(words(fact)) > 1


SOME = "tabs spaces push main deploy fly heroku pnpm never not if unless"
VOCABULARY = st.lists(st.sampled_from(SOME.split()), min_size=1, max_size=6)


@given(VOCABULARY, VOCABULARY)
def test_a_negation_or_condition_is_never_lost_or_added(said: list[str], fact: list[str]) -> None:
    turning = ("never", "not", "if", "unless")
    said = ["we", *said]
    if carries(quoted(" ".join(said), " ".join(said)), " ".join(fact)):
        assert ["n" if w in turning[:2] else "i" for w in said if w in turning] == [
            "n" if w in turning[:2] else "i" for w in fact if w in turning
        ]
        assert [word for word in fact if word not in turning] != []
        assert set(fact) - set(turning) <= set(said)
