"""Match file names as people and models write them: another spelling of an existing file, or the nearest name."""

from __future__ import annotations

import difflib
import os
import re
import unicodedata

_MAX = 20_000
"""Most names of one folder that are compared."""
_MIN_SIMILARITY = 0.6
"""Least similarity of a suggested name, 0 to 1."""
_LONGEST = 200
"""Most characters of a word that may look like a path."""
_FILE = re.compile(
    r"(?!\$|.*\$\{)(?:"  # a variable of a shell
    r"(?:~|\.{1,2})?/[^/].*"
    # A first folder with a dot is a host: `github.com/a/b.git`; also not `patch(a/b.c)`, `a/b@1/c.js`.
    r"|(?!(?:[^/]+\.|\w+[({]|.*@\d)[^/]*/)[^:]*/[^:]*\.[a-z]\w*"
    r"|[^:/]*\.(?:md|mdc|txt|rst|adoc|tex|json|jsonl|toml|ya?ml|xml|csv|ini|cfg|proto|html?|s?css|sql|(?:ba|z)?sh"
    r"|pyi?|ipynb|[jt]sx?|[cm][jt]s|vue|svelte|go|rs|java|kts?|scala|swift|cs|rb|php|[ch]|[ch]pp|cxx|cc|hh|hs|ml|lua"
    r"|exs?|r|jl|dart|zig|nix|tf|pdf|png|jpe?g|gif|webp|svg)"
    r"|(?:cargo|composer|flake|gemfile|mix|pdm|pipfile|poetry|uv|yarn)\.lock|go\.(?:mod|sum|work)"
    r"|makefile|gnumakefile|justfile|dockerfile|containerfile|gemfile|pipfile|procfile|jenkinsfile|rakefile)",
    re.IGNORECASE,
)


def looks_like_file(name: str) -> bool:
    """Return True for a name behind an `@` that can only be meant as a file: one that begins with `/`, `~/`, `./` or
    `../`, one with a slash and a suffix, one with a usual suffix, or a usual name such as `Makefile`. Not for `team`,
    `types/node`, `app.route`."""
    return len(name) <= _LONGEST and _FILE.fullmatch(name) is not None


def find_spelling(path: str) -> str:
    """Return the absolute `path`, or the existing path that differs only in Unicode form or kind of space.

    macOS puts a narrow no-break space into the names of screenshots. Names at the end that do not exist are kept.
    """
    if os.path.lexists(path):
        return path
    parent, waiting = "/", [part for part in path.split("/") if part]
    while waiting:
        part = waiting[0]
        if not os.path.lexists(os.path.join(parent, part)):
            alike = [] if _is_plain(part) else [name for name in _names(parent) if _key(name) == _key(part)]
            if len(alike) != 1:
                break
            part = alike[0]
        parent = os.path.join(parent, part)
        del waiting[0]
    return os.path.join(parent, *waiting)


def resolve_spelling(folder: str, path: str) -> str:
    """Return the absolute path for `path` as written in `folder`, by `find_spelling`. A leading `@` is removed if that
    gives an existing path."""
    expanded = os.path.join(folder, os.path.expanduser(path))
    spelling = find_spelling(expanded)
    if path.startswith("@") and not os.path.lexists(spelling) and len(path) > 1:
        mentioned = find_spelling(os.path.join(folder, os.path.expanduser(path[1:])))
        return mentioned if os.path.lexists(mentioned) else spelling
    return spelling


def nearest_path(folder: str, path: str) -> str:
    """Return an existing path with similar names, relative to `folder` if it is inside; "" if there is none."""
    parent = "/"
    for part in os.path.normpath(resolve_spelling(folder, path)).split("/")[1:]:
        candidate = os.path.join(parent, part)
        if not os.path.exists(candidate):
            near = _close(part, _names(parent))
            if not near:
                return ""
            candidate = os.path.join(parent, near)
        parent = candidate
    if not os.path.exists(parent):
        return ""
    return os.path.relpath(parent, folder) if parent.startswith(os.path.join(folder, "")) else parent


def _is_plain(part: str) -> bool:
    """Return True if this name has no other spelling."""
    return part.isascii() and " " not in part


def _key(name: str) -> str:
    return re.sub(r"\s", " ", unicodedata.normalize("NFC", name))


def _close(part: str, names: list[str]) -> str:
    """Return the name most similar to `part`, ignoring case, "" for none. The stems must be similar too."""
    folded = {name.casefold(): name for name in names}
    stem = os.path.splitext(part.casefold())[0]
    for near in difflib.get_close_matches(part.casefold(), folded, 5, _MIN_SIMILARITY):
        if difflib.SequenceMatcher(None, stem, os.path.splitext(near)[0]).ratio() >= _MIN_SIMILARITY:
            return folded[near]
    return ""


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(_MAX), strict=False)]
    except (OSError, ValueError):
        return []
