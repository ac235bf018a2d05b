"""Undo a turn's changes to files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.arguments import read_log
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.config.paths import places, project_root
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import UsageError
from nexus_cli.core.option import Argument, Option

if TYPE_CHECKING:
    from nexus_cli.ledger import LaneLog
    from nexus_cli.session.session import Session
    from nexus_cli.undo.undo_turn import UndoRequest

Undone = Report[Annotated[Any, "undo.undo_turn.UndoReport"]]
_APPLIED, _RUN = re.compile(r"worktree-[A-Za-z0-9_.-]+"), re.compile(r"run-[0-9]+")
Paths = Annotated[list[str] | None, Argument("[PATH]...", "Only changes to these files and folders.")]
Turn = Annotated[
    int | None,
    Option(
        "N",
        "Number of the turn; default: the newest turn with changes, for /diff all uncommitted changes.",
        is_positional=True,
    ),
]
DryRun = Annotated[bool, Option(None, "Show the changes without making them.")]


def undo_files(
    source: Source,
    path: Paths = None,
    turn: Turn = None,
    everything: Annotated[
        bool, Option(None, "Also undo changes made while a command ran, which may be yours.", "--all")
    ] = False,
    dry_run: DryRun = False,
) -> Undone:
    """Undo a turn's changes to files: edits, and files that its commands changed, moved or deleted.

    Your later changes are kept: nexus merges them. If that fails, it writes the earlier version to NAME.nexus-undo and
    exits with status 1. Repeat to undo earlier turns. Branches, tags, stashes and git's index are also restored, unless
    they changed since. nexus notifies the model. If a file changed during a command that took more than a second, and
    nothing indicates that the command changed it, the change may be yours: nexus asks you, or keeps the file if there
    is no terminal. Instead of a session, --session accepts run-N, or worktree-NAME after `nexus worktree apply`.
    """
    from nexus_cli.reports.undo import UNSURE_QUESTION, describe_unsure  # noqa: PLC0415
    from nexus_cli.undo.undo_turn import find_unsure  # noqa: PLC0415

    log, request = open_undo(source, path, turn, dry_run=dry_run)
    if not (dry_run or everything) and source.confirm and (unsure := find_unsure(request)):
        everything = source.confirm(f"{describe_unsure(unsure, request.project)} {UNSURE_QUESTION}")
        if find_unsure(request) != unsure:
            raise UsageError("undo", "files changed while nexus waited for your answer", "Run the command again")
    report = restore(source, log, replace(request, takes_unsure=everything))
    if report.value["turn"] is None and (numbers := [text for text in path or () if text.isdecimal()]):
        source.say(f"{numbers[0]} was read as a file name; for a turn, use --turn {numbers[0]}.")
    return report


def open_undo(
    source: Source, paths: Sequence[str] | None, turn: int | None = None, *, dry_run: bool = False
) -> tuple[LaneLog | None, UndoRequest]:
    """Return the record and the request for what the person names: a session, a run (`run-7`), or a worktree that was
    applied outside of any session (`worktree-NAME`; without a record).

    First settles its project. Raises `UsageError` if there is none.
    """
    from nexus_cli.commands.worktree import settle  # noqa: PLC0415
    from nexus_cli.undo.journal import disk_errors  # noqa: PLC0415
    from nexus_cli.undo.undo_files import undo_request  # noqa: PLC0415
    from nexus_cli.undo.undo_turn import UndoRequest  # noqa: PLC0415

    key, folder, data, log = source.named, source.folder(), places().data, None
    if source.live:
        with disk_errors("the last changes are not recorded yet"):
            source.live.dispatcher.call_changes.journal.save_waiting()
    if _APPLIED.fullmatch(key) and (data / "undo" / f"{key}.jsonl").exists():
        project = os.path.realpath(project_root(folder))
        request = UndoRequest(data, key, 0, str(folder), project, turn, paths or (), dry_run)
    else:
        session = source.ledger.runs.find(key).session if _RUN.fullmatch(key) else key
        log = source.ledger.log(source.ledger.find_session(session).id) if key else read_log(source)
        request = undo_request(log, folder, turn=turn, paths=paths or (), dry_run=dry_run)
    if not source.live:
        settle(source, Path(request.project))
    return log, request


@contextmanager
def save_editor_texts(session: Session | None) -> Iterator[None]:
    """Let the editor of an open session save its texts of the files that the session knows; at the end, show the editor
    these files as they are on disk. Blocks."""
    from nexus_cli.core.services import EditorTexts  # noqa: PLC0415
    from nexus_cli.tools.cancellable_thread import StopFlag  # noqa: PLC0415
    from nexus_cli.tools.editor_texts import save_text, show_disk  # noqa: PLC0415

    texts = session.services.find(EditorTexts) if session else None
    if session is None or texts is None:
        yield
        return
    paths = [Path(seen_file.path) for seen_file in session.record.seen_files()]
    for path in paths:
        save_text(path, texts, StopFlag())
    try:
        yield
    finally:
        for path in paths:
            show_disk(path, texts)


def restore(source: Source, log: LaneLog | None, request: UndoRequest, *, redo: bool = False) -> Undone:
    """Undo or redo, and report it."""
    from nexus_cli.undo.undo_files import restore_files  # noqa: PLC0415

    with save_editor_texts(None if request.dry_run else source.live):
        value = restore_files(log, request, source.say, redo=redo)
    if log is None and not request.dry_run and (changed_paths := [*value["restored"], *value["removed"]]):
        from nexus_cli.commands.worktree import NAMED, record_act, tell_its_session  # noqa: PLC0415  (rare)

        name = request.session.removeprefix("worktree-")
        description = f"{'redid' if redo else 'undid'} the apply of worktree {name}: {name_first(changed_paths, NAMED)}"
        tell_its_session(source, request.project, name, lambda log: record_act(log, description, log.count_turns()))
    note = ""
    if value["turn"] is None and log is not None and not (source.live or source.named):
        session = source.ledger.short_ids([request.session])[0]
        note = f"This is session {session}, the newest of this folder; --session ID selects another one."
    return Report("undo", value, whole=True, status=1 if value["kept"] or value["not_covered"] else 0, note=note)


NOUN = Noun(
    "undo",
    "run",
    (Verb(undo_files, "", Authority.ACTS, "write", busy="undoing", of_session=True),),
    "Undo a turn's changes to files.",
    is_first=True,
    is_idle=True,
)
