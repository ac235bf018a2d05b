"""Characters that look alike: a text is found although quotes, dashes, accents, blanks or invisible signs differ, and
the differences are named. Pure, from the Unicode database; nothing is ever replaced by what is found here.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_LARGEST = 4_000_000
"""Characters of a text that are searched."""
_MOST_NAMED = 8


def name_lookalikes(text: str, old: str) -> str:
    """Return the characters by which the first place that looks like `old` differs from it, with their lines.

    "" where no place of `text` looks like `old`. Each difference reads as `U+2019 (right single quotation mark) for '`:
    first what the text has, then what `old` has.
    """
    old = re.sub(r"\r*\n", "\n", old)
    wanted = _fold(old)
    if not wanted.strip():
        return ""
    lines = re.sub(r"\r*\n", "\n", text[:_LARGEST]).split("\n")
    folded = [_fold(line) for line in lines]
    joined = "\n".join(folded)
    place = joined.find(wanted)
    while place >= 0 and unicodedata.combining(joined[place + len(wanted) : place + len(wanted) + 1] or " "):
        # The last letter has a mark there that `old` does not have.
        place = joined.find(wanted, place + 1)
    if place < 0:
        return ""
    first = joined.count("\n", 0, place)
    last = first + wanted.count("\n")
    region = "\n".join(lines[first : last + 1])
    offset = place - (joined.rfind("\n", 0, place) + 1)
    return _describe(_differences(region, old, offset, first + 1))


def _fold(text: str) -> str:
    """Return `text` with one form for all characters that look alike."""
    if text.isascii():
        bare = re.sub(r"[\x00-\x08\r\x0e-\x1f\x7f]", "", text)
        return re.sub(r"[ \t\v\f]+", " ", bare)
    return "".join(form for _, form in _pieces(text))


def _pieces(text: str) -> list[tuple[str, str]]:
    """Return the pieces of `text` that change their form as one, each with its form; blanks in a row are one."""
    found: list[tuple[str, str]] = []
    for char in text:
        form = _form(char)
        if found and unicodedata.combining(char):
            whole = found[-1][0] + char
            found[-1] = (whole, _normal(whole) if found[-1][1].strip() else found[-1][1] + form)
        elif found and form == found[-1][1] == " ":
            found[-1] = (found[-1][0] + char, " ")
        elif found and not form:
            # What cannot be seen belongs to what stands before it.
            found[-1] = (found[-1][0] + char, found[-1][1])
        else:
            found.append((char, form))
    return found


def _normal(cluster: str) -> str:
    """Return the form of a letter with its marks; they have one order."""
    return unicodedata.normalize("NFD", "".join(_form(char) for char in cluster))


@lru_cache(4096)
def _form(char: str) -> str:
    """Return what a character looks like, "" if it cannot be seen."""
    if char in "\n ":
        return char
    category, name = unicodedata.category(char), unicodedata.name(char, "")
    if category == "Zs" or char in "\t\v\f":
        return " "
    if category in ("Cf", "Cc") or name.startswith("VARIATION SELECTOR"):
        return ""
    if category == "Pd" or name == "MINUS SIGN":
        return "-"
    if "QUOTATION MARK" in name or "APOSTROPHE" in name or name.endswith("PRIME"):
        double = ("QUOTATION MARK" in name and "SINGLE" not in name) or "DOUBLE" in name
        return '"' if double else "'"
    plain = unicodedata.normalize("NFKD", char)
    if plain == char or (len(plain) > 1 and plain[0] == " "):
        return char
    return "".join(_form(part) for part in plain)


def _differences(region: str, old: str, offset: int, line: int) -> dict[tuple[str, str], list[int]]:
    """Return pairs of unequal pieces (in the text, in `old`) with the lines they stand in."""
    there, given = _pieces(region), _pieces(old)
    found: dict[tuple[str, str], list[int]] = {}
    skipped = at = 0
    while at < len(there) and skipped < offset:
        skipped += len(there[at][1])
        line += there[at][0].count("\n")
        at += 1
    index = 0
    while at < len(there) and index < len(given):
        (one, one_form), (other, other_form) = there[at], given[index]
        at, index = at + 1, index + 1
        while one_form != other_form and (at < len(there) or index < len(given)):
            if len(one_form) <= len(other_form) and at < len(there):
                one, one_form, at = one + there[at][0], one_form + there[at][1], at + 1
            elif index < len(given):
                other, other_form, index = other + given[index][0], other_form + given[index][1], index + 1
            else:
                break
        if one != other:
            lines = found.setdefault(_unequal_part(one, other), [])
            if line not in lines:
                lines.append(line)
        line += one.count("\n")
    return found


def _unequal_part(one: str, other: str) -> tuple[str, str]:
    """Return two different pieces without the characters that both begin with, where something is left of them."""
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    blank = not one.strip() and not other.strip()
    marks = any(unicodedata.combining(char) for char in (one + other)[shared:])
    return (one, other) if blank or marks else (one[shared:], other[shared:])


def _describe(found: dict[tuple[str, str], list[int]]) -> str:
    named = [
        f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:_MOST_NAMED]))}"
        f"{', ...' if len(lines) > _MOST_NAMED else ''}: {_name(there)} for {_name(given)}"
        for (there, given), lines in list(found.items())[:_MOST_NAMED]
    ]
    more = len(found) - len(named)
    return "; ".join(named) + (f"; {more} more" if more > 0 else "")


def _name(piece: str) -> str:
    """Return a piece as a person can read it: an ASCII sign as it is, blanks counted, all else by code point."""
    if not piece:
        return "nothing"
    parts: list[str] = []
    for run in re.finditer(r"(.)\1*", piece[:24], re.DOTALL):
        char, count = run[1], len(run[0])
        times = f"{count} x " if count > 1 else ""
        if char == " ":
            parts.append("a space" if count == 1 else f"{count} spaces")
        elif char.isascii() and char.isprintable():
            parts.append(run[0])
        else:
            name = "tab" if char == "\t" else unicodedata.name(char, "control character").lower()
            parts.append(f"{times}U+{ord(char):04X} ({name})")
    return " + ".join(parts)
