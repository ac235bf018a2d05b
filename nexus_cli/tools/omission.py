"""Detect placeholders for omitted text, such as `// ... existing code`, by their wording.

Works for any language whose comments are marked by punctuation.
"""

from __future__ import annotations

import re

_DOTS = r"(?:\.{3,}|\u2026)"
_OUTER = re.compile(r"(?P<head>[\W_]*)(?P<words>\w(?:.*\w)?)(?P<tail>[\W_]*)", re.DOTALL)
_COMMENT = re.compile(r"//|#|--|/\*|<!|\(\*|%|;|^\*|\{-")
_TRAILING = re.compile(r"(?<=\S)\s+(?=(?://|#|--|/\*|<!--|\{/\*)\s*\S)")
_CODE_SIGN = re.compile(r"[=;{}<>\"`$@\\|&*+#\[\]]")
_LEAD = r"(?:(?:and|the|all|any|of|your|our|my|this|that|keep|leave) )*"
_NOUN = (
    r"(?:\w+ ){0,2}(?:code|file|methods?|functions?|class(?:es)?|implementations?|contents?|imports?|logic|tests?"
    r"|definitions?|body|component|module|script|document|page|template|markup|configuration)"
)
_UNCHANGED = (
    r"(?:(?:is|are|was|were|remains?|stays?|left|kept) )*"
    r"(?:unchanged|omitted|elided|snipped|not shown|continues|(?:the )?same|as is|as before|as above)"
    r"(?: as before| here)?(?: for brevity)?"
)
_STATE = rf"(?:here|goes here|{_UNCHANGED})"
_REMAINDER = rf"{_LEAD}(?:rest|remainder) {_LEAD}{_NOUN}"
_PART = rf"{_LEAD}(?:remaining|existing|unchanged|previous|original|same|other|omitted) {_LEAD}{_NOUN}"
_PLAIN = re.compile(
    rf"{_REMAINDER}(?: {_STATE})?|{_LEAD}(?:rest|remainder) {_STATE}|{_PART} {_STATE}|{_NOUN} omitted for brevity"
)
"""An omission by itself."""
_DOTTED = re.compile(rf"(?:{_REMAINDER}|{_PART})(?: {_STATE})?|{_NOUN} {_STATE}")
"""An omission with an ellipsis on either side."""
_SEPARATE_OMISSION = re.compile(
    rf"{_LEAD}(?:rest|remainder|remaining|existing|unchanged|omitted)(?: \w+){{0,3}}(?: {_STATE})?"
    rf"|{_LEAD}(?:more|additional|further) {_NOUN}(?: {_STATE})?|(?:\w+ ){{0,3}}{_UNCHANGED}|snip"
)
"""An omission in a comment, with an ellipsis before the words or separated from them (not a sentence's end)."""
_BETWEEN = re.compile(rf"{_LEAD}{_NOUN}")
"""An omission in a comment between two ellipses."""


def find_new_omission(old: str, new: str) -> str:
    """Return the first placeholder line in `new` that is not in `old`, "" if there is none."""
    old_lines = {line.strip() for line in old.split("\n")}
    for line in new.split("\n"):
        bare = line.strip()
        if bare not in old_lines and any(_is_omission(part) for part in {bare, _TRAILING.split(bare)[-1]}):
            return bare
    return ""


def _is_omission(text: str) -> bool:
    match = _OUTER.fullmatch(text) if len(text) <= 200 else None
    if match is None or re.search("[\"'`]", match["head"] + match["tail"]) or _CODE_SIGN.search(match["words"]):
        return False
    head, tail = match["head"], match["tail"]
    words = " ".join(re.sub(r"[^\w']+", " ", match["words"]).lower().split())
    comment = bool(_COMMENT.search(head))
    bracket = head.lstrip(". \u2026")[:1] in ("(", "[", "<") and bool(head.strip(". \u2026"))
    before, after = bool(re.search(_DOTS, head)), bool(re.search(_DOTS, tail))
    if comment and not (before or after):
        return _PLAIN.fullmatch(words) is not None
    if not (before or (after and (comment or bracket))) or (not comment and " " not in words):
        return False
    if _DOTTED.fullmatch(words):
        return True
    apart = before or bool(re.match(rf"\W*?\s\W*?{_DOTS}", tail))
    if not (comment or bracket) or not apart:
        return False
    return bool(_SEPARATE_OMISSION.fullmatch(words) or (before and after and _BETWEEN.fullmatch(words)))
