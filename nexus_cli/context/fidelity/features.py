"""What a sentence looks like to the score: its words' classes, how its clauses begin, and where it stands.

Pure and linear in the length of the sentence, of which only the first `MOST` words count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nexus_cli.context.fidelity.cues.table import words
from nexus_cli.context.fidelity.lexicon import JOINED, TAGS
from nexus_cli.context.fidelity.prose import Sentence

MOST = 60
"""Words of a sentence that count."""
_TOKEN = re.compile(r"\x00|[^\W\d_]+(?:['-][^\W\d_]+)*|[#$]?\d[\w.:%/]*|[?!,;:—–()]|->")
_STOPS = frozenset(",;:—–()")
_FILLERS = words("and but so also oh ok okay well hey hi please pls then ah yes just now btw")
"""Words before the one that a clause really begins with."""
_LENGTHS = (2, 4, 8, 14, 24)
_EACH = (3, 6)
_ENDS = (".", "?", "!", ":")


def _tokens(said: str) -> list[str]:
    found: list[str] = []
    for token in _TOKEN.findall(said)[:MOST]:
        if found and (joined := JOINED.get((found[-1], token))):
            found[-1] = joined
        else:
            found.append(token)
    return found


def _tags(token: str) -> tuple[str, ...]:
    tags = TAGS.get(token)
    if tags:
        return tags
    if token == "\x00":
        return ("CODE",)
    if token[0].isdigit() or token[0] in "#$":
        return ("num",)
    for ending in ("ing", "ed", "ly"):
        if token.endswith(ending) and len(token) > len(ending) + 2:
            return (f"-{ending}",)
    return ()


def features(sentences: Sequence[Sentence], number: int) -> frozenset[str]:
    """The features of one sentence of a message."""
    sentence = sentences[number]
    tokens = _tokens(sentence.shown)
    return frozenset((*_words(tokens), *_clauses(tokens), *_place(sentences, number, len(tokens))))


def _place(sentences: Sequence[Sentence], number: int, length: int) -> Iterator[str]:
    sentence = sentences[number]
    yield f"length:{sum(length > limit for limit in _LENGTHS)}"
    yield f"end:{sentence.shown[-1:] if sentence.shown[-1:] in _ENDS else 'none'}"
    yield f"many:{sum(len(sentences) > limit for limit in _EACH)}"
    if len(sentences) == 1:
        yield "place:alone"
    else:
        yield f"place:{'first' if not number else 'last' if number == len(sentences) - 1 else 'inner'}"
    if sentence.inside:
        yield "item"
        for token in _tokens(sentence.lead)[-12:]:
            yield from (f"lead:{tag}" for tag in _tags(token))


def _words(tokens: list[str]) -> Iterator[str]:
    before: tuple[str, ...] = ()
    for token in tokens:
        tags = _tags(token) or ("x",)
        yield f"w:{token}"
        yield from tags
        yield from (f"{first}+{second}" for first in before for second in tags)
        before = () if token in _STOPS else tags


def _clauses(tokens: list[str]) -> Iterator[str]:
    begins, position = True, 0
    for at, token in enumerate(tokens):
        if token in _STOPS:
            begins = True
            continue
        if begins and token not in _FILLERS:
            where = "start" if not position else "clause"
            following = tokens[at + 1] if at + 1 < len(tokens) else "$"
            for tag in _tags(token) or ("x",):
                yield f"{where}:{tag}"
                for other in _tags(following) or ("x",):
                    yield f"{where}:{tag} {other}"
            yield f"{where}:w {token}"
            begins, position = False, position + 1
        elif token in ("and", "but", "so"):
            begins = True
