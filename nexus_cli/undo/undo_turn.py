"""Take back what a turn did to files, bring it back again, or show it: the part of `/undo`, `/redo` and `nexus diff`
that needs no session."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.config.file_lock import FileLock
from nexus_cli.core.errors import NexusError, write_failure_hint
from nexus_cli.core.json_types.report_types import MovedHead, UndoReport
from nexus_cli.sandbox.own_git import GitError, find_git
from nexus_cli.undo.follow_changes import KILLED_SINCE, settle_killed
from nexus_cli.undo.journal import read_begun, read_steps
from nexus_cli.undo.plan_restore import NOTHING, UNSURE, find_changes, find_paths, is_inside, merge_changes
from nexus_cli.undo.records import GIT_FOLDER, REPOSITORY, Step
from nexus_cli.undo.repository_copy import find_copy, is_head_kept, put_back, put_references_back
from nexus_cli.undo.restore import KeptPath, Restorer, RestoreResult
from nexus_cli.undo.undone_steps import has_effect, newest_turn, newest_undo, steps_in_force

_SECONDS = 10.0
"""Seconds to wait for another undo of the same session."""


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


def undo_turn(request: UndoRequest) -> UndoReport:
    """Take back the changes of a turn. Raises `NexusError`: usage for an unknown turn; if the disk is full."""
    return _restore(request, redo=False)


def redo_turn(request: UndoRequest) -> UndoReport:
    """Take back the newest undo. Raises as `undo_turn`."""
    return _restore(request, redo=True)


def changed_by(request: UndoRequest) -> tuple[int | None, list[Step]]:
    """Return a turn and its steps, limited to the paths of the request: the newest one with changes if it names none.

    Undone changes count too. Raises `NexusError` for an unknown turn.
    """
    with suppress(OSError, ValueError):
        settle_killed(request.data, request.session)
    every = read_steps(request.data, request.session)
    _refuse_unknown(request, every)
    own = [step for step in every if not step.undoes]
    turn = request.turn or newest_turn(_of_paths(own, request))
    return turn, [step for step in _of_paths(own, request) if step.turn == turn]


def _of_paths(steps: Sequence[Step], request: UndoRequest) -> list[Step]:
    return steps_in_force(steps, find_paths(request.paths, request.folder))


def _refuse_unknown(request: UndoRequest, steps: Sequence[Step]) -> None:
    known = max([request.turns, *(step.turn for step in steps)])
    if request.turn is not None and not 1 <= request.turn <= known:
        why = f"this session has {known} so far" if known else "this session has none yet"
        raise NexusError("usage", f"no turn {request.turn}", why, "nexus timeline lists them")


def _restore(request: UndoRequest, *, redo: bool) -> UndoReport:
    data, session = request.data, request.session
    _refuse_unknown(request, read_steps(data, session))
    if not (data / "undo" / f"{session}.jsonl").exists():
        return _report(request, request.turn, [], RestoreResult(), redo=redo)
    try:
        settle_killed(data, session)
        lock = FileLock.wait_for(data / "undo" / f"{session}.lock", _SECONDS)
    except OSError as error:
        why = error.strerror or str(error)
        raise NexusError(
            "internal", "nothing was undone", why, write_failure_hint(error, "Try again in a moment")
        ) from error
    with lock:
        if begun := [step for step in read_begun(data, session) if step.undoes]:
            if request.dry_run:
                raise NexusError("usage", "--dry-run", "an earlier undo was cut short", "nexus undo completes it")
            with Restorer(data, {step.root for step in begun}) as restorer:
                restorer.resume(begun)
            return _report(request, begun[0].turn, [], restorer.result, redo=begun[0].what.startswith("redo "))
        return _restore_steps(request, read_steps(data, session), redo=redo)


def _restore_steps(request: UndoRequest, every: Sequence[Step], *, redo: bool) -> UndoReport:
    in_force = _of_paths(every, request)
    is_left = not redo and not request.paths
    unsure = [step for step in in_force if step.is_unsure and is_left]
    in_force = [step for step in in_force if not (step.is_unsure and is_left)]
    if redo:
        chosen = newest_undo(every, in_force)
        turn = chosen[0].turn if chosen else None
    else:
        turn = newest_turn(in_force) if request.turn is None else request.turn
        chosen = [step for step in in_force if step.turn == turn and not step.undoes]
    unfollowed = [
        f"{step.what}: {step.unfollowed}"
        for step in every
        if step.unfollowed and not redo and not step.undoes and (turn is None or step.turn >= turn)
    ]
    unsure = [step for step in unsure if step.turn == turn or (not request.turn and step.turn > (turn or 0))]
    left = [KeptPath(one.place, UNSURE) for one in find_changes(unsure)]
    if not has_effect(chosen):
        movers = _find_movers(request, every, turn) if request.turn and turn and not request.paths else []
        result = RestoreResult(kept=left)
        unfollowed += _put_repositories_back(request, movers, result)
        return _report(request, turn if request.turn else None, movers, result, unfollowed, redo=redo)
    if request.turn is None and not redo and any(step.unfollowed == KILLED_SINCE for step in chosen):
        hint = f"`nexus diff --turn {turn}` shows them, `nexus undo --turn {turn}` (or /undo {turn}) takes all back"
        raise NexusError("usage", f"turn {turn}", KILLED_SINCE, hint)
    changes = merge_changes(chosen)
    with Restorer(request.data, {one.root for one in changes}) as restorer:
        asked = find_paths(request.paths, request.folder)
        actions = [one for one in restorer.plan(changes) if one.does != NOTHING or is_inside(one.change.place, asked)]
        result = restorer.preview(actions) if request.dry_run else restorer.result
        if not redo:  # first: the undo of the files is what says that all is done
            unfollowed += _put_repositories_back(request, chosen, result)
        if not request.dry_run:
            what = f"{'redo' if redo else 'undo'} turn {turn}"
            step = Step(
                id=f"{'redo' if redo else 'undo'}.{os.urandom(8).hex()}",
                session=request.session,
                turn=turn or 0,
                call="",
                what=what,
                at="",
                root="",
            )
            restorer.carry_out(actions, step, chosen)
    told = {one.path for one in result.kept}
    result.kept += [one for one in left if one.path not in told]
    movers = [] if redo or request.paths else _find_movers(request, every, turn or 0)
    return _report(request, turn, movers, result, unfollowed, redo=redo)


def _put_repositories_back(request: UndoRequest, steps: Sequence[Step], result: RestoreResult) -> list[str]:
    """Put back repositories that these steps removed, and commits that they lost; return what could not be."""
    told = []
    for step in steps:
        for change in step.changes:
            if change.path == GIT_FOLDER and change.before.kind == REPOSITORY:
                place, why = f"{step.root}/{GIT_FOLDER}", "there is another one now"
                copy = find_copy(request.data, step.root)
                try:
                    if is_back := put_back(request.data, step.root, dry_run=request.dry_run):
                        is_back = _has_head(request, str(copy) if request.dry_run else step.root, step.root)
                        why = "its HEAD names no commit that can be read"
                except OSError as error:
                    is_back, why = False, (error.strerror or str(error)).lower()
                result.restored += [place] if is_back else []
                if not is_back and copy is not None and place not in result.restored:
                    fetch = f"`git fetch {shlex.quote(str(copy))} '+refs/*:refs/nexus-undo/*'`"
                    told.append(f"{step.what}: the repository was not put back ({why}); {fetch} brings its commits")
        if step.head is not None and not request.dry_run and not _has_commit(step.root, step.head[0]):
            with suppress(OSError):
                if put_back(request.data, step.root, only_objects=True):
                    names = put_references_back(request.data, step.root, step.head[0])
                    result.restored += [f"{step.root}/{GIT_FOLDER}/{name}" for name in names]
    for root in {step.root for step in steps}:
        place = f"{root}/{GIT_FOLDER}"
        if request.dry_run or place in result.restored or not os.path.isdir(place) or _has_head(request, root, root):
            continue
        with suppress(OSError):  # objects or branches may be broken
            if put_back(request.data, root, only_objects=True) and _has_head(request, root, root):
                result.restored.append(place)
    return told


def _has_head(request: UndoRequest, folder: str, root: str) -> bool:
    """Return True if HEAD resolves, or the kept HEAD of the project `root` is a branch without a commit."""
    return _has_commit(folder, "HEAD^{commit}") or not is_head_kept(request.data, root)


def _has_commit(root: str, commit: str) -> bool:
    return _run_git(root, "cat-file", "-e", commit) is not None


def _run_git(root: str, *arguments: str) -> str | None:
    """Return the output of git, "" if it cannot be run, None if it fails."""
    if git := find_git(Path(root)):
        with suppress(GitError):
            status, output, _ = git.try_run(*arguments)
            return None if status else os.fsdecode(output).strip()
    return ""


def _find_movers(request: UndoRequest, every: Sequence[Step], turn: int) -> list[Step]:
    """Return the steps of a turn that moved HEAD; if the person named none, also those of later turns that only did
    that, while HEAD is where they left it."""
    movers = [one for one in every if one.head is not None and not one.undoes and one.root == request.project]
    found = [one for one in movers if one.turn == turn]
    if request.turn is None:
        others = {one.turn for one in every if one.changes and not one.undoes}
        later = [one for one in movers if one.turn > turn and one.turn not in others]
        if later and later[-1].head is not None and _run_git(request.project, "rev-parse", "HEAD") == later[-1].head[1]:
            found += later
    return found


def _find_moved_head(steps: Sequence[Step]) -> MovedHead | None:
    """Return the move of HEAD by `steps`, and the command that moves it back: to its branch first, as a reset would
    move the present one."""
    heads = [step.head for step in steps if step.head is not None]
    branches = [step.branch for step in steps if step.branch is not None]
    if not heads:
        return None
    (before, after), (old, new) = (
        (heads[0][0], heads[-1][1]),
        (branches[0][0], branches[-1][1]) if branches else ("", ""),
    )
    if old == new:
        command = f"git reset --soft {before}"
        return {"before": before, "after": after, "command": command} if before != after else None
    attached = f"git symbolic-ref HEAD {shlex.quote(old)}"
    command = attached if old.startswith("refs/") else f"git update-ref --no-deref HEAD {before}"
    if before == after:
        return {"before": old, "after": new, "command": command}
    return {"before": before, "after": after, "command": f"{command} && git reset -q {before}"}


def _report(
    request: UndoRequest,
    turn: int | None,
    steps: Sequence[Step],
    result: RestoreResult,
    unfollowed: Sequence[str] = (),
    *,
    redo: bool,
) -> UndoReport:
    def near(place: str) -> str:
        return place.removeprefix(f"{request.project}/")

    return {
        "version": 1,
        "action": "redo" if redo else "undo",
        "turn": turn,
        "restored": sorted(map(near, result.restored)),
        "removed": sorted(map(near, result.removed)),
        "kept": [
            {"path": near(one.path), "why": one.why, "aside": near(one.aside) if one.aside else None}
            for one in sorted(result.kept, key=lambda one: one.path)
        ],
        "head_moved": _find_moved_head(steps),
        "unfollowed": list(unfollowed),
        "dry_run": request.dry_run,
    }
