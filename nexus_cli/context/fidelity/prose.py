"""A message taken apart: the sentences that somebody wrote, and the lines that are pasted (code, output, traces).

Sentences know the list or heading they stand in. Quoted text is neither. Linear; a sentence of more than `LONGEST`
characters is nobody's sentence and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nexus_cli.context.fidelity.errors import is_error

LONGEST = 1000
"""Characters of a sentence or of a pasted line, beyond which it is not looked at."""
_WRAPPED = 60
"""A line of at least so many characters without an end may go on in the next one."""

_FENCE = re.compile(r"\s{0,12}(?:```|~~~)")
_ITEM = re.compile(
    r"\s{0,12}(?P<mark>[-*+•]|\(?\d{1,2}[.)]|\d{1,2}(?:\.\d{1,2}){1,2}\.?(?=\s+[A-Z])|\(?[a-h]\))\s+"
    r"(?:\[(?P<box>[ xX✓✔])\]\s*)?(?=\S)"
)
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?P<text>.*)|\s{0,3}\*\*(?P<bold>[^*]{1,80})\*\*:?\s*$")
_MATERIAL = re.compile(r"</?(?:stdin|file|paste|output)\b[^>]{0,200}>\s*$")
_MACHINE = re.compile(
    r"\s*(?:"
    r"File \"|Traceback \(|at [\w$.<>]+ ?\([\w/.@<-]+:?\d|at .{1,200}:\d+:\d+\)?$|[$%] \S|>>> |E {3}|-->|\d+ \| |\| "
    r"|[=_-]{3,}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|@@ |diff --git|\+\+\+ |--- "
    r"|(?:FAILED|ERROR|PASSED|WARNING|INFO|DEBUG|WARN|CRITICAL|FATAL)\b[ :\[]"
    r"|(?:error|fatal|panic)(?:\[\w+\])?: |npm ERR!|make(?:\[\d+\])?: \*\*\*"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)"
    r"|[\w./-]+:\d+(?::\d+)?:\s|[\w./\\-]+\(\d+,\d+\): "
    r"|import [\w.]+;?$|from [\w.]+ import .*$|(?:def|class) .*[({:]$"
    r"|(?:func|fn|pub|const|let|var|return|public|private|static) .*[({;=]$"
    r"|[})\]]+[;,]?$|.*[{;]$|<[\w/].*>$"
    r")"
)
_OUTPUT = re.compile(
    r"\s{0,8}(?:[\w.-]{1,40}@[\w.-]{1,60}[: ]?\S{0,120}?\s?[$#%>] \S|[$❯➜»] \S|PS [A-Z]:[^>]{0,120}> |>>> |Traceback "
    r"\(most recent)"
)
"""What is pasted up to the next blank line begins so."""
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"')\]*_`”’]*+(?=\s)")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|resp|incl|max|min|ca|fig|"
r"\d{1,2})\.$", re.IGNORECASE)
_QUOTED = re.compile(r"`[^`\n]{1,300}`|\"[^\"\n]{1,500}\"|“[^“”\n]{1,500}”")
_FORWARDED = re.compile(
    r"\b(?:forward\w*|colleagues?|boss|manager|clients?|customers?|accountant|team|mail|email|message|ticket)\b.{0,80}"
    r"\b(?:writes?|wrote|says?|said|sent|asks?|asked|below|this|following)\b|\bforwarding\b|"
    r"\bhere(?:'s| is) (?:the|her|his|their|an?) (?:reply|answer|response)\b|"
    r"\b(?:wrote|writes|sent) "
    r"(?:me|us)\b"
)
_MASK = "\x00"
_RUN = re.compile("\x00+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, or one item of a list."""

    text: str
    """As it was written, on one line."""
    shown: str
    """The same, folded, with what is quoted or code replaced: what cues are looked for in."""
    item: str = ""
    """The mark of the list item that it begins; "" elsewhere."""
    box: str = ""
    """` ` for an item with an open box, `x` for one that is ticked; "" elsewhere."""
    lead: str = ""
    """The heading, or the line before the list, that it stands under, folded."""
    inside: bool = False
    """It stands in a list item, at its beginning or behind."""
    follows: str = ""
    """What is written behind it in the same paragraph, folded."""
    quoted: bool = False
    """It stands in lines that begin with `>`, in a message that does not pass them on in so many words."""


@dataclass(slots=True)
class _Parts:
    sentences: list[Sentence] = field(default_factory=list)
    pasted: list[str] = field(default_factory=list)


def masked(text: str) -> str:
    """`text` of the same length, with what is quoted or code as NULs but for its marks and its last stop."""
    return _QUOTED.sub(_veil, text) if "`" in text or '"' in text or "“" in text else text


def _veil(found: re.Match[str]) -> str:
    whole = found[0]
    stop = whole[-2] if whole[-2] in ".!?" and whole[0] != "`" else _MASK
    return f"{whole[0]}{_MASK * (len(whole) - 3)}{stop}{whole[-1]}" if len(whole) > 2 else whole


def shown(text: str) -> str:
    """`text` folded, with code and quotations masked."""
    return fold(masked(text))


def fold(veiled: str) -> str:
    """A masked text on one line in lower case with plain apostrophes, each run of NULs as one."""
    return " ".join(_RUN.sub(_MASK, veiled).replace("’", "'").split()).lower()


@dataclass(frozen=True, slots=True)
class _Block:
    """A paragraph or a list item on one line, and where it stands."""

    text: str
    mark: str
    box: str
    lead: str
    quoted: bool


def parts(text: str, quotes: bool = False) -> tuple[list[Sentence], list[str]]:
    """The sentences of `text`, and the lines in it that nobody wrote by hand; with `quotes` those of `>` lines too."""
    found = _Parts()
    for block in _blocks(text, found.pasted):
        if quotes or not block.quoted:
            _split(block, found.sentences)
    return found.sentences, found.pasted


def _blocks(text: str, pasted: list[str]) -> Iterator[_Block]:
    """Paragraphs and list items with mark, box and lead; what is pasted goes to `pasted`."""
    fenced = material = quoted = False
    open_block: list[str] = []
    mark = box = lead = ""
    blank, output = True, False
    forwarded = "\n>" in text and bool(_FORWARDED.search(text[:LONGEST].lower()))
    for line in text.splitlines():
        if forwarded and line.startswith(">"):
            line = line[1:].removeprefix(" ")
        bare = line.strip()
        if material or fenced or _FENCE.match(line) or _MATERIAL.match(bare):
            if open_block:
                yield _Block(" ".join(open_block), mark, box, lead, quoted)
                lead, open_block = _led(open_block, mark, lead), []
            if _FENCE.match(line) and not material:
                fenced = not fenced
            elif _MATERIAL.match(bare) and not fenced:
                material = not bare.startswith("</")
            elif len(line) <= LONGEST:
                pasted.append(line)
            continue
        quote = bare.startswith(">")
        if quote:
            line = bare = bare.lstrip("> ")
        item = _ITEM.match(line)
        heading = _HEADING.match(line)
        output = bool(bare) and (output or bool(_OUTPUT.match(line)))
        aside = not item and (output or _is_pasted(line, bare, blank, mark) or len(bare) > 100 * LONGEST)
        new = not bare or item or heading or aside or quote is not quoted
        if open_block and (new or _ended(open_block[-1], bare)):
            yield _Block(" ".join(open_block), mark, box, lead, quoted)
            lead, open_block = _led(open_block, mark, lead), []
            if not bare or not line[:1].isspace():
                mark, box = (mark, box) if not bare else ("", "")
        if quoted and not quote:
            lead = ""
        blank, quoted = not bare, quote
        if not bare:
            continue
        if heading:
            lead, mark, box = shown(heading["text"] or heading["bold"] or ""), "", ""
        elif aside:
            if len(line) <= LONGEST:
                pasted.append(line)
        elif item:
            mark, box = item["mark"], (item["box"] or "").lower().replace("✓", "x").replace("✔", "x")
            open_block = [line[item.end() :].strip()]
        else:
            if not open_block and not line[:1].isspace():
                mark = box = ""
            open_block.append(bare)
    if open_block:
        yield _Block(" ".join(open_block), mark, box, lead, quoted)


def _led(block: list[str], mark: str, lead: str) -> str:
    """The lead of what comes after `block`: a paragraph leads, an item stays under its list's."""
    return lead if mark else shown(block[-1][-200:])


def _ended(line: str, following: str) -> bool:
    """Whether the next line begins something new, not the rest of a wrapped line."""
    return len(line) < _WRAPPED or line[-1:] in ".!?:;…" or not (following[:1].islower() or following[:1] in "`\"'(")


def _is_pasted(line: str, bare: str, blank: bool, mark: str) -> bool:
    indented = line.startswith(("    ", "\t")) and blank and not mark
    if indented or bare.startswith("|") or _MACHINE.match(line[:LONGEST]):
        return True
    return len(line) <= LONGEST and is_error(line)


def _split(block: _Block, found: list[Sentence]) -> None:
    text = block.text
    veiled = masked(text)
    spans = []
    start = 0
    for end in _END.finditer(veiled):
        if not _ABBREVIATION.search(veiled, max(start, end.start() - 10), end.start() + 1):
            spans.append((start, end.end()))
            start = end.end()
    spans.append((start, len(text)))
    spans = [(a, b) for a, b in spans if text[a:b].strip()]
    folded = [fold(veiled[a:b]) if b - a <= LONGEST else "" for a, b in spans]
    for number, (a, b) in enumerate(spans):
        if b - a <= LONGEST:
            follows = folded[number + 1] if number + 1 < len(spans) else ""
            head = "" if number else block.mark
            tick = block.box if head else ""
            where = (head, tick, block.lead, bool(block.mark), follows, block.quoted)
            found.append(Sentence(text[a:b].strip(), folded[number], *where))
