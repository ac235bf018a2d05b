"""Guard the protected places of a project while a command runs, even if this process is killed meanwhile.

The snapshot is stored in a record (`config/command_records`) while the command runs. A record left by a killed process
is compared first: before the next command, and before a session reads files of the project.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from nexus_cli.config.command_records import RECORD, UncheckedError, find_records, records_folder, running_guards
from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import Places, private_dir
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.core.errors import reason_of, write_failure_hint
from nexus_cli.core.real_files import real_path
from nexus_cli.core.version_memo import read_version
from nexus_cli.sandbox.guarded_places import MAX_FOLDERS
from nexus_cli.sandbox.profile import SandboxProfile, find_worktree_folder
from nexus_cli.sandbox.protected_snapshot import ProtectedSnapshot, guarded_roots, take_snapshot
from nexus_cli.sandbox.restore_protected import NotCompared, RestoredPath, restore_protected

_PATIENCE = 60.0
"""Seconds to wait for the comparison of another command."""
_MAX_KNOWN = 30
"""Most projects whose last snapshot is kept on disk between commands."""
_KNOWN_SUFFIX = ".known"
_last: dict[str, tuple[ProtectedSnapshot, tuple[int, ...]]] = {}
"""By project: its last snapshot, and the identity of the file with it."""
_warned_projects: set[tuple[str, str]] = set()
"""Projects, each with a warning that was shown."""


class CommandGuard:
    """Guards a project during one command."""

    def __init__(self, profile: SandboxProfile) -> None:
        """Compare what earlier commands left unchecked, then snapshot the project.

        Raises `OSError` if either fails: the command must not run then. `UncheckedError` has a message for the person.
        """
        assert profile.records is not None
        self._folder = records_folder(profile.records)
        self._saved_folder = profile.records / "put_back"
        self._profile = profile
        self.notices: list[str] = []
        roots = guarded_roots(profile.project, profile.git_folder)
        with _writes(self._folder), FileLock.wait_for(private_dir(self._folder) / "lock", _PATIENCE):
            running, self.notices = _restore_after_kills(self._folder, self._saved_folder, roots)
            name = hashlib.sha256(roots[0].encode(errors="replace")).hexdigest()[:24]
            self._known_file = self._folder / (name + _KNOWN_SUFFIX)
            known_state, is_there = _read_known(roots[0], self._known_file)
            self.snapshot = _look(profile, known_state, running)
            if self.snapshot != known_state or not is_there:
                replace_private_file(self._known_file, self.snapshot.dumps())
                _prune(self._folder)
            self._path = self._folder / f"{time.time_ns():020}-{os.getpid()}{RECORD}"
            self._record = self._hold(self._known_file)
            running_guards.append(self.accept)

    def _hold(self, file: Path) -> int:
        """Make a file with the snapshot the record of the command, and return its locked descriptor."""
        record = os.open(file, os.O_RDWR | os.O_CLOEXEC)  # NFS needs write access for LOCK_EX
        try:
            fcntl.flock(record, fcntl.LOCK_EX)
            os.rename(file, self._path)
        except OSError:
            os.close(record)  # else its lock blocks the next command
            raise
        return record

    def accept(self, path: Path, before: str, after: str) -> None:
        """Accept that nexus itself has replaced a file, see `ProtectedSnapshot.accept`. On a failure the file is
        restored at the end."""
        draft = self._path.with_suffix(".draft")
        with suppress(OSError), FileLock.wait_for(self._folder / "lock", _PATIENCE):
            if self.accept not in running_guards or not self.snapshot.accept(str(path), before, after):
                return
            replace_private_file(draft, self.snapshot.dumps())
            record = self._hold(draft)
            os.close(self._record)
            self._record = record

    def end(self, strays: OSError | None = None) -> list[str]:
        """Compare and restore; return lines for the person. On a failure the next command compares again.

        `strays` is the error if processes of the command may still be running: comparing now would be too early.
        """
        try:
            if strays is not None:
                raise strays
            with FileLock.wait_for(self._folder / "lock", _PATIENCE):
                running_guards.remove(self.accept)
                restored_paths = restore_protected(self.snapshot, _command_start_ns(self._path))
                _save_left_files(self._saved_folder, restored_paths)
                os.rename(self._path, self._known_file)
                _last[self.snapshot.project] = self.snapshot, read_version(self._known_file)
        except Exception as error:  # whatever failed, the record stays for the next command to compare
            paths = error.handled if isinstance(error, NotCompared) else []
            failure = _describe_failure(self.snapshot.project, error)
            return [failure, *self.notices, *self._lines(paths)]
        finally:
            if self.accept in running_guards:
                running_guards.remove(self.accept)
            os.close(self._record)
        return [*self.notices, *self._lines(restored_paths), *self._describe_bounds()]

    def _lines(self, restored: Iterable[RestoredPath]) -> list[str]:
        """Return a line for each path, with the deny rule that keeps it."""
        project, find_rule = self.snapshot.project, self._profile.find_rule
        return [restored_path.describe(project, find_rule(restored_path.path)) for restored_path in restored]

    def _describe_bounds(self) -> list[str]:
        """Describe the bounds of the guard in the project, each line once in a process."""
        project, lines = self.snapshot.project, []
        if self.snapshot.has_more:
            lines.append(
                f"nexus guards only {MAX_FOLDERS:,} folders of the project: in deeper or newer folders, commands can "
                "change files that other tools load"
            )
        if links := [path.removeprefix(f"{project}/") for path in self.snapshot.find_outward_links()]:
            lines.append(f"these links point to unprotected files outside the project: {', '.join(links[:3])}")
        new = [line for line in lines if (project, line) not in _warned_projects]
        _warned_projects.update((project, line) for line in new)
        return new


def settle_project(project: Path, folders: Places) -> list[str]:
    """Restore what killed commands left in `project` and return lines; raise `OSError` if that fails."""
    folder = records_folder(folders.data)
    real = real_path(project)
    with FileLock.wait_for(folder / "lock", _PATIENCE):
        return _restore_after_kills(folder, folders.data / "put_back", guarded_roots(real, find_worktree_folder(real)))[
            1
        ]


@contextmanager
def _writes(folder: Path) -> Iterator[None]:
    """Raise an `OSError` while writing to `folder` as `UncheckedError` with the reason and a hint."""
    try:
        yield
    except UncheckedError:
        raise
    except MemoryError as error:
        raise UncheckedError(
            "nexus is out of memory; commands with write access cannot start until memory is available"
        ) from error
    except OSError as error:
        otherwise = "Try again later" if isinstance(error, TimeoutError) else "Check the permissions of that folder"
        why = f"nexus cannot write {folder}: {reason_of(error)}. {write_failure_hint(error, otherwise)}"
        raise UncheckedError(f"{why}; until then, commands with write access cannot start") from error


def _look(
    profile: SandboxProfile, known_state: ProtectedSnapshot | None, running: Sequence[ProtectedSnapshot]
) -> ProtectedSnapshot:
    try:
        return take_snapshot(profile, known_state, running)
    except OSError as error:
        raise UncheckedError(f"the protected files of {profile.project} cannot be read: {error.strerror}") from error


def _restore_after_kills(
    folder: Path, kept_folder: Path, roots: Sequence[str]
) -> tuple[list[ProtectedSnapshot], list[str]]:
    """Restore what dead commands changed, the oldest last; return the snapshots of running commands, and lines for the
    person."""
    running: list[ProtectedSnapshot] = []
    notices: list[str] = []
    try:
        records = [(path, runs, _read(path)) for path, runs in find_records(folder, roots)]
    except ValueError as error:
        raise UncheckedError(f"{folder}: {error}. Check the project, then delete that file") from error
    for path, runs, snapshot in reversed(records):
        if runs:
            running.append(snapshot)
            continue
        try:
            restored_paths = restore_protected(snapshot.without_write_denied(), _command_start_ns(path))
        except OSError as error:
            raise UncheckedError("; ".join([_describe_failure(snapshot.project, error), *notices])) from error
        copies = (
            f"; copies of the command's versions: {kept_folder}"
            if _save_left_files(kept_folder, restored_paths)
            else ""
        )
        path.unlink()
        if restored_paths:
            notices.append(f"checked the protected files after an interrupted command{copies}")
            notices += [restored_path.describe(snapshot.project, "") for restored_path in restored_paths]
    return running, notices


def _read(path: Path) -> ProtectedSnapshot:
    try:
        return ProtectedSnapshot.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name} is damaged ({error})") from error


def _read_known(project: str, path: Path) -> tuple[ProtectedSnapshot | None, bool]:
    """Return the snapshot after a project's last command, None if unknown, and True if the file at `path` has it."""
    snapshot, file = _last.get(project, (None, ()))
    if snapshot is None:
        with suppress(OSError, ValueError):
            return _read(path), True
    return snapshot, bool(file) and file == read_version(path)


def _command_start_ns(path: Path) -> int:
    """Return the start of a record's command, in nanoseconds since the epoch."""
    return int(path.name.partition("-")[0])


def _prune(folder: Path) -> None:
    """Delete the oldest snapshots beyond `_MAX_KNOWN`."""
    paths = sorted(folder.glob(f"*{_KNOWN_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    for path in paths[:-_MAX_KNOWN]:
        path.unlink(missing_ok=True)


def _save_left_files(kept_folder: Path, restored: Iterable[RestoredPath]) -> bool:
    """Copy the files that commands had left in protected places to a private folder; True if there were some, and no
    write failed."""
    files = [(path, content) for restored_path in restored for path, content in restored_path.left_files.items()]
    with suppress(OSError):
        for number, (path, content) in enumerate(files):
            moment = f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**9:09}"
            name = f"{moment}-{number}-{os.path.basename(path)[-100:]}"
            replace_private_file(kept_folder / name, content)
        return bool(files)
    return False


def _describe_failure(project: str, error: Exception) -> str:
    why = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
    return (
        f"NOT CHECKED: nexus could not check whether a command changed hooks, instructions or similar files in "
        f"{project} ({why}). No command starts there until this check succeeds; do not run git there"
    )
