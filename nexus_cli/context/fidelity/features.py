"""What a sentence looks like to the score: its words, their classes and cues, where it stands, and what is beside it.

Pure and linear in the length of the message: of each sentence only the first `MOST` words count. Nothing is weighed
here; a feature is a name, and `score` knows what it is worth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nexus_cli.context.fidelity.cues import asides, attempts, conventions, demands, objections, queries, steps
from nexus_cli.context.fidelity.cues.table import words
from nexus_cli.context.fidelity.lexicon import JOINED, TAGS
from nexus_cli.context.fidelity.prose import Sentence

MOST = 60
"""Words of a sentence that count."""
BESIDE = ("before:", "behind:")
"""How the features begin that tell of the sentences before and behind."""
_CUES = tuple(
    (f"{module.__name__.rpartition('.')[2]}.{name}", pattern)
    for module in (asides, attempts, conventions, demands, objections, queries, steps)
    for name, pattern in vars(module).items()
    if isinstance(pattern, re.Pattern)
)
_LEADS = (
    ("plan", steps.PLANNED),
    ("other", steps.NOT_PLANNED),
    ("rules", conventions.RULES),
    ("failed", attempts.FAILED_LEAD),
)
_MASK, _CODE = "\x00", "``"
"""What stands for code and paths in a folded sentence, and in the names of features."""
_TOKEN = re.compile(r"\x00|[^\W\d_]+(?:['-][^\W\d_]+)*|[#$]?\d[\w.:%/]*|[?!,;:—–()]|->")
_STOPS = frozenset(",;:—–()")
_FILLERS = words("and but so also oh ok okay well hey hi please pls then ah yes just now btw")
"""Words before the one that a clause really begins with."""
_SUFFIXES = ("ing", "ed", "es", "s", "ly")
_LENGTHS = (2, 4, 8, 14, 24)
_EACH = (3, 6)
_ENDS = (".", "?", "!", ":")
_LOUD = re.compile(r"\b[A-Z]{3,}\b")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A sentence by itself: its tokens with their classes, and the cues found in it."""

    sentence: Sentence
    tokens: list[str]
    tags: list[tuple[str, ...]]
    cues: list[str]


def features(sentences: Sequence[Sentence]) -> list[tuple[str, ...]]:
    """The features of each sentence of a message, each name once."""
    seen = [_seen(sentence) for sentence in sentences]
    shared = (*_message(seen), *_quoting(seen))
    return [tuple(dict.fromkeys((*_own(seen, at), *_near(seen, at), *shared))) for at in range(len(seen))]


def length(sentence: Sentence) -> int:
    """How many words and marks of a sentence count, with its beginning and its end."""
    return len(_TOKEN.findall(sentence.shown)[:MOST]) + 2


def _seen(sentence: Sentence) -> _Seen:
    tokens = _tokens(sentence.shown)
    cues = [name for name, pattern in _CUES if pattern.search(sentence.shown)]
    return _Seen(sentence, tokens, [_tags(token) for token in tokens], cues)


def _tokens(said: str) -> list[str]:
    found: list[str] = []
    for token in _TOKEN.findall(said)[:MOST]:
        if token == _MASK:
            found.append(_CODE)
        elif found and (joined := JOINED.get((found[-1], token))):
            found[-1] = joined
        else:
            found.append(token)
    return found


def _tags(token: str) -> tuple[str, ...]:
    tags = TAGS.get(token)
    if tags:
        return tags
    if token == _CODE:
        return ("CODE",)
    if token[0].isdigit() or token[0] in "#$":
        return ("num",)
    for ending in ("ing", "ed", "ly"):
        if token.endswith(ending) and len(token) > len(ending) + 2:
            return (f"-{ending}",)
    return ("x",)


def _stem(token: str) -> str:
    if token[0].isdigit():
        return "0"
    for suffix in _SUFFIXES:
        if token.endswith(suffix) and len(token) > len(suffix) + 2:
            return token[: -len(suffix)]
    return token


def _own(seen: list[_Seen], at: int) -> Iterator[str]:
    own = seen[at]
    yield from (f"cue:{name}" for name in own.cues)
    yield from _words(own)
    yield from _clauses(own)
    yield from _form(own.sentence, len(own.tokens))
    if len(seen) == 1:
        yield "place:alone"
    else:
        yield f"place:{'first' if not at else 'last' if at == len(seen) - 1 else 'inner'}"
    if own.sentence.inside:
        yield from _lead(own.sentence)
    if own.sentence.quoted:
        yield "quoted"


def _words(own: _Seen) -> Iterator[str]:
    stems = ["^", *map(_stem, own.tokens), "$"]
    written = ["^", *own.tokens, "$"]
    for token, tags in zip(own.tokens, own.tags, strict=True):
        yield f"w:{token}"
        yield from tags
    yield from (f"w:{first} {second}" for first, second in pairwise(written))
    yield from (f"s:{stem}" for stem in stems)
    yield from (f"s:{first} {second}" for first, second in pairwise(stems))


def _clauses(own: _Seen) -> Iterator[str]:
    begins, position = True, 0
    for at, token in enumerate(own.tokens):
        if token in _STOPS:
            begins = True
            continue
        if begins and token not in _FILLERS:
            where = "clause" if position else "start"
            following = own.tags[at + 1] if at + 1 < len(own.tokens) else ("$",)
            for tag in own.tags[at]:
                yield f"{where}:{tag}"
                yield from (f"{where}:{tag} {other}" for other in following)
            yield f"{where}:w {token}"
            begins, position = False, position + 1
        elif token in ("and", "but", "so"):
            begins = True


def _form(sentence: Sentence, tokens: int) -> Iterator[str]:
    text = sentence.text
    yield f"length:{sum(tokens > limit for limit in _LENGTHS)}"
    yield f"end:{text[-1:] if text[-1:] in _ENDS else 'none'}"
    yield f"asks:{'?' in text[-4:]}"
    yield f"capital:{text[:1].isupper()}"
    if _LOUD.search(text):
        yield "loud"
    if "!!" in text:
        yield "!!"
    if '"' in text:
        yield "quotes"


def _lead(sentence: Sentence) -> Iterator[str]:
    """What the list says that an item stands in."""
    lead = sentence.lead
    yield "item"
    yield f"box:{sentence.box}"
    yield f"mark:{'number' if sentence.item[:1].isdigit() else 'bullet' if sentence.item else 'none'}"
    yield f"lead-end:{lead[-1:] if lead[-1:] in _ENDS else 'none'}"
    yield from (f"lead-is:{name}" for name, pattern in _LEADS if pattern.search(lead))
    for token in _tokens(lead)[-12:]:
        yield f"lead-w:{token}"
        yield from (f"lead:{tag}" for tag in _tags(token))


def _near(seen: list[_Seen], at: int) -> Iterator[str]:
    for where, number in zip(BESIDE, (at - 1, at + 1), strict=True):
        if not 0 <= number < len(seen):
            yield f"{where}nothing"
            continue
        other = seen[number]
        shown = other.sentence.shown
        yield f"{where}end:{shown[-1:] if shown[-1:] in _ENDS else 'none'}"
        yield f"{where}length:{min(len(other.tokens) // 4, 5)}"
        yield from (f"{where}cue:{name}" for name in other.cues)
        yield from (f"{where}{tag}" for tags in other.tags for tag in tags)
        yield from (f"{where}w:{token}" for token in other.tokens[:1])
        yield from (f"{where}start:{tag}" for tags in other.tags[:2] for tag in tags)


def _message(seen: list[_Seen]) -> Iterator[str]:
    """What all sentences of a message share."""
    yield f"many:{sum(len(seen) > limit for limit in _EACH)}"
    if any(one.sentence.shown.endswith("?") for one in seen):
        yield "message:asks"
    if any(one.sentence.inside for one in seen):
        yield "message:lists"
    if any(_MASK in one.sentence.shown for one in seen):
        yield "message:code"
    if seen:
        yield f"message:capital {seen[0].sentence.text[:1].isupper()}"
        yield from (f"message:w {token}" for token in seen[0].tokens[:1])


def _quoting(seen: list[_Seen]) -> Iterator[str]:
    """Whether the words of somebody else are passed on, and in what sense."""
    if any(one.sentence.quoted for one in seen):
        beside = [one.sentence.shown for one in seen if not one.sentence.quoted]
        yield "quoting"
        yield f"quoting:endorsed {any(asides.ENDORSED.search(said) for said in beside)}"
        yield f"quoting:dismissed {any(asides.WAVED_ASIDE.search(said) for said in beside)}"
