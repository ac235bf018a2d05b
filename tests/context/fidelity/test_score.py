"""The score of a sentence: a table of weights over what the sentence looks like."""

from __future__ import annotations

import pytest

from nexus_cli.context.fidelity import CommitmentKind
from nexus_cli.context.fidelity.features import MOST, features, length
from nexus_cli.context.fidelity.prose import Sentence, parts
from nexus_cli.context.fidelity.score import fitted, parsed, scored
from nexus_cli.context.fidelity.speech import of_assistant, of_person

Kind = CommitmentKind
TABLE = "feature\tuser constraint\tuser correction\tassistant failed\n\t-1\t-2\t-1\nw:only\t6\t\t\nw:zebra\t\t9\t8\n"


def _told(text: str) -> list[Sentence]:
    return parts(text)[0]


def test_a_score_is_the_sum_of_the_weights_of_what_is_there_by_the_root_of_the_length() -> None:
    sentences = _told("The zebra sings. Zebras only.")
    first, second = scored("user", sentences, parsed(TABLE))
    assert first == {Kind.CONSTRAINT: -1, Kind.CORRECTION: -2 + 9 / length(sentences[0]) ** 0.5}
    assert second == {Kind.CONSTRAINT: -1 + 6 / length(sentences[1]) ** 0.5, Kind.CORRECTION: -2}


def test_a_sentence_is_what_its_score_says_of_it() -> None:
    weights = parsed(TABLE)
    assert list(of_person(_told("The zebra sings. It is sunny today."), weights)) == [
        (Kind.CORRECTION, "The zebra sings. It is sunny today.")
    ]
    assert list(of_person(_told("It is sunny today."), weights)) == []
    assert list(of_assistant(_told("The zebra sings. The lion sings."), weights)) == [(Kind.FAILED, "The zebra sings.")]


def test_an_open_box_is_a_step_to_come_and_a_ticked_one_is_nothing() -> None:
    found = list(of_assistant(_told("- [ ] zebra\n- [x] zebra"), parsed(TABLE)))
    assert found == [(Kind.PLAN, "zebra")]


def test_what_has_no_word_is_nothing() -> None:
    always = parsed("feature\tuser constraint\tuser correction\n\t9\t-9\n")
    assert list(of_person(_told("12 34."), always)) == []
    assert [kind for kind, _ in of_person(_told("stay there."), always)] == [Kind.CONSTRAINT]


def test_the_package_has_weights_for_every_kind_of_saying() -> None:
    found = {role: set(model.kinds) for role, model in fitted().items()}
    assert found == {
        "user": {Kind.CONSTRAINT, Kind.CORRECTION, Kind.FAILED, Kind.QUESTION},
        "assistant": {Kind.FAILED, Kind.PLAN, Kind.QUESTION},
    }


@pytest.mark.parametrize(
    "feature",
    ["item", "lead:later", "lead-is:plan", "start:keep", "s:keep nam", "length:0", "w:keep", "behind:w:add"],
)
def test_a_feature_tells_how_a_sentence_looks_and_where_it_stands(feature: str) -> None:
    found = features(_told("What comes next:\n\n- keep names\n- add a test"))
    assert feature in set(found[1]) - set(found[0])


def test_no_feature_is_told_twice_and_their_order_is_that_of_the_words() -> None:
    found = features(_told("Keep it, keep it short. Never touch `a.py`, do you hear?"))
    assert all(len(set(own)) == len(own) for own in found)
    words = [name for name in found[0] if name.startswith("w:") and " " not in name]
    assert words == ["w:keep", "w:it", "w:,", "w:short"]


def test_of_a_long_sentence_only_the_beginning_counts() -> None:
    (found,) = features(_told("word " * MOST + "never"))
    assert "w:word" in found
    assert "w:never" not in found
