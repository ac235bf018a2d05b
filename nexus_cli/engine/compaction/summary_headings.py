"""Read the headings of a summary, and the standing instructions of the person that it quotes below one of them."""

from __future__ import annotations

import re

from nexus_cli.config.prompts import load_prompt

HEADING = "Rules"
"""The heading of the standing instructions in a summary."""
MAX_RULES = 60
"""Most quotations of a summary that are looked up."""
MIN_WORDS = 2
"""Least words of a quotation: a single word is in nearly every message."""
_BULLET = re.compile(r"^\s*(?:[-*+>\u2022]\s+|\d{1,3}[.)]\s+|\[[^\]\n]{1,40}\]:?\s*)*")
_MARKS = "\"'`*_\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019 \t"
_QUOTED = re.compile(r"[\"\u201c\u201e\u00ab]([^\"\u201c\u201d\u201e\u00ab\u00bb]+)[\"\u201d\u00bb]")
_START = r"^(?:[^\w\n]|[\d_])*"
_WORD = r"(?:[^\S\n]+[\w'\u2019&/()+-]+)"
_OPEN, _CLOSE = r"[*_`\"'<\[(|\u3010\u300c\u300e][^\S\n]?", r"[^\S\n]?[*_`\"'>\])|\u3011\u300d\u300f]"
_HEADING = "|".join(
    [
        rf"{_START}NAME{_WORD}{{,3}}(?:[^\w\n.!?,;]|_)*$",
        r"^[^\w\n#]*#(?:[^\w\n]|[\d_])*NAME(?![^\W_])",
        rf"{_START}{_OPEN}NAME{_WORD}{{,3}}{_CLOSE}",
        rf"{_START}NAME{_WORD}?(?:(?:[^\w\n]|_){{,3}}[:\uff1a]|[^\S\n]+[\u2013\u2014-][^\S\n])",
        r"\bNAME[^\w\n]{,3}[:\uff1a]",
    ]
)
"""Matches a heading alone on its line with up to three more words, after a `#`, between marks, before a colon or dash,
or before a colon within a line."""
_HEADING_FLAGS = re.MULTILINE | re.IGNORECASE


def headings() -> tuple[str, ...]:
    """Return the headings listed in the prompt `summarize`, in its order."""
    return tuple(re.findall(r"^\d+\. (\w[\w ]*):", load_prompt("summarize"), re.MULTILINE))


def find_headings(text: str) -> list[str]:
    """Return the headings found in `text`, in any markup.

    A heading is a line of its own, follows a `#`, is enclosed in marks (`**`, brackets, a table cell), or ends in a
    colon or dash. A sentence that begins with the same word is not a heading.
    """
    return [name for name in headings() if re.search(_HEADING.replace("NAME", f"{name}s?"), text, _HEADING_FLAGS)]


def take_rules(summary: str) -> tuple[str, list[str]]:
    """Return the summary without the lines below its heading of rules, and the quotations in these lines."""
    kept_lines, lines, inside = list[str](), list[str](), False
    for line in summary.split("\n"):
        bare = _BULLET.sub("", line)
        line_headings = () if bare[:1] and bare[0] in _MARKS else find_headings(line)
        if line_headings:
            inside = HEADING in line_headings
        if not inside:
            kept_lines.append(line)
            continue
        lines.append(re.sub(rf"^\W*\d*\W*{HEADING}\W*", "", line, flags=re.IGNORECASE) if line_headings else bare)
    return "\n".join(kept_lines).strip(), [quote for line in lines for quote in _quotes_of(line)][:MAX_RULES]


def read_rules(answer: str) -> list[str]:
    """Return the quotations in an `answer` that lists rules alone, under a heading or not."""
    return take_rules(f"# {HEADING}\n{answer}")[1]


def _quotes_of(line: str) -> list[str]:
    """Return the possible quotations of a line: all of it, and the parts in double quotes."""
    quoted = dict.fromkeys((line, *_QUOTED.findall(line)))
    return [
        text for text in (phrase.strip(_MARKS) for phrase in quoted) if len(text.split()) >= MIN_WORDS or len(text) > 9
    ]
