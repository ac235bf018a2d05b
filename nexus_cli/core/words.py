"""The words of a text as memory compares them: which of a message are the person's own, plain forms without endings,
and how far a text matters for another.

No dictionary and no model: the same words at every time and in every build. Where texts are kept and searched is the
ledger's; whose words prove a fact is `nexus_cli.session.evidence`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

LONGEST = 20_000
"""Characters of a text that are looked at."""
OWN_WORDS = 4_000
"""Characters: a longer message holds more than the person's own words (a log, a page), so nothing rests on it."""

_BLOCKS = ("stdin", "file", "folder", "shell", "recalled")
"""What is attached stands behind the words, each in one of these."""
_BLOCK = re.compile(rf"^[^\S\n]*<(?:{'|'.join(_BLOCKS)})\b", re.MULTILINE)
_CLOSED = tuple(f"</{name}>" for name in _BLOCKS)
_HOLE = re.compile(r"^\[\.\.\. [\d,]{1,12} tokens ", re.MULTILINE)
"""Where the middle of a long message was left out, and with it perhaps the beginning of a block."""
_TAG = 64
"""Characters beyond the own words in which the block after them may begin."""

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts that put no space between words: here pairs of characters count as words."""
_ASCII_PARTS = re.compile("[a-z0-9]+")
_JOINED_NOT = re.compile(r"n't\b")
_ENDING = re.compile(r"'(s|re|ve|m|ll|d)\b")
_VOWELS = frozenset("aeiouy")

_STOP_WORDS = (
    "a an the this that these those some any all each both i me my mine we us our ours you your yours he him his she "
    "her hers they them their theirs it its who whom whose which what when where why how there here is am are was were "
    "be been being do does did done doing have has had having will would shall should can could may might must of to "
    "in on at for by with from as into onto out up down about over under off and or but if then else than so because "
    "while until not no nor never none neither without always also just really very too only even still again ever "
    "please thanks thank ok okay hey hi hello yes user person let lets get got want wants wanted like "
    "likes prefer prefers preferred now today one ones thing things way lot bit using used use uses own same such "
    "other more most less least much many few ca wo dont t s m ve re ll d"
)
_STOP = frozenset(_STOP_WORDS.split())
"""Words that say nothing of what a text is about."""

_COMMON = (
    "add go change check code create delete do edit error explain file files find fix folder function help implement "
    "improve last line list look make move need new next old open problem project read remove rename repo repository "
    "run see set show start stop take tell test think time try turn update version work write wrong right good first "
    "second name value text part step end begin call give keep put point question answer issue here program"
)

COMMON_WEIGHT = 0.34
SHORT = 40
"""Words up to which what is said is a plain request; what has more shares single words with nearly everything."""


def own_words(message: str) -> str:
    """What the person said themselves in a message: the words before the first attached block; "" for a long one."""
    head = message[: OWN_WORDS + _TAG]
    block = _BLOCK.search(head)
    own = head[: block.start()] if block else head
    return own if len(own) <= OWN_WORDS else ""


def apart(message: str) -> tuple[str, str]:
    """A message of the person as what they said themselves and what is attached to it.

    What is attached is the rest from the first block on: whatever a file says, it does not end before the message does.
    """
    if not message.rstrip().endswith(_CLOSED):
        return message, ""
    found = _BLOCK.search(message) or _HOLE.search(message)
    return (message[: found.start()].rstrip(), message[found.start() :]) if found else (message, "")


def words(text: str) -> list[str]:
    """The words of `text` in their order, in small letters, without endings; stop words included."""
    return [stem(word) for word in spoken(text)]


def content(text: str) -> list[str]:
    """`words` without those that say nothing."""
    return [stem(word) for word in spoken(text) if word not in _STOP]


def terms(text: str) -> list[str]:
    """What `text` is looked for by: its content, each word once; all of its words where it has no content."""
    return list(dict.fromkeys(content(text) or words(text)))


def spoken(text: str) -> Iterator[str]:
    """The words of `text` in their order, in small letters; `don't` is two of them."""
    plain = unicodedata.normalize("NFKC", text[:LONGEST]).casefold().replace("\u2019", "'")
    plain = _ENDING.sub(" ", _JOINED_NOT.sub(" not", plain))
    if plain.isascii():
        yield from _ASCII_PARTS.findall(plain)
        return
    for run, spaced in _parts().findall(plain):
        if len(run) < 3:
            yield run or spaced
        else:
            yield from (run[place : place + 2] for place in range(len(run) - 1))


@cache
def _parts() -> re.Pattern[str]:
    """Made when it is first needed: its many letters take as long as all else in this module."""
    return re.compile(f"([{_UNSPACED}]+)|([^\\W_{_UNSPACED}]+)")


def stem(word: str) -> str:
    """`word` without the usual English endings; what is no plain word stays as it is."""
    if not (word.isascii() and word.isalpha()) or len(word) < 3:
        return word
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed", "ly"):
        rest = word.removesuffix(ending)
        vowels = len(rest) > 1 and not _VOWELS.isdisjoint(rest)
        if rest != word and vowels and not (ending == "ed" and rest.endswith("e")):
            word = rest
            break
    if len(word) > 2 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 2 and word[-1] == word[-2] and word[-1] not in _VOWELS:
        word = word[:-1]
    return word


@cache
def _light() -> frozenset[str]:
    """The common words as they are compared."""
    return frozenset(map(stem, _COMMON.split()))


def _weight(word: str) -> float:
    return COMMON_WEIGHT if word in _light() else 1.0


class Topic:
    """What was just said, to be asked of other texts whether they matter for it."""

    def __init__(self, said: str, *, plain: bool = False) -> None:
        """With `plain` a request of common words alone ("run the tests") is answered by texts that have all of them."""
        self.terms = list(dict.fromkeys(content(said)))
        whole = sum(map(_weight, self.terms))
        self._least = min(1.0, whole) if plain and whole >= 2 * COMMON_WEIGHT else 1.0
        self._words = frozenset(self.terms)
        self._share = 0.15 if len(self.terms) <= SHORT else 0.5

    def score(self, text: str) -> float:
        """How far `text` matters, 0.0 when it does not.

        A word that stands in nearly every request (`file`, `fix`) weighs a third of another. What is shared has to
        weigh 1 and be 15 % of `text` (one word of six), or weigh 2; where more than `SHORT` words were said it has to
        be half of `text`.
        """
        own = set(content(text))
        shared = sum(map(_weight, own & self._words))
        whole = sum(map(_weight, own)) or 1.0
        enough = shared >= self._least - 1e-9 and (shared / whole >= self._share or (self._share < 0.5 and shared >= 2))
        return shared + shared / whole if enough else 0.0
