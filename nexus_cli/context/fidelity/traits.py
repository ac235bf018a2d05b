"""What speaks for a value that binds somebody: the shape of a token, who wrote it, the words around it, as features.

Pure and linear: a few words on either side of the token and the words of its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nexus_cli.context.fidelity.cues.table import words
from nexus_cli.context.fidelity.shapes import Candidate

GROUPS: Mapping[str, str] = {
    **dict.fromkeys(("uuid", "opaque", "hash", "issue", "ticket", "mail", "address"), "opaque"),
    **dict.fromkeys(("colour", "dashed", "code", "card"), "opaque"),
    **dict.fromkeys(("url", "host", "image", "branch", "route", "place", "slashes"), "where"),
    **dict.fromkeys(("pair", "env", "header", "snippet", "flag"), "set"),
    **dict.fromkeys(("locale", "zone", "bound"), "exact"),
    **dict.fromkeys(("hyphens", "lines", "prefix"), "plain"),
    **dict.fromkeys(("power", "cron"), "exact"),
}
"""Shapes that behave alike; others stand for themselves."""

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d[\w.]*|[^\w\s]")
_BEFORE, _AFTER = 60, 40
"""Characters before and behind a token that are looked at."""
_NEAR = 4
_SHORT = 40
_ALONE = ("shape:", "form:", "before2:", "digits:", "mix:", "word", "left:")
"""Features that are not crossed with the group of the shape."""

_CLASSES: Mapping[str, frozenset[str]] = {
    "number-of": words(
        "port ports gpio pin ticket issue pr mr bug case order build job run account channel vlan pid uid id ids rev "
        "revision extension slot address schema shard seed baud offset sector station terminal batch register "
        "partition generation epoch number numbering no request change commit hash key field stratum tolerance tag "
        "tags region bucket broker host server merchant customer tenant resource colour color timeout sandbox serial "
        "device lock msrv minsdk targetsdk"
    ),
    "product": words(
        "node python java jdk php ruby go golang rust rails django react vue angular postgres postgresql mysql mariadb "
        "redis android ios ubuntu debian swift kotlin scala typescript elixir erlang dotnet xcode gcc clang windows "
        "macos spark kafka numpy pandas sqlalchemy hibernate spring version versions release"
    ),
    "is": words("is are was be = stays stay remains remain stands becomes equals means ought reads says it's that's "
    "mine"),
    "at": words("at on to in from of with for by under via into onto through behind against as"),
    "pick": words("use using pin pinned keep take set bump go stick upgrade settle settled settles fixed call "
    "called named target require requires need needs listen listens switch choose chose prepared create decided reads"),
    "wrong": words("not than without never instead no until unless was"),
    "the": words("the a an this that these those its our my your their every each some any all"),
    "about": words("about around some roughly nearly almost over under approximately only just another other"),
    "and": words("and or , ; & /"),
    "open": words("( [ “"),
    "mark": words(": - – — ->"),
    "quote": words('` " \''),
    "stop": words(". ! ? )"),
    "unit": words("s ms sec second seconds minute minutes min hour hours h day days week weeks month months year "
    "years % percent kb mb gb kib mib gib px em rem times x points cm mm m km kg mw hz fps million billion euro euros "
    "eur dollars"),
}
_CLASS = {word: name for name, members in _CLASSES.items() for word in members}

_SENTENCE: Mapping[str, re.Pattern[str]] = {
    name: re.compile(rf"\b(?:{pattern})\b")
    for name, pattern in {
        "binds": r"must|has to|have to|had to|should|ought to|shall|always|never|only|exactly|stays?|keeps?|"
        r"remains?|continues?",
        "settles": r"settled?|settles|decided?|agreed|approved|we go with|going with|final|fixed (?:at|to)|from now "
        r"on|for the record",
        "explains": r"because|since|so that|therefore|explains|the reason|which means|that is why|that's why|"
        r"otherwise|actually|combination|compared|in turn|works? like|instead of",
        "supposes": r"if|would|could|can|might|maybe|perhaps|e\.g|for example|such as|like|suppose|imagine|say",
        "measures": r"seconds?|minutes?|hours?|percent|bytes?|rows|lines?|files?|tests?|times|average|mean|took|"
        r"takes|total|before|after|faster|slower|measured|memory|examples?|items?|pixels?|keys",
        "ours": r"our|we|my|mine|i|us",
        "wants": r"use|set|pin|bump|put|write|take|revert|leave|point|listen|call|change|make it|switch|move",
        "told": r"ticket|commit|branch|tag|issue|merge|broker|account|bucket|approval|id|key|token|reviewer?|"
        r"secrets?|variables?",
        "done": r"done|merged|landed|squashed|prepared|created|changed|raised|answered|applied|tagged|pushed|ready",
        "asks": r"shall|do you|should i|which",
    }.items()
}
_MIXED = re.compile(r"[A-Za-z]\d[A-Za-z]|\d[A-Za-z]\d|[a-z][A-Z]\w*\d|\d\w*[a-z][A-Z]|[_-]\d{3,}|[A-Z]{2,}-?\d{3,}")
_PORT = re.compile(r"\bports?\b")
_STATUS = re.compile(r"\b(?:return\w*|respond\w*|reply|replies|answers?|send|http|code|status|with|an?) (?:an? "
    r")?[1-5]\d\d$")
_ANSWER = re.compile(r"\b(?:return|respond with|reply with|answer with|answer) (?:an? )?[1-5]\d\d$")
_CONTRAST = re.compile(r"[`\"']?,? (?:and |but )?(?:not|rather than|instead of|no longer)\b")
_COUNTED = re.compile(r"[`\"']?\s+(?:[a-z-]+ ){0,2}[a-z]{3,}s\b")
_THEN = re.compile(r"[`\"']? (?:is|are|was|has|goes|stays|ended|falls|renames|comes)\b")
_REFUSED = re.compile(r"\b(?:not|nor|instead of|rather than|no longer|never was an?)"
                      r"(?: (?:on|at|in|to|the|port|pin|issue|version|with|for|from))*[ `\"']{1,3}$")
_NOTED = re.compile(r"\b(?:section|chapter|figure|page|line|step|phase|part|item|point|rfc|pep|article|paragraph|"
    r"table|row|column|level|appendix|round|batch) (?:no\.? )?[`\"']?$")


def is_refused(text: str, found: Candidate) -> bool:
    """Whether a token is the wrong one, which stands there only to be told from the right one."""
    return bool(_REFUSED.search(text[max(0, found.start - _BEFORE) : found.start].lower()))


def is_certain(text: str, found: Candidate, whole: frozenset[str]) -> bool:
    """Whether a number of the person can be nothing else: they speak of ports, or say which status to answer with."""
    if "user" not in whole or found.shape != "number":
        return False
    if len(found.text) in (4, 5) and "of ports" in whole:
        return True
    return bool(_ANSWER.search(text[max(0, found.start - _BEFORE) : found.end].lower()))


def _class(word: str) -> str:
    if word in _CLASS:
        return _CLASS[word]
    if word[0].isdigit():
        return "num"
    return "word" if word[0].isalpha() else "mark"


def _form(found: Candidate) -> str:
    """How the text itself looks, beyond its shape."""
    value = found.text
    if found.shape == "number":
        year = "year" if len(value) == 4 and value[:2] in ("19", "20") else "round" if value.endswith("00") else "odd"
        zero = "zero" if value[0] == "0" and len(value) > 1 else ""
        return f"{min(len(value), 6)}{year if len(value) > 2 else ''}{zero}"
    if found.shape == "version":
        more = "x" if not value[-1].isdigit() or "-" in value else ""
        return f"{value.count('.')}{'v' if value[0] == 'v' else ''}{more}"
    if found.shape in ("code", "named"):
        mixed = "upper" if value.upper() == value else "lower" if value.lower() == value else "mixed"
        return f"{mixed}{'_' if '_' in value else ''}{'-' if '-' in value else ''}{'short' if len(value) < 5 else ''}"
    if found.shape == "pair":
        return "number" if value[-1].isdigit() or value[-1] in "\"'" else "word"
    if found.shape == "dotted":
        return f"{'_' if '_' in value else ''}{value.count('.')}"
    return ""


def shared(text: str, role: str, rule: bool, many: int) -> frozenset[str]:
    """The features that all tokens of a sentence by `user` or `assistant` have: `rule` where it demands or corrects
    something, `many` tokens that stand in it."""
    low = text.lower()
    own = {role, f"many:{min(many, 5)}"}
    own.update(name for name, form in _SENTENCE.items() if form.search(low))
    own.update(
        name
        for name, holds in (
            ("decided", rule),
            ("asked", low.rstrip().endswith("?")),
            ("short", len(low) < _SHORT),
            ("of ports", bool(_PORT.search(low))),
        )
        if holds
    )
    return frozenset(own)


def traits(text: str, found: Candidate, whole: frozenset[str]) -> Iterator[str]:
    """The features of one token of a sentence that has those of `whole`."""
    group = GROUPS.get(found.shape, found.shape)
    low_before = text[max(0, found.start - _BEFORE) : found.start].lower()
    low_after = text[found.end : found.end + _AFTER].lower()
    before = [word for word in _WORD.findall(low_before) if word not in "`\"'"]
    after = [word for word in _WORD.findall(low_after) if word not in "`\"'"]
    own = {f"shape:{found.shape}", f"form:{found.shape} {_form(found)}", *whole}
    own.add(f"before:{_class(before[-1]) if before else 'start'}")
    own.add(f"after:{_class(after[0]) if after else 'end'}")
    own.update(f"word-{at}:{word}" for at, word in zip((1, 2, 3), reversed(before), strict=False))
    own.update(f"word+{at}:{word}" for at, word in zip((1, 2), after, strict=False))
    own.update(f"left:{word}" for word in before)
    own.update(f"near:{name}" for word in before[-_NEAR:] if (name := _class(word)) in ("number-of", "product", "pick"))
    if len(before) > 1:
        own.add(f"before2:{_class(before[-2])} {_class(before[-1])}")
    if found.shape == "code":
        own.add(f"digits:{min(sum(char.isdigit() for char in found.text), 4)}")
        own.add(f"mix:{bool(_MIXED.search(found.text))}")
    if low_before.endswith(("`", '"', "'")):
        own.add("quoted")
    for name, hit in (
        ("contrast", _CONTRAST.match(low_after)),
        ("port", found.shape == "number" and len(found.text) in (4, 5) and "of ports" in whole),
        ("status", found.shape == "number" and _STATUS.search(low_before + found.text)),
        ("counted", _COUNTED.match(low_after)),
        ("then", _THEN.match(low_after)),
        ("noted", _NOTED.search(low_before)),
    ):
        if hit:
            own.add(name)
    yield from own
    yield from (f"{group}&{name}" for name in own if not name.startswith(_ALONE))
