"""Redact secrets in a text before a person, a log or another model sees it.

Three kinds are recognized: known values (of key variables in the environment, and stored keys), values after the name
of a secret (`DB_PASSWORD=...`, `"token": "..."`, `--api-key ...`, `<password>...`), and strings with the form of a key.
A name alone is no secret: `password = get_password()`, `token: str` and `secret santa` stay. In a literal place (a
shell variable, the query of a URL, an option, a header) and in a quoted password any value is a secret; elsewhere it
may be code or prose, and the rules are stricter. Time is linear: every repetition is bounded.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nexus_cli.core.environ import copy_environ
from nexus_cli.core.errors import REDACTED
from nexus_cli.core.shared_types import Environ

_PASSWORD = r"passw(?:or)?d|passphrase|pwd|(?-i:(?<=_)PASS(?![A-Za-z]))"
_WORD = (
    r"(?:api|access|secret|private|auth|account|signing|encryption|master)[_-]?key|secret|token|authorization|"
    rf"{_PASSWORD}"
)
_ASSIGNED = re.compile(
    rf"(?i:(?P<word>{_WORD}))(?:>|\\{{0,3}}[\"']?\]?"
    r"(?:[ \t]{0,9}:[ \t]{0,9}[A-Za-z_][\w.|\[\]]{0,40}(?=[ \t]{0,9}=[ \t]))?"
    r"(?:(?P<gap>[ \t]{0,9})(?P<sign>=>|:=|=(?!=)|:(?!:)|,)[ \t]{0,9}|[ \t]{1,9}))"
)
"""The end of a name and the separator before its value: a sign (after an annotation, if any), `>` of a tag, or spaces
after an option."""
_IDENTIFIER = re.compile(r"[\w-]*$")
_QUOTE = re.compile(r"[rbfuRBFU]{0,2}(?P<quote>\"{3}|'{3}|\\{0,3}[\"'])")
_INSIDE = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\.){{0,4000}}(?={quote})") for quote in "\"'"}
_BARE = re.compile(r"(?:[^\s\"'`,;&<>\\]+|&(?![&\s]|[\w.%-]{1,40}=)|\\(?![\"'nrt]))+")
_VALUE_END = re.compile(r"[^\s\"'`,;&<>\\]*")
_NO_WORD_FOLLOWS = re.compile(r"[ \t]*(?:$|[-|,;&>)\]}\\\"'`\n\r]|\w+://)")

_MIN, _MIN_BARE, _MIN_LETTERS, _MIN_PIN = 6, 8, 16, 4
"""Least characters of a secret: with a digit; with a digit in code or prose; of letters there; of digits."""
_LONGEST_NAME, _FAR = 64, 200
"""Most characters searched of a name, and of an unquoted value; a secret is redacted as a whole."""

_ELSEWHERE = (
    r"\$(?:\w+$|[{(])|[{<\[]|%[({]|[*x•X.…]{3,}$|(?:~|\.{1,2})?/[\w.@~-]+(?:/[\w.@~-]*)*$|[A-Za-z]:\\|"
    r"[a-z][a-z0-9+.-]{0,20}://|arn:"
)
_REFERENCE = re.compile(_ELSEWHERE)
"""A reference instead of a value: a variable, a placeholder, a path, a URL."""
_BARE_REFERENCE = re.compile(rf"{_ELSEWHERE}|[*&@(-]|![A-Z]|[A-Za-z_][\w.]*[(\[]")
"""The same without quotes: also a call, an index, an option, a YAML tag."""
_PLAIN = frozenset(
    """
    none null true false undefined required optional string disabled enabled default unknown missing invalid
    """.split()
)
"""Words in place of a value."""
_CODE = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+"
    r"|_*[A-Za-z]+\d{0,3}(?:_+(?:[A-Za-z]+\d{0,3}|\d{1,3}))+_*"
    r"|(?:[A-Z][a-z]+|[a-z]{2,}|[A-Z]{2,}(?![a-z]))\d{0,3}(?:[A-Z][a-z]+\d{0,3}|[A-Z]{2,}(?:\d{1,3}(?![a-z])|(?=[A-Z][a-z])|(?![A-Za-z])))+"
    r"|[A-Za-z_.]+\d{0,3}(?:[+*/-]\d{1,3}|[+*/][A-Za-z_]+\d{0,3})"
)
"""Identifiers of a program: of several words, or after a dot; and short arithmetic with them."""
_LONGEST_CODE = 200
"""Most characters of an identifier: they bound the time."""
_NUMBER = re.compile(r"[\d.,:/+%-]+")
_SYMBOL = re.compile(r".[@!#^~$%*?].")
_MIXED = re.compile(r"\w[@!#^~$%*?]\w|[A-Za-z]\d[A-Za-z]")
"""Occurs in passphrases, not in prose."""
_AWS = re.compile(r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9/+]{40}")
_SECRET_NAME = re.compile(f"(?i:{_WORD})")
_IS_PASSWORD = re.compile(f"(?i:{_PASSWORD})")


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a value."""

    password: bool
    literal: bool
    """True if neither code nor prose is possible here."""
    quoted: bool
    set_here: bool
    """True after an equals sign."""


def _secret_behind(text: str, match: re.Match[str]) -> tuple[int, int] | None:
    word_end = match.end("word")
    identifier = _IDENTIFIER.search(text, max(0, word_end - _LONGEST_NAME), word_end)
    name = identifier[0] if identifier else match["word"]
    before = text[max(0, word_end - len(name) - 1) : word_end - len(name)]
    option = name.startswith("--")
    sign = match["sign"] or ""
    tag = text[word_end] == ">"
    if (tag and before != "<") or (not tag and not sign and not option) or (sign == "," and not option):
        return None
    if name.lstrip("-") in ("PWD", "OLDPWD"):
        return None
    bare = name.lstrip("-")
    variable = bare.upper() == bare and ((sign == "=" and not match["gap"]) or (sign == ":" and "_" in bare))
    literal = option or variable or (sign == "=" and before in ("?", "&")) or bare[:2] in ("x-", "X-")
    start = match.end()
    quote = _QUOTE.match(text, start)
    inside = _find_quoted(text, quote) if quote else None
    place = _Place(
        bool(_IS_PASSWORD.fullmatch(match["word"])),
        # After a quoted name only code and numbers are unquoted.
        literal and (inside is not None or text[word_end] not in "\"'\\"),
        inside is not None,
        sign in ("=", ":="),
    )
    if quote is not None and inside is not None:
        changes = "{" in text[slice(*inside)] and "f" in quote[0].lower()
        return None if changes or not _is_secret(text[slice(*inside)], place) else inside
    if sign == ",":
        return None
    return _bare_secret(text, quote.end() if quote else start, place, literal and sign in ("", ":"))


def _find_quoted(text: str, quote: re.Match[str]) -> tuple[int, int] | None:
    """Return the span inside the quotes, None if they do not end on the same line (triple quotes may)."""
    mark, start = quote["quote"], quote.end()
    if len(mark) == 1:
        inside = _INSIDE[mark].match(text, start)
        return inside.span() if inside else None
    end = text.find(mark, start, start + 4000)
    return None if end < 0 or (len(mark) != 3 and "\n" in text[start:end]) else (start, end)


def _bare_secret(text: str, start: int, place: _Place, prose: bool) -> tuple[int, int] | None:
    """Return the span of an unquoted secret, None if there is none. In `prose` a word followed by another is none."""
    value = _BARE.match(text, start, start + _FAR)
    if value is None:
        return None
    secret = value[0]
    while secret and secret[-1] in ")]}" and secret.count(secret[-1]) > secret.count("([{"[")]}".index(secret[-1])]):
        secret = secret[:-1]
    end = start + len(secret)
    if prose and secret.isalpha() and len(secret) < _MIN_LETTERS and not _NO_WORD_FOLLOWS.match(text, end):
        return None
    if not _is_secret(secret, place):
        return None
    remainder = _VALUE_END.match(text, end) if len(value[0]) == _FAR else None
    return start, remainder.end() if remainder else end


def _is_secret(value: str, place: _Place) -> bool:
    """Return True if `value`, after the name of a secret, is one: not code, prose or a reference."""
    if _AWS.fullmatch(value):
        return True
    if value.isdigit():
        return place.password and len(value) >= _MIN_PIN
    reference = _REFERENCE if place.quoted else _BARE_REFERENCE
    if len(value) < _MIN or reference.match(value) or value.lower() in _PLAIN or _NUMBER.fullmatch(value):
        return False
    has_name = _SECRET_NAME.search(value) is not None
    if any(char.isspace() for char in value):
        return place.password and not has_name and bool(place.set_here or _MIXED.search(value))
    digit = any(char.isdigit() for char in value)
    is_code = len(value) <= _LONGEST_CODE and _CODE.fullmatch(value) is not None
    is_word = has_name or is_code or len(value) < _MIN_LETTERS or not (place.password or value.rstrip("=").isalpha())
    if place.literal or (place.quoted and place.password):
        is_reference = has_name or value.replace("_", "").isupper()
        return digit or not is_word or not is_reference or bool(_SYMBOL.search(value))
    if digit and is_code:
        return place.password and not (has_name or place.set_here or "." in value)
    if digit:
        is_variable = has_name and place.set_here and not place.quoted and value.isidentifier()
        return not is_variable and (place.password or place.quoted or len(value) >= _MIN_BARE)
    return not is_word or (place.password and not is_code and bool(_SYMBOL.search(value)))


SHORTEST = 6
"""Least characters of a variable's value that is taken for a key."""
LONG = 12
"""Least characters of a value that is redacted inside longer words too."""
NAMED_SECRET = re.compile(
    r"(?:_API_KEY|_ACCESS_KEY(?:_ID)?|_AUTH_KEY|_TOKEN|PASSWORD|PASSWD|PASSPHRASE|_PWD)$|_SECRET|^AWS_BEARER_TOKEN"
    r"|^(?:API_KEY|SECRET|TOKEN)$"
)
"""Names of variables with keys, but not AWS's region, profile and paths."""
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Not inside a word; the position after a JSON escape counts as outside."""
_VALUE = r"(?:(?=[\w.~+/=-]{0,200}?\d)[\w.~+/=-]{8,}|[\w.~+/=-]{16,})"
"""At least 8 characters with a digit, or 16 without, so that prose and code stay."""
_BODY = r"[\w+/=\s\\]{0,8000}"

KEY_LIKE = re.compile(
    rf"-----BEGIN [A-Z ]{{0,30}}PRIVATE KEY-----{_BODY}(?:-----END [A-Z ]{{0,30}}PRIVATE KEY-----)?"
    rf"|{_START}(?:sk|pk|rk)[-_](?:(?=[\w-]{{0,200}}?\d)[\w-]{{8,}}|[\w-]{{16,}})"
    rf"|{_START}(?:gh[opsur]_|github_pat_|gl[a-z]{{2,6}}-|gsk_|xai-|npm_|pypi-|AIza|GOCSPX-)[\w-]{{10,}}"
    rf"|{_START}whsec_[\w+/-]{{10,}}={{0,2}}"
    rf"|{_START}hf_(?=[A-Za-z]{{0,60}}\d|[A-Za-z0-9]{{16,}}(?!\w))[A-Za-z0-9]{{10,}}"
    rf"|{_START}(?:(?:xox[a-z]\.)?xox[a-z]|xapp)-(?:(?=[a-z-]{{0,60}}\d)[\w-]{{6,}}|(?<!xoxo-)[\w-]{{10,}})"
    rf"|{_START}(?:SG\.[\w-]{{10,}}\.[\w-]{{10,}}|ya29\.[\w-]{{10,}}|dapi(?=[a-z]{{0,60}}\d)[0-9a-z]{{16,}}(?:-\d)?)"
    rf"|{_START}(?:AKIA|ASIA)[A-Z0-9]{{12,}}"
    rf"|{_START}eyJ[\w-]{{6,500}}\.[\w-]{{4,}}(?:\.[\w-]+)?"
    rf"|(?P<hook>hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/)[\w/-]{{6,}}"
    rf"|(?i:{_START}(?P<header>(?:proxy-)?authorization(?:\\{{0,3}}[\"'])?\]?[ \t]{{0,9}}[:=][ \t]{{0,9}}"
    r"(?:\\{0,3}[\"'])?(?:bearer|token|apikey)[ \t]{1,9}))(?![$<{\[*])"
    r"(?:(?=[^\s\"',;]{0,200}?\d)[^\s\"',;\\]{6,}|[^\s\"',;\\]{8,})"
    rf"|(?i:{_START}(?P<basic>basic[ \t]{{1,9}}))(?P<pair>[\w+/-]{{4,}}={{0,2}})(?![\w-])"
    rf"|(?i:{_START}(?P<bearer>bearer[ \t]{{1,9}}){_VALUE})"
    r"|(?i:(?<![a-z0-9+.-])(?P<url>[a-z][a-z0-9+.-]{0,20}://[^\s/:@\"'<>]{0,99}:))"
    r"(?!\$\{?\w+\}?@|\$\(|[<{]|\[redacted\]@)"
    r"(?:[^\s/\"'<>]{1,500}(?=@)|(?!\d{1,5}[/?#])[^\s@\"'<>]{1,200}(?=@))"
)
AWS_ID = re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{12}")
AWS_SECRET = re.compile(
    r"(?<![\w/+])(?=[\w/+]{0,39}\d)(?=[\w/+]{0,39}[a-z])(?=[\w/+]{0,39}[A-Z])[A-Za-z0-9/+]{40}(?![\w/+=])"
)
"""Searched only in texts with an AWS key id: alone it could be a path."""
OPAQUE = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|r8|hf)[-_][\w\-*.]{4,}"
    r"|\b(?:key|api|org|sess)[-_](?=[\w*.-]{0,200}?[\d*])[\w\-*.]{6,}"
    r"|(?<=[Bb]earer )\S+|(?<=[?&]key=)[^&\s]+|(?<=key ['\"])(?=[^'\"\s]{0,200}?\d)[^'\"\s]{8,}"
    r"|\b[0-9a-f]{16,64}\.\w{6,}|\b(?=[\w\-]{0,200}?\d)[A-Za-z0-9_\-]{32,}\b"
)
"""Further forms of keys in error messages, where long random words are no text."""


_protected: dict[str, str] = {}


def protect_secret(value: str, name: str = "") -> None:
    """Redact the key `value` in this process from now on; output for the model has `name` in its place."""
    if len(value) >= SHORTEST:
        _protected[value] = name or _protected.get(value, "key")


def protected_secrets() -> Mapping[str, str]:
    """Return the names passed to `protect_secret`, by value."""
    return _protected


def redact(text: str, *, opaque: bool = False, environ: Environ | None = None) -> str:
    """Replace keys in `text` by `[redacted]`: values of key variables in `environ` (default: `os.environ`), and strings
    that look like keys.

    `opaque` also redacts long random words: use it for error messages, not for conversations, which need their hashes.
    """
    text = _without_values(text, copy_environ() if environ is None else environ)
    known_id = AWS_ID.search(text)
    text = _without_named(text)
    text = KEY_LIKE.sub(_replace_match, text)
    if known_id:
        text = AWS_SECRET.sub(REDACTED, text)
    return OPAQUE.sub(REDACTED, text) if opaque else text


def make_redactor() -> Callable[[str], str]:
    """Return `redact` for the many texts of a session: it searches the environment once."""
    keys = {name: value for name, value in copy_environ().items() if NAMED_SECRET.search(name.upper())}
    return lambda text: redact(text, environ=keys)


def _without_values(text: str, environ: Environ) -> str:
    values = {value.strip() for name, value in environ.items() if NAMED_SECRET.search(name.upper())} | {*_protected}
    for value in sorted(values, key=lambda value: (-len(value), value)):
        if len(value) < SHORTEST or value not in text:
            continue
        if len(value) >= LONG:
            text = text.replace(value, REDACTED)
        else:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", REDACTED, text)
    return text


def _without_named(text: str) -> str:
    """Replace every value that is a secret by the name before it and its form."""
    pieces, reached = list[str](), 0
    for match in _ASSIGNED.finditer(text):
        span = _secret_behind(text, match) if match.start() >= reached else None
        if span is not None:
            pieces += [text[reached : span[0]], REDACTED]
            reached = span[1]
    return "".join([*pieces, text[reached:]])


def _replace_match(match: re.Match[str]) -> str:
    if match["basic"] and not _is_basic(match["pair"]):
        return match[0]
    prefix = match["hook"] or match["header"] or match["basic"] or match["bearer"] or match["url"] or ""
    return prefix + REDACTED


def _is_basic(pair: str) -> bool:
    """Return True if `pair` is user and password in base64, or a part of that which is no word."""
    if len(pair) >= 8 and any(char.isdigit() or char == "=" for char in pair):
        return True
    try:
        return b":" in binascii.a2b_base64(pair[:400], strict_mode=True)
    except ValueError:
        return False
