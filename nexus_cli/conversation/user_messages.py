"""Read people's messages from a conversation's log, for the parts that the window shows only as a summary or a marker.

Attachments are excluded: like tool results, they are not the person's words. The reason given for refusing a call is in
its result. `find_foreign_messages` finds messages that other parties wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.entry import PERSON, Memo
from nexus_cli.core.memo_kinds import DECISION, PASTED_RANGES, SOURCE, TRIGGER
from nexus_cli.core.typed_text import split_attachments

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RefusalWords:
    """The reason given for refusing a call; its entry is the call's result."""

    entry: int
    text: str
    source: str
    """The author: `person`, `client`, or `unknown` in an older ledger, which does not count as the person."""


def read_sources(memos: Callable[[str], Sequence[Memo]]) -> dict[int, str]:
    """Return the recorded source of messages that the person did not type, by entry."""
    source_memos = (memo for kind in (TRIGGER, SOURCE) for memo in memos(kind))
    return {memo.entry: str(memo.value.get("source")) for memo in source_memos}


def read_refusals(memos: Callable[[str], Sequence[Memo]]) -> list[RefusalWords]:
    """Return the reasons given for refused calls, newest first."""
    refused = [memo for memo in memos(DECISION) if memo.value.get("answer") == "no" and memo.value.get("said")]
    refusals = (RefusalWords(m.entry, str(m.value["said"]), str(m.value.get("by", UNKNOWN))) for m in refused)
    return sorted(refusals, key=lambda refusal_words: -refusal_words.entry)


def find_foreign_messages(conversation: Conversation, entries: Iterable[int]) -> frozenset[int]:
    """Return those of `entries` that the person did not write, but a program, a model or members of a space."""
    sources, refusals = read_sources(conversation.memos), read_refusals(conversation.memos)
    refused = {refusal.entry: refusal.source for refusal in refusals}

    def is_typed(entry: int) -> bool:
        if entry in refused:
            return refused[entry] == PERSON
        actors = {item.actor for item in conversation.read(entry, entry)}
        return sources.get(entry, PERSON) == PERSON and actors == {PERSON}

    return frozenset(entry for entry in entries if not is_typed(entry))


def _without_pastes(message: str, ranges: Sequence[Sequence[int]]) -> str:
    """Replace the pasted ranges of a message with an ellipsis, which separates the words around them."""
    for start, end in sorted(map(tuple, ranges), reverse=True):
        message = f"{message[:start]} \u2026 {message[end:]}"
    return message


def with_sources(
    memos: Callable[[str], Sequence[Memo]], messages: Iterable[tuple[int, str]], cut: Callable[[str], str]
) -> Iterator[tuple[int, str, str]]:
    """Yield entry, text and source of people's `messages` and of the reasons given for refused calls, newest first.
    `cut` returns the typed part of a message, from which pasted text was removed."""
    sources = read_sources(memos)
    pasted = {memo.entry: memo.value.get("ranges", ()) for memo in memos(PASTED_RANGES)}
    refused = ((refusal.entry, refusal.text, refusal.source) for refusal in read_refusals(memos))
    typed = (
        (entry, cut(_without_pastes(text, pasted.get(entry, ()))), sources.get(entry, PERSON))
        for entry, text in messages
    )
    return merge(refused, typed, key=lambda pair: -pair[0])


def typed_messages(conversation: Conversation) -> Iterator[tuple[int, str]]:
    """Yield entry and text of the person's messages, without attachments and pasted text, newest first."""
    messages = conversation.log.user_messages(conversation.last, members=False)
    sourced = with_sources(conversation.memos, messages, lambda message: split_attachments(message)[0])
    return ((entry, text) for entry, text, source in sourced if source == PERSON)


def words_before(conversation: Conversation, last: int, excluded: Collection[int] = ()) -> Iterator[tuple[int, str]]:
    """Yield entry and text of the messages and refusal reasons up to entry `last`, except those in `excluded`, newest
    first. Includes messages that other parties wrote, see `find_foreign_messages`."""
    refused = ((refusal.entry, refusal.text) for refusal in read_refusals(conversation.memos) if refusal.entry <= last)
    for entry, text in merge(refused, conversation.log.user_messages(last), key=lambda pair: -pair[0]):
        words = "" if entry in excluded else split_attachments(text)[0]
        if words:
            yield entry, words


def hidden_words(conversation: Conversation) -> Iterator[tuple[int, str]]:
    """Yield the messages behind the window's summary and markers, and the refusal reasons, newest first."""
    hidden = (item.entry for item in conversation.items if item.replaces_others)
    visible = {item.entry for item in conversation.items if item.shows_entry}
    last = max(hidden, default=0)
    refused = [(refusal.entry, refusal.text) for refusal in read_refusals(conversation.memos) if refusal.entry > last]
    return chain(refused, words_before(conversation, last, visible))
