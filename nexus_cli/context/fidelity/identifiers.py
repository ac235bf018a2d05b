"""Exact values that prose states and that nobody could guess: their forms as a table.

A value counts where somebody wrote it in a sentence; code, output and traces are full of numbers that bind nobody.
"""

from __future__ import annotations

import re

MOST = 40
"""Identifiers of one message that are kept."""

_LED = 3
"""Words before a value that say what it is."""

_NUMBERED = (
    r"(?:ports?|gpio|pins?|pull request|pr|mr|issues?|tickets?|bugs?|cases?|orders?|builds?|jobs?|runs?|accounts?|"
    r"channels?|vlan|pid|uid|gid|"
    r"customers?|tenants?|users?|ids?|releases?|revisions?|rev|number(?:s|ing)?|no\.|extension|rfc|pep|slot|address|"
    r"schema|bucket|region|shard|fields?|seed|baud|offset|sector|station|terminal|batch|opcode|"
    r"register|partition|generation|epoch|lock)"
)

FORMS = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (r"\b(?P<id>https?://[^\s<>\"'`)\]]{1,500}[^\s<>\"'`)\].,;:!?])", 0),
        (r"(?<![\w&])(?P<id>(?:[\w.-]{1,60}/[\w.-]{1,60})?#\d{1,7})\b", 0),
        (r"(?<![\w/.#-])(?P<id>[A-Z][A-Z0-9]{1,11}-\d{1,7}(?:-\d{1,7})?)\b(?![-.]?\w)", 0),
        (r"(?<![\w/.-])(?P<id>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b", re.IGNORECASE),
        (r"(?<![\w/.#-])(?P<id>(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}|[0-9a-f]{40}|[0-9a-f]{64})(?![\w/-]|"
         r"\.\w)", 0),
        (r"(?<![\w$./-])(?P<id>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:=[^\s`\"',;]{1,100})?)(?![\w(/.])", 0),
        (r"`(?P<id>[\w.-]{2,60}(?: ?= ?|: )(?:\"[^\"`]{1,100}\"|'[^'`]{1,100}'|[\w.:/%+-]{1,100}))`", 0),
        (r"\b(?P<id>\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?:/\d{1,2})?)\b", 0),
        (r"(?<![\w&/])(?P<id>#[0-9A-Fa-f]{6})(?!\w)", 0),
        (r"`(?P<id>[\w./-]{1,80}:(?=[\w.-]*\d)(?!\d+`)v?[\w.-]{1,40})`", 0),
        (r"(?<![\w@/.-])(?P<id>(?:[a-z0-9-]{1,40}\.){1,4}(?:internal|local|lan|corp|intranet|com|org|net|example|edu|"
         r"gov|de|eu)|(?:[a-z0-9-]{1,40}\.){2,4}(?:io|dev|app|cloud))(?![\w/-]|\.\w)", 0),
        (r"\b(?:[Uu]se|[Tt]arget|[Pp]in|[Ss]tay on|[Uu]pgrade to|[Mm]ove to|[Rr]equires?|[Nn]eeds?|[Ss]upports?|go "
         r"with|[Rr]uns? on|with|under|against) (?:(?:[A-Z]\w{1,20}|node|php|java|jdk|python|go|ruby|postgres|django|"
         r"rails|angular|react|vue) ){1,2}(?P<id>\d{2,3})\b(?![.:%]?\d)", 0),
        (r"\b(?P<id>localhost:\d{2,5})\b", re.IGNORECASE),
        (r"(?<![\w.@/-])(?P<id>[\w.+-]{1,64}@[\w-]{1,60}(?:\.[\w-]{1,30}){1,4})\b", 0),
        (r"(?<![\w.-])(?P<id>arn:[\w:/*-]{8,200})", 0),
        (rf"\b{_NUMBERED} (?:number |no\.? |id |(?:rate |version |code )?(?:is |was |at |to |by |from )|version |"
        rf"rate |= ?|: ?|# "
         rf"?)?`?(?P<id>\d{{2,10}}(?:-[A-Z])?)`?\b(?![.:%]?\d| ?(?:%|ms|px|kb|mb|gb|seconds?|minutes?|hours?|"
         r"days?|lines?|rows?|times?|million|tests?|files?|of\b))", re.IGNORECASE),
        (r"\b(?:listens? on|bound to|binds? to|running on|runs on|tls on|ssl on|https? on|pin|pinned to|switch to|"
         r"moves? to) `?(?P<id>\d{2,5})`?\b(?![.:%]?\d| ?[\w%]+s\b)", re.IGNORECASE),
        (r"\b(?P<id>0x[0-9a-fA-F]{1,16})\b", 0),
        (r"(?<![\w.-])(?P<id>\d{1,4}(?:\.\d{1,6})?[eE][-+]?\d{1,3})\b", 0),
        (r"(?<![\w!)\]])(?P<id>![1-9]\d{1,6})\b", 0),
        (r"\b(?:return\w*|(?:respond|repl|answer|fail|reject)\w* with(?: an?)?|respond\w*|answers?|send|gives?|status|"
        r"http|code|an?) (?P<id>[1-5]\d\d)(?= (?:plus|with|if|"
        r"when|on|for|"
         r"instead|not|or|status|response|error)\b|[,;]|\.?$)", re.IGNORECASE),
        (r"(?:^|[.:] )(?P<id>[45]\d\d)(?= (?:plus|with|if|when|on|for|instead|not|or)\b)", 0),
        (r"\b(?:must|has to|have to|should) (?:be|stay|equal|remain|stay at|be set to|"
        r"be exactly) `?(?P<id>\d{1,8})`?(?=[.,;:!]?"
         r"(?: (?:on|in|for|everywhere|at all|and|or|not|because|since|as|or else)\b|$))", 0),
        (r"\b(?:stay|stays|remain|keep|stick) (?:on|within|at|with|"
        r"to) (?P<id>\d{1,3}(?:\.\d{1,3}){0,2})(?=[.,;:!]?(?: |$))", 0),
        (r"(?<![\w.])(?P<id>/dev/[\w/.-]{2,40}\w)", 0),
        (r"(?<![\w.,])(?P<id>\d{3,8}) (?:baud|bps|bit/s)\b", 0),
        (r"(?<![\w.-])(?P<id>\d{3,8}(?:-\d{3,8}){1,4})(?![\w-]|\.\d)", 0),
        (r"(?<![\w./-])(?P<id>[a-z]{2,20}(?:-[a-z]{2,20}){1,4}-\d{1,6})(?![\w/-]|\.\w)", 0),
        (r"(?<![\w./-])(?P<id>(?:release|feature|fix|hotfix|bugfix|feat|chore|support|dependabot|wip|topic|"
         r"users?)/[\w./-]{1,80}\w)", 0),
        (r"(?<![\w.,:/-])(?<!\d )(?P<id>0\d{2,9})(?![\w.,:/-]\w)\b", 0),
        (r"(?<![\w./-])(?P<id>[a-zA-Z]{2,16}-\d{3,6})(?![\w-]|\.\w)", 0),
        (r"(?<![\w./@-])(?P<id>(?:af|ap|ca|cn|eu|il|me|mx|sa|us)-(?:gov-)?(?:(?:north|south)?(?:east|west)?|central|"
         r"north|south)-?\d[a-f]?)\b", 0),
        (r"(?<![\w./@-])(?P<id>[a-z]{2,20}(?:_[a-z]{2,20}){0,3}_\w*\d{3,}\w*)(?![\w/(.-]\w?)", 0),
        (r"`(?P<id>(?=[a-zA-Z-]{0,60}\d)[a-zA-Z][a-zA-Z0-9]{0,30}(?:-[a-zA-Z0-9]{1,30}){1,8})`", 0),
        (r"(?<![\w.@:/~-])(?P<id>/(?!home/|usr/|etc/|tmp/|var/|opt/|dev/|bin/|mnt/|srv/|proc/|"
         r"Users/)[\w{}:-]{1,40}(?:/[\w{}:*-]{1,40}){1,8})(?![\w/]|\.\w)", 0),
        (r"\b(?P<id>[A-Z]\w*(?:-[A-Z]\w*){1,5})(?=[`\"']? header)", 0),
        (r"\b(?:setting|option|bucket|branch|account|project|queue|topic|cluster|namespace|host|server|"
         r"env(?:ironment)? var(?:iable)?|api key|feature flag|profile|tag) (?:is |called |named |to |= "
         r"?)?`(?P<id>[\w./:@-]{3,80})`", re.IGNORECASE),
        (r"`(?P<id>[\w./:@-]{3,80})` (?:bucket|queue|topic|cluster|namespace|flag|account|environment variable|setting|"
         r"option|branch|channel)\b", 0),
        (r"\b(?:bucket|queue|topic|cluster|namespace|host|server|account|user|project|database|db|flag|profile|realm|"
         r"tenant|org|workspace|instance|device|serial|machine) (?:is called |is named |is |was |called |named |= ?|"
         r": ?)?"
         r"(?P<id>(?=[\w.-]{0,60}[-_\d])[a-zA-Z][\w.-]{2,60}\w)(?![\w/(])", 0),
        (r"(?<![\w*/])(?P<id>(?:[\d*/,-]{1,12} ){4}[\d*/,-]{1,12}(?![\w*/]))", 0),
        (r"\b(?P<id>(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2})\b", 0),
        (r"(?<![\w-])(?P<id>--[a-z][\w-]{1,40}=[\w./:%+-]{0,60}\w)", 0),
        (r"\b(?:tag|release|branch|snapshot|image) (?:is |was |called |"
        r"named )(?P<id>(?=[\w.-]{0,40}\d)[\w-][\w.-]{2,60}\w)", 0),
        (r"\b(?:[Cc]ode|[Ee]rror) (?:is |was )?(?P<id>[A-Z]{1,4}-?\d{2,6})\b", 0),
        (r"(?<![\w&/#])(?P<id>#[a-z][a-z0-9]*(?:-[a-z0-9]+)+)\b", 0),
        (r"(?<![\w.`-])(?P<id>[a-z][a-z0-9]*(?:[_.-][a-z0-9]+)+ ?= ?[\w.:/%+-]{1,60}\w)", 0),
        (r"(?<![\w.`?&/(-])(?P<id>[a-z][a-z0-9]{2,30}=[\w.:/%+-]{1,60}\w)(?![\w(`])", 0),
        (r"\b(?:with|is|exit|ends? in|returns?) (?:the )?(?:exit )?(?:status|code) `?(?P<id>\d{2,3})\b(?![.:]?\d)", 0),
        (r"\b(?:must|has to|have to|should|needs? to|ought to) (?:be|say|read|stay|equal) "
         r"[\"'](?P<id>[^\"'\n]{1,40})[\"']", 0),
        (r"\b(?:is|are|be) (?P<id>\d{3,8})(?=,? (?:and |but )?not \d)", 0),
        (r"\b(?:call|name) (?:it|them|that|this) [`\"']?(?P<id>[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+)\b", re.IGNORECASE),
        (r"\b(?:is|are|to|on|use|with|from|tag(?:ged)?) (?P<id>v\d{1,4})\b(?![.\w])", 0),
        (r"\b(?:is|are|sits|lives|answers|reachable) on (?P<id>\d{4,5})\b(?![.:]?\d)", 0),
        (r"\b(?:branch|tag) (?:is |called |named )?(?P<id>[\w.-]{1,60}/[\w./-]{1,80}\w)", re.IGNORECASE),
        (r"\b(?:called|named|spelled|renamed to|name is|labelled|labeled|titled) "
         r"[`\"'](?P<id>[^`\"'\n]{2,60})[`\"']", 0),
    )
)
"""Forms with the value as group `id`."""

_POSSIBLE = re.compile(r"[\d_`\"@/]|header|\.[a-z]|(?:ed|is) '")
"""What a sentence has at least when one of the forms stands in it."""
_COMMON = re.compile(
    r"(?:utf|iso|sha|aes|md|x86|ipv|http|base|rsa|ascii|cp|rgb|mp|level|top|covid|[a-z]*bit|gpt)-?\d+(?:-\d+)?|"
    r"(?:O|SO|AF|PF|IPPROTO|TCP|SIG|EPOLL\w*|CLOCK|PROT|MAP|GL|VK|MPI|CURLOPT|SQLITE|PTHREAD|WM|HTTP|SEEK|CL|EV|"
    r"POLL)_[A-Z_]+",
    re.IGNORECASE,
)
"""Names that look like ids and are known to everybody."""

VERSION = re.compile(
    r"(?<![\w./:-])(?P<id>v?\d{1,8}(?:\.\d{1,4}){1,3}(?:[-+]?(?:rc|a|b|alpha|beta|dev|post|pre)[.\d]*|"
    r"\.x)?)(?![\w/:%-]|[.,]\w)"
)
_REFUSED = re.compile(r"\b(?:not|instead of|rather than|no longer) (?:on |at |in |to |the |port |pin |issue "
                      r")?[`\"']?$", re.IGNORECASE)
"""Before a value that is the wrong one."""
PRODUCT = re.compile(
    r"\b(?:JDK|JRE|Java|Node(?:\.js)?|PHP|Python|Go|Ruby|Postgres\w*|MySQL|MariaDB|Angular|React|Vue|Django|Rails|iOS|"
    r"Android|Debian|Ubuntu|Fedora|GCC|Clang|Xcode|Kotlin|Swift|Scala|Spark|Kafka|Elasticsearch|Windows|macOS|\.NET|"
    r"API) "
    r"(?P<id>\d{1,3})\b(?![.:%]?\d)"
    r"|\b(?:fixed (?:at|to)|set to|seed(?: is)?|excel|office|windows server|sql server|visual studio|edition) "
    r"(?P<value>\d{2,9})\b(?![.:%]?\d)",
    re.IGNORECASE,
)
"""A product with its version as one number: a value where it is part of a rule."""
_PORT = re.compile(r"\b[Pp]orts?\b")
PORTS = re.compile(r"(?<![\w.,:/#-])(?P<id>\d{4,5})(?![\w:/-]|[.,]\d)")
"""Numbers that are ports where the sentence speaks of one."""
_BEFORE = re.compile(
    r"(?:\b(?:versions?|release|tag(?:ged)?|is|as|with|to|at|on|use|pin|pinned|require[sd]?|need[s]?|target|support|go|"
    r"python|node(?:\.js)?|"
    r"java|rust|ruby|php|django|rails|react|vue|angular|postgres(?:ql)?|mysql|mariadb|sqlite|redis|kubernetes|k8s|"
    r"ubuntu|debian|alpine|swift|kotlin|scala|"
    r"typescript|elixir|erlang|dotnet|\.net|c\+\+|release|ship|stay|keep|under|below|until|since|least|than|==|>=|<=|"
    r"~=|of)|`|@)[ \"'`(]{0,3}$",
    re.IGNORECASE,
)
"""What stands before a version that was decided on."""
_NEGATED = re.compile(
    r"\b(?:not|from|instead of|than|since|because|no longer|section|chapter|figure|paragraph|table|took|about|was) "
    r"(?:version |v)?$", re.IGNORECASE
)
_UNIT = re.compile(
    r"\s?(?:s|ms|us|ns|cm|mm|m|km|kg|pt|sec\w*|seconds?|minutes?|hours?|days?|%|x|kb|mb|gb|kib|mib|gib|tb|px|em|rem|"
    r"points?|times|"
    r"million|cents?|euros?|eur|usd|gbp|chf|:1)\b", re.IGNORECASE
)


def identifiers(text: str, decided: bool = False) -> list[str]:
    """The values in one stretch of prose, each once, in order; every version counts where it is `decided` there."""
    if not _POSSIBLE.search(text):
        return []
    found: dict[str, int] = {}
    taken: list[tuple[int, int]] = []
    for form in FORMS:
        for hit in form.finditer(text):
            value = hit["id"]
            if _COMMON.fullmatch(value) or _REFUSED.search(text, max(0, hit.start("id") - 16), hit.start("id")):
                continue
            if not any(a < hit.end("id") and hit.start("id") < b for a, b in taken):
                taken.append(hit.span("id"))
                found.setdefault(value, hit.start("id"))
    for hit in PRODUCT.finditer(text) if decided else ():
        found.setdefault(hit["id"] or hit["value"], hit.start())
    for hit in PORTS.finditer(text) if _PORT.search(text) else ():
        refused = _REFUSED.search(text, max(0, hit.start() - 16), hit.start())
        if not refused and not any(a < hit.end() and hit.start() < b for a, b in taken):
            found.setdefault(hit["id"], hit.start())
    for hit in VERSION.finditer(text):
        start, end = hit.span("id")
        if any(a < end and start < b for a, b in taken) or _UNIT.match(text, end):
            continue
        before = text[max(0, start - 24) : start]
        led = not text[:start].strip("`*\"' ") and hit["id"].count(".") > 1
        told = led or hit["id"].startswith("v") or decided or _BEFORE.search(before)
        if told and not _NEGATED.search(before):
            found.setdefault(hit["id"], start)
    return sorted(found, key=lambda value: found[value])[:MOST]


def led_to(sentence: str, value: str) -> str:
    """`value` with the few words before it in its sentence: what it is the value of."""
    start = sentence.find(value)
    before = sentence[max(0, start - 60) : max(0, start)].split()[-_LED:]
    return " ".join([*before, value])
