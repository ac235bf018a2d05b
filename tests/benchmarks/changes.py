"""Changes of a repository, commit by commit, as the edits that a model makes: from the history of this repository.

A hunk's `old` is a whole number of lines that occur once in the file, so that `edit_file` takes it.
"""

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.measure import ChildFailedError

REPOSITORY = Path(__file__).resolve().parents[2]
CONTEXT = 2
"""Unchanged lines quoted around a change."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One replacement in a file."""

    first: int
    """Its first line in the file before, from 1."""
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a commit does to one text file."""

    path: str
    lines: int
    """Of the file before; 0 if there is none."""
    hunks: Sequence[Hunk]
    text: str | None
    """The file afterwards; None if the commit deletes it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One commit."""

    subject: str
    body: str
    files: Sequence[FileChange]


def git(*arguments: str) -> str:
    """Return the output of git in this repository; `ChildFailedError` if its history is not there."""
    try:
        done = subprocess.run(["git", "-C", str(REPOSITORY), *arguments], capture_output=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise ChildFailedError("git is not installed: the tasks are commits of this repository") from error
    if done.returncode:
        why = done.stderr.decode(errors="replace").partition("\n")[0]
        raise ChildFailedError(f"the full history of this repository is not here (`git fetch --unshallow`): {why}")
    return done.stdout.decode("utf-8", "replace")


def write_tree(commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder."""
    packed = subprocess.run(["git", "-C", str(REPOSITORY), "archive", commit], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)


@cache
def changes_of(first: str, last: str) -> Sequence[Change]:
    """Return the commits after `first` up to `last`, which are one line without merges."""
    commits = git("rev-list", "--reverse", f"{first}..{last}").split()
    return tuple(_change_of(commit) for commit in commits)


def _change_of(commit: str) -> Change:
    subject, _, body = git("show", "-s", "--format=%s%n%b", commit).partition("\n")
    files = []
    for row in git("diff-tree", "-r", "--no-renames", "--numstat", commit).splitlines()[1:]:
        added, _, path = row.split("\t")
        if added != "-":
            before, after = _text_of(f"{commit}^", path), _text_of(commit, path)
            hunks = tuple(_hunks(before, after)) if before is not None and after is not None else ()
            files.append(FileChange(path, (before or "").count("\n"), hunks, after))
    return Change(subject, body.strip(), tuple(files))


def _text_of(commit: str, path: str) -> str | None:
    listed = git("ls-tree", "--full-tree", commit, "--", path)
    return git("show", f"{commit}:{path}") if listed else None


def _hunks(before: str, after: str) -> Iterator[Hunk]:
    """Yield the changes of a text, each with as much around it as makes it unique; they do not touch."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    spans: list[tuple[int, int, int, int]] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        grown = _grow(before, old, (max(0, i - CONTEXT), min(len(old), j + CONTEXT)))
        span = grown[0], grown[1], k - (i - grown[0]), m + (grown[1] - j)
        while spans and spans[-1][1] >= span[0]:
            last = spans.pop()
            span = min(last[0], span[0]), max(last[1], span[1]), min(last[2], span[2]), max(last[3], span[3])
        spans.append(span)
    for i, j, k, m in spans:
        yield Hunk(i + 1, "".join(old[i:j]), "".join(new[max(0, k) : m]))


def _grow(before: str, old: Sequence[str], span: tuple[int, int]) -> tuple[int, int]:
    """Widen a span of lines until its text occurs once."""
    first, end = span
    while before.count("".join(old[first:end])) != 1 and (first, end) != (0, len(old)):
        first, end = max(0, first - 1), min(len(old), end + 1)
    return first, end
