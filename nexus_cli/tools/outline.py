"""Outline a text file: the lines on which its definitions or headings begin, with their numbers.

`LANGUAGES` has the expressions, by the end of a file's name. A model navigates by the outline; nothing is decided by
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_ROWS = 200
LONGEST_ROW = 120
LONGEST_LINE = 400
"""Longest line that is matched: minified code has lines of a megabyte."""
MAX_LINES = 200_000
_JS = (
    r"(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?"
    r"(?:(?:async\s+)?function\b|class\b|interface\b|enum\b|namespace\b|type\s+\w+\s*[=<])"
    r"|(?:export\s+)?(?:const|let|var)\s+[\w$]+[^=]*=\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*(?::[^=]+)?=>|[\w$]+\s*=>)"
    r"|\s+(?!(?:if|for|while|switch|catch|return|function|with)\b)(?:(?:public|private|protected|static|async|get|set)\s+)*"
    r"[#\w$]+\([^()]*\)\s*(?::[^{]+)?\{\s*$"
)
_BRACED = (
    r"\s*(?:(?:public|private|protected|internal|static|abstract|final|sealed|partial|virtual|override|async|data|open"
    r"|inline|suspend|case|implicit|lazy|readonly|unsafe|synchronized|default|extern)\s+)*"
)
_TYPES = r"(?:class|interface|enum|struct|record|object|trait|namespace|@interface)\s+\w"
_METHOD = r"[\w<>\[\],.?]+(?:\s+[\w<>\[\],.?]+)*\s+(?!if\b|for\b|while\b|switch\b|catch\b)\w+\s*\([^;=]*$"
_MODIFIED = r"\s*(?:(?:public|private|protected|internal|static|abstract|final|override|virtual|async)\s+)+"
LANGUAGES = {
    "Python": ((".py", ".pyi"), r"\s*(?:async\s+def|def|class)\s+\w"),
    "JavaScript and TypeScript": ((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".vue", ".svelte"), _JS),
    "Go": ((".go",), r"func\b|type\s+\w"),
    "Rust": (
        (".rs",),
        r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|const|unsafe|extern(?:\s+\"\w+\")?)\s+)*"
        r"(?:fn|struct|enum|trait|impl|mod|union|macro_rules!)\b",
    ),
    "Java": ((".java",), rf"{_BRACED}{_TYPES}|{_MODIFIED}{_METHOD}"),
    "C#": ((".cs",), rf"{_BRACED}{_TYPES}|{_MODIFIED}{_METHOD}"),
    "Kotlin": ((".kt", ".kts"), rf"{_BRACED}(?:fun\b|{_TYPES})"),
    "Scala": ((".scala",), rf"{_BRACED}(?:def\s+\w|{_TYPES})"),
    "Swift": ((".swift",), rf"{_BRACED}(?:func|class|struct|enum|protocol|extension|actor|init)\b"),
    "C and C++": (
        (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm"),
        r"(?:template\s*<.*>\s*)?(?:typedef\s+)?(?:class|struct|enum|union|namespace)\s+\w[^;]*$"
        r"|#define\s+\w+\(|(?!return\b|else\b|typedef\b)[A-Za-z_][\w:<>,*&~ \t]*\([^;]*$",
    ),
    "Ruby": ((".rb", ".rake"), r"\s*(?:def|class|module)\s+\w"),
    "PHP": ((".php",), rf"{_BRACED}(?:function\s+&?\w|{_TYPES})"),
    "shell": ((".sh", ".bash", ".zsh"), r"\s*(?:function\s+[\w-]+|[\w-]+\s*\(\s*\))"),
    "Lua": ((".lua",), r"\s*(?:local\s+)?function\b"),
    "SQL": ((".sql",), r"(?i:create\s+(?:or\s+replace\s+)?(?:temp\w*\s+|unique\s+)?\w+\s+\S)"),
    "tables": ((".toml", ".ini", ".cfg", ".conf"), r"\[{1,2}[^\]]+\]{1,2}\s*(?:[#;].*)?$"),
}
"""Name of each language: the ends of its files' names, and the expression for the start of a line."""
_MARKDOWN = (".md", ".markdown", ".mdx")
_HEADING = re.compile(r"#{1,6}\s+\S")
_FENCE = re.compile(r"\s*(```|~~~)")


def outline_text(name: str, text: str) -> str:
    """Return rows `LINE: TEXT` of definitions or headings, at most `MAX_ROWS`; "" if none is recognized."""
    rows = list(_find_rows(name.lower(), text))
    kept_rows, level = rows, max((depth for depth, _, _ in rows), default=0)
    while len(kept_rows) > MAX_ROWS and level > min(depth for depth, _, _ in kept_rows):
        level = max(depth for depth, _, _ in kept_rows)
        kept_rows = [row for row in kept_rows if row[0] < level] or kept_rows[:MAX_ROWS]
    kept_rows = kept_rows[:MAX_ROWS]
    more_line = [f"[{len(rows) - len(kept_rows):,} more]"] if len(kept_rows) < len(rows) else []
    return "\n".join([*(f"{number}: {line}" for _, number, line in kept_rows), *more_line])


def _find_rows(name: str, text: str) -> Iterator[tuple[int, int, str]]:
    """Yield depth, line number and text of each row."""
    marked = name.endswith(_MARKDOWN)
    expression = next((pattern for ends, pattern in LANGUAGES.values() if name.endswith(ends)), "")
    if not expression and not marked:
        return
    pattern, fence = _HEADING if marked else re.compile(expression), ""
    for number, line in enumerate(text.split("\n", MAX_LINES)[:MAX_LINES], 1):
        line = line[:LONGEST_LINE].rstrip()
        if marked and (mark := _FENCE.match(line)):
            fence = "" if fence == mark[1] else fence or mark[1]
        if line and not fence and pattern.match(line):
            bare = line.lstrip()
            depth = len(bare) - len(bare.lstrip("#")) if marked else len(line.expandtabs(4)) - len(bare)
            yield depth, number, line.removesuffix("{").rstrip()[:LONGEST_ROW]
