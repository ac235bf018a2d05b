"""Undo files in a session's name: the undo itself, a rewind, and what the model is told about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from nexus_cli.config.paths import places, project_root
from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import name_first
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import UNDONE_FILES
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ledger import LaneLog, Ledger, SessionInfo
from nexus_cli.tools.files import ToolError, read_real_file, sha256_hex
from nexus_cli.undo.follow_changes import settle_killed
from nexus_cli.undo.journal import copy_steps, disk_errors, read_begun_undos
from nexus_cli.undo.plan_restore import UNSURE
from nexus_cli.undo.read_references import name_references
from nexus_cli.undo.retention import forget_session
from nexus_cli.undo.rewind_turns import changes_by_turn, find_turns
from nexus_cli.undo.undo_turn import UndoReport, UndoRequest, undo_turn

MAX_TOLD = 20
"""Most paths that the model is told."""
MAX_SHOWN = 5
"""Most paths that a replay of the session shows."""
READ_AGAIN = "Read a file again before editing it."


def undo_request(
    log: LaneLog, folder: Path, *, turn: int | None = None, paths: Sequence[str] = (), dry_run: bool = False
) -> UndoRequest:
    """Return the request to undo a turn of the session of `log`; `paths` are relative to `folder`."""
    info = log.session
    project = os.path.realpath(project_root(Path(info.folder)))
    return UndoRequest(places().data, info.id, info.turns, str(folder), project, turn, paths, dry_run)


def restore_files(log: LaneLog | None, request: UndoRequest, say: TakeText, *, redo: bool = False) -> UndoReport:
    """Undo a turn, or redo what was undone, and record what the next message tells the model; `say` prints a sentence
    if that cannot be recorded. Blocks.

    Without a record, for a worktree, nobody is told. A file that the session has read must be read again before an
    edit. Raises as `undo_turn`.
    """
    report = undo_turn(request, redo=redo)
    has_kept = report["turn"] and any(kept_path["why"] != UNSURE for kept_path in report["kept"])
    changed = [*report["restored"], *report["removed"], *_list_moved(report)]
    if log is not None and not request.dry_run and (changed or has_kept):
        try:
            _record_act(log, request.project, report, name_first(changed, MAX_SHOWN))
        except NexusError as error:
            missing = "The model does not know about this; mention it in your next message."
            say(f"this {report['action']} could not be recorded in the session: {error.why}. {missing}")
    return report


def _record_act(log: LaneLog, project: str, report: UndoReport, names: str) -> None:
    """Record what an undo or redo did to what `names` lists. Raises `NexusError` if the ledger cannot be written."""
    for name in report["restored"]:
        path = os.path.join(project, name)
        with suppress(OSError, ToolError):
            if (digest := log.digest(path)) and read_real_file(Path(path)).digest == digest:
                log.note(path, "", "read")
    paths = sha256_hex(os.fsencode("\0".join(sorted([*report["restored"], *report["removed"]]))))
    did = "undid" if report["action"] == "undo" else "redid"
    kept_names = name_first([kept_path["path"] for kept_path in report["kept"]], MAX_SHOWN)
    act = {
        "shown": f"you {did} turn {report['turn']}: {names or 'nothing'}{f'; kept {kept_names}' if kept_names else ''}"
    }
    act |= {} if report["kept"] else {"action": report["action"], "paths": paths}
    _notify_model(log, _describe(report), report["turn"] or 0, act)


def rewind_files(
    log: LaneLog, request: UndoRequest, first: int, say: TakeText, is_stopped: Callable[[], bool]
) -> Iterator[UndoReport]:
    """Undo every turn from `first` on, the newest one first, each as an undo of its own, and yield its report; stop
    between two if `is_stopped`. Blocks.

    An undo that was killed is completed before. Raises as `undo_turn`, and if nexus was killed in one of the turns.
    """
    data, session = request.data, request.session
    with disk_errors("nothing was undone"):
        begun = read_begun_undos(data, session)
        completed = [restore_files(log, replace(request, turn=first), say)] if begun else []
        turns = find_turns(data, session, first)
    yield from completed
    for turn in turns:
        if is_stopped():
            break
        yield restore_files(log, replace(request, turn=turn), say)


def fork_before(ledger: Ledger, session: str, entry: int, kept_paths: Sequence[str] = ()) -> SessionInfo:
    """Fork a session before `entry`, the message of a turn.

    The fork can undo the turns that it has. Its next message tells the model which changes of later turns stay (also
    those in `kept_paths`, paths that an undo left as they are), and which earlier ones were taken back. Raises
    `NexusError`.
    """
    fork = fork_session(ledger, session, entry=entry - 1)
    before, log, turn = ledger.log(session), ledger.log(fork.id), fork.turns + 1
    for memo in before.memos(UNDONE_FILES):
        if memo.entry >= entry and int(memo.value.get("turn", turn)) < turn:
            _notify_model(log, str(memo.value["told"]), int(memo.value["turn"]))
    project = f"{os.path.realpath(project_root(Path(fork.folder)))}/"
    later = [
        changes
        for number, changes in changes_by_turn(places().data, session).items()
        if number >= turn and changes.in_force
    ]
    staying = dict.fromkeys(change.place.removeprefix(project) for changes in later for change in changes.changes)
    if names := _names([*staying, *kept_paths]):
        _notify_model(
            log,
            f"the person went back to this point; these files keep changes of later turns: {names}. {READ_AGAIN}",
            turn,
        )
    return fork


def fork_session(ledger: Ledger, session: str, *, name: str = "", entry: int | None = None) -> SessionInfo:
    """Fork a session, at an entry or as it is. The fork can undo the turns that it has. Raises `NexusError`."""
    fork = ledger.fork_session(session, name=name, at=utc_now(), entry=entry)
    with suppress(OSError):  # the files stay as they are, and the session itself can still undo
        settle_killed(places().data, session)
        copy_steps(places().data, session, fork.id, fork.turns)
    return fork


def delete_fork(ledger: Ledger, session: str) -> None:
    """Delete a fork in which nobody could continue, with its steps: an unused copy would stay in the list."""
    with suppress(NexusError):  # an empty one is gone already
        ledger.delete_session(session)
    forget_session(places().data, session)


def _notify_model(log: LaneLog, text: str, turn: int, did: JsonObject = MappingProxyType({})) -> None:
    log.record_memo(Memo(UNDONE_FILES, utc_now(), log.last_id(), {"told": text, "turn": turn, **did}))


def _describe(report: UndoReport) -> str:
    """Return the line for the model."""
    verb = "undid" if report["action"] == "undo" else "redid"
    when = "before" if report["action"] == "undo" else "after"
    kept_paths = [kept_path["path"] for kept_path in report["kept"] if kept_path["path"] not in report["restored"]]
    parts = [
        f"{_names(report['restored'])} as {when} the turn" if report["restored"] else "",
        f"git as {when} the turn: {_names(moved)}" if (moved := _list_moved(report)) else "",
        f"removed: {_names(report['removed'])}" if report["removed"] else "",
        f"kept the person's version: {_names(kept_paths)}" if kept_paths else "",
    ]
    changes = "; ".join(filter(None, parts))
    return f"the person {verb} the file changes of turn {report['turn']}: {changes}. {READ_AGAIN}"


def _list_moved(report: UndoReport) -> list[str]:
    """Return the names of the references of git that have another value now."""
    return list(name_references([reference for reference in report["references"] if reference["restored"]]))


def _names(paths: Sequence[str]) -> str:
    return name_first([" ".join(path.split()) for path in paths], MAX_TOLD)
