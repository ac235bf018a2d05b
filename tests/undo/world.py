"""A project, a byte store and a journal: turns change files and are recorded, whoever looks at them in the product."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.file_state import FileState
from nexus_cli.undo.journal import append_step
from nexus_cli.undo.records import FileChange, Step
from nexus_cli.undo.undo_turn import UndoRequest, undo_turn

Tree = dict[str, tuple[Any, ...]]


def tree(folder: Path) -> Tree:
    """Names, kinds, modes, targets and contents of everything in a folder, through no link."""
    found: Tree = {}
    for place, folders, names in os.walk(os.fsencode(folder)):
        for name in (*folders, *names):
            path = os.path.join(place, name)
            about = os.lstat(path)
            content: Any = b""
            if stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            mode = 0 if stat.S_ISLNK(about.st_mode) else about.st_mode
            found[os.fsdecode(os.path.relpath(path, os.fsencode(folder)))] = stat.S_IFMT(about.st_mode), mode, content
    return found


def owner_of(about: os.stat_result) -> str:
    """Owner and group, if they are not those of the process."""
    own = (about.st_uid, about.st_gid)
    return "" if own == (os.geteuid(), os.getegid()) else f"{own[0]}:{own[1]}"


def attributes_of(path: Path) -> tuple[tuple[str, str], ...]:
    """Extended attributes of users, and access lists."""
    found = []
    with suppress(OSError):
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            if name.startswith(("user.", "system.posix_acl_")):
                found.append((name, base64.b64encode(os.getxattr(path, name)).decode()))
    return tuple(found)


def files(found: Tree) -> Tree:
    """Leave folders out."""
    return {path: about for path, about in found.items() if about[0] != stat.S_IFDIR}


@dataclass
class World:
    """Where a session works."""

    project: Path
    data: Path
    session: str = "01TEST"

    def __post_init__(self) -> None:
        self.store = ByteStore(self.data)
        self._ids = count(1)
        self.turns = 0

    def path(self, name: str) -> Path:
        return self.project / name

    def write(self, name: str, content: str | bytes = "", mode: int = 0o644) -> Path:
        """Write a file of the project, and its folders."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def state(self, path: Path) -> FileState:
        """The state of a path, its bytes kept."""
        about = path.lstat()
        if stat.S_ISLNK(about.st_mode):
            return FileState("link", target=os.readlink(path), owner=owner_of(about))
        kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe"}
        state = FileState(
            kinds.get(stat.S_IFMT(about.st_mode), "file"),
            stat.S_IMODE(about.st_mode),
            owner=owner_of(about),
            attributes=attributes_of(path),
        )
        if state.kind != "file":
            return state
        return replace(state, content=self.store.put(path.read_bytes(), synced=False), size=about.st_size)

    def states(self) -> dict[str, tuple[FileState, tuple[int, int, int]]]:
        """All that is in the project but sockets, with stamps of files and links."""
        found, links = {}, dict[int, str]()
        for name in sorted(tree(self.project)):
            path = self.project / name
            about = path.lstat()
            if ".git" in path.parts or stat.S_ISSOCK(about.st_mode):
                continue
            state = self.state(path)
            stamp = (about.st_size, about.st_mtime_ns, about.st_ino)
            found[name] = state, stamp if state.kind in ("file", "link") else (0, 0, 0)
            if state.kind == "file":
                first = links.setdefault(about.st_ino, name)
                if first != name:
                    for one in (first, name):
                        found[one] = replace(found[one][0], pair=first), found[one][1]
        return found

    def turn(self, change: Callable[[], object]) -> int:
        """A turn that does `change`, recorded as the product records it; return its number."""
        self.turns += 1
        before = self.states()
        change()
        after = self.states()
        absent = FileState("absent"), (0, 0, 0)
        changes = tuple(
            FileChange(name, before.get(name, absent)[0], after.get(name, absent)[0], after.get(name, absent)[1])
            for name in sorted({*before, *after})
            if before.get(name, absent)[0] != after.get(name, absent)[0]
        )
        self.record(changes)
        return self.turns

    def record(self, changes: tuple[FileChange, ...], *, root: str = "", **more: Any) -> None:
        step = Step(
            id=f"s{next(self._ids)}",
            session=self.session,
            turn=self.turns,
            call="c1",
            what="bash sh -c x",
            at="2026-01-01T00:00:00Z",
            root=root or str(self.project),
            changes=changes,
            **more,
        )
        append_step(self.data, step)

    def request(
        self, *paths: str, turn: int | None = None, dry_run: bool = False, takes_unsure: bool = False
    ) -> UndoRequest:
        here = str(self.project)
        return UndoRequest(self.data, self.session, self.turns, here, here, turn, paths, dry_run, takes_unsure)

    def undo(self, *paths: str, turn: int | None = None, dry_run: bool = False, takes_unsure: bool = False) -> Any:
        return undo_turn(self.request(*paths, turn=turn, dry_run=dry_run, takes_unsure=takes_unsure))

    def redo(self, *paths: str) -> Any:
        return undo_turn(self.request(*paths), redo=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    project = Path(os.path.realpath(tmp_path)) / "project"
    project.mkdir()
    yield World(project, Path(os.path.realpath(tmp_path)) / "data")
