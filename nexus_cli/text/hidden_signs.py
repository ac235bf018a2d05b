"""Characters that a terminal does not show, for text that a person decides on: a command, a path, a rule.

They are Unicode's `Default_Ignorable_Code_Point`, controls, private and unassigned characters, blanks other than the
space, and a few signs that look like nothing. Text of models is shown by `terminal_sanitizer`, which lets those through
that belong to ordinary writing.
"""

from __future__ import annotations

import re
import unicodedata

from nexus_cli.text.terminal_sanitizer import sanitize

_KINDS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs", "Co", "Cn"})
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00016fe4\U0001bc9d\U0001d159\U000e0100-\U000e01ef]"
)
"""Those of other kinds: letters, marks and signs."""
_EMOJI = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]\ufe0f|[0-9#*]\ufe0f\u20e3"
)
"""An emoji and the selector that colours it."""


def _is_hidden(char: str) -> bool:
    if char.isascii():
        return not char.isprintable() and char not in "\t\n"
    return unicodedata.category(char) in _KINDS or _INVISIBLE.match(char) is not None


def find_hidden_sign(text: str) -> str:
    """Return the name of the first character that a terminal hides or that reorders the text, else "".

    The selector of an emoji is none: it is common in messages, and changes nothing but a colour.
    """
    if text.isascii() and text.isprintable():
        return ""
    sign = next(filter(_is_hidden, _EMOJI.sub("", text)), "")
    return f"U+{ord(sign):04X} {unicodedata.name(sign, '')}".strip() if sign else ""


def mark_hidden_signs(text: str) -> str:
    """Return `text` harmless to a terminal, each hidden character as `<U+FE0F>`, blanks as they are."""
    if text.isascii():
        return sanitize(text)
    return "".join(f"<U+{ord(char):04X}>" if _is_hidden(char) else char for char in sanitize(text))


def mark_on_one_line(text: str) -> str:
    """Return `text` with its hidden characters marked, on one line without blanks around it; a tab is `\u2409`."""
    return mark_hidden_signs(text.strip()).replace("\n", " ").replace("\t", "\u2409")
