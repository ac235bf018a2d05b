"""Takes keys out of a text before a person, a log or another model gets to see it.

Owns what counts as a key: first the values that stand in the environment under a name for keys, then those behind the
name of a secret (`named_secrets`), then the forms that keys have. Pure and linear but for the look at the environment:
every repetition is bounded, so that no text makes it slow. What only names a secret stays readable.
"""

from __future__ import annotations

import binascii
import os
import re
from collections.abc import Mapping

from nexus_cli.core.errors import REDACTED
from nexus_cli.core.named_secrets import named_secrets

SHORTEST = 6
"""Characters that the value of a variable has at least to be taken for a key."""
LONG = 12
"""From so many characters on a value is a key inside a longer word too."""
NAMED_SECRET = re.compile(
    r"(?:_API_KEY|_ACCESS_KEY(?:_ID)?|_AUTH_KEY|_TOKEN|PASSWORD|PASSWD|PASSPHRASE|_PWD)$|_SECRET|^AWS_BEARER_TOKEN"
    r"|^(?:API_KEY|SECRET|TOKEN)$"
)
"""Names of variables that hold keys. AWS's region, profile and paths do not."""

_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Not inside a word; behind an escape of JSON counts as outside."""
_VALUE = r"(?:(?=[\w.~+/=-]{0,200}?\d)[\w.~+/=-]{8,}|[\w.~+/=-]{16,})"
"""With a digit from 8 characters on, without one from 16 on: prose and code stay."""
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
"""Looked for only beside an AWS key id: by itself it could be a path."""
OPAQUE = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|r8|hf)[-_][\w\-*.]{4,}"
    r"|\b(?:key|api|org|sess)[-_](?=[\w*.-]{0,200}?[\d*])[\w\-*.]{6,}"
    r"|(?<=[Bb]earer )\S+|(?<=[?&]key=)[^&\s]+|(?<=key ['\"])(?=[^'\"\s]{0,200}?\d)[^'\"\s]{8,}"
    r"|\b[0-9a-f]{16,64}\.\w{6,}|\b(?=[\w\-]{0,200}?\d)[A-Za-z0-9_\-]{32,}\b"
)
"""What else may be a key in a line about a failure, where long words without meaning are nobody's text."""


def redact(text: str, *, opaque: bool = False, environ: Mapping[str, str] | None = None) -> str:
    """`text` with keys replaced by `[redacted]`: values of key variables in `environ`, and strings that look like keys.

    `environ` is the process's own unless given. With `opaque` long words without meaning go too: for a line about a
    failure, not for a conversation, whose hashes and names are needed.
    """
    text = _without_values(text, os.environ if environ is None else environ)
    known_id = AWS_ID.search(text)
    text = _without_named(text)
    text = KEY_LIKE.sub(_replaced, text)
    if known_id:
        text = AWS_SECRET.sub(REDACTED, text)
    return OPAQUE.sub(REDACTED, text) if opaque else text


def _without_values(text: str, environ: Mapping[str, str]) -> str:
    values = {value.strip() for name, value in environ.items() if NAMED_SECRET.search(name.upper())}
    for value in sorted(values, key=lambda value: (-len(value), value)):
        if len(value) < SHORTEST or value not in text:
            continue
        if len(value) >= LONG:
            text = text.replace(value, REDACTED)
        else:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", REDACTED, text)
    return text


def _without_named(text: str) -> str:
    pieces, end = [], 0
    for start, stop in named_secrets(text):
        pieces += [text[end:start], REDACTED]
        end = stop
    return "".join([*pieces, text[end:]])


def _replaced(found: re.Match[str]) -> str:
    if found["basic"] and not _is_basic(found["pair"]):
        return found[0]
    kept = found["hook"] or found["header"] or found["basic"] or found["bearer"] or found["url"] or ""
    return kept + REDACTED


def _is_basic(pair: str) -> bool:
    """Return True if `pair` is a user and a password in base64, or a part of them that is no word."""
    if len(pair) >= 8 and any(char.isdigit() or char == "=" for char in pair):
        return True
    try:
        return b":" in binascii.a2b_base64(pair[:400], strict_mode=True)
    except ValueError:
        return False
