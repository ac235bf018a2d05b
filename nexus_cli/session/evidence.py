"""Whether the person said it: what of an entry is their own words, and whether these words carry a fact.

Text from a model or a tool must not become a standing instruction by itself, so the bar is high: what is near the
person's words and still not theirs stays a proposal, which costs them one `/memory accept`.
"""

from __future__ import annotations

import re

from nexus_cli.core.words import spoken, stem

OWN_WORDS = 4_000
"""Characters: a longer message holds more than the person's own words (a log, a page), so nothing rests on it."""

_BLOCK = re.compile(r"(?:\A|\n)\s*<(?:stdin|file|folder|shell|recalled)\b")
_BOUNDARY = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|(?<!:)\n[ \t]*\n")
"""No single line end: what stands in a list may be turned by the words above it."""
_HERE = re.compile(r"\b(?:in|for) (?:this|the|our|my) (?:project|repo|repository|codebase)\b", re.IGNORECASE)
"""What the slot of a fact says already."""
_FILLER_WORDS = (
    "a an the this that these those i me my mine we us our ours you your yours he him his she her they them their it "
    "its user person am is are was were be been being do does did have has had please thanks thank ok okay hey hi "
    "hello yes remember note also just really very so and always"
)
_FILLER = frozenset(_FILLER_WORDS.split())
"""Words that may differ between what was said and how it is noted."""
_NOT_WORDS = (
    "not no nor never none neither nothing nobody without cannot dont hardly avoid stop "
    "nicht nie niemals kein keine keinen keiner ohne weder ne pas jamais sans aucun aucune nunca jamás sin ningún "
    "ninguna non mai senza não nem sem niet nooit geen zonder inte aldrig не нет ни никогда без nie bez nigdy"
)
_IF_WORDS = "if unless except only when until while instead wenn falls außer nur si sauf seulement salvo solo"
_NOT, _IF = frozenset(_NOT_WORDS.split()), frozenset(_IF_WORDS.split())
_UNSPACED_NOT = re.compile("[不没沒别別勿非無无未]|ない|ません|않|안 |못|말")
_ASKED = re.compile(r"[?\uff1f]\s*\Z")


def own_words(content: str) -> str:
    """What the person said themselves in a message: the words before the first attached block; "" for a long one."""
    block = _BLOCK.search(content)
    words = content[: block.start()] if block else content
    return words if len(words) <= OWN_WORDS else ""


def quoted(quote: str, words: str) -> str:
    """The sentences of `words` in which `quote` stands as it is, white space aside, on one line; "" when it does not.

    They are more than the quote where that begins or ends within a sentence: what it leaves out may turn its meaning.
    """
    wanted, place = " ".join(quote.split()), 0
    sentences = [" ".join(part.split()) for part in _BOUNDARY.split(words)]
    sentences = [sentence for sentence in sentences if sentence]
    start = " ".join(sentences).find(wanted) if wanted else -1
    if start < 0:
        return ""
    touched = []
    for sentence in sentences:
        end = place + len(sentence)
        if place < start + len(wanted) and start < end:
            touched.append(sentence)
        place = end + 1
    return " ".join(touched)


def carries(sentence: str, fact: str) -> bool:
    """Whether what the person said in `sentence` is what `fact` says.

    Its words, at least two, stand there one after the other (endings, pronouns and politeness aside), are more than
    two thirds of the sentence, and leave no negation and no condition of it out. A question states nothing.
    """
    if _ASKED.search(sentence) or bool(_UNSPACED_NOT.search(sentence)) != bool(_UNSPACED_NOT.search(fact)):
        return False
    said, noted = _told(sentence), _told(fact)
    turns = _turns(noted)
    if len(noted) < max(2, len(turns) + 1) or 3 * len(noted) <= 2 * len(said) or _turns(said) != turns:
        return False
    return any(said[place : place + len(noted)] == noted for place in range(len(said) - len(noted) + 1))


def _told(text: str) -> list[str]:
    return [_meant(word) for word in spoken(_HERE.sub(" ", text)) if word not in _FILLER]


def _meant(word: str) -> str:
    return "!not" if word in _NOT else "!if" if word in _IF else stem(word)


def _turns(told: list[str]) -> list[str]:
    return [word for word in told if word.startswith("!")]
