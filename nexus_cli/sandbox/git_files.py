"""Parse git's files without git: the paths in a configuration, its plainness, and the repositories in an index.

Each parser makes one pass and accepts any bytes: a command may have written them.
"""

from __future__ import annotations

from collections.abc import Iterator

from nexus_cli.config.git_configuration import read_configuration
from nexus_cli.tree.index_entries import read_index

_SECTIONS = frozenset("core user init extensions remote branch".split())
_KEYS = frozenset(
    """
    repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks name email
    defaultbranch objectformat refstorage url fetch remote merge rebase
    """.split()
)
"""Settings of a new repository's configuration that name no program and no other file."""
_LINK, _FOLDER = 0o160000, 0o040000
"""Kinds of entries of an index: another repository, a folder that is not checked out."""
_LENGTHS = {"sha1": 20, "sha256": 32}


class UnsafeConfiguration(Exception):
    """A configuration may make git run a program of the repository's choosing, or read another repository."""


def is_safe_configuration(configuration: bytes, *, of_submodule: bool) -> bool:
    """Return True for a configuration that makes git run no program and read no other file."""
    keys = _KEYS | {"worktree"} if of_submodule else _KEYS
    return all(section in _SECTIONS and key in keys for section, key, _ in read_settings(configuration))


def read_settings(configuration: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield section, without its subsection, key and value of all settings."""
    for name, value in read_configuration(configuration):
        yield name.partition(".")[0], name.rpartition(".")[2], value


def named_files(configuration: bytes) -> Iterator[str]:
    """Yield the hook folders (`core.hooksPath`) and included files (`path`) that a configuration names."""
    for name, value in read_configuration(configuration):
        if name.endswith((".path", ".hookspath")) and value:
            yield from dict.fromkeys((value, value.replace("\t", " ")))  # the second by git before 2.45


def runs_programs(todo: bytes) -> bool:
    """Return True if the todo list of a rebase has an `exec` line."""
    return any(line.split(None, 1)[:1] in ([b"exec"], [b"x"]) for line in todo.split(b"\n"))


def object_length(configuration: bytes) -> int:
    """Return the number of bytes of an object name in a repository with this configuration. Raises `ValueError` for an
    unknown format."""
    settings = dict(read_configuration(configuration))
    length = _LENGTHS.get(settings.get("extensions.objectformat", "sha1"))
    if length is None:
        raise ValueError("uses an unknown object format")
    return length


def linked_repositories(index: bytes, length: int) -> set[str]:
    """Return the paths of the repositories (submodules or not) that an index links to. They may lead anywhere.

    `length` is the number of bytes of an object name. Raises `ValueError` if it is no index, or does not name all of
    them: an entry may stand for a folder as a whole (a sparse index), or for a path in another file.
    """
    paths: set[str] = set()
    for path, entry in read_index(index, length, may_be_split=True):
        if entry.kind == _FOLDER:
            raise ValueError("has an entry for a whole folder")
        if entry.kind == _LINK and not path:
            raise ValueError("has an entry whose path is in another file")
        paths |= {path} if entry.kind == _LINK else set()  # git ignores the other bits of the mode too
    return paths
