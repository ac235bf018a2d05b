"""What the person typed in a message, and what is attached to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core import typed_text as module
from nexus_cli.core.typed_text import LONGEST_TYPED, QuotedText, enclosing_words, split_attachments, typed_text


def test_what_was_attached_to_a_message_is_not_typed() -> None:
    words = "sum this up"
    for block in ("<stdin>\nx\n</stdin>", '<file path="a">\nx\n</file>', '<shell command="ls">\nx', "<recalled id=\n"):
        assert typed_text(f"{words}\n\n{block}\n\nalways use tabs").strip() == words
        assert not typed_text(f"{block}\n\nalways use tabs").strip()
    assert typed_text(words) == words and typed_text("a <file here") == "a <file here"
    assert typed_text("x" * (LONGEST_TYPED + 1)) == ""


def test_a_block_counts_however_it_is_indented_and_only_near_the_words() -> None:
    assert typed_text("sum up\n \t\n   <stdin>\nx") == "sum up\n \t\n"
    assert typed_text(f"{'x' * (LONGEST_TYPED - 1)}\n<stdin>") == "x" * (LONGEST_TYPED - 1) + "\n"
    assert typed_text(f"{'x' * LONGEST_TYPED}\n<stdin>") == ""


@pytest.mark.parametrize("block", ["stdin", "file", "folder", "shell", "recalled"])
def test_what_is_attached_is_not_what_the_person_said_whatever_it_says(block: str) -> None:
    attached = f'<{block} x="1">\nold\n</{block}>\n\nNever test.\n\n<{block}>\nNever ask.\n</{block}>'
    assert split_attachments(f"look at this\n\n{attached}") == ("look at this", attached)
    assert split_attachments(attached) == ("", attached)
    cut = f"look [..\n[... 1,204 tokens left out ...]\nNever ask.\n</{block}>"
    assert split_attachments(cut)[0] == "look [.."


@pytest.mark.matrix
@given(st.text(max_size=200))
def test_a_message_without_an_attachment_is_the_persons_own(text: str) -> None:
    own, attached = split_attachments(text)
    assert (own, attached) == (text, "") or text.rstrip().endswith(">")
    assert split_attachments(f"<file> {text} is what I mean.") == (f"<file> {text} is what I mean.", "")


@pytest.mark.parametrize("tag", ["file", "folder", "shell", "recalled"])
def test_a_tag_that_the_person_typed_takes_nothing_away_from_their_words(tag: str) -> None:
    typed = f"Fix this page:\n<{tag}>\nport 8081\n</{tag}>"
    assert split_attachments(typed) == (typed, "")
    attached = f'<{tag} path="a">\nx\n</{tag}>'
    assert split_attachments(f"{typed}\n\n{attached}") == (typed, attached)


@pytest.mark.parametrize(
    ("text", "quote", "whole"),
    [
        ("please never\npush to main, ok?", "push to main", "please never push to main, ok?"),
        ("What if I say:\n\ndrop the table first", "drop the table", "What if I say:\ndrop the table first"),
        ("Do not do this: 1. Deploy with evil", "Deploy with evil", "Do not do this: 1. Deploy with evil"),
        ("Never do it, i.e. Push to main", "Push to main", "Never do it, i.e. Push to main"),
        ("Never:\n- touch a\n- push to main", "push to main", "Never:\n- push to main"),
        ("Work well.\nPush to main.", "push to main", "Push to main."),
    ],
)
def test_what_says_the_contrary_on_the_line_before_belongs_to_a_quotation(text: str, quote: str, whole: str) -> None:
    assert enclosing_words(text, quote) == whole


@pytest.mark.matrix
def test_many_quotations_are_looked_up_in_a_long_text_that_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fold, folded = module._fold, [0]

    def count(text: str) -> str:
        folded[0] += len(text)
        return fold(text)

    monkeypatch.setattr(module, "_fold", count)
    text = "\n".join(f"Sentence number {number} stands here." for number in range(5_000))
    looked = QuotedText(text)
    assert not any(looked.find(f"quotation number {number}") for number in range(500))
    assert looked.find("NUMBER  4711 stands") == "Sentence number 4711 stands here."
    assert folded[0] < 3 * len(text)
