"""Follow what the calls of a session change in files: a look before and after each, the difference in the journal.

Following stops no call but an edit whose file cannot be kept on a full disk.
What could not be followed is in the journal with its reason.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nexus_cli.config.command_records import overlaps
from nexus_cli.config.file_lock import FileLock, read_held
from nexus_cli.config.protected_places import BUILD_FOLDERS
from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import reason_of, write_failure_hint
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.real_files import open_real, real_path
from nexus_cli.core.shared_types import T
from nexus_cli.tree.blob_hash import hash_blob
from nexus_cli.tree.byte_store import ByteStore, hash_file
from nexus_cli.tree.file_state import ABSENT, FILE, FOLDER, GIT, LINK, SPECIAL, FileState
from nexus_cli.tree.read_state import MAX_COPIED, NOTHING, RACY, StampedState, make_stamp, open_states
from nexus_cli.undo import unsure_changes
from nexus_cli.undo.coverage import PROJECT_ITSELF
from nexus_cli.undo.follow_repositories import Repositories, git_folder, make_rows, parse_rows
from nexus_cli.undo.journal import append_step, begin_step, end_step, read_begun, read_steps, read_steps_since
from nexus_cli.undo.plan_restore import continues
from nexus_cli.undo.project_look import MOST, SECONDS, WALK_SECONDS, Look, LookedProject, NotFollowed
from nexus_cli.undo.read_references import RepositoryState
from nexus_cli.undo.records import TOO_DEEP, FileChange, ReferenceChange, Step
from nexus_cli.undo.retention import trim_store
from nexus_cli.undo.saved_look import read_rows

_COARSE = 2_000_000_000
"""Nanoseconds by which the times of a file system that has whole seconds may be behind the clock; else `RACY`."""


def mark_moved_in(changes: list[FileChange], before: Look, after: Look, store: ByteStore) -> list[FileChange]:
    """Return `changes` with those marked that brought an older, unfollowed file to a new path. Blocks."""
    old = {change.path for change in changes if _is_older(change, before, after)}
    if not old:
        return changes
    known_contents = {_find_content(entry.state) for entry in before.states.values()} - {(FILE, "")}
    blobs: dict[int, set[str]] = {}
    for record in before.states.values():
        if record.state.content.startswith(GIT):
            blobs.setdefault(record.state.size, set()).add(record.state.content.removeprefix(GIT))

    def is_known(state: FileState) -> bool:
        if _find_content(state) in known_contents:
            return True
        oids = blobs.get(state.size, set()) if state.kind == FILE else set()
        with suppress(OSError):
            if oids:
                with store.open(state.content) as file:
                    return hash_blob(file, state.size, len(next(iter(oids)))) in oids
        return False

    return [
        replace(change, is_moved_in=True) if change.path in old and not is_known(change.after) else change
        for change in changes
    ]


def drop_recorded(
    changes: list[FileChange], step: Step, other_steps: Sequence[Step], shared: set[str]
) -> list[FileChange]:
    """Return `changes` without those that `other_steps` recorded, but for unsure ones in `shared`, see
    `_drop_foreign_changes`.

    Where the command changed a path before or after them, or both, these parts are left.
    """
    recorded: dict[str, list[FileState]] = {}
    for other_step in other_steps:
        for file_change in other_step.changes:
            if file_change.is_unsure and file_change.place in shared:
                continue
            recorded_states = recorded.setdefault(file_change.place, [])
            index = 0 if file_change.is_earlier else len(recorded_states)
            recorded_states[index:index] = file_change.before, file_change.after
    file_changes = []
    for change in changes:
        states = recorded.get(f"{step.root}/{change.path}")
        if states is None:
            file_changes.append(change)
            continue
        if not any(_is_same(change.before, state) for state in states):
            file_changes.append(replace(change, after=states[0], stamp=(0, 0, 0), is_earlier=True))
        if not _is_same(states[-1], change.after):
            file_changes.append(replace(change, before=states[-1]))
    return file_changes


def _is_same(file_state: FileState, other: FileState) -> bool:
    return continues(file_state, other) and file_state.mode == other.mode


def _is_older(change: FileChange, before: Look, after: Look) -> bool:
    new = after.states.get(change.path)
    slack = RACY if new is not None and new.stamp[1] % 1_000_000_000 else _COARSE
    return change.before.kind == ABSENT and new is not None and new.stamp[1] < before.at - slack


def _find_content(state: FileState) -> tuple[str, str]:
    """Return the kind and content of a file, or target of a link, which a copy shares."""
    return state.kind, state.content if state.kind == FILE else state.target


def compare_looks(before: Look, after: Look) -> tuple[list[FileChange], list[str]]:
    """Return the changes between two looks by path, and the files and links that were written."""
    changes, names = [], []
    differing = [path for path, record in after.states.items() if before.states.get(path) is not record]
    differing += before.states.keys() - after.states.keys()
    for path in sorted(differing):
        old, new = before.states.get(path, NOTHING), after.states.get(path, NOTHING)
        if path not in before.states and (not before.is_whole or _is_left_out(path, before.skipped)):
            continue  # it may have been there
        kinds = {old.state.kind, new.state.kind}
        if old.stamp == new.stamp or kinds == {SPECIAL}:
            continue
        if change := _compare(path, old, new):
            changes.append(change)
        if kinds & {FILE, LINK}:
            names.append(path)
    return changes, names


def _compare(path: str, old: StampedState, new: StampedState) -> FileChange | None:
    """Return the change of a path between two states, None if there is none."""
    if old.state == new.state and (old.state.kind != FILE or old.state.content):
        return None
    return FileChange(path, old.state, new.state, new.stamp[:3] if new.is_settled else (0, 0, 0))


def _identify(root: str, change: FileChange, stamped: StampedState) -> FileChange:
    """Return a change with the digest of a file that could not be copied, as on a full disk: without it an undo cannot
    tell that nobody has changed the file since. A file that differs from `stamped` has none. Blocks."""
    after = change.after
    if after.kind == FILE and not (after.content or change.is_earlier) and after.size <= MAX_COPIED:
        with suppress(OSError), open_real(Path(root, change.path)) as file:
            if make_stamp(os.fstat(file.fileno()))[:3] == stamped.stamp[:3]:
                return replace(change, after=replace(after, content=hash_file(file)))
    return change


def _is_left_out(path: str, skipped: set[str]) -> bool:
    """Return True if a path or a folder above it was not looked at."""
    while path and path not in skipped:
        path = path.rpartition("/")[0]
    return path in skipped


_PATIENCE = 60.0
"""Time limit of a look for which no command waits."""
_IDENTIFYING = 2.0
"""Seconds for the digests of the files of a step that could not be copied."""
_LOOKS = "undo/looks"
_TRIM = 100_000_000
"""Number of bytes added to the store after which it is trimmed; also trimmed at the first step."""
KILLED_MEANWHILE = "nexus was killed in it, so that all changes since are counted as its own"
NOT_NOTED = "this step cannot be recorded"
KILLED = "nexus was killed during this command, and the record of the files was lost"
TOO_MANY = f"more than {MOST:,} files, or a scan takes longer than {WALK_SECONDS:.0f} s: new files are not tracked"


@dataclass
class BegunStep:
    """A step that runs: its first line of the journal, the look before it, or why there is none."""

    step: Step
    project: LookedProject
    look: Look | None
    not_covered: Mapping[str, str]
    """What an undo may not bring back; if there is no look, all of the project."""
    repositories: Mapping[str, RepositoryState]
    """The repositories of the project before it, by their paths."""
    beside: list[BegunStep] = field(default_factory=list)
    """The steps of added folders, which end with it."""
    started: float = field(default_factory=time.monotonic)
    """When the look was taken."""


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
    most_file: int = MAX_COPIED
    """Most bytes of a file that a look copies."""
    _name: str = field(default_factory=lambda: secrets.token_hex(8))
    _running: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Session and root of the steps that run, by their ids; in the lock file for other processes."""
    _count: int = 0
    _projects: dict[Path, LookedProject] = field(default_factory=dict)
    _repositories: dict[Path, Repositories] = field(default_factory=dict)
    _not_covered: dict[Path, Mapping[str, str]] = field(default_factory=dict)
    """By project: what its newest look did not cover."""
    _looking: threading.RLock = field(default_factory=threading.RLock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    """Calls that run at the same time end in threads of their own."""
    _lock: FileLock | None = None
    _settled: set[str] = field(default_factory=set)
    """Sessions of which it was found out what commands of killed processes changed."""
    _waiting: list[Step] = field(default_factory=list)
    """Steps that could not be written, as on a full disk."""
    _trimmed: int = -_TRIM

    def __post_init__(self) -> None:
        self._store = ByteStore(self.data) if self.keeps else None

    def begin(
        self, owner: StepOwner, label: str, call: str, root: Path, added: Sequence[Path] = (), *, beside: bool = False
    ) -> BegunStep:
        """Look at a project and added folders before a call that may change them, or before jobs that run `beside` the
        calls: what no call changed may then be the person's work (`Step.is_unsure`). Blocks; never raises `OSError`."""
        begun = list[BegunStep]()
        for folder in (root, *added):
            place = real_path(folder)
            step = replace(self._make_step(owner, label, call, place), is_unsure=beside)
            self._settle(owner.session)
            project, look, repositories = self._look(place)
            begun.append(BegunStep(step, project, look, self._not_covered[place], repositories))
            if look is not None and self.keeps:
                try:  # so that another process finds the changes of the step if this one is killed
                    self._note_running(step.id, None if beside else (step.session, step.root))
                    project.save(look, make_rows(repositories))
                    begin_step(self.data, step)
                except (OSError, ValueError) as error:  # as on a full disk
                    why = f"{NOT_NOTED}: {reason_of(error)}"
                    begun[-1].not_covered = {**self._not_covered[place], PROJECT_ITSELF: why}
        begun[0].beside = begun[1:]
        return begun[0]

    def find_uncovered(self, root: Path) -> Mapping[str, str]:
        """Return the changes that an undo of a command would not bring back now, after a look if there was none.
        Blocks."""
        if (root := real_path(root)) not in self._not_covered:
            self._look(root)
        return self._not_covered[root]

    def look_early(self, roots: Sequence[Path]) -> None:
        """Look at folders while nobody waits for it: what is as now is not read again before the first command. Blocks;
        raises nothing. Nothing is looked at once a command may run, which would have changed what is copied of git."""
        for root in roots:
            with suppress(Exception), self._looking:  # that command tells it
                if not self._count:
                    self._look(real_path(root))

    def _look(self, root: Path) -> tuple[LookedProject, Look | None, Mapping[str, RepositoryState]]:
        with self._looking:
            if root not in self._projects:
                key = f"{self._name}-{len(self._projects)}"
                self._projects[root] = LookedProject(root, self.data, key, self._store, most=self.most_file)
            project, look, states = self._projects[root], None, dict[str, RepositoryState]()
            try:
                look = project.begin()
                if self._store is not None:
                    followed = self._repositories.setdefault(root, Repositories(root, self.data, self._store))
                    states = followed.begin(look.repositories)
                    look.not_covered |= followed.not_covered
                self._not_covered[root] = (
                    look.not_covered if look.is_whole else {**look.not_covered, PROJECT_ITSELF: TOO_MANY}
                )
            except (NotFollowed, OSError, ValueError) as error:
                self._not_covered[root] = {PROJECT_ITSELF: str(error)}
            return project, look, states

    def end(self, begun: BegunStep, command: str = "", output: str = "") -> list[str]:
        """Look again after the call, record its changes, and return the names of the changed files. Blocks; never
        raises `OSError`.

        With the `command` and its output, changes that it does not explain are unsure.
        """
        changes, names, notices = list[FileChange](), list[str](), list[str]()
        step, look, not_covered, why = begun.step, begun.look, dict(begun.not_covered), ""
        seconds, is_alone, shared = time.monotonic() - begun.started, True, set[str]()
        lost, states = list[FileChange](), dict[str, StampedState]()
        try:
            if look is not None:
                after = begun.project.end(look)
                states = after.states
                changes, names = compare_looks(look, after)
                excluded = begun.project.find_generated(names)
                names = [name for name in names if name not in excluded]
                unchanged = {
                    path for path in not_covered if look.states.get(path, NOTHING).state.kind not in (ABSENT, FOLDER)
                }
                if self._store is not None:
                    repository_changes = self._repositories[begun.project.root].end(begun.repositories)
                    lost = repository_changes.lost
                    names += [file_change.path for file_change in lost]
                    changes += lost
                    if changes or repository_changes.references:
                        is_alone = not _is_another_running(step, self.data)
                        step, own_changes, shared = _drop_foreign_changes(
                            step, changes, repository_changes.references, self.data, command
                        )
                        dropped = {file_change.path for file_change in changes} - {
                            file_change.path for file_change in own_changes
                        }
                        names = [name for name in names if name not in dropped]
                        changes = mark_moved_in(own_changes, look, after, self._store)
                    notices = repository_changes.notices
                    unchanged |= repository_changes.unchanged
                if command and (seconds > unsure_changes.SECONDS or not is_alone):
                    step = _mark_unsure_references(step, lost, command)
                    work = set(names)
                    if not is_alone:  # what git ignores may be the other's as well
                        work |= {
                            file_change.path
                            for file_change in changes
                            if BUILD_FOLDERS.isdisjoint(file_change.path.lower().split("/"))
                        }
                    changes = unsure_changes.mark_unsure(changes, work, command, output, step.root)
                changes = [
                    replace(file_change, is_unsure=True)
                    if f"{step.root}/{file_change.path}" in shared and file_change.path not in command
                    else file_change
                    for file_change in changes
                ]
                why = "; ".join(filter(None, (*notices, _name_new(look, after))))
                unchanged -= {change.path for change in changes}
                differing = {path: reason for path, reason in not_covered.items() if path not in unchanged}
                not_covered = {path: reason for path, reason in differing.items() if not reason.startswith(NOT_NOTED)}
                not_covered |= {path: reason for path, reason in after.not_covered.items() if reason == TOO_DEEP}
                not_covered |= {} if after.is_whole else {PROJECT_ITSELF: TOO_MANY}
        except (NotFollowed, OSError, ValueError) as error:
            not_covered[PROJECT_ITSELF] = str(error)
        step = replace(step, changes=tuple(changes), unfollowed=why, not_covered=tuple(not_covered.items()))
        self._record(replace(step, began=step.at, at=utc_now()), states)
        self._note_running(step.id, ended=True)
        beside = [
            f"{begun_step.step.root}/{name}"
            for begun_step in begun.beside
            for name in self.end(begun_step, command, output)
        ]
        return names + beside

    def read_targets(self, targets: Sequence[Path]) -> dict[Path, StampedState]:
        """Return the states of files that an edit may change, and of the folders that it has to make; keep the bytes.
        Blocks; never raises `OSError`."""
        states = {}
        folders = [folder for target in targets for folder in target.parents if not os.path.lexists(folder)]
        for target in dict.fromkeys([*targets, *folders]):
            states[target] = NOTHING
            with suppress(OSError), open_states(target.parent, self._store, SECONDS) as reader:
                states[target] = reader.read(target.name)
        return states

    def find_unkept(self, before: dict[Path, StampedState]) -> str:
        """Return the reason to refuse an edit of the files of `before`: no room to keep one; else "". Blocks."""
        for target, record in before.items():
            if self._store is not None and record.state.kind == FILE and not record.state.content:
                try:
                    with open_real(target) as file:
                        self._store.put(file)
                except OSError as error:
                    if hint := write_failure_hint(error, ""):
                        why = reason_of(error).lower()
                        return f"{target.name} was not changed: undo cannot keep a copy of its content ({why}). {hint}"
        return ""

    def begin_edit(
        self, owner: StepOwner, label: str, call: str, project: Path, before: Mapping[Path, StampedState]
    ) -> list[Step]:
        """Return a step for each root of the files of `before`, which an edit may change, and note it, so that another
        process finds its changes if this one is killed. Blocks; never raises `OSError`."""
        self._settle(owner.session)
        roots: dict[Path, list[FileChange]] = {}
        for target, stamped in before.items():
            root = project if target.is_relative_to(project) else target.parent
            roots.setdefault(root, []).append(FileChange(str(target.relative_to(root)), stamped.state, stamped.state))
        steps = [replace(self._make_step(owner, label, call, root), changes=tuple(roots[root])) for root in roots]
        for step in steps if self.keeps else ():
            with suppress(OSError, ValueError):
                self._note_running(step.id)
                begin_step(self.data, step)
        return steps

    def record_edit(self, project: Path, begun: Sequence[Step]) -> list[str]:
        """Record what an edit changed in the files of its steps, and return their names. Blocks; never raises
        `OSError`."""
        after, names = self.read_targets([place for step in begun for place in _list_places(step)]), list[str]()
        for step in begun:
            ended = _end_edit(step, after)
            self._record(ended, {change.path: after[Path(step.root, change.path)] for change in ended.changes})
            with suppress(OSError):
                self._note_running(step.id, ended=True)
            paths = [change.path for change in ended.changes if change.after.kind != FOLDER]
            names += paths if step.root == str(project) else [os.path.join(step.root, path) for path in paths]
        return names

    def close(self) -> None:
        """Remove what is kept for a process that is killed. If steps could not be written, the next one finds them."""
        with suppress(OSError):
            self.save_waiting()
        with self._writing:
            lock, self._lock = self._lock, None
        for project in () if self._waiting else list(self._projects.values()):
            project.remove()
        if lock is not None:
            lock.release(remove=not self._waiting)

    def _settle(self, session: str) -> None:
        """Record once what killed processes of a session changed."""
        if self.keeps and session not in self._settled:
            self._settled.add(session)
            with suppress(OSError, ValueError):
                settle_killed(self.data, session)

    def _make_step(self, owner: StepOwner, label: str, call: str, root: Path) -> Step:
        self._count += 1
        name = f"{self._name}-{self._count}"
        label = f"{owner.prefix}{label}"
        return Step(
            id=name, session=owner.session, turn=owner.turn, call=call, what=label[:500], at=utc_now(), root=str(root)
        )

    def _note_running(self, step: str, place: tuple[str, str] | None = None, *, ended: bool = False) -> None:
        """Say in the lock file which steps run, by session and root. Jobs have no `place`: what they change is unsure
        anyway. Raises `OSError`."""
        with self._writing:
            self._running.pop(step, None)
            if place:
                self._running[step] = place
            if not ended:
                self._lock = self._lock or FileLock.take(self.data / _LOOKS / f"{self._name}.lock")
            if self._lock is not None:
                self._lock.write(json.dumps(list(self._running.values())))

    def _record(self, step: Step, states: Mapping[str, StampedState]) -> None:
        """Put a step in the journal, if it changed something; `states` are those after it, by path."""
        if self._store is None:
            return
        end = time.monotonic() + _IDENTIFYING
        changes = tuple(
            _identify(step.root, change, states.get(change.path, NOTHING)) if time.monotonic() < end else change
            for change in step.changes
        )
        self._waiting.append(replace(step, changes=changes))
        with suppress(OSError):
            self.save_waiting()
        with suppress(OSError, ValueError):
            if self._store.written - self._trimmed >= _TRIM:
                self._trimmed = self._store.written
                trim_store(self.data, self.most)

    def save_waiting(self) -> None:
        """Write the steps that are not in the journal yet, as after a command that filled the disk. Blocks; raises
        `OSError`."""
        with self._writing:
            while self._waiting:
                step = self._waiting[0]
                with suppress(ValueError):
                    if step.changes or step.references or step.unfollowed or step.not_covered:
                        append_step(self.data, step)
                    else:
                        end_step(self.data, step.session, step.id)
                del self._waiting[0]


def settle_killed(data: Path, session: str) -> list[Step]:
    """Record what commands changed whose process was killed, and return these steps. Blocks.

    All changes since then count as theirs. Raises `OSError` if that cannot be found out now; the next call tries again.
    """
    settled = []
    names = group_pairs(("" if step.undoes else step.id.rpartition("-")[0], step) for step in read_begun(data, session))
    for name, steps in names.items():
        lock = FileLock.take(data / _LOOKS / f"{name}.lock") if name else None
        if lock is None:
            continue  # they run, or are undos
        try:
            begun = read_begun(data, session)  # one may just have ended
            for step in [begun_step for begun_step in steps if begun_step in begun]:
                ended = _find_killed_edit(data, step) if step.changes else _find_killed(data, name, step)
                if ended.changes or ended.unfollowed:
                    settled.append(ended)
                    append_step(data, ended)
                else:
                    end_step(data, session, step.id)
            for place in (data / _LOOKS).glob(f"{name}[-.]*"):
                place.unlink(missing_ok=True)
        finally:
            lock.release()
    return settled


def _find_killed(data: Path, name: str, step: Step) -> Step:
    """Return a step of a killed process with the changes since its look. Raises `OSError`."""
    for table in (data / _LOOKS).glob(f"{name}-*.json"):
        try:
            rows, values = read_rows(table)
            if values["root"] != step.root:
                continue
            project = LookedProject(Path(step.root), data, table.stem, ByteStore(data), _PATIENCE)
            before = project.restore(rows, values)
            after = project.end(before)
            states = parse_rows(values.get("repositories", {}))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            break
        except NotFollowed as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        repository_changes = Repositories(Path(step.root), data, ByteStore(data)).end(states)
        changes = compare_looks(before, after)[0] + repository_changes.lost
        step, changes, _ = _drop_foreign_changes(step, changes, repository_changes.references, data)
        changes = mark_moved_in(changes, before, after, ByteStore(data))
        return replace(step, changes=tuple(changes), unfollowed=KILLED_MEANWHILE, at=utc_now())
    return replace(step, unfollowed=KILLED)


def _find_killed_edit(data: Path, step: Step) -> Step:
    """Return the step of an edit in a killed process with the changes to its files since it began."""
    ended = _end_edit(step, ChangeJournal(data).read_targets(_list_places(step)))
    return replace(ended, unfollowed=KILLED_MEANWHILE if ended.changes else "")


def _end_edit(step: Step, after: Mapping[Path, StampedState]) -> Step:
    """Return the step of an edit with what it changed: its files are in the states of `after` now."""
    compared = (
        _compare(change.path, replace(NOTHING, state=change.before), after[place])
        for change, place in zip(step.changes, _list_places(step), strict=True)
    )
    return replace(step, changes=tuple(change for change in compared if change is not None), at=utc_now())


def _list_places(step: Step) -> list[Path]:
    return [Path(step.root, change.path) for change in step.changes]


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


def _name_new(before: Look, after: Look) -> str:
    """Return a text with the repositories that a command made, "" if there are none."""
    new = sorted(git_folder(path) for path in {*after.repositories} - {*before.repositories} if before.is_whole)
    return f"{name_first(new, 3)} {'are' if new[1:] else 'is'} new; undo does not remove repositories" if new else ""


def _mark_unsure_references(step: Step, lost: Sequence[FileChange], command: str) -> Step:
    """Return the step with its references as unsure if the command does not name git; those of `lost` repositories go
    with these."""
    places = {change.path for change in lost}
    if unsure_changes.NAMES_GIT.search(command):
        return step
    references = (
        replace(reference, is_unsure=git_folder(reference.repository) not in places) for reference in step.references
    )
    return replace(step, references=tuple(references))


def _drop_foreign_changes(
    step: Step, changes: list[FileChange], references: Sequence[ReferenceChange], data: Path, command: str = ""
) -> tuple[Step, list[FileChange], set[str]]:
    """Return `step` with its own of the `references`, its own of `changes`, and the places of what commands of other
    sessions left unsure: it may as well be of `step`, if that ran a `command`.

    What other calls, of any session, recorded since it began is theirs. What jobs do to references is not told from
    what the person does. Blocks; raises `OSError`.
    """
    recorded_steps = [other_step for other_step in read_steps_since(data, step.at) if other_step.id != step.id]
    shared = {
        change.place
        for other_step in recorded_steps
        if command and other_step.session != step.session
        for change in other_step.changes
        if change.is_unsure
    }
    known_references = {
        (recorded_step.root, reference) for recorded_step in recorded_steps for reference in recorded_step.references
    }
    own_references = (
        ()
        if step.is_unsure
        else tuple(reference for reference in references if (step.root, reference) not in known_references)
    )
    return replace(step, references=own_references), drop_recorded(changes, step, recorded_steps, shared), shared


def _is_another_running(step: Step, data: Path) -> bool:
    """Return True if a command of another session runs in the folder of `step`, above or below it."""
    for place in data.glob(f"{_LOOKS}/*.lock"):
        with suppress(OSError, ValueError, TypeError):
            rows = json.loads(read_held(place) or "[]")  # nothing of a process that was killed
            if any(session != step.session and overlaps(root, step.root) for session, root in rows):
                return True
    return False
