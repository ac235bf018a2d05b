"""Which lines of an output, a trace or a log name what went wrong: the choice among several that tell of one failure.

The forms of such lines are data, in `cues/failures.py`. Linear: the text is searched once for the few words that every
such line holds, and only those lines are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nexus_cli.context.fidelity.cues.failures import (
    BARE,
    BEGUN,
    CAUSE,
    FOLLOWS,
    HINT,
    HINTS,
    LEADS_TO,
    LIKELY,
    LOGGED,
    NOT,
    NOT_SURE,
    QUOTED_ERROR,
    RAISED,
    SAID,
    SURE,
    TEST,
    WEAK,
)

LONGEST = 1000
"""Characters of a line beyond which it is no message."""
MOST = 12
"""Error lines of one message that are kept: a run with a hundred failures is told by its first ones."""
_TAIL = 20_000
"""Characters at the end of an output in which a line is looked for that begins with the command's name."""

_REASONED = re.compile(r"(?:FAILED|ERROR) \S.* - \S")
_INNER = re.compile(r"E {2,}|\S{1,200}:\d+: \w+$|\s*(?:[A-Za-z_]\w*\.){0,8}\w*(?:Error|Exception)\b")
_LEADS = re.compile(r"error|conflict|could not|because|failed to|problem|went wrong", re.IGNORECASE)
_PANIC = re.compile(r"^(thread '[^'\n]{0,80}' (?:\(\d+\) )?panicked at .{1,200}:)\n", re.MULTILINE)
"""The reason of a panic stands in the line behind."""
_MARK = re.compile(r"npm (?:ERR!|error)\s+")
_TRACE = re.compile(
    r"^.{0,200}Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*+(?P<line>\w.{2,1000})$", re.MULTILINE
)
"""What stands behind the frames names the failure, whatever it is called."""
_ONWARD = re.compile(
    r"^(?P<line>\S.{0,1000})\n\n(?:During handling of the above exception|The above exception was the direct cause)",
    re.MULTILINE,
)
"""A failure on the way to the one that is told at last."""
_STEP = re.compile(r"#\d{1,4} (?:[\d.]{1,12} )?|[│┃║|] +|\[\w[\w-]{0,30}\] (?=\S{1,200}:\d+)|[\w.-]{1,40} +\| +")
"""What builds and tools that run others put before the lines of these."""
_SANITIZER = re.compile(r"==\d+==ERROR: \w+Sanitizer:")
_SUMMED = re.compile(r"SUMMARY: \w+Sanitizer:")
_WORD = re.compile(r"[\w./+-]{1,200}")
_TYPED = SURE[0]


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    """As it was written, without the space behind it."""
    bare: str
    """Without what a build puts before it, and without space on either side."""
    following: str
    """The line behind it."""

    def rank(self) -> int:
        """3 for what names a failure, 2 for a failed test without a reason, 1 for what only repeats it, 0 for none."""
        if not any(_is_sure(line) for line in {self.text, self.bare}):
            return 0
        if FOLLOWS.fullmatch(self.bare) or self._leads():
            return 1
        return 2 if TEST.fullmatch(self.bare) else 3

    def _leads(self) -> bool:
        """Whether a log only announces the failure that the next line names."""
        following = self.following
        named = following.startswith(("Traceback (most", "Caused by: ", "** (")) or _TYPED.fullmatch(following)
        return bool(named) and bool(LOGGED.fullmatch(self.text))


def _found(text: str) -> list[_Line]:
    """The lines of `text` that hold a word of failure, each once, in order."""
    found: dict[str, _Line] = {}
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if len(line) <= LONGEST and _hinted(line) and (whole := line.rstrip()) not in found:
            following = lines[number + 1][:LONGEST] if number + 1 < len(lines) else ""
            found[whole] = _Line(whole, _STEP.sub("", whole.strip(), count=1), following)
    return list(found.values())


def _hinted(line: str) -> bool:
    low = line.lower()
    return len(line) > 1 and (any(word in low for word in HINTS) or bool(HINT.match(line)))


def named(text: str, command: str = "") -> list[str]:
    """The lines that name what went wrong, at most `MOST`: the surest there are, one of those that only repeat it.

    `command` is the one that gave the text, where it is known to have failed.
    """
    hits = _found(_PANIC.sub(r"\1 ", text))
    ranks = [(line, line.rank()) for line in hits]
    telling = _chosen(text, [line for line, rank in ranks if rank == 3], hits)
    if not telling:
        maybe = [line for line in hits if not NOT.match(line.bare)]
        likely = [line.text for line in maybe if any(form.fullmatch(line.bare) for form in LIKELY)]
        plain = [line for line in likely if not FOLLOWS.fullmatch(line.strip())][:2]
        tests = [line.text for line, rank in ranks if rank == 2]
        repeated = [line.text for line, rank in ranks if rank == 1][:1]
        reasons = _reasons(text) if tests else []
        told = _by_name(text, command)
        weak = [line.text for line in maybe if command and WEAK.fullmatch(line.bare)]
        telling = reasons or tests or _led(text, hits) or plain or told or repeated or likely[:1] or weak[:1]
    return list(dict.fromkeys(line.strip() for line in telling))[:MOST]


def _chosen(text: str, sure: list[_Line], hits: list[_Line]) -> list[str]:
    """Of the lines that name a failure those that tell most: no step on the way to another, none without its reason."""
    traced = [hit["line"].rstrip() for hit in _TRACE.finditer(text)] if "Traceback (" in text else []
    onward = {hit["line"].rstrip() for hit in _ONWARD.finditer(text)} if traced else set()
    order = dict.fromkeys([line.text for line in sure] + [line for line in traced if not FOLLOWS.fullmatch(line)])
    kept: list[str] = []
    for line in order:
        if CAUSE.match(line.strip()):
            while kept and (_TYPED.fullmatch(kept[-1]) or LOGGED.fullmatch(kept[-1])):
                kept.pop()
        if line not in onward:
            kept.append(line)
    if any(_SUMMED.match(line.bare) for line in hits):
        kept = [line for line in kept if not _SANITIZER.match(line)]
    kept = [line for line in kept if not BARE.fullmatch(line)] or kept
    if any(_REASONED.match(line) for line in kept):
        return [line for line in kept if not _INNER.match(line)]
    if any(line.startswith("E  ") for line in kept):
        return [line for line in kept if not line.startswith(("FAILED ", "ERROR "))]
    return kept


def _reasons(text: str) -> list[str]:
    """The names of failed tests with the lines right below them that tell why."""
    return [hit[0] for hit in BEGUN.finditer(text)][:MOST]


def _led(text: str, hits: list[_Line]) -> list[str]:
    """The line behind one that says that something failed and ends in a colon."""
    for line in hits:
        if line.text.endswith(":") and _LEADS.search(line.text):
            after = text[text.index(line.text) + len(line.text) :].lstrip().split("\n", 1)[0].strip()
            if len(_MARK.sub("", after)) > 3 and len(after) <= LONGEST:
                return [after]
    return []


def _by_name(text: str, command: str) -> list[str]:
    """The last line that begins with the name of the program that was run, or with a word of its command line."""
    names = {word.rpartition("/")[2] for word in _WORD.findall(command[:LONGEST])}
    told = ""
    for line in text[-_TAIL:].splitlines() if names else ():
        name, joint, rest = line[:LONGEST].partition(": ")
        if joint and rest.strip() and name.rpartition("/")[2] in names and not NOT.match(line[:LONGEST]):
            told = line
    return [told] if told and len(told) <= LONGEST else []


def is_error(line: str) -> bool:
    """Whether a line by itself can only be the name of a failure."""
    return _hinted(line) and _is_sure(line)


def _is_sure(line: str) -> bool:
    return not NOT_SURE.match(line) and any(form.fullmatch(line) for form in SURE)


def logged(text: str) -> list[str]:
    """The lines of a log that are of level ERROR or worse, the last line of a traceback in it, and failed tests that
    tell their reason."""
    hits = [line for line in _found(text) if not NOT.match(line.text)]
    found = [line.text for line in hits if LOGGED.fullmatch(line.text) and line.rank() != 1]
    if "Traceback (most recent call last)" in text:
        found += [line.text for line in hits if _TYPED.fullmatch(line.text) and not line.text[:1].isspace()]
    found += [line.text for line in hits if _REASONED.match(line.text)]
    return [line.strip() for line in dict.fromkeys(found)][:MOST]


def quoted(sentence: str, lead: str = "") -> Iterator[str]:
    """Errors that a sentence tells in their own words, or is itself where its `lead` announces one."""
    told = [hit["line"].strip(" .\"'") for hit in QUOTED_ERROR.finditer(sentence)]
    told += [hit["line"].rstrip(".") for hit in RAISED.finditer(sentence)]
    for hit in SAID.finditer(sentence):
        line = (hit["line"] or hit["single"] or hit["rest"]).strip()
        if any(other in line or line in other for other in told):
            told = [max((other, line), key=len) if other in line or line in other else other for other in told]
        elif is_error(line) or (not hit["rest"] and "?" not in sentence and _hinted(line) and " " in line):
            told.append(line)
    if not told and "?" not in sentence and LEADS_TO.search(lead) and not NOT.match(sentence):
        likely = any(form.fullmatch(sentence) for form in LIKELY) and not FOLLOWS.fullmatch(sentence)
        told = [sentence] if likely else []
    yield from dict.fromkeys(told)
