"""Parse git's files without git: the paths in a configuration, its plainness, and the repositories in an index.

Each parser makes one pass and accepts any bytes: a command may have written them.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator

from nexus_cli.tree.index_entries import read_index

_SECTIONS = frozenset({b"core", b"user", b"init", b"extensions", b"remote", b"branch"})
_KEYS = frozenset(
    {
        b"repositoryformatversion",
        b"filemode",
        b"bare",
        b"logallrefupdates",
        b"ignorecase",
        b"precomposeunicode",
        b"symlinks",
        b"name",
        b"email",
        b"defaultbranch",
        b"objectformat",
        b"refstorage",
        b"url",
        b"fetch",
        b"remote",
        b"merge",
        b"rebase",
    }
)
"""Settings of a new repository's configuration that name no program and no other file."""
_CONTINUED = re.compile(rb"(?<!\\)((?:\\\\)*)\\\r?\n")
_PIECE = re.compile(rb'\\.|["#;]|[^\\"#;]+', re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"b": b"\b"}
_LINK = 0o160000
"""Mode of another repository in an index."""


def is_plain(configuration: bytes, *, of_submodule: bool) -> bool:
    """Return True for a configuration that makes git run no program and read no other file."""
    keys = _KEYS | {b"worktree"} if of_submodule else _KEYS
    return all(_is_plain_line(line.strip(), keys) for line in configuration.split(b"\n"))


def _is_plain_line(line: bytes, keys: frozenset[bytes]) -> bool:
    if not line or line[:1] in b"#;":
        return True
    if line.startswith(b"["):
        name = line[1:-1].split(b" ", 1)[0].lower()
        return line.find(b"]") == len(line) - 1 and b"\\" not in line and name in _SECTIONS
    key, _, value = line.partition(b"=")
    return b"\\" not in value and key.strip().lower() in keys


def named_files(configuration: bytes) -> Iterator[str]:
    """Yield the hook folders (`core.hooksPath`) and included files (`path`) that a configuration names."""
    for line in _CONTINUED.sub(rb"\1", configuration).split(b"\n"):
        line = line.strip()
        if line.startswith(b"["):
            line = line.rpartition(b'"]')[2] if b'"]' in line else line.partition(b"]")[2]
        key, _, value = line.partition(b"=")
        if key.strip().lower() in (b"hookspath", b"path"):
            named = _read_value(value.strip())
            if named and b"\0" not in named:
                yield os.fsdecode(named)


def _read_value(written: bytes) -> bytes:
    """Parse a value: remove its quotes and comment, decode its escapes."""
    value, is_quoted = bytearray(), False
    for piece in _PIECE.findall(written):
        if piece == b'"':
            is_quoted = not is_quoted
        elif piece in (b"#", b";") and not is_quoted:
            return bytes(value).rstrip()
        else:
            value += _ESCAPES.get(piece[1:], piece[1:]) if piece.startswith(b"\\") else piece
    return bytes(value)


def named_folder(git_file: bytes) -> str:
    """Return the folder that a `.git` file names, "" if it names none."""
    kind, _, named = git_file.partition(b": ")
    return os.fsdecode(named.strip()) if kind == b"gitdir" and b"\0" not in named else ""


def runs_programs(todo: bytes) -> bool:
    """Return True if the todo list of a rebase has an `exec` line."""
    return any(line.split(None, 1)[:1] in ([b"exec"], [b"x"]) for line in todo.split(b"\n"))


def linked_repositories(index: bytes) -> set[str]:
    """Return the paths of the repositories (submodules or not) that an index links to.

    The index does not say whether its object names are SHA-1 or SHA-256: the links of both readings are returned. They
    may lead anywhere. Raises `ValueError` if it is no index, or does not name all of them.
    """
    if index[:4] != b"DIRC" or len(index) < 12:
        raise ValueError("is not a git index")
    if struct.pack(">I", _LINK) not in index:
        return set()
    found: set[str] = set()
    errors = []
    for size in (20, 32):
        try:
            for path, entry in read_index(index, size, may_be_split=True):
                if entry.mode == _LINK and not path:
                    raise ValueError("its path is in another file")
                found |= {path} if entry.mode == _LINK else set()
        except ValueError as error:
            errors.append(error)
    if len(errors) == 2:
        raise ValueError("is a git index that cannot be parsed")
    return found
