"""Find the changes that the person may have made while a command ran: those that nothing attributes to the command.

Nobody can know who wrote a path. A command that ran for longer than `SECONDS` is assumed to have written the files that
its words or its output name, files that tools write by themselves, and files that changed by the dozen. The rest is
unsure.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from nexus_cli.config.paths import folders_above
from nexus_cli.tree.file_state import ABSENT
from nexus_cli.undo.records import GIT_FOLDER, FileChange

SECONDS = 1.0
"""Longest time of a command during which a person saves nothing."""
MANY_FILES = 20
"""More new, changed or removed files than these of one suffix are the command's: a person saves few at a time."""
_MAX = 1_000_000
"""Most characters of an output that are searched for names."""
_MAX_PATTERNS = 100
"""Most patterns of a command that each change is compared with: more would take minutes."""
_SEGMENTS = re.compile(r"[;\n]|&&|\|\|?|&(?!>)")
_TARGETS = re.compile(r">{1,2}\|?\s*([^\s;|&<>()]+)")
_SEPARATORS = re.compile(r"[\s;|&<>()\"'`=,:{}$]+")
_VARIABLES = re.compile(r"^\s*(?:\w+=\S*\s+)+")
_ABOVE = re.compile(r"^(?:\.{1,3}/)+")
NAMES_GIT = re.compile(r"\b(?:git|gh|glab)\b")
"""A command that may have moved branches or written the index. In an output the word says nothing."""
_GLOB = re.compile(r"[*?\[]")
_WRAPPERS = frozenset("python python3 node bash sh zsh env sudo time timeout nohup nice xvfb-run npx bunx exec".split())
_READERS = frozenset(
    """
    sleep cd true echo printf ls cat head tail wc grep rg test export set wait curl ping docker pytest py.test tox nox
    unittest jest vitest mocha playwright cypress rspec phpunit ctest make ninja cmake meson bazel gradle gradlew mvn
    sbt tsc vite webpack mypy pyright pylint flake8 ruff eslint npm pnpm yarn bun cargo go dotnet mix bundle rake uv
    poetry pdm pip just task composer rustc gcc g++ cc clang clang++ java javac ruby php deno serve uvicorn flask
    """.split()
)
"""Programs whose operands are read, targets or scripts: that they name a path says nothing about who wrote it."""
_WRITES = re.compile(r"fmt|format|fix|write|update|generat|\binit\b|\bclean\b", re.IGNORECASE)
"""Words with which such a program writes what it names."""
_UNPACKS = frozenset(
    """
    tar unzip 7z rsync patch checkout switch restore reset pull merge rebase stash apply am cherry-pick revert bisect
    submodule subtree sparse-checkout checkout-index read-tree filter-branch
    """.split()
)
"""Programs, and commands of git, that write files which nobody names."""
_OUTPUTS = (
    *"*.o *.a *.so *.dylib *.dll *.exe *.obj *.d *.lo *.la *.pyc *.class *.jar *.wasm *.whl *.egg-info/* *.log".split(),
    *"*.tmp *.lock *-lock.json *-lock.yaml *.lockb go.sum *.snap *.snap.new *.ambr *.tsbuildinfo *.pid".split(),
    *".coverage* coverage.xml lcov.info *junit*.xml */__snapshots__/* __snapshots__/* coverage/*".split(),
)
"""What builds, tests and installers write without a word."""
_MANIFESTS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), "package.json"),
    **dict.fromkeys(("uv", "poetry", "pdm"), "pyproject.toml"),
    "cargo": "Cargo.toml",
    "go": "go.mod",
    "bundle": "Gemfile",
    "composer": "composer.json",
}
"""The files that installers write too."""


def mark_unsure(
    changes: Sequence[FileChange], work: Iterable[str], command: str, output: str, root: str
) -> list[FileChange]:
    """Return `changes` with those marked that the person may have made while a command ran in `root`.

    `work` are the changed paths that git does not ignore: the others are the command's.
    """
    words, globs, only_reads = _read_command(command, root)
    written, manifests = set(_split(output[-_MAX:], root)), {_MANIFESTS.get(word, "") for word in _split(command, "")}
    groups, mine = Counter(map(_group, changes)), {path for path in work if os.path.basename(path) != GIT_FOLDER}

    def is_named(change: FileChange) -> bool:
        path, name = change.path, change.path.rpartition("/")[2]
        ends, folders = _ends(path), [path[: slash.start()] for slash in re.finditer("/", path)]
        above = {".", *(end for folder in folders for end in _ends(folder))}
        if name in manifests or not words.isdisjoint(above.union(ends)):
            return True
        if any(fnmatchcase(candidate, glob) for glob in globs for candidate in (*ends, *folders)):
            return True
        if only_reads and change.before.kind != ABSENT:
            return False
        return not written.isdisjoint(ends) or (bool(_SEPARATORS.search(name)) and name in f"{command}\n{output}")

    unsure = {
        file_change.path
        for file_change in changes
        if file_change.path in mine and groups[_group(file_change)] <= MANY_FILES and not is_named(file_change)
    }
    sure = {above for path in mine - unsure for above in folders_above(f"/{path}")}
    unsure_folders = {
        above for path in unsure for above in folders_above(f"/{path}")
    } - sure  # they came or went with them
    return [
        replace(file_change, is_unsure=file_change.path in unsure or f"/{file_change.path}" in unsure_folders)
        for file_change in changes
    ]


def _group(change: FileChange) -> tuple[str, bool, bool]:
    return os.path.splitext(change.path)[1], change.before.kind == ABSENT, change.after.kind == ABSENT


def _read_command(command: str, root: str) -> tuple[set[str], list[str], bool]:
    """Return the words that name what a command may write, the patterns of it, and True if its programs only read what
    they name."""
    words, only_reads = _split(" ".join(_TARGETS.findall(command)), root), True
    for segment in _SEGMENTS.split(command):
        program, *operands = _find_program(_split(_VARIABLES.sub("", segment), root)) or [""]
        if program in _UNPACKS or (NAMES_GIT.fullmatch(program) and not _UNPACKS.isdisjoint(operands)):
            words.append(".")
        if program and (program not in _READERS or _WRITES.search(segment)):
            only_reads = False
            words += operands
    return set(words), [*_OUTPUTS, *[word for word in words if _GLOB.search(word)][:_MAX_PATTERNS]], only_reads


def _ends(path: str) -> list[str]:
    """Return a path and what remains of it without its first folders: a command may name it from one of them."""
    return [path, *(path[slash.end() :] for slash in re.finditer("/", path))]


def _find_program(words: list[str]) -> list[str]:
    """Return the name of the program of a simple command, and its operands."""
    for index, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name not in _WRAPPERS and not word.startswith("-") and not word.replace(".", "").isdigit():
            return [name, *words[index + 1 :]]
    return []


def _split(text: str, root: str) -> list[str]:
    """Return the words of a text that may be paths, relative to `root`."""
    above, paths = f"../{os.path.basename(root)}", []
    for word in _SEPARATORS.split(text):
        path = word.rstrip("/")
        for start in (root, above):
            path = "." if path == start else path.removeprefix(f"{start}/")
        paths.append(path if path == "." else _ABOVE.sub("", f"{path}/").rstrip("/."))
    return list(filter(None, paths))
