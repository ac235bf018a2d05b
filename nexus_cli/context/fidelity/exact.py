"""Exact values in a text, with their kind and the words around them: what two texts can be compared by.

Wider than `identifiers`, which says what binds somebody: here every value counts that one text may state wrongly. Left
out are numbers that a writer makes up as he goes: list marks, dates and times, counts, sizes, what is said to be about
so much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nexus_cli.context.fidelity.changes import PATH
from nexus_cli.context.fidelity.words import NEGATION, significant

LONGEST = 2000
"""Characters of a line beyond which it is not looked at."""
BEFORE, AFTER = 60, 40
"""Characters around a value whose words say what it is the value of."""

_KEYS = (
    r"ports?|gpio|vlan|pid|uid|gid|slot|channel|tickets?|issues?|bugs?|cases?|orders?|builds?|jobs?|accounts?|"
    r"customers?|tenants?|pull request|pr|mr|ids?|revision|rev|release|extension|rfc|pep|address|schema|shard|seed|"
    r"baud|offset|sector|batch size|batch|register|partition|timeout|limit|ttl|retries|retry limit|max(?:imum)?|"
    r"min(?:imum)?|threshold|quota|workers|threads|replicas|width|height|depth|length|level|priority|"
    r"exit(?: status| code)?|status(?: code)?|http|error(?: code)?|code|version|python|node(?:\.js)?|java|jdk|php|ruby|"
    r"go|postgres(?:ql)?|mysql|django|rails|angular|react|vue|ubuntu|debian|fedora|gcc|clang|android|ios|under|at most|"
    r"at least"
)
_JOINT = r"(?: (?:number|no\.?|id|is|was|at|to|on|of|by|now|set|stays|remains|must be|should be|has to be))*(?: ?[=:])?"
FORMS = tuple(
    (kind, re.compile(pattern, flags))
    for kind, pattern, flags in (
        ("url", r"(?P<id>https?://[^\s<>\"'`)\]]{1,300}[^\s<>\"'`)\].,;:!?])", 0),
        ("mail", r"(?<![\w.@/-])(?P<id>[\w.+-]{1,64}@[\w-]{1,60}(?:\.[\w-]{1,30}){1,4})\b", 0),
        ("uuid", r"(?<![\w/.-])(?P<id>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b", re.IGNORECASE),
        ("address", r"(?<![\w.-])(?P<id>\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?:/\d{1,2})?)(?![\w-]|\.\d)", 0),
        ("path", PATH.pattern, 0),
        ("pair", r"(?<![\w/.:-])(?P<id>[A-Za-z][\w./-]{1,80}:v?\d(?:[\w.-]{0,30}\w)?)(?![\w:/-])", 0),
        ("ticket", r"(?<![\w/.#-])(?P<id>[A-Z][A-Z0-9]{1,11}-\d{1,7})\b(?![-.]?\w)", 0),
        ("ticket", r"(?<![\w&])(?P<id>[#!]\d{1,7})\b", 0),
        ("hash", r"(?<![\w/.#-])(?P<id>(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64})(?![\w/-]|\.\w)", 0),
        ("name", r"(?<![\w$./-])(?P<id>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?![\w(/.])", 0),
        ("name", r"`(?P<id>[A-Za-z]\w{0,60}(?:_\w{1,60}|[a-z][A-Z]\w{0,60}))(?:\(\))?`", 0),
        ("name", r"(?<![\w./-])(?P<id>[a-z]{2,20}(?:-[a-z]{2,20}){0,4}-\d{1,6})(?![\w/-]|\.\w)", 0),
        ("name", r"(?<![\w./-])(?P<id>[A-Z]{1,5}\d{2,6})(?![\w/-]|\.\w)", 0),
        ("set", r"(?<![\w.-])(?P<key>[A-Za-z][\w.-]{1,40}) ?= ?[\"'`]?(?P<id>\d[\w.:%]{0,20})\b", 0),
        ("set", r"(?<![\w.-])(?P<key>[A-Za-z]\w{0,30}_\w{1,30}): ?[\"'`]?(?P<id>\d[\w.:%]{0,20})\b", 0),
        ("version", r"(?<![\w./:-])(?P<id>v?\d{1,8}(?:\.\d{1,5}){1,3}(?:[-+]?(?:rc|alpha|beta|dev|post|pre|a|b)[.\d]*)?"
         r"(?:\.x)?)(?![\w/:%-]|[.,]\w)", 0),
        ("number", rf"(?<![\w./-])(?P<key>{_KEYS}){_JOINT} ?[\"'`]?(?P<id>\d{{1,10}})(?![\w%-]|[.,:/]\d)",
         re.IGNORECASE),
        ("long", r"(?<![\w.,:/#-])(?P<id>\d{5,12})(?![\w:/-]|[.,]\d)", 0),
    )
)  # fmt: skip
"""Kind and form, the value as group `id`, of a number with the word before it as `key`."""
_WITHOUT_DIGIT = tuple(form for form in FORMS if form[0] in ("url", "mail", "path", "name"))
_PORTS = (("number", re.compile(r"(?<![\w.,:/#-])(?P<id>\d{4,5})(?![\w:/-]|[.,]\d)")),)
_PORT = re.compile(r"\bports?\b", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_MARK = re.compile(r"^\s*(?:[-*+•>#]+|\(?\d{1,3}[.)]|\(?[a-h]\))\s+(?:\[[ xX]\]\s*)?")
_END = re.compile(r"(?<=[.!?;])[\"')\]*`]*\s+")
_COMMON = re.compile(r"(?:utf|iso|sha|aes|md|ipv|http|base|rsa|cp|es|covid|gpt|x|h|p|q|v)-?\d+", re.IGNORECASE)
_ABOUT = re.compile(
    r"(?:\b(?:about|around|approx(?:\.|imately)?|roughly|nearly|almost|over|some|circa|ca\.|more than|less than|fewer "
    r"than|up to|close to|in total|altogether)|[~≈<>±])\s*`?$",
    re.IGNORECASE,
)
_PLACED = re.compile(
    r"\b(?:section|chapter|figure|table|step|phase|part|item|point|page|appendix|round) $", re.IGNORECASE
)
_UNIT = re.compile(
    r"`?\s?(?:%|x\b|(?:s|ms|us|ns|min|h|sec\w*|seconds?|minutes?|hours?|days?|weeks?|months?|years?|times|percent|"
    r"[kmgt]i?b|bytes|tokens?|characters?|chars?|points?|million|billion|thousand|k|euros?|usd|dollars?|cents?|px|em|"
    r"rem|cm|mm|km|kg)\b)",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"`?\s+(?:[a-z]+ ){0,2}[a-z]{3,}s\b")
_YEAR = re.compile(r"(?:\d{1,2}\.){2}(?:19|20)\d\d|(?:19|20)\d\d")
@dataclass(frozen=True, slots=True)
class Value:
    """One value where it stands."""

    kind: str
    text: str
    """The value alone, as it was written."""
    key: str
    """Of a number: the word that says of what it is one, without its plural; else ""."""
    around: frozenset[str]
    """Stems of the words around it."""
    said: str
    """It with its key, as it was written."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of all lines, without list marks."""
    for line in text.splitlines():
        if len(line) <= LONGEST:
            yield from (part.strip() for part in _END.split(_MARK.sub("", line)) if part.strip())


def values(sentence: str) -> list[Value]:
    """The values in one sentence, in order; of what overlaps the first form that fits."""
    found: dict[int, Value] = {}
    taken: list[tuple[int, int]] = []
    forms = FORMS if _DIGIT.search(sentence) else _WITHOUT_DIGIT
    for kind, form in (*forms, *(_PORTS if _PORT.search(sentence) else ())):
        for hit in form.finditer(sentence):
            group = "id" if "id" in form.groupindex else hit.lastgroup or "path"
            start, end = hit.span(group)
            if any(a < end and start < b for a, b in taken) or _made_up(sentence, kind, hit[group], start, end):
                continue
            taken.append((start, end))
            found[start] = _value(sentence, kind, hit, group)
    return [found[start] for start in sorted(found)]


def _value(sentence: str, kind: str, hit: re.Match[str], group: str) -> Value:
    start, end = hit.span(group)
    key = hit["key"] if "key" in hit.re.groupindex else ""
    said = sentence[hit.start("key") : end] if key else hit[group]
    key = "port" if kind == "number" and not key else key.lower()
    around = {*significant(sentence[max(0, start - BEFORE) : start]), *significant(sentence[end : end + AFTER])}
    words = frozenset(word for word in around if word.isalpha() and word != NEGATION)
    return Value(kind, hit[group], key if kind == "set" else key.rstrip("s"), words, said.replace("`", ""))


def _made_up(sentence: str, kind: str, value: str, start: int, end: int) -> bool:
    """Whether a value that has the form is none, or one that whoever sums up may make."""
    before = sentence[max(0, start - 24) : start]
    if _COMMON.fullmatch(value):
        return True
    if kind == "pair":
        return bool(PATH.fullmatch(value.partition(":")[0]))
    if kind not in ("version", "number", "long", "set"):
        return False
    if _ABOUT.search(before) or _YEAR.fullmatch(value):
        return True
    if kind == "version":
        return bool(_PLACED.search(before) or _UNIT.match(sentence, end))
    return kind == "long" and bool(_COUNTED.match(sentence, end) or _UNIT.match(sentence, end))


def is_whole(text: str, part: str, open_end: bool = False) -> bool:
    """Whether `part` stands in `text`, not inside a longer word or number; with `open_end` a version may go on."""
    start = text.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        before, after = text[max(0, start - 2) : start], text[end : end + 2]
        inside = _joins(before[-1:], part[0]) or _joins(after[:1], part[-1])
        decimal = part[0].isdigit() and before[-1:] == "." and before[:1].isdigit()
        longer = part[-1].isdigit() and after[:1] == "." and after[1:].isdigit() and not open_end
        if not inside and not decimal and not longer:
            return True
        start = text.find(part, start + 1)
    return False


def _joins(outside: str, inside: str) -> bool:
    return bool(outside) and (outside.isalnum() or outside == "_") and (inside.isalnum() or inside == "_")
