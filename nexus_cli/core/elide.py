"""Elide a text to a number of tokens: keep its head and tail around one visible marker.

Also cuts pieces of a range, to read the rest. Positions are character offsets as in Python slices, so that joined
ranges give the original. The session records the elided part as a drop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.services import Piece

Count = Callable[[str], int]
"""Counts the tokens of a text."""
Marker = Callable[[int, int, int, int], str]
"""`(start, end, total, tokens) -> line`: the hole `[start:end)` of a text of `total` characters, and its tokens."""

RECALL = "recall"
"""Name of the tool that reads elided text."""
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
LONGEST_LINE = 1000
"""Most characters of `one_line`: an argument can have megabytes."""
_TRIES = 8
_FILLED = 0.95
_OVERWRITTEN = re.compile("^[^\r\n]*(?:\r+[^\r\n]+)+", re.MULTILINE)
"""A line in which text follows a carriage return, without its end."""
SAMPLED = 1 << 20
"""Characters above which a text is counted by samples, unless it may fit."""
_SAMPLES, _SAMPLE = 32, 8000
"""Number and characters of the samples: evenly spaced, so that equal texts get equal counts."""


@dataclass(frozen=True, slots=True)
class ElidedText:
    """A text that fits the cap, and the range that was cut out."""

    text: str
    start: int = 0
    """Offset of the first character left out."""
    end: int = 0
    """Offset after the last character left out; equal to `start` if nothing was."""
    tokens: int = 0
    """Tokens left out, by the given counter."""

    @property
    def is_whole(self) -> bool:
        """True if nothing was cut."""
        return self.start == self.end


def plain_marker(start: int, end: int, total: int, tokens: int) -> str:
    """Return the marker for text that cannot be recalled."""
    return f"[... {tokens:,} tokens left out ...]"


def drop_marker(drop_id: str, lines: Callable[[int, int], str] = lambda start, end: "") -> Marker:
    """Return a marker with the call that reads the rest of drop `drop_id`; `lines` names the lines of a hole."""

    def marker(start: int, end: int, total: int, tokens: int) -> str:
        line_range = lines(start, end)
        position = f"{line_range}{', ' * bool(line_range)}characters {start}:{end} of {total}"
        return f'[... {tokens:,} tokens ({position}) left out: recall("{drop_id}", "{start}:{end}") ...]'

    return marker


def line_namer(text: str, first: int) -> Callable[[int, int], str]:
    """Return a function that names the lines, also partial ones, of `text[start:end]`; the first is `first`."""

    def name(start: int, end: int) -> str:
        low, high = first + text.count("\n", 0, start), first + text.count("\n", 0, max(start, end - 1))
        return f"line {low}" if low == high else f"lines {low}-{high}"

    return name


def token_bound(text: str) -> int:
    """Return an upper bound of the tokens of ordinary text, for use without a counter."""
    plain = sum(map(str.isascii, text))
    return plain // 3 + len(text.encode("utf-8", "replace")) - plain + 1


def count_large(text: str, cap: int, count: Count) -> int:
    """Return the tokens of `text`, estimated from samples if it has over `SAMPLED` characters and far exceeds `cap`."""
    if len(text) > SAMPLED:
        gaps = len(text) - _SAMPLE
        sample = "".join(
            text[offset : offset + _SAMPLE] for offset in (gaps * n // (_SAMPLES - 1) for n in range(_SAMPLES))
        )
        estimate = count(sample) * len(text) // len(sample)
        if estimate > 2 * cap:
            return estimate
        counted = 0
        for end in range(SAMPLED, len(text), SAMPLED):  # the samples may be of another kind than the rest
            counted += count(text[end - SAMPLED : end])
            if counted > 2 * cap:
                return counted * len(text) // end
    return count(text)


def elide_text(text: str, cap: int, count: Count, marker: Marker, *, has_tail: bool = True) -> ElidedText:
    """Return `text` in at most `cap` tokens: unchanged, or head and (if it `has_tail`) tail around a marker line
    (law 5).

    Cuts are at line ends if that costs little. `count` is called once with the whole text (or samples of it:
    `count_large`) and a bounded number of times with about `cap` tokens of it. A cap too small for head and tail gives
    the marker alone, one too small for the marker no text.
    """
    total = count_large(text, cap, count)
    if total <= cap:
        return ElidedText(text)
    length = len(text)
    room = cap - count(marker(length, length, length, total)) - 2
    while room > 1:
        share = room // 2 if has_tail else room
        head = _move_back_to_line_end(text, _forward(text, 0, length, share, count))
        start = length
        if has_tail:
            size = _longest(length - head, room - share, lambda size: count(text[length - size :]))
            start = _move_on_to_line_end(text, length - size)
        tail = max(head, start)
        kept_tokens = count(text[:head]) + count(text[tail:])
        omitted = max(1, total - kept_tokens)
        gaps = "\n" * (head > 0 and text[head - 1] != "\n"), "\n" * (tail < length)
        elided = f"{text[:head]}{gaps[0]}{marker(head, tail, length, omitted)}{gaps[1]}{text[tail:]}"
        size = count(elided)
        if size <= cap and tail > head:
            return ElidedText(elided, head, tail, omitted)
        room = min(room * 9 // 10, room - max(0, size - cap))
    line = marker(0, length, length, total)
    return ElidedText(line if count(line) <= cap else "", 0, length, total)


def cut_piece(text: str, start: int, end: int, cap: int, count: Count) -> Piece:
    """Return the longest beginning of `text[start:end]` that fits `cap` tokens, up to a line end if that costs little.

    Offsets are those of Python slices.
    """
    first, last, _ = slice(start, end).indices(len(text))
    last = max(first, last)
    stop = _forward(text, first, last, cap, count)
    if stop < last:
        snapped = _move_back_to_line_end(text, stop, first)
        if first < snapped < stop and count(text[first:snapped]) <= cap:
            stop = snapped
    return Piece(text[first:stop], first, stop, len(text))


def _forward(text: str, start: int, end: int, cap: int, count: Count) -> int:
    """Return about the largest offset up to which `text[start:]` fits `cap`."""
    return start + _longest(end - start, cap, lambda size: count(text[start : start + size]))


def _longest(limit: int, cap: int, tokens: Callable[[int], int]) -> int:
    """Search the largest size up to `limit` that fits: by proportion, at most `_TRIES` times, then by halving."""
    fits, over = 0, limit + 1
    size = min(limit, cap * 4)
    for _ in range(_TRIES):
        if size <= fits:
            break
        used = tokens(size)
        if used <= cap:
            fits = size
            if size == limit or used >= cap * _FILLED:
                break
        else:
            over = size
        aim = size * 4 if used <= 0 else min(size * 4, int(size * cap / used * 0.98))
        size = aim if fits < aim < over else (fits + over) // 2
        size = min(size, limit)
    while fits == 0 and over > 1:
        over //= 2
        if tokens(over) <= cap:
            fits = over
    return fits


def _move_back_to_line_end(text: str, cut: int, floor: int = 0) -> int:
    """Move a cut back to a line end if that loses at most a quarter."""
    if cut in (floor, len(text)):
        return cut
    return text.rfind("\n", floor + (cut - floor) * 3 // 4, cut) + 1 or cut


def _move_on_to_line_end(text: str, cut: int) -> int:
    """Move the start of a tail forward to a line end, as `_move_back_to_line_end` does for a head."""
    if cut in (0, len(text)) or text[cut - 1] == "\n":
        return cut
    line = text.find("\n", cut, cut + (len(text) - cut) // 4) + 1
    return line if 0 < line < len(text) else cut


MIN_FOLDED_LINES = 20
"""Least lines that are left out of a run."""
FOLDED_EDGE_LINES = 4
"""Lines of a folded run that stay: the last one, and the others before the marker."""
_NUMBER = re.compile(r"\d+")


def last_states(text: str) -> tuple[str, int]:
    """Return `text` with the last state that is not blank of each line that carriage returns overwrite, and the number
    of states left out."""
    omitted = 0

    def last(line: re.Match[str]) -> str:
        nonlocal omitted
        states = [state for state in line[0].split("\r") if state.strip()] or [""]
        omitted += len(states) - 1
        return states[-1]

    return (_OVERWRITTEN.sub(last, text) if "\r" in text else text), omitted


def fold_lines(text: str) -> tuple[str, int]:
    """Return `text` with long runs of lines that have the same words and differ at most in numbers replaced by their
    first and last ones, and the number of lines left out. Lines without words are data and stay."""
    omitted, folded = 0, list[str]()
    for form, run in groupby(text.split("\n"), partial(_NUMBER.sub, "")):
        lines = list(run)
        if (hidden := len(lines) - FOLDED_EDGE_LINES) >= MIN_FOLDED_LINES and any(map(str.isalpha, form)):
            omitted += hidden
            lines[FOLDED_EDGE_LINES - 1 : -1] = [f"[... {hidden:,} lines like these left out ...]"]
        folded += lines
    return "\n".join(folded), omitted


def last_line(text: str, most: int) -> str:
    """Return the last line of `text`, "" if it has more than `most` characters."""
    line = text.rstrip().rpartition("\n")[2]
    return line if len(line) <= most else ""


def one_line(text: str) -> str:
    """Return `text` as one line of at most `LONGEST_LINE` characters; control characters become spaces."""
    line = _BREAKS.sub(" ", replace_surrogates(text)[: LONGEST_LINE + 1])
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "..."


def trim_text(text: str) -> str:
    """Return `text` without leading blank lines and trailing white space; its first line keeps its indent."""
    body = text.rstrip()
    start = len(body) - len(body.lstrip())
    return body[body.rfind("\n", 0, start) + 1 :]


def clip_text(text: str, most: int, end: str = "…") -> str:
    """Return `text`, or as much of its beginning as `most` characters take with `end` behind it."""
    return text if len(text) <= most else text[: most - len(end)] + end


def first_words(text: str, most: int, *, end: str = "…") -> str:
    """Return the start of `text` as one line of at most `most` characters; `end` marks a cut."""
    return clip_text(" ".join(text[: 4 * most].split()), most, end)


def cut_at_word(text: str, most: int) -> str:
    """Return `text` in at most `most` characters: whole, or cut at the end of a word and with `…`."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    cut_end = len(head) if text[most - 1].isspace() else head.rfind(" ", most // 2)  # some scripts have no spaces
    return (head[:cut_end] if cut_end > 0 else head).rstrip(" ,;:-") + "…"


def name_first(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Join the first `most` names for a line of text, and say how many more there are."""
    omitted = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + omitted


def join_with_and(names: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def describe_discarded(size: int, content: str) -> str:
    """Return the line in place of `size` bytes of `content`, beyond the hard limit, that were not kept."""
    return f"\n[... {size:,} more bytes of {content} exceeded the size limit and were not kept ...]"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return `1 request` or `3 requests`; `nouns` is an irregular plural."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
