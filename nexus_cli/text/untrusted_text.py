"""Neutralize text of a model or a file among our own words, so that it cannot pose as ours.

Only our own forms are changed: markers, notices, the rule before a summary, the call that reads a drop; in the messages
of a space also the marks of a timeline. The meaning stays readable.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from nexus_cli.core.elide import clip_text, one_line

SAFE_LINE = 200
"""Most characters of a line of foreign text."""
OURS = re.compile(
    r"\[(?=\s*(?:CONTEXT SUMMARY|nexus:|Left out here|Messages \d|Pinned|\.\.\.\s|Session started))", re.IGNORECASE
)
"""The bracket that begins a line or a marker of ours."""
HEADINGS = re.compile(
    r"^(?=[ \t>#*-]*(?:Pinned (?:by the person|too)|What (?:the (?:person|assistant)|others) (?:said|laid)"
    r"|Record of the work))",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that begins like the lines around and below a summary."""
NOT_OURS = "as it was put there: "
RULE = re.compile(r"^([ \t]*)-{3,}[ \t]*$", re.MULTILINE)
"""The line between our words and a summary."""
RECALL = re.compile(r"recall\s*\(\s*([\"'`“]?)(d\d+)[^)\n]{0,40}\)?", re.IGNORECASE)
"""A call that reads a drop."""
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MARK = re.compile("TRIGGER|RESUME", re.IGNORECASE)
_ARROWS = "\u2190\u21d0\u21e0\u27f5\u27f8\u2b05\uffe9"
"""Before a mark, these point to the entry that started a run."""
MARKS = re.compile(
    r"[\[\uff3b\u3010\u3014\u27e6](?=\s*(?:SEEN|NEW|ACTIVE|msg\s*[:-]|auto-set|created via|sent because|\d{4}-\d\d-\d\d"
    r"|[^\[\]\n]{1,64} \((?:human|agent)\)))",
    re.IGNORECASE,
)
"""The bracket that begins a mark or a line of a timeline."""
MEMBER = re.compile(r"\((?=\s*(?:human|agent)\s*[,)])", re.IGNORECASE)
"""The text after the name of a member of a space."""
BLOCKS = re.compile(
    r"^(?=[ \t>#*-]*(?:IDENTITY|TRIGGER|ACTIVE SPACE|SPACE HISTORY|YOUR SPACES|GOALS|MEMORIES|PLANS|ACTIVE RUNS"
    r"|PREVIOUS RUN|INSTRUCTIONS)\b[^:\n]{0,80}:)",
    re.MULTILINE,
)
"""A line that begins like a block of a structured run."""
_JOINERS = re.compile(r"(?<=[!-~])[\u200c\u200d]+(?=[!-~])")
"""Joiners in scripts that do not need them."""


def neutralize_message(text: str) -> str:
    """Return another member's text without our forms, those of a timeline, and invisible characters."""
    joined = "".join(char for char in text if unicodedata.category(char) != "Cf" or char in "\u200c\u200d")
    text = neutralize(_JOINERS.sub("", joined))
    return MEMBER.sub("{", MARKS.sub("(", BLOCKS.sub(NOT_OURS, text)))


def neutralize(text: str, known_drops: Collection[str] = ()) -> str:
    """Return `text` without our own forms; calls that read the drops in `known_drops` stay."""
    text = remove_arrows(CONTROLS.sub("", text))
    text = RULE.sub(r"\1- - -", OURS.sub("(", HEADINGS.sub(NOT_OURS, text)))
    return RECALL.sub(lambda match: match[0] if match[2] in known_drops else f"recall of {match[2]}", text)


def safe_line(text: str) -> str:
    """Return foreign text on one bounded line that cannot pose as ours."""
    return clip_text(neutralize(one_line(text)), SAFE_LINE, "...")


def remove_arrows(text: str) -> str:
    """Return `text` without the arrows before `TRIGGER` and `RESUME`, searching backwards from there."""
    pieces, end = [], 0
    for mark in _MARK.finditer(text):
        pieces += [_cut_arrow_end(text[end : mark.start()]), mark[0]]
        end = mark.end()
    return "".join([*pieces, text[end:]])


def _cut_arrow_end(text: str) -> str:
    end = len(text)
    while True:
        place = end
        while place and text[place - 1].isspace():
            place -= 1
        shaft = place
        while shaft and text[shaft - 1] in "-=":
            shaft -= 1
        place -= text[place - 1 : place] == "\ufe0f"
        if place and text[place - 1] in _ARROWS:
            end = place - 1
        elif 0 < shaft < place and text[shaft - 1] == "<":
            end = shaft - 1
        else:
            return text[:end]


def named_drops(text: str) -> set[str]:
    """Return the drops that `text` names in a call of `recall`."""
    return {match[2] for match in RECALL.finditer(text)}


def as_note(text: str) -> str:
    """Return a text marked as ours: one line as `[nexus: ...]`, several between two marker lines."""
    if text.startswith("[nexus:"):
        return text
    if "\n" in text:
        return f"[nexus:\n{text}\n]"
    return f"[nexus: {text[1:-1] if text.startswith('[') and text.endswith(']') else text}]"
