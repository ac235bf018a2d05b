"""Whether the person said it: whether their own words (`nexus_cli.core.words.own_words`) carry a fact.

Text from a model or a tool must not become a standing instruction by itself, so the bar is high: only a sentence that
states something lasting counts, no order for the moment and no quotation. What is near the person's words and still
not theirs stays a proposal, which costs them one `/memory accept`.
"""

from __future__ import annotations

import re

from nexus_cli.core.memory import MemorySlot
from nexus_cli.core.words import spoken

_BOUNDARY = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|(?<!:)\n[ \t]*\n")
"""No single line end: what stands in a list may be turned by the words above it."""
_CLAUSE = re.compile(
    r"[,;:.!?()\u3001\u3002\uff0c\uff01\uff1a\uff1b]+(?:\s+|\Z)|[\u3001\u3002\uff0c\uff01]|\s-+\s|[\u2013\u2014]"
    r"|\b(?:so|then|but)\b",
    re.IGNORECASE,
)
_HERE = re.compile(r"\b(?:(?:in|for) (?:this|the|our|my) (?:project|repo|repository|codebase)|here)\b", re.IGNORECASE)
"""What the project slot says already."""
_ASIDE = re.compile(
    r"^(?:\W*\b(?:please|also|yes|ok|okay|hey|hi|hello|remember|note|btw|fyi)\b(?:\s+that\b)?\W*)+", re.IGNORECASE
)
_REPEATED = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>.*$|^(?: {4}|\t).*$|\"[^\"\s]*\s[^\"]*(?:\"|\Z)"
    r"|\u201c[^\u201d]*\s[^\u201d]*(?:\u201d|\Z)"
    r"|\u201e[^\u201c\u201d]*(?:[\u201c\u201d]|\Z)|\u00ab[^\u00bb]*(?:\u00bb|\Z)|\u300c[^\u300d]*(?:\u300d|\Z)"
    r"|(?<!\w)'[^'\n]*\s[^'\n]*'(?!\w)|(?<!`)`(?=(?:[^`\s]+\s+){3})[^`]*`",
    re.MULTILINE | re.DOTALL,
)
"""What the message only repeats: quoted lines, code, words in quotation marks."""
_MARK = " quotedwords "
"""What stands in the place of a quotation; no fact holds it."""
_PASSED_ON = re.compile(
    r"\b(?:translat\w*|proofread\w*|rephras\w*|paraphras\w*|reword\w*|summari[sz]\w*|quoted|quoting|grammar|spelling"
    r"|sentences?|paragraphs?|following|below|wrote|writes|says|said|pasted|übersetz\w*|formulier\w*|korrigier\w*"
    r"|zitat|zitier\w*|sätze?|satz|schrieb|schreibt|sagte?|tradu\w*|corrig\w*|phrases?|frases?|frasi)\b",
    re.IGNORECASE,
)
"""Of a message that is about a text: whose words the text is cannot be told."""
_OPENS = re.compile(r":(?:\s|\Z)")
_ASKED = re.compile("[?\uff1f]")
_THANKS = re.compile(r"\b(?:thanks|thank you)\b", re.IGNORECASE)
_FROM_NOW_ON = re.compile(r"\bfrom now on\b,?", re.IGNORECASE)
_TO_COME = re.compile(r"['\u2019](?:ll|d)\b", re.IGNORECASE)

_FILLER_WORDS = "a an the i me my mine we us our ours am is are do does please also"
_SELF = frozenset(("ich", "je", "yo"))
"""I: of what is said with it a preference alone is known to last."""
_FILLER = frozenset(_FILLER_WORDS.split()) | _SELF
"""Words that may differ between what was said and how it is noted."""
_OF_THEM = _FILLER | {"user", "person"}
"""The same in a fact about the person."""
_RULE = frozenset(("always", "immer", "toujours", "siempre", "sempre"))
_LEADS = _RULE | {"never", "prefer", "nie", "niemals", "jamais", "nunca"}
"""What an order that lasts begins with."""
_LEADS_UNSPACED = re.compile(r"\s*(?:いつも|常に|必ず|总是|總是|始终|永远|항상|절대)")
_PASSING_WORDS = (
    "now today tonight tomorrow yesterday currently temporarily once again this that these those it then please mind "
    "jetzt heute gerade momentan diesmal vorerst dies diese diesen dieser dieses maintenant aujourd hui ce cet cette "
    "ces ahora hoy esta este estos estas adesso oggi questa questo agora hoje isso quotedwords"
)
_PASSING = frozenset(_PASSING_WORDS.split())
"""Words of the moment: what holds them lasts no longer, or means what only this message shows."""
_WISH_WORDS = (
    "want wants need needs should would will shall may might can could must let lets try going gonna say mean ask tell "
    "think hope wish guess repeat read hear suggest recommend request demand you your yours"
)
_WISH = frozenset(_WISH_WORDS.split())
"""With I or we, and without always or never: a wish for the moment, or somebody else's words."""
_STATE_VERBS = (
    "is are has have use uses live lives run runs sit sits stand stands belong belongs depend depends require requires "
    "support supports contain contains listen listens"
)
_VERBS = frozenset(_STATE_VERBS.split())
"""What says how the things of a project are, and not what happens to them."""
_PREFERRING_WORDS = (
    "prefer prefers bevorzuge bevorzugt bevorzugen préfère préfères prefiero prefiere preferisco preferisce prefiro "
    "prefere"
)
_PREFERRING = frozenset(_PREFERRING_WORDS.split())
_I_PREFER = frozenset(("prefiero", "preferisco", "prefiro"))
_EACH = re.compile(r",?\s+and\s+(?=I\b)")
_BOUND_WORDS = (
    "if unless when whenever while until because since although though as where whether that who which after before "
    "except or"
)
_BOUND = frozenset(_BOUND_WORDS.split())
"""With one of them a part of a sentence does not stand for itself."""


def quoted(quote: str, words: str) -> str:
    """The sentences of `words` in which `quote` stands as it is, white space aside, on one line; "" when it does not.

    They are more than the quote where that begins or ends within a sentence: what it leaves out may turn its meaning.
    """
    return _touched(quote, _sentences(words))


def proves(quote: str, words: str, fact: str, slot: MemorySlot) -> bool:
    """Whether `quote` stands in what the person says themselves in `words`, and what it belongs to carries `fact`.

    Nothing rests on a quotation, on what a colon opens, or on a message that is about a text.
    """
    if _PASSED_ON.search(words):
        return False
    own = []
    for sentence in _sentences(_REPEATED.sub(_MARK, words)):
        own.append(sentence)
        if _OPENS.search(_ASIDE.sub("", sentence)):
            break
    sentence = _touched(quote, own)
    return bool(sentence) and carries(sentence, fact, slot)


def carries(sentence: str, fact: str, slot: MemorySlot = MemorySlot.PROJECT) -> bool:
    """Whether what the person said in `sentence` lasts, and is what `fact` says in this slot.

    It lasts where each of its parts is an order that begins with always, never or prefer (or with use, for this
    project), or a statement that begins with I, we, my, our or the, and is not of the moment. The fact has the same
    words in the same order, at least two, articles and politeness aside; only a first `always` may be left out. Its
    subject is the same: what the person does is noted as that (`deploys`), and is no order. Words for this project
    alone, and `we`, carry nothing about the person or the agent; what the person does, nothing about the agent. Of
    statements that `and I` joins, one that says always, never or prefer carries a fact by itself.
    """
    if _ASKED.search(sentence) or _TO_COME.search(sentence):
        return False
    said, here = _THANKS.sub(" ", _ASIDE.sub("", sentence)), bool(_HERE.search(sentence))
    said, fact = (_FROM_NOW_ON.sub("always", text) for text in (said, fact))
    if slot is MemorySlot.PROJECT:
        said, fact = (_HERE.sub(" ", text) for text in (said, fact))
    elif here:
        return False
    kinds = _kinds(said, here)
    if not kinds or not kinds <= _CARRIED[slot]:
        return False
    each = _EACH.split(said)
    if len(each) > 1 and kinds == {"mine"} and not _BOUND.intersection(spoken(said)):
        lasting = [part for part in each if not (_LEADS | _PREFERRING).isdisjoint(spoken(part))]
        if any(_kinds(part, here) == kinds and _is_noted(part, fact, stated=True) for part in lasting):
            return True
    return _is_noted(said, fact, stated=kinds != {"order"})


def _is_noted(said: str, fact: str, *, stated: bool) -> bool:
    """Whether `fact` has the words of `said`, as the note of a statement or of an order."""
    told, noted = list(spoken(said)), list(spoken(fact))
    if stated and not _same_subject(told, noted):
        return False
    heard = [_form(word, stated) for word in told if word not in _FILLER]
    wanted = [_form(word, stated) for word in noted if word not in (_OF_THEM if stated else _FILLER)]
    shorter = heard[1:] if heard and heard[0] in _RULE else heard
    return len(set(wanted) - {"not"} - _LEADS) > 0 and len(wanted) > 1 and wanted in (heard, shorter)


_CARRIED = {
    MemorySlot.PROJECT: {"order", "mine", "ours"}, MemorySlot.USER: {"order", "mine"}, MemorySlot.AGENT: {"order"},
}  # fmt: skip
"""What kinds of sentences say something of whom a slot is about."""


def _sentences(words: str) -> list[str]:
    return [sentence for part in _BOUNDARY.split(words) if (sentence := " ".join(part.split()))]


def _touched(quote: str, sentences: list[str]) -> str:
    """Those of `sentences` that hold a part of `quote`."""
    wanted, place = " ".join(quote.split()), 0
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


def _kinds(said: str, here: bool) -> set[str]:
    """What the parts of a sentence are: an order that lasts, a statement about the speaker, or about what is ours; ""
    for one that is none of them."""
    kinds: set[str] = set()
    for part in _CLAUSE.split(said):
        words = list(spoken(part))
        if words[:1] in (["and"], ["or"]):
            words = words[1:]
        if words and not (kinds and words[0] == "not" and not _PASSING.intersection(words)):
            kinds.add("order" if _LEADS_UNSPACED.match(part) else _kind(words, here))
    return kinds


def _kind(words: list[str], here: bool) -> str:
    there, first = set(words), words[0]
    if there & _PASSING:
        return ""
    if first in _LEADS or (here and (first == "use" or words[:3] == ["do", "not", "use"])):
        return "order"
    if there & _WISH and not there & _LEADS:
        return ""
    if first in _SELF or first in _I_PREFER:
        return "mine" if first in _I_PREFER or not _PREFERRING.isdisjoint(words[1:2]) else ""
    if first in ("i", "we") and words[1:2] and words[1].endswith("ing"):
        return ""
    if first in ("i", "we"):
        return "mine" if first == "i" else "ours"
    if first in ("my", "our", "the") and there & _VERBS:
        return "mine" if first == "my" else "ours"
    return ""


def _same_subject(said: list[str], noted: list[str]) -> bool:
    """Whether what I or we do is not noted as an order: `Deploys`, `The user deploys`, no `Deploy`."""
    if said[0] not in ("i", "we", *_SELF):
        return True
    first = next((word for word in noted if word not in ("the", "never", "also", *_RULE)), "")
    return first in (said[0], "user", "person", *_PREFERRING) or (first.endswith("s") and first not in said)


def _form(word: str, stated: bool) -> str:
    """`word` as it is compared: of a statement without the ending of he deploys."""
    if stated and word in _PREFERRING:
        return "prefer"
    if not stated or word in _RULE or not (word.isascii() and word.isalpha()) or len(word) < 3:
        return word
    if word == "has":
        return "have"
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
