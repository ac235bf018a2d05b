"""Defuse text of a model or a file among our own words, so that it cannot pose as ours.

Only the forms that we use ourselves are touched: markers, notices, the rule before a summary, the call that reads a
drop. What was meant stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Collection

OURS = re.compile(
    r"\[(?=\s*(?:CONTEXT SUMMARY|nexus:|Left out here|Messages \d|Pinned|\.\.\.\s|Session started))", re.IGNORECASE
)
"""The bracket that opens a line or a marker of ours."""
HEADINGS = re.compile(
    r"^(?=[ \t>#*-]*(?:Pinned (?:by the person|too)|What the (?:person|assistant) said|Record of the work))",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that begins as what we put around and below a summary."""
NOT_OURS = "as it was put there: "
RULE = re.compile(r"^([ \t]*)-{3,}[ \t]*$", re.MULTILINE)
"""The line that parts our words from a summary."""
RECALL = re.compile(r"recall\s*\(\s*([\"'`“]?)(d\d+)[^)\n]{0,40}\)?", re.IGNORECASE)
"""A way back to a drop."""
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def neutralize(text: str, known: Collection[str] = ()) -> str:
    """Return `text` with our own forms taken out of it; ways back to the drops in `known` stay."""
    text = CONTROLS.sub("", text)
    text = RULE.sub(r"\1- - -", OURS.sub("(", HEADINGS.sub(NOT_OURS, text)))
    return RECALL.sub(lambda found: found[0] if found[2] in known else f"recall of {found[2]}", text)


def named_drops(text: str) -> set[str]:
    """Return the drops that `text` names a way back to."""
    return {found[2] for found in RECALL.finditer(text)}
