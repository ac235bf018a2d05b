"""The state of a path of a tree: as it was noted, and as it is now."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from nexus_cli.tree.blob_hash import blob_id

FILE, LINK, FOLDER, PIPE, SPECIAL, ABSENT = "file", "link", "folder", "pipe", "special", "absent"
SHA256, GIT, HARD_LINK = "sha256:", "git:", "link:"
"""Beginnings of `FileState.content`: bytes in the byte store, a blob of the project's repository, and a hard link in
the byte store to a file that is too large to copy (lost if a command writes the file in place)."""


BLOCKED = "blocked"
"""Kind of a path besides those of `FileState`: a link or a file is where a folder above it was."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of one path at one moment."""

    kind: str
    """`file`, `link`, `folder`, `pipe` (a FIFO), `special` (a socket or a device), `absent`, or `repository` of `.git`
    before it was lost."""
    mode: int = 0
    """Permission bits of a file, folder or pipe (0o7777)."""
    content: str = ""
    """The place of a file's bytes: `sha256:HEX`, `git:OID` (a blob whose bytes are those of the file) or `link:NAME`;
    "" if they are kept nowhere, so that the file cannot be restored."""
    size: int = 0
    """Bytes of a file."""
    target: str = ""
    """Target of a link."""
    owner: str = ""
    """`UID:GID` where nexus runs as root and the path is not root's, else ""."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Extended attributes with their values in base64, sorted by name: those of users, and access lists."""
    pair: str = ""
    """The first path, by name, of those that are hard links to the same file; "" if there is one only."""


ABSENT_STATE = FileState(ABSENT)


@dataclass(frozen=True, slots=True)
class PresentState:
    """A path as it is now."""

    state: FileState
    """Without content; `kind` may be `blocked` too."""
    contents: frozenset[str] = frozenset()
    """The content of a file, in every form of `FileState.content` that is known of it; the names in a folder that may
    have to go."""
    stamp: tuple[int, ...] = ()
    """That of `read_state.make_stamp`, device and number of hard links: changes with each write."""
    blocker: str = ""
    """Path, relative to the root, of what is where a `blocked` path has a folder."""

    @property
    def kind(self) -> str:
        """The kind of `state`."""
        return self.state.kind

    @property
    def file(self) -> tuple[int, ...]:
        """Inode and device, which hard links share; () if there is nothing."""
        return self.stamp[2:6:3]

    def holds(self, state: FileState) -> bool:
        """Return True if kind, content and target are those of `state`; rights are not compared."""
        if self.kind != state.kind:
            return False
        return state.content in self.contents if self.kind == FILE else self.state.target == state.target

    def is_like(self, state: FileState) -> bool:
        """Return True if kind, content, target, mode, owner and attributes are those of `state`."""
        own_rights = self.state.mode, self.state.owner, self.state.attributes
        return self.holds(state) and own_rights == (state.mode, state.owner, state.attributes)


ABSENT_PRESENT_STATE = PresentState(ABSENT_STATE)


def is_content(data: bytes, content: str) -> bool:
    """Return True if these are the bytes of a `FileState.content`; False for one that is kept by a hard link."""
    plain = f"{SHA256}{hashlib.sha256(data).hexdigest()}"
    return content in (plain, f"{GIT}{blob_id(data, len(content) - len(GIT))}")
