"""The files that deny rules name: the sandbox hides those for reading, as they are now, and protects those for
edits."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.real_files import join_path
from nexus_cli.core.shared_types import Paths
from nexus_cli.core.tool import Effect
from nexus_cli.rules.rule_set import PermissionRule, RuleSet, path_matches, whole_path_pattern

MAX_FILES = 200
"""Files and folders that are hidden at most, in a worktree as many again of its source project: each is a mount, or
takes its folder apart."""
MAX_ENTRIES = 20_000
"""Names that are looked at for it."""
_VISITED_LAST = frozenset({"node_modules", "__pycache__", "venv", ".venv", "target", "vendor", "site-packages", "dist"})
"""Folders of installed and built files: looked into after all others."""


@dataclass(frozen=True, slots=True)
class DeniedFiles:
    """The files and folders that were found."""

    paths: Paths = ()
    """Real paths of files and folders; a folder counts with all that is in it."""
    is_whole: bool = True
    """False where a bound was reached."""


def find_denied_files(rules: RuleSet, project: Path, cwd: Path, added: Sequence[Path] = ()) -> DeniedFiles:
    """Return the files that deny rules for reading name now, those near the top first, those of a worktree's source
    project after all others; all paths are real.

    Links are not followed, and `.git` is not looked into: git reads it at every command. A folder that `cwd` is in is
    never named, only what else it holds; a rule without a pattern names nothing.
    """
    strict = [rule for rule in rules.of("deny", Effect.READ) if rule.pattern]
    own_files = _find_below(strict, [str(project), *map(str, added)], str(cwd))
    relative = [rule for rule in strict if rule.source and not rule.pattern.startswith(("/", "~"))]
    source_files = _find_below(relative, [rule.source for rule in relative[:1]], str(cwd))
    return DeniedFiles(
        tuple(dict.fromkeys((*own_files.paths, *source_files.paths))), own_files.is_whole and source_files.is_whole
    )


def _find_below(strict: Sequence[PermissionRule], roots: Sequence[str], cwd: str) -> DeniedFiles:
    """Return the files that the rules `strict` name below `roots`, and anywhere by absolute patterns."""
    exact, bases = _split_patterns([rule.pattern for rule in strict], roots)
    denied = dict.fromkeys(path for path in exact if not _is_in(cwd, path))
    waiting, later, remaining = (
        deque([*bases, *(path for path in exact if path not in denied)]),
        deque[str](),
        MAX_ENTRIES,
    )
    while waiting or later:
        folder = waiting.popleft() if waiting else later.popleft()
        for entry in _list_folder(folder):
            remaining -= 1
            if remaining < 0 or len(denied) >= MAX_FILES:
                return DeniedFiles(tuple(map(Path, denied)), is_whole=False)
            if not _is_in(cwd, entry.path) and any(path_matches(rule, entry.path, *roots) for rule in strict):
                denied[entry.path] = None
            elif entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                (later if entry.name in _VISITED_LAST else waiting).append(entry.path)
    return DeniedFiles(tuple(map(Path, denied)))


def find_write_denied_paths(
    rules: RuleSet, project: Path, added: Sequence[Path] = ()
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the paths that deny rules for edits name, existing or not; for their patterns, regular expressions of
    folded paths. Each has the text of its rule."""
    exact, patterns = dict[str, str](), dict[str, str]()
    for rule in {rule.pattern: rule for rule in rules.of("deny", Effect.EDIT) if rule.pattern}.values():
        roots = (str(project), *map(str, added), *filter(None, [rule.source]))
        path = os.path.expanduser(rule.pattern).rstrip("/").removesuffix("/**")
        rule_paths = [join_path(root, path) for root in roots]
        if "/" not in rule.pattern.rstrip("/") or re.search(r"[*?]", path) or set(rule_paths) & set(roots):
            patterns[whole_path_pattern(rule, *roots)] = rule.text
        else:
            exact |= dict.fromkeys(rule_paths, rule.text)
    return exact, patterns


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _split_patterns(patterns: Sequence[str], roots: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the existing paths that patterns without a sign of a glob name, and the folders to look for the others."""
    exact: list[str] = []
    bases: dict[str, None] = {}
    for pattern in patterns:
        path = os.path.expanduser(pattern).rstrip("/").removesuffix("/**")
        fixed = re.split(r"[^/]*[*?]", path, maxsplit=1)[0]
        if not path.startswith("/") and (fixed != path or "/" not in pattern.rstrip("/")):
            bases.update(dict.fromkeys(roots))
        elif fixed != path:
            bases[os.path.normpath(fixed)] = None
        else:
            candidates = (join_path(root, path) for root in roots)
            exact += [literal for literal in candidates if os.path.lexists(literal) and not os.path.islink(literal)]
    return exact, list(bases)


def _list_folder(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder except links; none if it cannot be listed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield entry
