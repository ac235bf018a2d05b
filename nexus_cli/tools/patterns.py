"""Match the path patterns of `glob` and of `grep`'s filter."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

from nexus_cli.tools.files import ToolError

_MOST = 256
_MOST_TEXT = 64_000
"""Most characters of all patterns that braces expand to."""
_LONGEST_NAME = 1000
"""Most characters of the pattern of one name."""
_CHOICES = re.compile(r"\{((?:[^{},]*+,)++[^{},]*+)\}")
"""Braces with a comma, in which there are no other braces."""
_NEVER = "(?!)"
"""The expression of `fnmatch` for brackets that match no character."""


class PathPattern:
    """`*`, `?` and `[...]` match within one name, `**` any number of folders, `{a,b}` either.

    A pattern without `/` is matched against the name at any depth, one with `/` against the whole relative path.
    Brackets and braces match literally if such paths exist (`app/[slug]/*.tsx`). A list of patterns may be separated by
    `,`, `;`, `|` or spaces. Matching takes linear time.
    """

    def __init__(self, pattern: str) -> None:
        """Parse; raise `ToolError` for one that is empty, has a NUL, leaves its folder, or expands to too many."""
        parts = list(dict.fromkeys(_split_list(pattern)))
        if not any(part.strip("{}") for part in parts):
            raise ToolError("the pattern must not be empty")
        if "\0" in pattern:
            raise ToolError("the pattern must not contain a NUL: no path does")
        self._whole = _PatternChoice(pattern)
        if len(parts) > _MOST:
            raise ToolError(f"the list has more than {_MOST} patterns")
        self._parts = [_PatternChoice(part) for part in parts] if len(parts) > 1 else []
        if sum(len(part.choices) for part in self._parts) > 2 * _MOST:
            raise ToolError(f"the braces expand to more than {2 * _MOST} patterns")

    def select(self, paths: Sequence[str], step: Callable[[], None] = lambda: None) -> list[str]:
        """Return those of `paths` (relative, with `/`) that match.

        `step` is called repeatedly and may raise. Raises `ToolError` if the pattern cannot match any name.
        """
        matching = self._whole.select(paths, step) or {
            path for part in self._parts for path in part.select(paths, step)
        }
        if not matching and all(reading.impossible for reading in self._parts or [self._whole]):
            raise ToolError("the pattern can match no name: a range in its brackets is empty")
        return [path for path in paths if path in matching]


class _PatternChoice:
    """One pattern; its brackets are tried literally and as classes."""

    def __init__(self, pattern: str) -> None:
        pattern = unicodedata.normalize("NFC", pattern)
        self._exact = pattern.removeprefix("./")
        self._literal = _segments(pattern, literal=True)
        self.choices = [(_segments(choice, literal=True), _segments(choice)) for choice in _expand_braces(pattern)]

    @property
    def impossible(self) -> bool:
        """True if no name can match any of its choices."""
        return all(any(name and _NEVER in name.pattern for name in loose) for _, loose in self.choices)

    def select(self, paths: Sequence[str], step: Callable[[], None]) -> set[str]:
        """Return the path equal to the pattern, else the matching ones; for each choice literal matches come first."""
        step()
        names = {path: unicodedata.normalize("NFC", path).split("/") for path in paths}
        same = {path for path in paths if "/".join(names[path]) == self._exact}
        if same and "*" not in self._exact:
            return same
        matching = {path for path in paths if _fits(self._literal, names[path])}
        for literal, loose in self.choices:
            step()
            exact = {path for path in paths if _fits(literal, names[path])}
            matching |= exact or {path for path in paths if _fits(loose, names[path])}
        return matching


def _split_list(pattern: str) -> list[str]:
    """Split a list of patterns at `,`, `;`, `|` or white space outside braces."""
    parts, start, depth = [], 0, 0
    closing = pattern.count("}")
    for index, letter in enumerate(pattern):
        if letter == "{" and closing:
            depth += 1
        elif letter == "}":
            closing -= 1
            depth = max(0, depth - 1)
        elif not depth and (letter in ",;|" or letter.isspace()):
            parts.append(pattern[start:index])
            start = index + 1
    return [part for part in [*parts, pattern[start:]] if part]


def _segments(pattern: str, *, literal: bool = False) -> list[re.Pattern[str] | None]:
    """Return one regular expression per name, None for `**`. With `literal` brackets match themselves."""
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise ToolError("the pattern must be relative and without `..`: name its folder in `path`")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if pattern.endswith("/"):
        names.append("**")
    if "/" not in pattern:
        names = ["**", *names]
    joined = [name for i, name in enumerate(names) if name != "**" or i == 0 or names[i - 1] != "**"]
    if literal:
        joined = [name.replace("[", "[[]") for name in joined]
    return [None if name == "**" else _compile_name(name) for name in joined]


@lru_cache(4096)
def _compile_name(name: str) -> re.Pattern[str]:
    """Compile the pattern of one name; the expressions of `fnmatch` never backtrack into a star."""
    if len(name) > _LONGEST_NAME:
        return re.compile(r"\b\B")
    return re.compile(fnmatch.translate(name))


def _fits(segments: list[re.Pattern[str] | None], names: list[str]) -> bool:
    reached = {0}
    for segment in segments:
        if segment is None:
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {i + 1 for i in reached if i < len(names) and segment.match(names[i])}
        if not reached:
            return False
    return len(names) in reached


def _expand_braces(pattern: str) -> list[str]:
    """Expand braces, the innermost first. Those without a partner or a comma match themselves, as do those around
    them."""
    expanded: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        if braces := _CHOICES.search(current):
            parts = [part.strip() for part in braces[1].split(",")]
            waiting += [current[: braces.start()] + part + current[braces.end() :] for part in reversed(parts)]
        else:
            expanded.append(current)
        count = len(expanded) + len(waiting)
        if count > _MOST or (count > 1 and count * len(pattern) > _MOST_TEXT):
            raise ToolError(f"the braces expand to more than {_MOST} patterns")
    return expanded
