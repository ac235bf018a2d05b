"""Match the path patterns of `glob` and of `grep`'s filter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from nexus_cli.core.path_globs import compile_signs
from nexus_cli.tools.files import ToolError

_MAX = 256
_MAX_TEXT = 64_000
"""Most characters of all patterns that braces expand to."""
_LONGEST = 1000
"""Most characters of a pattern that can match: time and memory grow with its length."""
_NEVER = re.compile("(?!)")
_CHOICES = re.compile(r"\{((?:[^{},]*+,)++[^{},]*+)\}")
"""Braces with a comma, in which there are no other braces."""
_PARTS = re.compile(r"(?:\{[^{}]*\}|[^,;|\s])+")
"""A pattern of a list."""
_SIGNS = re.compile(r"((?<![^/])\*\*(?:/|\Z)|\*|\?|\[!?+\]?+[^]/]*+\])")
"""The wildcards of a pattern."""


class PathPattern:
    """`*`, `?` and `[...]` match within one name, `**` any number of folders, `{a,b}` either.

    A pattern without `/` is matched against the name at any depth, one with `/` against the whole relative path.
    Brackets and braces match literally if such paths exist (`app/[slug]/*.tsx`). A list of patterns may be separated by
    `,`, `;`, `|` or spaces. Matching takes linear time.
    """

    def __init__(self, pattern: str) -> None:
        """Parse; raise `ToolError` for one that is empty, has a NUL, leaves its folder, or expands to too many."""
        parts = list(dict.fromkeys(_PARTS.findall(pattern)))
        if not any(part.strip("{}") for part in parts):
            raise ToolError("the pattern must not be empty")
        if "\0" in pattern:
            raise ToolError("the pattern must not contain a NUL: no path does")
        self._undivided = _PatternChoice(pattern)
        if len(parts) > _MAX:
            raise ToolError(f"the list has more than {_MAX} patterns")
        self._parts = [_PatternChoice(part) for part in parts] if len(parts) > 1 else []
        if sum(len(part.choices) for part in self._parts) > 2 * _MAX:
            raise ToolError(f"the braces expand to more than {2 * _MAX} patterns")

    def select(self, paths: Sequence[str], step: Callable[[], None] = lambda: None) -> list[str]:
        """Return those of `paths` (relative, with `/`) that match.

        `step` is called repeatedly and may raise. Raises `ToolError` if the pattern cannot match any name.
        """
        matching = self._undivided.select(paths, step) or {
            path for part in self._parts for path in part.select(paths, step)
        }
        if not matching and all(reading.impossible for reading in self._parts or [self._undivided]):
            raise ToolError("the pattern can match no name: a range in its brackets is empty")
        return [path for path in paths if path in matching]


class _PatternChoice:
    """One pattern; its brackets are tried literally and as classes."""

    def __init__(self, pattern: str) -> None:
        pattern = unicodedata.normalize("NFC", pattern)
        self._exact = pattern.removeprefix("./")
        self._literal = _compile(pattern, literal=True)
        self.choices = [(_compile(choice, literal=True), _compile(choice)) for choice in _expand_braces(pattern)]

    @property
    def impossible(self) -> bool:
        """True if no name can match any of its choices."""
        return not any(loose for _, loose in self.choices)

    def select(self, paths: Sequence[str], step: Callable[[], None]) -> set[str]:
        """Return the path equal to the pattern, else the matching ones; for each choice literal matches come first."""
        step()
        names = {path: unicodedata.normalize("NFC", path) for path in paths}
        exact = {path for path in paths if names[path] == self._exact}
        if exact and "*" not in self._exact:
            return exact
        matching = _find_matching(names, self._literal)
        for literal, loose in self.choices:
            step()
            matching |= _find_matching(names, literal) or _find_matching(names, loose)
        return matching


def _find_matching(names: Mapping[str, str], expression: re.Pattern[str] | None) -> set[str]:
    return {path for path, name in names.items() if expression.match(name)} if expression else set()


def _compile(pattern: str, *, literal: bool = False) -> re.Pattern[str] | None:
    """Compile a pattern without braces, None if brackets in it match no character. With `literal` brackets match
    themselves."""
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise ToolError("the pattern must be relative and without `..`: name its folder in `path`")
    if len(pattern) > _LONGEST:
        return _NEVER
    names = [
        name if name == "**" else re.sub(r"\*+", "*", name) for name in pattern.split("/") if name not in ("", ".")
    ]
    before, after = ["**"] * ("/" not in pattern), ["**"] * pattern.endswith("/")
    try:
        signs = [_read_sign(sign, literal) for sign in _SIGNS.split("/".join([*before, *names, *after]))]
    except re.error:
        return None
    return compile_signs(signs, r"\Z")


def _read_sign(sign: str, literal: bool) -> str | re.Pattern[str]:
    """Return a part of a pattern as `compile_signs` takes it. Raises `re.error` for brackets with an empty range."""
    if literal or not (sign.startswith("[") and _SIGNS.fullmatch(sign)):
        return sign
    body = re.sub(r"[\\\[&~|^]|(?<=-)-", r"\\\g<0>", sign[1:-1])
    return re.compile(f"[^/{body[1:]}]" if body.startswith("!") else f"(?!/)[{body}]")


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
        if count > _MAX or (count > 1 and count * len(pattern) > _MAX_TEXT):
            raise ToolError(f"the braces expand to more than {_MAX} patterns")
    return expanded
