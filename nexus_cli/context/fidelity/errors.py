"""Which lines of an output, a trace or a log name what went wrong: forms of error lines as data, and the choice among
several that tell of one failure.

Linear: the text is searched once for the few words that every such line holds, and only those lines are looked at.
"""

from __future__ import annotations

import re

from nexus_cli.context.fidelity.cues.failures import (
    BARE,
    FOLLOWS,
    HINT,
    LIKELY,
    LOGGED,
    NOT,
    NOT_SURE,
    QUOTED_ERROR,
    SAID,
    SURE,
)

LONGEST = 1000
"""Characters of a line beyond which it is no message."""
MOST = 12
"""Error lines of one message that are kept: a run with a hundred failures is told by its first ones."""

_REASONED = re.compile(r"(?:FAILED|ERROR) \S.* - \S")
_INNER = re.compile(r"E {2,}|\S{1,200}:\d+: \w+$|\s*(?:[A-Za-z_]\w*\.){0,8}\w*(?:Error|Exception)\b")
_LEADS = re.compile(r"error|conflict|could not|because|failed to|problem", re.IGNORECASE)
_PANIC = re.compile(r"^(thread '[^'\n]{0,80}' (?:\(\d+\) )?panicked at .{1,200}:)\n", re.MULTILINE)
"""The reason of a panic stands in the line behind."""
_MARK = re.compile(r"npm (?:ERR!|error)\s+")


def lines(text: str) -> list[str]:
    """The lines of `text` that hold a word of failure, each once, in order."""
    found: dict[str, None] = {}
    end = -1
    for hit in HINT.finditer(text):
        if hit.start() < end:
            continue
        start = text.rfind("\n", 0, hit.start()) + 1
        end = text.find("\n", hit.end())
        end = len(text) if end < 0 else end
        if end - start <= LONGEST:
            found[text[start:end].rstrip()] = None
    return list(found)


def named(text: str) -> list[str]:
    """The lines that name what went wrong, at most `MOST`: the surest there are, one of those that only repeat it."""
    hits = lines(_PANIC.sub(r"\1 ", text))
    sure = [line for line in hits if is_error(line)]
    telling = [line for line in sure if not FOLLOWS.fullmatch(line.strip())]
    if not telling:
        led = _led(text, hits)
        likely = [line for line in hits if not NOT.match(line) and any(form.fullmatch(line) for form in LIKELY)]
        telling = led or [line for line in likely if not FOLLOWS.fullmatch(line.strip())][:2] or sure[:1] or likely[:1]
    telling = [line for line in telling if not BARE.fullmatch(line)] or telling
    if any(_REASONED.match(line) for line in telling):
        telling = [line for line in telling if not _INNER.match(line)]
    elif any(line.startswith("E  ") for line in telling):
        telling = [line for line in telling if not line.startswith(("FAILED ", "ERROR "))]
    return list(dict.fromkeys(line.strip() for line in telling))[:MOST]


def _led(text: str, hits: list[str]) -> list[str]:
    """The line behind one that says that something failed and ends in a colon."""
    for line in hits:
        if line.endswith(":") and _LEADS.search(line):
            after = text[text.index(line) + len(line) :].lstrip().split("\n", 1)[0].strip()
            if len(_MARK.sub("", after)) > 3 and len(after) <= LONGEST:
                return [after]
    return []


def is_error(line: str) -> bool:
    """Whether a line by itself can only be the name of a failure."""
    return bool(HINT.search(line)) and not NOT_SURE.match(line) and any(form.fullmatch(line) for form in SURE)


def logged(text: str) -> list[str]:
    """The lines of a log that are of level ERROR or worse, the last line of a traceback in it, and failed tests that
    tell their reason."""
    hits = [line for line in lines(text) if not NOT.match(line)]
    found = [line for line in hits if LOGGED.fullmatch(line)]
    if "Traceback (most recent call last)" in text:
        found += [line for line in hits if SURE[0].fullmatch(line) and not line[:1].isspace()]
    found += [line for line in hits if _REASONED.match(line)]
    return [line.strip() for line in dict.fromkeys(found)][:MOST]


def quoted(sentence: str) -> list[str]:
    """Errors that a sentence tells in their own words."""
    found = [hit["line"].strip(" .\"'") for hit in QUOTED_ERROR.finditer(sentence)]
    if not found and "?" not in sentence:
        found = [hit["line"] for hit in SAID.finditer(sentence) if HINT.search(hit["line"]) and " " in hit["line"]]
    return found
