"""Sanitizes text from models, tools and files: it becomes harmless to a terminal and to the eye.

Every control, escape, bidi, tag and invisible character is made visible; letters, signs and emoji stay as they are.
It knows nothing of colours: what nexus itself styles is styled after it.
"""

from __future__ import annotations

import re
from functools import cache

from nexus_cli.core.elide import last_states

# Where a joiner is part of ordinary writing: Arabic and the scripts of India and its neighbours, and emoji.
_JOINED = (
    "\u0600-\u061b\u061d-\u08ff\u0900-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18aa\ufb50-\ufdff\ufe70-\ufefe"
    "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
)
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, fillers, Mongolian selectors
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"  # marks, separators, bidi, BOM
    "\ufe00-\ufe0d\ud800-\udfff\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"  # selectors
    "\U000e0000-\U000e0fff"  # tags
)
_SELECTOR = "\ufe0e\ufe0f"
_OPEN = ("\r", "\u200c", "\u200d")
"""Characters that mean something else before the next one."""


@cache
def _suspect() -> re.Pattern[str]:
    plain = f"{_SELECTOR}{_HIDDEN}\u200c\u200d\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f\n"  # no selector follows these
    return re.compile(
        f"\r\n|[{_HIDDEN}]"
        f"|(?<![{_JOINED}])(?<![^{plain}]\ufe0f)[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}])"
        f"|(?<=[{plain}])[{_SELECTOR}]"
    )


def _visible(match: re.Match[str]) -> str:
    char = match[0]
    if char == "\r\n":
        return "\n"
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


class StreamSanitizer:
    """Lets text through piece by piece; however it is cut, the pieces join to the same text."""

    def __init__(self) -> None:
        self._before = "\n"
        self._withheld = ""

    def feed(self, text: str) -> str:
        """Return `text` made harmless, but for a last character whose meaning depends on the next one."""
        text = self._withheld + text
        self._withheld = ""
        if text.endswith(_OPEN):
            text, self._withheld = text[:-1], text[-1]
        return self._pass(text) if text else ""

    def flush(self) -> str:
        """Return the withheld character."""
        withheld, self._withheld = self._withheld, ""
        return self._pass(withheld) if withheld else ""

    def _pass(self, text: str) -> str:
        # Two characters of context before, taken off again: only joiners and selectors look at them.
        before = self._before
        self._before = (before + text)[-2:]
        if text.isascii() and text.isprintable():
            return text
        if before.endswith("\r") and text[0] == "\n":
            before = f"{before[:-1]}\n"
        visible = _suspect().sub(_visible, before + text)
        return visible[len(_suspect().sub(_visible, before)) :]


def sanitize(text: str) -> str:
    """Return the whole of `text` through a sanitizer of its own."""
    sanitizer = StreamSanitizer()
    return sanitizer.feed(text) + sanitizer.flush()


def sanitize_output(text: str) -> str:
    """Return the output of a command as a terminal shows it: of a line that was overwritten, its last state."""
    return sanitize(last_states(text.rstrip("\r"))[0])
