"""The score of a sentence: a table of weights over what the sentence looks like, beside the cues."""

from __future__ import annotations

import pytest

from nexus_cli.context.fidelity import CommitmentKind
from nexus_cli.context.fidelity.features import MOST, features
from nexus_cli.context.fidelity.prose import parts
from nexus_cli.context.fidelity.score import fitted, parsed, scored
from nexus_cli.context.fidelity.speech import of_person

Kind = CommitmentKind
TABLE = "feature\tuser constraint\tuser correction\n\t-1\t-2\nonly\t3\t\nw:zebra\t\t4.5\n"


def test_a_score_is_the_sum_of_the_weights_of_what_is_there() -> None:
    sentences, _ = parts("The zebra sings. Zebras only.")
    weights = parsed(TABLE)
    assert scored("user", sentences, 0, weights).odds == {Kind.CONSTRAINT: -1, Kind.CORRECTION: 2.5}
    assert scored("user", sentences, 1, weights).odds == {Kind.CONSTRAINT: 2, Kind.CORRECTION: -2}


def test_without_a_cue_the_likeliest_kind_is_proposed_if_it_is_likely_at_all() -> None:
    sentences, _ = parts("The zebra sings. The lion sings.")
    assert scored("user", sentences, 0, parsed(TABLE)).proposes() is Kind.CORRECTION
    assert scored("user", sentences, 1, parsed(TABLE)).proposes() is None
    assert list(of_person(sentences, parsed(TABLE.replace("correction", "failed")))) == [
        (Kind.FAILED, "The zebra sings.")
    ]


def test_a_cue_is_not_believed_against_a_plain_score() -> None:
    sentences, _ = parts("Never touch the API.")
    assert list(of_person(sentences, parsed(TABLE))) == [(Kind.CONSTRAINT, "Never touch the API.")]
    assert list(of_person(sentences, parsed(TABLE + "w:touch\t-9\t\n"))) == []


def test_the_package_has_weights_for_every_kind_of_saying() -> None:
    found = {role: set(kinds) for role, kinds in fitted().items()}
    assert found == {
        "user": {Kind.CONSTRAINT, Kind.CORRECTION, Kind.FAILED},
        "assistant": {Kind.FAILED, Kind.PLAN},
    }


@pytest.mark.parametrize("feature", ["item", "lead:later", "start:keep", "keep+x", "length:0", "end:none", "w:keep"])
def test_a_feature_tells_how_a_sentence_looks_and_where_it_stands(feature: str) -> None:
    sentences, _ = parts("What comes next:\n\n- keep names\n- add a test")
    assert feature in features(sentences, 1) - features(sentences, 0)


def test_of_a_long_sentence_only_the_beginning_counts() -> None:
    long, _ = parts("word " * MOST + "never")
    assert "w:word" in features(long, 0)
    assert "w:never" not in features(long, 0)
