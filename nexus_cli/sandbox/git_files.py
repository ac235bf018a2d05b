"""Parse git's files without git: the paths in a configuration, its plainness, and the repositories in an index.

Each parser makes one pass and accepts any bytes: a command may have written them.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator

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
_LINK_MODE = 0o160000


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

    The index does not say whether its object names are SHA-1 or SHA-256: the links of both readings are returned.
    Raises `ValueError` if it is no index.
    """
    if index[:4] != b"DIRC" or len(index) < 12:
        raise ValueError("is not a git index")
    if struct.pack(">I", _LINK_MODE) not in index:
        return set()
    found: set[str] = set()
    errors = []
    for size in (20, 32):
        try:
            found.update(_links(index, size))
        except (struct.error, ValueError, IndexError) as error:
            errors.append(error)
    if len(errors) == 2:
        raise ValueError("is a git index that cannot be parsed")
    return found


def _links(index: bytes, size: int) -> Iterator[str]:
    version, count = struct.unpack_from(">II", index, 4)
    if version not in (2, 3, 4):
        raise ValueError
    at, name = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(">I", index, at + 24)
        (flags,) = struct.unpack_from(">H", index, at + 40 + size)
        start = at + 42 + size + (2 if flags & 0x4000 else 0)
        if version == 4:
            kept, start = _variable_number(index, start)
            end = index.index(b"\0", start)
            name = name[: len(name) - kept] + index[start:end]
            at = end + 1
        else:
            end = index.index(b"\0", start)
            name = index[start:end]
            at += (end - at + 8) & ~7
        if mode == _LINK_MODE:
            if not name:  # a split index: the name is in another file
                raise ValueError
            parts = name.split(b"/")
            if not {b"", b".", b".."}.intersection(parts):
                yield os.fsdecode(name)
    if at > len(index) - size:
        raise ValueError


def _variable_number(data: bytes, at: int) -> tuple[int, int]:
    """Decode an offset in git's pack encoding; return it and the position after it."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
