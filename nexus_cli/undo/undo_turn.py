"""Undo, redo or show what a turn did to files: the part of `/undo`, `/redo` and `nexus diff` that needs no session."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypedDict

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.worktree_record import is_removed
from nexus_cli.core.errors import UsageError, reason_of
from nexus_cli.core.event import UncoveredPath
from nexus_cli.core.json_value import JsonOf, VersionedReport
from nexus_cli.sandbox.own_git import GitError, find_git
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.file_state import ABSENT
from nexus_cli.undo.coverage import PROJECT_ITSELF, find_uncovered
from nexus_cli.undo.follow_changes import KILLED_MEANWHILE, settle_killed
from nexus_cli.undo.journal import disk_errors, read_begun_undos, read_steps
from nexus_cli.undo.plan_references import (
    MovedHead,
    TurnReference,
    find_commands,
    find_moved_head,
    group_references,
    merge_references,
    plan_references,
)
from nexus_cli.undo.plan_restore import (
    KEEP,
    NOTHING,
    RESTORE,
    UNSURE,
    find_changes,
    find_paths,
    is_inside,
    merge_changes,
)
from nexus_cli.undo.read_references import is_same_value
from nexus_cli.undo.records import GIT_FOLDER, Step
from nexus_cli.undo.repository_copy import find_copy, find_git_folders, is_head_kept, put_back
from nexus_cli.undo.restore import KeptPath, Restorer, RestoreResult
from nexus_cli.undo.restore_references import join_worktrees, read_present, restore_objects
from nexus_cli.undo.undone_steps import (
    group_by_turn,
    has_effect,
    newest_turn,
    newest_undo,
    steps_in_force,
    without_worktree_steps,
)

_SECONDS = 10.0
"""Seconds to wait for another undo of the same session."""


class ReferenceObject(TypedDict):
    """A branch, tag, stash or HEAD that the turn changed, or a file in git's folder."""

    repository: str
    """Path of the repository's working tree; "" for the project's repository."""
    name: str
    before: str
    """The value before the turn: a commit, `ref: NAME`, the digest of a file; "" if the reference did not exist."""
    after: str
    restored: bool
    command: str | None
    """The command that restores the earlier value; null if it is already restored, or if there is no such command."""


class UndoReport(VersionedReport):
    """The changed files. Paths inside the project are relative to it; that of a folder in `restored` and `removed` ends
    with `/`."""

    action: Literal["undo", "redo"]
    turn: int | None
    """null if there was nothing to undo."""
    restored: list[str]
    removed: list[str]
    kept: list[JsonOf[KeptPath]]
    references: list[ReferenceObject]
    head_moved: MovedHead | None
    not_covered: list[UncoveredPath]
    """Changes of the turn that an undo may not be able to restore."""
    unfollowed: list[str]
    """Lines of text about commands whose changes are not fully known: why undo does not cover them, or, if nexus was
    killed during the command, that undo covers all changes since."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class UndoRequest:
    """A person's request to take changes back."""

    data: Path
    session: str
    turns: int
    """Number of turns of the session so far."""
    folder: str
    """Working folder, to which `paths` are relative."""
    project: str
    """Real path of the project, to which reported paths are relative."""
    turn: int | None = None
    """The turn, None for the newest one that changed something."""
    paths: Sequence[str] = field(default=())
    """Files and folders; () for all that the turn changed."""
    dry_run: bool = False
    takes_unsure: bool = False
    """True to take back also what the person may have changed while commands ran."""


def find_unsure(request: UndoRequest) -> list[str]:
    """Return the absolute paths that an undo would leave as perhaps the person's. Raises as `undo_turn`."""
    every = _read_settled(request)
    return [] if read_begun_undos(request.data, request.session) else _choose(request, every, redo=False)[2]


def changed_by(request: UndoRequest) -> tuple[int | None, list[Step]]:
    """Return a turn and its steps, limited to the paths of the request: the newest one with changes if it names none.

    Undone changes count too. Raises `NexusError` for an unknown turn.
    """
    every = _read_settled(request)
    own_steps = [step for step in every if not step.undoes]
    turn = request.turn or newest_turn(_of_paths(own_steps, request))
    return turn, [step for step in _of_paths(own_steps, request) if step.turn == turn]


def is_undone(request: UndoRequest, turn: int) -> bool:
    """Return True if nothing of a turn's changes is in force any more."""
    every = without_worktree_steps(read_steps(request.data, request.session), request.data)
    return not has_effect(group_by_turn(_of_paths(every, request)).get(turn, ()))


def _read_settled(request: UndoRequest) -> list[Step]:
    """Return all steps of the session, with those of killed processes if they can be found out. Raises as
    `undo_turn`."""
    with suppress(OSError, ValueError):
        settle_killed(request.data, request.session)
    every = read_steps(request.data, request.session)
    _refuse_unknown(request, every)
    return every if request.paths else without_worktree_steps(every, request.data)


def _of_paths(steps: Sequence[Step], request: UndoRequest) -> list[Step]:
    return steps_in_force(steps, find_paths(request.paths, request.folder))


def _refuse_unknown(request: UndoRequest, steps: Sequence[Step]) -> None:
    newest = max([request.turns, *(step.turn for step in steps)])
    if request.turn is not None and not 1 <= request.turn <= newest:
        name = request.session if request.session.startswith("worktree-") else f"session {request.session}"
        why = f"there is no such turn; the newest of {name} is {newest}" if newest else f"{name} has no turns yet"
        raise UsageError(
            f"turn {request.turn}",
            why,
            "Turns are your messages, numbered from 1; `nexus timeline` lists them",
        )


def undo_turn(request: UndoRequest, *, redo: bool = False) -> UndoReport:
    """Take back the changes of a turn, or with `redo` the newest undo. Raises `NexusError`: usage for an unknown turn;
    if the disk is full."""
    data, session = request.data, request.session
    _refuse_unknown(request, read_steps(data, session))
    if not (data / "undo" / f"{session}.jsonl").exists():
        return _report(request, request.turn, [], RestoreResult(), redo=redo)
    with disk_errors(f"nothing was {'redone' if redo else 'undone'}"):
        settle_killed(data, session)
        with FileLock.wait_for(data / "undo" / f"{session}.lock", _SECONDS):
            if begun := read_begun_undos(data, session):
                if request.dry_run:
                    raise UsageError("--dry-run", "an earlier undo was interrupted", "Run `nexus undo` to complete it")
                with Restorer(data, {step.root for step in begun}) as restorer:
                    restorer.resume(begun)
                return _report(request, begun[0].turn, [], restorer.result, redo=begun[0].what.startswith("redo "))
            every = read_steps(data, session)
            every = every if redo or request.paths else without_worktree_steps(every, data)
            return _restore_steps(request, every, redo=redo)


def _choose(request: UndoRequest, every: Sequence[Step], *, redo: bool) -> tuple[int | None, list[Step], list[str]]:
    """Return the turn to undo or redo, the steps to take back, and the absolute paths that are left as unsure."""
    in_force = _of_paths(every, request)
    if redo:
        chosen = newest_undo(every, in_force)
        return chosen[0].turn if chosen else None, chosen, []
    unsure, newest = list[Step](), newest_turn(in_force)
    if not (request.paths or request.takes_unsure):
        unsure, in_force = _keep(in_force, is_unsure=True), _keep(in_force, is_unsure=False)
        undone = {step.turn for step in every if step.undoes}
        in_force = _leave(in_force, [step for step in unsure if step.turn in undone])
    turn = request.turn or newest_turn(in_force)
    if not request.turn and not any(step.undoes and step.turn == newest for step in every):
        turn = newest  # it stays the one to take back, if all that it changed is unsure
    chosen = [step for step in in_force if step.turn == turn and not step.undoes]
    unsure = [step for step in unsure if step.turn == turn or (not request.turn and step.turn > (turn or 0))]
    moved = [
        os.path.join(step.root, reference.repository, GIT_FOLDER) for step in unsure for reference in step.references
    ]
    changed = [change.place for change in find_changes(unsure)]
    return turn, chosen, [*dict.fromkeys(moved), *changed]


def _keep(steps: Sequence[Step], *, is_unsure: bool) -> list[Step]:
    """Return the steps with those changes alone that are unsure, or that are not."""
    selected = [
        replace(
            step,
            changes=tuple(change for change in step.changes if change.is_unsure == is_unsure),
            references=tuple(reference for reference in step.references if reference.is_unsure == is_unsure),
        )
        for step in steps
    ]
    return [step for step in selected if step.changes or step.references]


def _leave(steps: Sequence[Step], unsure: Sequence[Step]) -> list[Step]:
    """Return the steps without changes of paths that steps of the same turn in `unsure` name."""
    places = {(step.turn, change.place) for step in unsure for change in step.changes}
    return [
        replace(step, changes=tuple(change for change in step.changes if (step.turn, change.place) not in places))
        for step in steps
    ]


def _restore_steps(request: UndoRequest, every: Sequence[Step], *, redo: bool) -> UndoReport:
    turn, chosen, unsure = _choose(request, every, redo=redo)
    considered = [
        candidate for candidate in every if not (redo or candidate.undoes) and (turn is None or candidate.turn >= turn)
    ]
    unfollowed = [
        f"{step.what}: {step.unfollowed}"
        for step in considered
        if step.unfollowed
        and (step.unfollowed != KILLED_MEANWHILE or step.turn == turn)  # of later turns it is in them
    ]
    paths = find_paths(request.paths, request.folder)
    not_covered = find_uncovered(considered, paths)
    left_in = {change.root for change in merge_changes(chosen) if change.after.kind != ABSENT}
    left_in |= {step.root for step in chosen if any(reference.after for reference in step.references)}
    missing_roots = {
        root: why for root in sorted(left_in) if (why := _describe_gone(request.data, root))
    }  # none is made again
    chosen = [step for step in chosen if step.root not in missing_roots]
    untouched = [KeptPath(place, UNSURE) for place in unsure] + [KeptPath(*item) for item in missing_roots.items()]
    if not has_effect(chosen):
        reported_turn, result = turn if request.turn and not missing_roots else None, RestoreResult(kept=untouched)
        return _report(request, reported_turn, [], result, unfollowed, not_covered, redo=redo)
    changes = merge_changes(chosen)
    with Restorer(request.data, {change.root for change in changes}) as restorer:
        actions = [
            action
            for action in restorer.plan(changes)
            if action.does != NOTHING or is_inside(action.change.place, paths)
        ]
        actions = [
            action for action in actions if action.does != KEEP or action.change.place not in unsure
        ]  # it stays in force
        is_due = merge_references(chosen) or any(
            action.does != NOTHING or action.change.is_lost_repository for action in actions
        )
        if is_due and not (request.turn or redo) and any(step.unfollowed == KILLED_MEANWHILE for step in chosen):
            hint = f"`nexus diff --turn {turn}` shows these changes; `nexus undo --turn {turn}` undoes all of them"
            raise UsageError(f"turn {turn}", KILLED_MEANWHILE, hint)
        result = restorer.preview(actions) if request.dry_run else restorer.result
        if not redo:  # first: the undo of the files is what says that all is done
            unfollowed += _put_repositories_back(request, chosen, result)
        references = _plan_references(request, chosen, result)
        if not request.dry_run:
            act = "redo" if redo else "undo"
            step = Step(
                id=f"{act}.{os.urandom(8).hex()}",
                session=request.session,
                turn=turn or 0,
                call="",
                what=f"{act} turn {turn}",
                at="",
                root="",
            )
            restorer.execute(actions, references, step, chosen)
    kept_paths = {kept_path.path for kept_path in result.kept}
    result.kept += [kept_path for kept_path in untouched if kept_path.path not in kept_paths]
    return _report(request, turn, references, result, unfollowed, not_covered, redo=redo)


def _describe_gone(data: Path, root: str) -> str:
    """Tell the person why an undo leaves the folder `root`, "" if it is there."""
    if is_removed(Path(root)):
        session = f"worktree-{os.path.basename(root)}"
        is_applied = (data / "undo" / f"{session}.jsonl").exists()
        hint = f"; to undo what was applied from it: nexus undo --session {session}" if is_applied else ""
        return f"this worktree was removed{hint}"
    if os.path.isdir(root):
        return ""
    return "this folder was moved or deleted; move it back and try again, or specify an earlier turn"


def _plan_references(request: UndoRequest, steps: Sequence[Step], result: RestoreResult) -> list[TurnReference]:
    """Plan what is done to the references that `steps` changed, and put back the objects that they name. Those of a
    removed repository are in its copy: they are moved only where another one is in its place."""
    store = ByteStore(request.data)
    is_same = partial(is_same_value, store)
    rows = join_worktrees(merge_references(steps, is_same))

    def find_present(root: str, repository: str) -> Mapping[str, str]:
        with suppress(OSError):
            if not request.dry_run:
                group = group_references(rows)[root, repository]
                restore_objects(request.data, Path(root, repository), [row.change for row in group], store)
        state = read_present(root, repository, store)
        return state.values if state else {}

    lost = {change.place for change in merge_changes(steps) if change.is_lost_repository}
    restored = set(result.restored) if request.dry_run else set[str]()
    lost_folders = {place for place in lost if place in restored or find_git_folders(Path(place).parent) is None}
    return [
        replace(row, does=NOTHING) if row.git_folder in lost_folders else row
        for row in plan_references(rows, find_present, is_same)
    ]


def _put_repositories_back(request: UndoRequest, steps: Sequence[Step], result: RestoreResult) -> list[str]:
    """Put back repositories that these steps removed, and what is broken in others; return what could not be."""
    failures = []
    lost = [change for change in merge_changes(steps) if change.is_lost_repository]
    roots = [os.path.dirname(change.place) for change in lost]
    # Before the first: it is put back with its worktrees and submodules.
    due = {root for root in roots if put_back(request.data, root, dry_run=True)}
    for change in lost:
        root, why = os.path.dirname(change.place), "another repository is in its place"
        copy = find_copy(request.data, root)
        try:
            if is_back := put_back(request.data, root, dry_run=request.dry_run) or root in due:
                is_back = _has_head(request, str(copy) if request.dry_run else root, root)
                why = "HEAD does not point to a readable commit"
        except OSError as error:
            is_back, why = False, reason_of(error).lower()
        result.restored += [change.place] if is_back else []
        is_same = bool(head := _find_head(root)) and copy is not None and head == _find_head(str(copy))
        if not is_back and copy is not None and not is_same:
            fetch = (
                f"`{_git_at(_report_path(request, root))} fetch {shlex.quote(str(copy))} '+refs/*:refs/nexus-undo/*'`"
            )
            label = next(
                step.what for step in steps if any(file_change.place == change.place for file_change in step.changes)
            )
            failures.append(f"{label}: the repository was not restored ({why}); to get its commits: {fetch}")
    inner = {
        os.path.join(step.root, reference.repository).rstrip("/") for step in steps for reference in step.references
    }
    for root in {step.root for step in steps} | inner:
        place = f"{root}/{GIT_FOLDER}"
        if request.dry_run or place in result.restored or not os.path.isdir(place) or _has_head(request, root, root):
            continue
        with suppress(OSError):  # objects or branches may be broken
            if put_back(request.data, root, only_objects=True) and _has_head(request, root, root):
                result.restored.append(place)
    return failures


def _has_head(request: UndoRequest, folder: str, root: str) -> bool:
    """Return True if HEAD resolves, or the kept HEAD of the project `root` is a branch without a commit."""
    return _find_head(folder) != "" or not is_head_kept(request.data, root)


def _find_head(folder: str) -> str | None:
    """Return the commit of HEAD in a repository, "" without one that can be read; None if git cannot be run."""
    with suppress(GitError):
        git = find_git(Path(folder))
        return git.head() if git else None
    return None


def _report_references(
    request: UndoRequest, rows: Sequence[TurnReference], result: RestoreResult
) -> tuple[list[ReferenceObject], MovedHead | None]:
    """Return the changes of references, and the move of the project's HEAD that stays."""
    references, moved, restored = list[ReferenceObject](), None, set(result.references)
    for (root, repository), group in group_references(rows).items():
        place = _report_path(request, os.path.join(root, repository).rstrip("/"))
        changed_rows = [
            row if request.dry_run or (root, row.as_undone()) in restored else row.as_kept() for row in group
        ]
        is_put_back = group[0].git_folder in result.restored
        commands = find_commands(changed_rows, _git_at(place), is_put_back=is_put_back)
        moved = moved if place else find_moved_head(changed_rows, is_put_back=is_put_back)
        references += [
            {
                "repository": place,
                "name": row.change.name,
                "before": row.change.before,
                "after": row.change.after,
                "restored": row.does == RESTORE,
                "command": commands.get(row.change.name),
            }
            for row in changed_rows
            if row.is_change and row.does != NOTHING
        ]
    return references, moved


def _git_at(place: str) -> str:
    return f"git -C {shlex.quote(place)}" if place else "git"


def _report_path(request: UndoRequest, place: str) -> str:
    """Return the path to report for a place: relative inside the project, "" for the project itself."""
    return "" if place == request.project else place.removeprefix(f"{request.project}/")


def _report(
    request: UndoRequest,
    turn: int | None,
    rows: Sequence[TurnReference],
    result: RestoreResult,
    unfollowed: Sequence[str] = (),
    not_covered: Mapping[str, str] = MappingProxyType({}),
    *,
    redo: bool,
) -> UndoReport:
    near = partial(_report_path, request)
    references, moved = _report_references(request, rows, result)
    kept_places = {kept_path.path for kept_path in result.kept}
    uncovered = [
        f"{near(place) or PROJECT_ITSELF}: {why}" for place, why in not_covered.items() if place not in kept_places
    ]
    return {
        "version": 1,
        "action": "redo" if redo else "undo",
        "turn": turn,
        "restored": sorted(map(near, result.restored)),
        "removed": sorted(map(near, result.removed)),
        "kept": [
            JsonOf(
                path=near(kept_path.path) or kept_path.path,
                why=kept_path.why,
                aside=near(kept_path.aside) if kept_path.aside else None,
            )
            for kept_path in sorted(result.kept, key=lambda kept_path: kept_path.path)
        ],
        "references": references,
        "head_moved": moved,
        "not_covered": [{"path": near(place) or PROJECT_ITSELF, "why": why} for place, why in not_covered.items()],
        "unfollowed": [*unfollowed, *uncovered],
        "dry_run": request.dry_run,
    }
