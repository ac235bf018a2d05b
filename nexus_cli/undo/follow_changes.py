"""Follow what the calls of a session change in files: a look before and after each, the difference in the journal.

Following stops no call but an edit whose file cannot be kept on a full disk.
What could not be followed is in the journal with its reason.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeVar

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import is_below
from nexus_cli.config.protected_places import MADE_BY_TOOLS
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import write_failure_hint
from nexus_cli.core.real_files import open_folder, open_regular
from nexus_cli.undo.byte_store import ByteStore
from nexus_cli.undo.follow_repositories import Repositories, git_folder, read_saved
from nexus_cli.undo.journal import append_step, begin_step, end_step, read_begun, read_steps, read_steps_since
from nexus_cli.undo.plan_restore import continues
from nexus_cli.undo.project_look import MOST, SECONDS, Look, LookedProject, NotFollowed
from nexus_cli.undo.read_content import blob_hash
from nexus_cli.undo.read_references import RepositoryState
from nexus_cli.undo.read_state import GONE, NOTHING, Seen, StateReader
from nexus_cli.undo.records import ABSENT, FILE, GIT, HARD_LINK, FileChange, FileState, ReferenceChange, Step
from nexus_cli.undo.retention import trim_store

_FINE, _COARSE = 50_000_000, 2_000_000_000
"""Nanoseconds by which the times of a file system may be behind the clock, and those of one that has whole seconds."""


def mark_moved_in(changes: list[FileChange], before: Look, after: Look, store: ByteStore) -> list[FileChange]:
    """Return `changes` with those marked that brought an older, unfollowed file to a new path. Blocks."""
    old = {change.path for change in changes if _is_older(change, before, after)}
    if not old:
        return changes
    known = {_find_content(one.state) for one in before.seen.values()} - {(FILE, "")}
    blobs: dict[int, set[str]] = {}
    for one in before.tracked.values():
        if not one.is_read:
            blobs.setdefault(one.size, set()).add(one.oid)

    def is_known(state: FileState) -> bool:
        if _find_content(state) in known or state.content.startswith(GIT):
            return True
        oids = blobs.get(state.size, set()) if state.kind == FILE else set()
        with suppress(OSError):
            if oids:
                with store.open(state.content) as file:
                    return _hash_blob(file, state.size, len(next(iter(oids)))) in oids
        return False

    return [
        replace(change, is_moved_in=True) if change.path in old and not is_known(change.after) else change
        for change in changes
    ]


def drop_recorded(changes: list[FileChange], step: Step, data: Path) -> list[FileChange]:
    """Return `changes` without those that other calls, of any session, recorded since `step` began.

    Where the command changed a path before or after them, or both, these parts are left. Blocks; raises `OSError`.
    """
    if not changes:
        return changes
    recorded: dict[str, list[FileState]] = {}
    for other in read_steps_since(data, step.at):
        for one in other.changes if other.id != step.id else ():
            known = recorded.setdefault(f"{other.root}/{one.path}", [])
            at = 0 if one.is_earlier else len(known)
            known[at:at] = one.before, one.after
    found = []
    for change in changes:
        states = recorded.get(f"{step.root}/{change.path}")
        if states is None:
            found.append(change)
            continue
        if not any(_is_same(change.before, state) for state in states):
            found.append(replace(change, after=states[0], stamp=(0, 0, 0), is_earlier=True))
        if not _is_same(states[-1], change.after):
            found.append(replace(change, before=states[-1]))
    return found


def _is_same(one: FileState, other: FileState) -> bool:
    return continues(one, other) and one.mode == other.mode


def _is_older(change: FileChange, before: Look, after: Look) -> bool:
    new = after.seen.get(change.path)
    slack = _FINE if new is not None and new.stamp[1] % 1_000_000_000 else _COARSE
    return change.before.kind == ABSENT and new is not None and new.stamp[1] < before.at - slack


def _find_content(state: FileState) -> tuple[str, str]:
    """Return the kind and content of a file, or target of a link, which a copy shares."""
    return state.kind, state.content if state.kind == FILE else state.target


def _hash_blob(file: IO[bytes], size: int, oid_length: int) -> str:
    digest = blob_hash(size, oid_length)
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def compare_looks(before: Look, after: Look) -> tuple[list[FileChange], list[str]]:
    """Return the changes between two looks by path, and the names of files written, without ignored ones."""
    changes, names = [], []
    for path in sorted({*before.seen, *after.seen}):
        old, new = before.seen.get(path), after.seen.get(path)
        known = _index_state(before, path)
        was, now = old.state if old else known, new.state if new else known
        if was is None and (not before.is_whole or any(is_below(path, one) for one in before.skipped)):
            continue  # it may have been there
        was, now = was or GONE, now or GONE
        is_stamp_same = old is not None and new is not None and old.stamp == new.stamp
        links = {one.content.startswith(HARD_LINK) for one in (was, now)}
        is_unread = "" in (was.content, now.content) or len(links) == 2
        if is_stamp_same and (was == now or is_unread):
            continue
        is_same = was == now and (was.kind != FILE or bool(was.content))
        if not is_same:
            is_known = new is not None and new.is_settled
            changes.append(FileChange(path, was, now, new.stamp[:3] if new and is_known else (0, 0, 0)))
        elif new is None or was == GONE:
            continue
        is_work = path in before.tracked or MADE_BY_TOOLS.isdisjoint(path.lower().split("/"))
        if is_work and path not in before.ignored and path not in after.ignored:
            names.append(path)
    return changes, names


def _index_state(look: Look, path: str) -> FileState | None:
    """Return the state of a file that is as git's index says, None if it is not tracked."""
    one = look.tracked.get(path)
    return FileState(FILE, one.mode, f"{GIT}{one.oid}", one.size) if one and not one.is_read else None


T = TypeVar("T")
_PATIENCE = 60.0
"""Time limit of a look for which no command waits."""
_REST = 20
"""Pause after a look that took too long, in multiples of its time."""
_LOOKS, _STATES = "undo/looks", ".git"
_TRIM = 100_000_000
"""Number of bytes added to the store after which it is trimmed; also trimmed at the first step."""
KILLED_SINCE = "nexus was killed in it, so that all changes since are counted as its own"
KILLED = "the process was killed while this ran, and what it had looked at is lost"
TOO_MANY = f"more than {MOST:,} files that git does not track: new ones are not followed"


@dataclass
class BegunStep:
    """A step that runs: its first line of the journal, the look before it, or why there is none."""

    step: Step
    project: LookedProject
    look: Look | None
    why: str = ""
    repositories: dict[str, RepositoryState] = field(default_factory=dict)
    """The repositories of the project before it, by their paths."""
    beside: list[BegunStep] = field(default_factory=list)
    """The steps of added folders, which end with it."""


@dataclass(frozen=True, slots=True)
class StepOwner:
    """The session and turn whose undo takes a step back, and a prefix of what the step is called."""

    session: str
    turn: int
    prefix: str = ""


@dataclass
class ChangeJournal:
    """Follows the calls of one session of this process."""

    data: Path
    keeps: bool = True
    """False if nothing is to be saved: changed files are found, but neither kept nor put in the journal."""
    most: int = 2_000_000_000
    """Most bytes of all copies, see `retention`."""
    _name: str = field(default_factory=lambda: secrets.token_hex(8))
    _count: int = 0
    _projects: dict[Path, LookedProject] = field(default_factory=dict)
    _repositories: dict[Path, Repositories] = field(default_factory=dict)
    _off: dict[Path, tuple[str, float]] = field(default_factory=dict)
    """Projects that took too long to look at, each with the reason, and until when (monotonic) none is taken."""
    _lock: FileLock | None = None
    _settled: set[str] = field(default_factory=set)
    _trimmed: int = -_TRIM

    def __post_init__(self) -> None:
        self._store = ByteStore(self.data) if self.keeps else None

    def begin(
        self, owner: StepOwner, what: str, call: str, root: Path, added: Sequence[Path] = (), *, beside: bool = False
    ) -> BegunStep:
        """Look at a project and added folders before a call that may change them, or before jobs that run `beside` the
        calls: what no call changed may then be the person's work (`Step.is_unsure`). Blocks; never raises `OSError`."""
        begun = self._begin(owner, what, call, root, beside=beside)
        begun.beside = [self._begin(owner, what, call, one, beside=beside) for one in added]
        return begun

    def _begin(self, owner: StepOwner, what: str, call: str, root: Path, *, beside: bool) -> BegunStep:
        step = replace(self._make_step(owner, what, call, root := Path(os.path.realpath(root))), is_unsure=beside)
        project = self._projects.get(root)
        if project is None:
            key = f"{self._name}-{len(self._projects)}"
            project = self._projects[root] = LookedProject(root, self.data, key, self._store)
        begun, started = BegunStep(step, project, None), time.monotonic()
        why, until = self._off.get(root, ("", 0.0))
        if started < until:
            begun.why = why
            return begun
        try:
            self._settle(step.session)
            begun.look = project.begin()
            if self._store is not None:
                followed = self._repositories.setdefault(root, Repositories(root, self.data, self._store))
                begun.repositories = followed.begin(begun.look.repositories)
                begun.look.not_covered |= followed.not_covered
        except (NotFollowed, OSError, ValueError) as error:
            begun.why = str(error)
            self._pause_looks(root, begun.why, started)
        else:
            self._note_begun(begun, begun.look)
        return begun

    def end(self, begun: BegunStep) -> list[str]:
        """Look again after the call, record its changes, and return the names of the changed files. Blocks; never
        raises `OSError`."""
        changes: list[FileChange] = []
        names: list[str] = []
        step, look, why, started = begun.step, begun.look, begun.why, time.monotonic()
        try:
            if look is not None and not why:
                after = begun.project.end(look)
                changes, names = compare_looks(look, after)
                told = [_explain_partly(look, after), begun.project.name_removed(look), _name_new(look, after)]
                if self._store is not None:
                    found = self._repositories[begun.project.root].end(begun.repositories)
                    names += [one.path for one in found.lost]
                    own = drop_recorded(changes + found.lost, step, self.data)
                    dropped = {one.path for one in changes} - {one.path for one in own}
                    names = [name for name in names if name not in dropped]
                    changes = mark_moved_in(own, look, after, self._store)
                    step = _add_references(step, found.references, self.data)
                    told = found.told + told
                why = "; ".join(filter(None, told))
        except (NotFollowed, OSError, ValueError) as error:
            why = str(error)
            self._pause_looks(begun.project.root, why, started)
        self._record(replace(step, changes=tuple(changes), unfollowed=why, at=_now()), is_open=look is not None)
        return names + [f"{one.step.root}/{name}" for one in begun.beside for name in self.end(one)]

    def _pause_looks(self, root: Path, why: str, started: float) -> None:
        """Take no look for a while after one that failed and took long."""
        now = time.monotonic()
        if now - started > SECONDS:
            self._off[root] = why, now + _REST * (now - started)

    def read_targets(self, targets: Sequence[Path]) -> dict[Path, Seen]:
        """Return the states of files that an edit may change, and keep their bytes. Blocks; never raises `OSError`."""
        found = {}
        for target in dict.fromkeys(targets):
            found[target] = NOTHING
            with suppress(OSError), StateReader(target.parent, self._store, SECONDS) as reader:
                found[target] = reader.read(target.name)
        return found

    def find_unkept(self, before: dict[Path, Seen]) -> str:
        """Return the reason to refuse an edit of the files of `before`: no room to keep one; else "". Blocks."""
        for target, one in before.items():
            if self._store is not None and one.state.kind == FILE and not one.state.content:
                try:
                    with open_folder(target.parent) as folder, open_regular(folder, target.name) as file:
                        self._store.put(file)
                except OSError as error:
                    if hint := write_failure_hint(error, ""):
                        why = (error.strerror or str(error)).lower()
                        return f"{target.name} was not changed: its content cannot be kept for undo ({why}). {hint}"
        return ""

    def record_edit(self, owner: StepOwner, what: str, call: str, project: Path, before: dict[Path, Seen]) -> list[str]:
        """Record what an edit changed in the files of `before`, and return their names. Blocks; never raises
        `OSError`."""
        after = self.read_targets(list(before))
        roots: dict[Path, list[FileChange]] = {}
        for target, old in before.items():
            new = after[target]
            if old.state == new.state and (old.state.kind != FILE or old.state.content):
                continue
            root = project if target.is_relative_to(project) else target.parent
            stamp = new.stamp[:3] if new.is_settled else (0, 0, 0)
            change = FileChange(str(target.relative_to(root)), old.state, new.state, stamp)
            roots.setdefault(root, []).append(change)
        for root, changes in roots.items():
            self._record(replace(self._make_step(owner, what, call, root), changes=tuple(changes)), is_open=False)
        return [
            one.path if root == project else str(root / one.path) for root, changes in roots.items() for one in changes
        ]

    def close(self) -> None:
        """Remove what is kept for a process that is killed."""
        for project in self._projects.values():
            project.remove()
            project.table.with_suffix(_STATES).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.release(remove=True)
            self._lock = None

    def _make_step(self, owner: StepOwner, what: str, call: str, root: Path) -> Step:
        self._count += 1
        name = f"{self._name}-{self._count}"
        what = f"{owner.prefix}{what}"
        return Step(
            id=name, session=owner.session, turn=owner.turn, call=call, what=what[:500], at=_now(), root=str(root)
        )

    def _note_begun(self, begun: BegunStep, look: Look) -> None:
        """Write down that a step has begun, so that another process finds its changes if this one is killed."""
        with suppress(OSError, ValueError):
            if self.keeps:
                self._lock = self._lock or FileLock.take(self.data / _LOOKS / f"{self._name}.lock")
                begun.project.save(look)
                self._repositories[begun.project.root].save(
                    begun.project.table.with_suffix(_STATES), begun.repositories
                )
                begin_step(self.data, begun.step)

    def _record(self, step: Step, *, is_open: bool) -> None:
        """Put a step in the journal, if it changed something."""
        if not self.keeps:
            return
        with suppress(OSError, ValueError):
            if step.changes or step.references or step.unfollowed:
                append_step(self.data, step)
            elif is_open:
                end_step(self.data, step)
            if self._store is not None and self._store.written - self._trimmed >= _TRIM:
                self._trimmed = self._store.written
                trim_store(self.data, self.most)

    def _settle(self, session: str) -> None:
        """Find out what commands of killed processes changed, once for each session."""
        if self.keeps and session not in self._settled:
            self._settled.add(session)
            with suppress(OSError, ValueError):
                settle_killed(self.data, session)


def settle_killed(data: Path, session: str) -> list[Step]:
    """Record what commands changed whose process was killed, and return these steps. Blocks.

    All changes since then count as theirs. Raises `OSError` if that cannot be found out now; the next call tries again.
    """
    found, names = [], dict[str, list[Step]]()
    for step in read_begun(data, session):
        names.setdefault("" if step.undoes else step.id.rpartition("-")[0], []).append(step)
    for name, steps in names.items():
        lock = FileLock.take(data / _LOOKS / f"{name}.lock") if name else None
        if lock is None:
            continue  # they run, or are undos
        try:
            begun = read_begun(data, session)  # one may just have ended
            for step in [one for one in steps if one in begun]:
                found.append(ended := _find_killed(data, name, step))
                append_step(data, ended)
            for place in (data / _LOOKS).glob(f"{name}[-.]*"):
                place.unlink(missing_ok=True)
        finally:
            lock.release()
    return found


def _find_killed(data: Path, name: str, step: Step) -> Step:
    """Return a step of a killed process with the changes since its look. Raises `OSError`."""
    for table in (data / _LOOKS).glob(f"{name}-*.json"):
        try:
            values = json.loads(table.read_text("ascii"))
            if values["root"] != step.root:
                continue
            project = LookedProject(Path(step.root), data, table.stem, ByteStore(data), _PATIENCE)
            before = project.restore(values)
            after = project.end(before)
            states = read_saved(table.with_suffix(_STATES))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            break
        except NotFollowed as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        found = Repositories(Path(step.root), data, ByteStore(data)).end(states)
        changes = drop_recorded(compare_looks(before, after)[0] + found.lost, step, data)
        changes = mark_moved_in(changes, before, after, ByteStore(data))
        step = _add_references(step, found.references, data)
        return replace(step, changes=tuple(changes), unfollowed=KILLED_SINCE, at=_now())
    return replace(step, unfollowed=KILLED)


def follow_apply(data: Path, name: str, project: Path, work: Callable[[], T]) -> T:
    """Apply the worktree `name` to its project with `work`, outside of any session, and return its result.

    The step is in the journal of `worktree-NAME`; each apply counts as a turn. Blocks; raises what `work` raises.
    """
    session, journal = f"worktree-{name}", ChangeJournal(data)
    with suppress(OSError, ValueError):
        settle_killed(data, session)
    turn = max((step.turn for step in read_steps(data, session)), default=0) + 1
    begun = journal.begin(StepOwner(session, turn), f"apply {name}", "", project)
    try:
        return work()
    finally:
        journal.end(begun)
        journal.close()


def _explain_partly(before: Look, after: Look) -> str:
    return "" if before.is_whole and after.is_whole else TOO_MANY


def _name_new(before: Look, after: Look) -> str:
    """Return a text with the repositories that a command made, "" if there are none."""
    new = sorted(git_folder(path) for path in {*after.repositories} - {*before.repositories} if before.is_whole)
    return f"{name_first(new, 3)} {'are' if new[1:] else 'is'} new; undo leaves repositories" if new else ""


def _add_references(step: Step, found: Sequence[ReferenceChange], data: Path) -> Step:
    """Return `step` with what it did to references, without what other calls recorded since it began. What jobs do to
    them is not told from what the person does. Blocks; raises `OSError`."""
    if not found or step.is_unsure:
        return step
    others = read_steps_since(data, step.at)
    known = {(other.root, one) for other in others if other.id != step.id for one in other.references}
    return replace(step, references=tuple(one for one in found if (step.root, one) not in known))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
