"""Words of a text in the form in which two wordings are compared: folded, without endings, negations made one.

Pure and linear: every pattern is a run of one class of characters, and nothing is looked at twice.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATION = "not"
_NEGATIONS = _words(
    "not no never without cannot can't don't dont doesn't didn't won't wouldn't shouldn't mustn't isn't aren't wasn't "
    "couldn't nothing none neither nor avoid"
)
_EMPTY = _words(
    "a an the this that these those it its it's is are was were be been being am do does did done has have had having "
    "i i'm i'd i'll i've you you're your we we're we'll our us me my they them their he she of to in on at for from by "
    "with as and or but so then than too also just please pls should shall would could can will may might must need "
    "needs want wants let lets let's there here if when while about into over all any each very really still already "
    "now ok okay well hey yes yeah some such which who whom what how why where make sure"
)
DIRECTED = _words("instead rather before after from to over than into")
"""Where one of these stands, the order of the words is part of what is said."""

_PLAIN = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "\u00a0": " ", "`": None}
)
_TOKEN = re.compile(r"[^\s\"()\[\]{}<>,;|]+")
_EDGES = ".:!?*_'…=~"
_PLAIN_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ENDINGS = ("ingly", "edly", "ing", "ies", "ied", "es", "ed", "ly", "s", "e")
_ENOUGH = 3
_CONTRAST = re.compile(r",? (?:and |but )?not (?:the |a |an )?\S+$|, (?:and |but )?not ")


def plain(text: str) -> str:
    """`text` on one line, with plain quotes and dashes and no backticks or bold marks, case folded."""
    return " ".join(text.translate(_PLAIN).replace("**", "").split()).casefold()


def tokens(text: str) -> list[str]:
    """The words of `text` as they are written, folded; paths, flags and numbers stay whole."""
    found = (token.strip(_EDGES) for token in _TOKEN.findall(plain(text)))
    return [token for token in found if token]


def stem(token: str) -> str:
    """`token` without its ending where it is a plain word, a negation as `not`; else as it is."""
    if token in _NEGATIONS:
        return NEGATION
    if not _PLAIN_WORD.fullmatch(token):
        return token
    for ending in _ENDINGS:
        if token.endswith(ending) and len(token) - len(ending) >= _ENOUGH:
            return token[: -len(ending)]
    return token


def stems(text: str) -> list[str]:
    """The stems of all words."""
    return [stem(token) for token in tokens(text)]


def directed(text: str) -> bool:
    """Whether the order of its words is part of what `text` says: from here to there, this and not that."""
    return bool(_CONTRAST.search(plain(text))) or not DIRECTED.isdisjoint(tokens(text))


def significant(text: str) -> tuple[str, ...]:
    """The stems that carry what `text` says, in order; all of its words where none does."""
    return tuple(stem(token) for token in tokens(text) if token not in _EMPTY) or tuple(stems(text))
