"""What an exact value looks like: the tokens of a sentence that may be one, each with the name of its shape.

Wide on purpose: whether a token binds anybody is decided in `identifiers`, from its shape and the words around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nexus_cli.context.fidelity.changes import PATH

_TAGS = r"(?:internal|intern|intra|local|lan|corp|intranet|com|org|net|example|edu|gov|de|eu|io|dev|app|cloud)"
_VALUE = r"(?:\"[^\"`\n]{1,60}\"|'[^'`\n]{1,60}'|[\w.:/%+-]{0,60}\w%?)"
SHAPES = tuple(
    (shape, re.compile(pattern))
    for shape, pattern in (
        ("url", r"\b(?P<id>(?:https?|s3|gs|wss?|ssh|git|redis|amqps?|postgres(?:ql)?|mysql|mongodb|tcp|udp)://[^\s<>\"'`)\]]{1,500}[^\s<>\"'`)\].,;:!?])"),
        ("mail", r"(?<![\w.@/-])(?P<id>[\w.+-]{1,64}@[\w-]{1,60}(?:\.[\w-]{1,30}){1,4})\b"),
        ("uuid", r"(?i)(?<![\w/.-])(?P<id>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b"),
        ("opaque", r"(?<![\w.-])(?P<id>arn:[\w:/*-]{8,200}|(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2})\b"),
        ("address", r"(?<![\w.-])(?P<id>\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?:/\d{1,2})?)(?![\w-]|\.\d)"),
        ("host", rf"(?<![\w@/.-])(?P<id>(?:[a-z0-9-]{{1,40}}\.){{1,4}}{_TAGS}(?::\d{{2,5}})?"
         rf"(?:/[\w./-]{{0,60}}\w)?)(?![\w/(-]|\.\w)"),
        ("host", r"(?<![\w@/.-])(?P<id>localhost:\d{2,5}|[a-z][\w.-]{1,40}:\d{4,5})(?![\w/:.-]\w)"),
        ("route", r"(?<![\w.@:/~<-])(?P<id>/dev/[\w/.-]{2,40}\w)"),
        ("pair", r"(?<![\w.`=$-])(?P<id>--?[a-z][\w-]{1,40}=[\w./:%+-]{0,60}\w)"),
        ("pair", rf"`(?P<id>[A-Za-z][\w.-]{{1,60}}(?: ?= ?|: ){_VALUE})`"),
        ("pair", rf"(?<![\w.`?&/(-])(?P<id>[a-z][a-z0-9]{{0,30}}(?:[_.-][a-z0-9]{{1,30}}){{1,5}} ?= "
         rf"?{_VALUE})(?![\w(`])"),
        ("pair", r"(?<![\w.`?&/(-])(?P<id>[a-z][a-z0-9]{2,30}=[\w.:/%+-]{0,60}\w)(?![\w(`])"),
        ("pair", r"(?<![\w.`/-])(?P<id>[a-z][a-z0-9]{1,30}(?:_[a-z0-9]{1,30}){1,4} \d{1,8} "
         r"?[kKmMgG]?i?[bB]?)(?![\w.%-])"),
        ("env", r"(?<![\w$./-])(?P<id>[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,6})(?![\w(/.])"),
        ("issue", r"(?<![\w&)\]])(?P<id>(?:[\w.-]{1,60}/[\w.-]{1,60})?#\d{1,7}|![1-9]\d{1,6})\b"),
        ("colour", r"(?<![\w&/])(?P<id>#[0-9A-Fa-f]{6}|#[0-9A-Fa-f]{3})(?!\w)"),
        ("image", r"(?<![\w./:-])(?P<id>[a-z][\w./-]{1,60}(?<!\.py)(?<!\.\w)(?<!\.[jt]s)(?<!\.\w{4}):"
         r"(?=[\w.-]{0,40}\d)v?\d[\w.-]{0,38}\w)(?![\w/:-])"),
        ("hash", r"(?<![\w/.#-])(?P<id>(?=[0-9a-f]{0,40}\d)(?=[0-9a-f]{0,40}[a-f])[0-9a-f]{7,64}|"
         r"[0-9a-f]{40})(?![\w/-]|\.\w)"),
        ("ticket", r"(?<![\w/.#-])(?P<id>[A-Z][A-Z0-9]{1,11}-\d{1,7}(?:-\d{1,7})?|[A-Z]-\d{3,9})(?![-.]?\w)"),
        ("card", r"(?<![\w.-])(?P<id>\d{4}(?: \d{4}){2,4}|\+\d{1,3}(?: \d{2,5}){2,5})(?![\w-])"),
        ("locale", r"(?<![\w./-])(?P<id>[a-z]{2}[-_][A-Z]{2})(?![\w/-])"),
        ("zone", r"(?<![\w./-])(?P<id>(?:Africa|America|Asia|Atlantic|Australia|Europe|Etc|Indian|Pacific)/"
         r"[A-Z]\w{1,30})(?![\w/])"),
        ("bound", r"(?<![\w.<>=-])(?P<id>(?:>=|<=|==|~>|~=|!=|[<>^~]) ?v?\d{1,8}(?:\.\d{1,4}){0,3})(?![\w%]|\.\d)"),
        ("flag", r"(?<![\w.<-])(?P<id>--?[A-Za-z][\w-]{0,40})(?![\w=(/]|\.\w)"),
        ("snippet", r"(?<![\w])(?P<id>%[A-Za-z](?:[-./: ]?%[A-Za-z]){1,6})(?!\w)"),
        ("power", r"(?<![\w.-])(?P<id>\d{1,4}(?:\.\d{1,6})?[eE][-+]?\d{1,3}|0x[0-9a-fA-F]{1,16})(?![\w.])"),
        ("version", r"(?<![\w./:,-])(?P<id>v?\d{1,8}(?:\.\d{1,4}){1,3}(?:[-+.]?(?:rc|a|b|alpha|beta|dev|post|pre|M|"
         r"Final|RELEASE|GA|SNAPSHOT|LTS)[.\d]{0,6}|\.x)?|v\d{1,4})(?![\w/:%-]|[.,]\w)"),
        ("dashed", r"(?<![\w.,/:-])(?P<id>\d{3,8}(?:-\d{1,8}){1,4}|\d{3,8}-[A-Z]{1,3})(?![\w-]|\.\d)"),
        ("code", r"(?<![\w./@$<#=-])(?P<id>(?=[A-Za-z_-]{0,40}\d)[A-Za-z][A-Za-z0-9]{0,40}"
         r"(?:[_-][A-Za-z0-9]{1,40}){0,7}(?:\.\d{1,4}){0,3})(?![\w(/@-]|\.\w)"),
        ("dotted", r"(?<![\w./@:(-])(?P<id>[a-z][a-z0-9_]{1,60}(?:\.[a-z][\w-]{1,60}){1,5})(?![\w(/@-]|\.\w)"),
        ("header", r"(?<![\w.-])(?P<id>[A-Z][a-z]{1,20}(?:-[A-Z][A-Za-z]{1,20}){1,4})(?=[`\"']? header)"),
        ("branch", r"(?<![\w./@:~-])(?P<id>(?:release|feature|fix|hotfix|bugfix|feat|chore|support|wip|topic|users?|"
         r"rel|maint)/[\w./-]{0,60}\w)(?!\w)"),
        ("route", r"(?<![\w.@:/~<-])(?P<id>/(?!home/|usr/|etc/|tmp/|var/|opt/|bin/|mnt/|srv/|proc/|dev/|"
         r"Users/)[\w{}:-]{1,40}(?:/[\w{}:*-]{1,40}){1,8})"
         r"(?![\w/]|\.\w)"),
        ("snippet", r"`(?P<id>(?=[^`\n]{0,60}\d)[a-z][^`\n(){}<>/]{1,40} [^`\n(){}<>/]{1,40})`"),
        ("day", r"(?<![\w./:-])(?P<id>\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.(?:\d{4})?|"
         r"\d{1,2}:\d\d(?::\d\d)?)(?![\w:/-]|\.\d)"),
        ("place", r"(?<![\w.@:/~<-])(?P<id>~?/(?:home|usr|etc|tmp|var|opt|bin|mnt|srv|proc|"
         r"data)(?:/[\w.@-]{1,40}){1,8})(?![\w/(])"),
        ("measure", r"(?<![\w.,:/#-])(?P<id>\d{1,6}(?:[.,]\d{1,3})? ?(?:%|(?:ms|us|s|sec|seconds?|minutes?|min|"
         r"hours?|h|days?|weeks?|months?|years?|[KMGT]i?B|[KMG]i|[kKmMgG](?![\w-])|kB|bytes?|req/s|rps|px|rem|em|mm|cm|mW|Hz|kHz|MHz|V|mA|fps)\b))(?!\w)"),
        ("number", r"(?<![\w.,:/#-])(?<!\d )(?P<id>\d{1,10})(?![\w:/%-]|[.,]\d| ?[%°]| \d{3}\b)"),
        ("named", r"[`\"“'](?P<id>[A-Za-z0-9][\w.:@+-]{1,60})[`\"”'](?!\w)"),
        ("named", r"\b(?:called|named|call it|branch|tag|bucket|queue|topic|cluster|namespace|realm|tenant|profile|"
         r"tag) (?:is )?(?P<id>[a-z0-9]+(?:[_-][a-z0-9]+){1,6})\b"),
        ("hyphens", r"(?<![\w./@:-])(?P<id>[a-z][a-z0-9]{0,20}(?:-[a-z0-9]{1,20}){1,6})(?![\w(/@-]|\.\w)"),
        ("lines", r"(?<![\w./@:-])(?P<id>[a-z][a-z0-9]{0,20}(?:_[a-z0-9]{1,20}){1,6})(?![\w(/@-]|\.\w)"),
        ("slashes", r"(?<![\w./@:~-])(?P<id>[\w-][\w.-]{0,30}(?:/[\w-][\w.-]{0,30}){1,5}|"
         r"/[a-z][\w-]{2,30})(?![\w(/@-]|\.\w)"),
        ("prefix", r"(?<![\w./@:-])(?P<id>[A-Z]{2,10}[-_])(?!\w)"),
        ("cron", r"(?<![\w*/])(?P<id>(?:[\d*/,-]{1,12} ){4}[\d*/,-]{1,12})(?![\w*/])"),
    )
)
"""Shape and form, the value as group `id`; of what overlaps the first that fits counts."""
POSSIBLE = re.compile(r"[\d_`\"@/#“=%-]|[a-z]\.[a-z]|header")
"""What a sentence has at least when one of them stands in it."""
_COMMON = re.compile(
    r"(?:utf|iso|sha|aes|md|x86|ipv|http|base|rsa|ascii|cp|rgb|mp|level|top|covid|[a-z]*bit|gpt|fp|py|int|uint|float|h|"
    r"q|p|v|x|i|k|c|es|oauth|rfc)-?\d+(?:-\d+)?|(?:O|SO|AF|PF|IPPROTO|TCP|SIG|EPOLL\w*|CLOCK|PROT|MAP|GL|VK|MPI|"
    r"CURLOPT|SQLITE|PTHREAD|WM|HTTP|SEEK|CL|EV|POLL)_[A-Z_]+|\d+(?:st|nd|rd|th|s|ms|x|k|kb|mb|gb|px|em|rem|h|d|m)",
    re.IGNORECASE,
)
"""Names that look like ids and are known to everybody."""
_KNOWN = frozenset({"named", "code", "env"})
_PATHLIKE = frozenset({"url", "mail", "host", "image", "pair", "branch", "bound"})
"""Shapes of what is no path although it looks like one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that may be an exact value."""

    shape: str
    text: str
    start: int
    end: int


def candidates(text: str) -> Iterator[Candidate]:
    """The tokens of a sentence that have one of the shapes, in the order of the shapes; no two overlap."""
    if not POSSIBLE.search(text):
        return
    paths = [hit.span(hit.lastgroup or 0) for hit in PATH.finditer(text)]
    taken: list[tuple[int, int]] = []
    for shape, form in SHAPES:
        for hit in form.finditer(text):
            start, end = hit.span("id")
            blocked = taken if shape in _PATHLIKE else (*taken, *paths)
            if any(a < end and start < b for a, b in blocked) or (shape in _KNOWN and _COMMON.fullmatch(hit["id"])):
                continue
            taken.append((start, end))
            yield Candidate(shape, hit["id"], start, end)
