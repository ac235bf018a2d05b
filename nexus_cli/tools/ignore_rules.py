"""Parse the rules of a `.gitignore` as git does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nexus_cli.core.path_globs import ONE, GlobPart, compile_parts

MOST_RULES = 10_000
"""Most rules of one file; later ones are ignored."""
LONGEST_RULE = 1024
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "space": r" \t\n\r\f\v",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
    "cntrl": r"\x00-\x1f\x7f",
    "print": " -~",
    "graph": "!-~",
}


class UnmatchableRule(Exception):
    """The pattern cannot match: it has incomplete brackets or a trailing backslash."""


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """The rule of one line."""

    expression: re.Pattern[str]
    """For `match` on a path relative to the file's folder, with one character per byte, as git matches."""
    ignores: bool
    """False for a negated rule (`!`)."""
    only_folders: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """All rules of one file."""

    rules: tuple[IgnoreRule, ...]
    """In reverse order: the last matching rule of a file decides."""

    def decide(self, path: str, is_folder: bool) -> bool | None:
        """Return True if the rules ignore `path`, None if none matches. The caller checks the folders above."""
        name = os.fsencode(path).decode("latin-1")
        for rule in self.rules:
            if (is_folder or not rule.only_folders) and rule.expression.match(name):
                return rule.ignores
        return None


def read_ignore_rules(data: bytes, step: Callable[[], None]) -> IgnoreRules:
    """Parse the content of a `.gitignore`; `step` is called before each line and may raise."""
    rules: list[IgnoreRule] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n"):
        step()
        rule = _read_rule(line.removesuffix("\r"))
        if rule is not None:
            rules.append(rule)
        if len(rules) == MOST_RULES:
            break
    return IgnoreRules(tuple(reversed(rules)))


def _read_rule(line: str) -> IgnoreRule | None:
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    pattern = bare + " " if escapes % 2 and bare != line else bare
    if not pattern or pattern.startswith("#") or len(pattern) > LONGEST_RULE:
        return None
    ignores = not pattern.startswith("!")
    pattern = pattern.removeprefix("!")
    only_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    pattern = pattern.removeprefix("/")
    try:
        return IgnoreRule(compile_parts(list(_read_parts(pattern))), ignores, only_folders)
    except UnmatchableRule:
        return None


def _read_parts(pattern: str) -> Iterator[GlobPart]:
    part = GlobPart()
    place = 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "*":
            behind = place
            while pattern.startswith("*", behind):
                behind += 1
            is_name = behind - place > 1 and pattern[place - 1 : place] in ("", "/")
            if is_name and pattern[behind : behind + 1] in ("", "/"):
                yield part
                part = GlobPart("**/" if behind < len(pattern) else "**")
                behind += 1
            else:
                part.add_star()
            place = behind
        elif sign == "[":
            expression, place = _read_brackets(pattern, place + 1)
            part.add(expression)
        elif sign == "\\" and place + 1 == len(pattern):
            raise UnmatchableRule
        else:
            place += sign == "\\"
            part.add(ONE if sign == "?" else re.escape(pattern[place]))
            place += 1
    yield part


def _read_brackets(pattern: str, place: int) -> tuple[str, int]:
    """Return the expression for brackets whose content begins at `place`, and the position after them."""
    negated = pattern[place : place + 1] in ("!", "^")
    place += negated
    first, found = place, ""
    while place == first or pattern[place : place + 1] != "]":
        low, place = _read_item(pattern, place)
        is_range = pattern.startswith("-", place) and pattern[place + 1 : place + 2] not in ("", "]")
        if not low.startswith("\\U") or not is_range:
            found += low
            continue
        high, place = _read_item(pattern, place + 1)
        if not high.startswith("\\U"):
            raise UnmatchableRule
        if int(low[2:], 16) <= int(high[2:], 16):
            found += f"{low}-{high}"
    return (f"[^/{found}]" if negated else f"(?!/)[{found}]" if found else "(?!)"), place + 1


def _read_item(pattern: str, place: int) -> tuple[str, int]:
    """Return an escaped character or named class in brackets, and the position after it."""
    end = pattern.find(":]", place + 2) if pattern.startswith("[:", place) else -1
    if end >= 0:
        if pattern[place + 2 : end] not in _CLASSES:
            raise UnmatchableRule
        return _CLASSES[pattern[place + 2 : end]], end + 2
    place += pattern[place : place + 1] == "\\"
    if place >= len(pattern):
        raise UnmatchableRule
    return rf"\U{ord(pattern[place]):08x}", place + 1
