"""Give references of repositories, and files in git's folders, the values that an undo planned for them.

Git moves the references, inside walls and without hooks, each only if it still has the value that was seen. Files are
written by descriptor, with the lock that git takes for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nexus_cli.core.errors import DISK_FULL_ERRORS
from nexus_cli.core.real_files import open_folder
from nexus_cli.sandbox.own_git import GitError, find_git
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.write_state import remove_empty_folders, replace_locked
from nexus_cli.undo.plan_references import STASH, SYMBOLIC, TurnReference, group_references, is_shared
from nexus_cli.undo.read_references import (
    INDEX,
    STASH_LOG,
    RepositoryState,
    is_reference,
    is_same_value,
    list_index,
    read_kept,
    read_state,
)
from nexus_cli.undo.records import HEAD, MODE, ReferenceChange
from nexus_cli.undo.repository_copy import GitFolders, find_git_folders, put_back

_MESSAGE = "nexus undo"
_UPDATE = ("update-ref", "-m", _MESSAGE, "--no-deref", "-z", "--stdin")
_OBJECT = re.compile(rb"(?<![0-9a-f])(?!0+\b)(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_SUBMODULE = 0o160000
_OLD = (1, 1)
"""Time of a written index: older than every file, so that git compares the contents anew."""


def read_present(root: str, repository: str, store: ByteStore) -> RepositoryState | None:
    """Return the present state of a repository, its files kept; None if there is none. Blocks."""
    with suppress(OSError):
        if folders := find_git_folders(Path(root, repository)):
            return read_state(folders, store)
    return None


def join_worktrees(rows: Sequence[TurnReference]) -> list[TurnReference]:
    """Return `rows` with what a linked worktree shares as its repository has it: a worktree that the turn added was
    followed from its first step on only. Blocks."""
    groups, references = group_references(rows), list[TurnReference]()
    shared_rows = {str(Path(*place)): {row.change.name: row for row in group} for place, group in groups.items()}
    for place, group in groups.items():
        folders = find_git_folders(Path(*place))
        if folders is None or folders.common == folders.git_dir:
            references += group
            continue
        by_name = shared_rows.get(str(folders.common.parent), {})
        for row in group:
            shared_row = by_name.get(row.change.name) if is_shared(row.change.name) else None
            references.append(
                replace(shared_row, change=replace(shared_row.change, repository=place[1])) if shared_row else row
            )
    return references


def restore_objects(data: Path, place: Path, rows: Iterable[ReferenceChange], store: ByteStore) -> None:
    """Put back from the copy what the repository at `place` lacks of the objects that `rows` name before the turn.
    Blocks; raises `OSError`."""
    object_ids = set[str]()
    for name, value in [(row.name, row.before) for row in rows]:
        if name == INDEX:
            object_ids.update(blob for _, mode, blob, _ in list_index(value, store) if mode & 0o170000 != _SUBMODULE)
        elif is_reference(name):
            object_ids.add(value)
        elif name == STASH_LOG or not is_shared(name):
            object_ids.update(digest.decode() for digest in _OBJECT.findall(read_kept(value, store) or b""))
    oids = [oid for oid in sorted(object_ids) if _OBJECT.fullmatch(oid.encode("ascii", "replace"))]
    with suppress(GitError):
        git, lines = find_git(place), "".join(f"{oid}\n" for oid in oids).encode()
        if git and lines and b" missing\n" in git.try_run("cat-file", "--batch-check", stdin=lines)[1]:
            put_back(data, str(place), only_objects=True)


def put_references(root: str, rows: Sequence[ReferenceChange], store: ByteStore) -> list[ReferenceChange]:
    """Change the values of `rows` from `before` to `after` where they are so now, and return the rows as they were
    made: with what is there as both, where another value is. Blocks; raises `OSError` if the disk is full."""
    changes = []
    for repository in dict.fromkeys(row.repository for row in rows):
        own_rows = [row for row in rows if row.repository == repository]
        state = read_present(root, repository, store)
        todo = [
            row for row in own_rows if state and row.before != row.after and _holds(state, row.name, row.before, store)
        ]
        log = read_kept(state.values.get(STASH_LOG, ""), store) if state else None
        is_noted = (log or b"").endswith(f"\t{_MESSAGE}\n".encode())  # by an undo that was killed
        if is_noted or any(row.name == STASH for row in todo):  # git notes what it does to it in the list of stashes
            todo += [row for row in own_rows if row.name == STASH_LOG and row not in todo]
        if state is not None and todo:
            _put(state.folders, todo, store)
            state = read_present(root, repository, store)
        for row in own_rows:
            now = state.values.get(row.name, "") if state else ""
            is_made = state is not None and _holds(state, row.name, row.after, store)
            changes.append(row if is_made else replace(row, before=now, after=now))
    return changes


def _holds(state: RepositoryState, name: str, value: str, store: ByteStore) -> bool:
    return is_same_value(store, name, state.values.get(name, ""), value)


def _put(folders: GitFolders, rows: Sequence[ReferenceChange], store: ByteStore) -> None:
    """Change the values of one repository: its settings first, by which git runs; then the references; what goes with
    HEAD only if git moved all of them; and the list of stashes last, to which git adds."""
    files = [row for row in rows if not is_reference(row.name)]
    for row in files:
        if row.name != STASH_LOG and is_shared(row.name):
            _put_file(folders, row, store)
    is_moved = _move(folders, [row for row in rows if is_reference(row.name)])
    for row in files:
        if row.name == STASH_LOG or (is_moved and not is_shared(row.name)):
            _put_file(folders, row, store)


def _move(folders: GitFolders, rows: Sequence[ReferenceChange]) -> bool:
    """Let git move references; return True if it moved all."""
    deletions = [f"delete {row.name}\0{_old(row)}\0" for row in rows if not row.after]
    new = [row for row in rows if row.after and not _is_symbolic(row.after)]
    lines = [f"update {row.name}\0{row.after}\0{_old(row)}\0" for row in new]
    outcomes = [
        not batch
        or _run(folders, *_UPDATE, lines=batch)
        or all(tuple(_run(folders, *_UPDATE, lines=[line]) for line in batch))
        for batch in (deletions, lines)  # one by one: all but those that git refuses
    ]
    for row in rows:
        if _is_symbolic(row.after):
            outcomes.append(_run(folders, "symbolic-ref", "-m", _MESSAGE, row.name, row.after.removeprefix(SYMBOLIC)))
    return all(outcomes)


def _is_symbolic(value: str) -> bool:
    return value.startswith(SYMBOLIC)


def _old(row: ReferenceChange) -> str:
    """Return the value that git compares: HEAD and names of others have been compared."""
    if row.name == HEAD or _is_symbolic(row.before):
        return ""
    return row.before or "0" * len(row.after)


def _run(folders: GitFolders, *arguments: str, lines: Iterable[str] = ()) -> bool:
    """Run git in a repository whose folders it may write; return True if it succeeds."""
    with suppress(GitError):
        if git := find_git(folders.place):
            stdin = os.fsencode("".join(lines))
            return not replace(git, writes=(folders.common, folders.git_dir)).try_run(*arguments, stdin=stdin)[0]
    return False


def _put_file(folders: GitFolders, row: ReferenceChange, store: ByteStore) -> None:
    """Write or remove a file of git's folder, if git has not locked it. Raises `OSError` if the disk is full."""
    base = folders.common if is_shared(row.name) else folders.git_dir
    above, _, name = row.name.rpartition("/")
    data = read_kept(row.after, store) if row.after else b""
    if data is None:
        return
    try:
        with (
            open_folder(base) as handle,
            open_folder(above, inside=handle, create=bool(row.after)) as folder,
            replace_locked(folder, name, removes=not row.after) as file,
        ):
            if row.after:
                os.fchmod(file.fileno(), int(row.after.partition(MODE)[2], 8) & 0o777)
                file.write(data)
                file.flush()
                if name == INDEX:
                    os.utime(file.fileno(), _OLD)
        if not row.after:
            with suppress(OSError), open_folder(base) as handle:
                remove_empty_folders(handle, row.name)
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            raise  # what else it is: git has locked the file, or a job has put something in its place
