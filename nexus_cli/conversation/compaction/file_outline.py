"""Outline a file of any language by its top-level names, from patterns alone. Pure.

Used for a reminder after a compaction, where an error costs little; nothing is decided by it.
"""

from __future__ import annotations

import re

MOST_NAMES = 8
LONGEST_NAME = 60
LONGEST_LINE = 300
"""Longest line that is matched: minified code has lines of a megabyte."""
MOST_LINES = 5000

_WORD = r"[A-Za-z_$][\w$]*"
_HEADING = re.compile(r"#{1,3} +(\S.*)")
_TABLE = re.compile(r"\[{1,2}([\w.\"' -]+)\]{1,2}\s*(?:#.*)?")
_DEFINITION = re.compile(
    r"(?:(?:export|default|pub(?:\([^)]*\))?|public|private|protected|internal|static|abstract|final|async|unsafe"
    r"|extern|declare|open|data|sealed|partial|inline|const)\s+)*"
    rf"(?:class|def|func|fun|function|fn|struct|enum|trait|impl|interface|type|module|namespace|object|record)\b\*?"
    rf"\s*(?:\([^)]*\)\s*|<[^>]*>\s*)?({_WORD}(?:(?:::|\.){_WORD})*)"
)
_BOUND = re.compile(
    rf"(?:export\s+)?(?:const|let|var)\s+({_WORD})\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function\b|\(|{_WORD}\s*=>)"
)
_MARKED = (".md", ".markdown", ".rst", ".txt")
_TABLES = (".toml", ".ini", ".cfg", ".conf")


def outline(name: str, text: str) -> tuple[str, ...]:
    """Return the first few top-level names or headings of a file called `name`, in their order, each once."""
    patterns = _patterns(name.lower())
    outlines: dict[str, None] = {}
    for line in text.split("\n", MOST_LINES)[:MOST_LINES]:
        if not line or line[0] in " \t":  # only an unindented line is top-level
            continue
        match = next((hit for pattern in patterns if (hit := pattern.match(line[:LONGEST_LINE]))), None)
        if match:
            outlines[" ".join(match[1].split())[:LONGEST_NAME]] = None
        if len(outlines) >= MOST_NAMES:
            break
    return tuple(outlines)


def _patterns(name: str) -> tuple[re.Pattern[str], ...]:
    if name.endswith(_MARKED):
        return (_HEADING,)
    return (_TABLE,) if name.endswith(_TABLES) else (_DEFINITION, _BOUND)
