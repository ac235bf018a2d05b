"""Takes strings that look like keys out of a transcript before it goes to a model that sums it up.

Pure and linear: every repetition is bounded, so that no text makes it slow. What only names a secret stays readable.
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"

_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Not inside a word; behind an escape of JSON counts as outside."""
_VALUE = r"(?:(?=[\w.~+/=-]{0,200}?\d)[\w.~+/=-]{8,}|[\w.~+/=-]{16,})"
"""With a digit from 8 characters on, without one from 16 on: prose and code stay."""
_BODY = r"[\w+/=\s\\]{0,8000}"
_NAMES = r"(?:api|access|secret|private)[_-]?key|secret|token|password|passwd|pwd"

KEY_LIKE = re.compile(
    rf"-----BEGIN [A-Z ]{{0,30}}PRIVATE KEY-----{_BODY}(?:-----END [A-Z ]{{0,30}}PRIVATE KEY-----)?"
    rf"|{_START}(?:sk|pk|rk)[-_](?:(?=[\w-]{{0,200}}?\d)[\w-]{{8,}}|[\w-]{{16,}})"
    rf"|{_START}(?:gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|gsk_|xai-|hf_|npm_|AIza)[\w-]{{10,}}"
    rf"|{_START}(?:AKIA|ASIA)[A-Z0-9]{{12,}}"
    rf"|{_START}eyJ[\w-]{{6,500}}\.[\w-]{{4,}}(?:\.[\w-]+)?"
    rf"|(?i:{_START}(?P<bearer>bearer[ \t]{{1,9}}){_VALUE})"
    rf"|(?P<name>(?i:{_NAMES})[\"']?[ \t]{{0,9}}[:=][ \t]{{0,9}}[\"']?)"
    r"(?=[^\s\"'(){}\[\],;]{0,200}?\d)[^\s\"'(){}\[\],;]{8,}"
    r"|(?<![a-z0-9+.-])(?P<url>[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,99}:)[^\s/@]{1,200}(?=@)"
)


def redact(text: str) -> str:
    """`text` with strings that look like keys replaced by `[redacted]`."""
    return KEY_LIKE.sub(_replaced, text)


def _replaced(found: re.Match[str]) -> str:
    return (found["bearer"] or found["name"] or found["url"] or "") + REDACTED
