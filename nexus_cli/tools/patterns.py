"""Path patterns as `glob` and the filter of `grep` mean them. Which files there are is in `listing`."""

from __future__ import annotations

import fnmatch
import re

from nexus_cli.tools.files import Refused

_MOST = 256


class PathPattern:
    """`*`, `?` and `[...]` stay within one name, `**` stands for any number of folders, `{a,b}` for either.

    A pattern without `/` is matched against the name at any depth, one with `/` against the whole relative path.
    Matching takes time in proportion to the lengths. Raises `Refused` for a pattern that leaves its folder.
    """

    def __init__(self, pattern: str) -> None:
        self._choices = [_segments(choice) for choice in _expanded(pattern)]

    def matches(self, path: str) -> bool:
        """Whether this relative path, with `/`, is meant."""
        names = path.split("/")
        return any(_fits(segments, names) for segments in self._choices)


def _segments(pattern: str) -> list[re.Pattern[str] | None]:
    """One regular expression per name; None stands for `**`."""
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise Refused("the pattern is relative: name its folder in `path`")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if pattern.endswith("/"):
        names.append("**")
    if "/" not in pattern:
        names = ["**", *names]
    joined = [name for i, name in enumerate(names) if name != "**" or i == 0 or names[i - 1] != "**"]
    return [None if name == "**" else re.compile(fnmatch.translate(name)) for name in joined]


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


def _expanded(pattern: str) -> list[str]:
    """The patterns that braces stand for; a brace without a partner or a comma is a letter."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        choice = _first_choice(current)
        if choice is None:
            done.append(current)
        else:
            start, end, parts = choice
            waiting += [current[:start] + part + current[end:] for part in reversed(parts)]
        if len(done) + len(waiting) > _MOST:
            raise Refused(f"the braces stand for more than {_MOST} patterns")
    return done


def _first_choice(pattern: str) -> tuple[int, int, list[str]] | None:
    for start, letter in enumerate(pattern):
        if letter != "{":
            continue
        depth, parts, begin = 0, [], start + 1
        for i in range(start, len(pattern)):
            if pattern[i] == "{":
                depth += 1
            elif pattern[i] == "," and depth == 1:
                parts.append(pattern[begin:i])
                begin = i + 1
            elif pattern[i] == "}":
                depth -= 1
                if depth == 0:
                    if parts:
                        return start, i + 1, [*parts, pattern[begin:i]]
                    break
    return None
