"""Undo a turn's changes to files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.arguments import read_log
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.config.ledger_place import ledger_exists, ledger_place
from nexus_cli.config.paths import places, project_root
from nexus_cli.config.protected_places import GIT_FOLDER
from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import join_with_and, name_first, plural
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import UNDONE_FILES
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Verbatim, Wrapped

if TYPE_CHECKING:
    from nexus_cli.core.services import Log
    from nexus_cli.ledger import LaneLog
    from nexus_cli.session.session import Session
    from nexus_cli.undo.undo_turn import UndoRequest

Undone = Report[Annotated[Any, "undo.undo_turn.UndoReport"]]
MAX_PATHS = 100
"""Most paths of a kind that are listed."""
MAX_NAMED = 20
"""Most paths in the record of an act."""
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
    from nexus_cli.undo.undo_turn import find_unsure  # noqa: PLC0415

    log, request = open_undo(source, path, turn, dry_run=dry_run)
    if not (dry_run or everything) and source.confirm and (unsure := find_unsure(request)):
        everything = source.confirm(
            f"{describe_unsure(unsure, request.project)} Also revert changes that may be yours?"
        )
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
    from nexus_cli.undo.journal import disk_errors  # noqa: PLC0415
    from nexus_cli.undo.undo_files import undo_request  # noqa: PLC0415
    from nexus_cli.undo.undo_turn import UndoRequest  # noqa: PLC0415

    key, folder, data, log = source.session_name, source.folder(), places().data, None
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
        recover_killed_commands(source, Path(request.project))
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
        name = request.session.removeprefix("worktree-")
        description = (
            f"{'redid' if redo else 'undid'} the apply of worktree {name}: {name_first(changed_paths, MAX_NAMED)}"
        )
        notify_worktree_session(
            source, request.project, name, lambda log: record_act(log, description, log.count_turns())
        )
    moved = any(reference["restored"] for reference in value["references"])
    changed = not request.dry_run and bool(moved or value["restored"] or value["removed"])
    status, note = 1 if value["kept"] or value["not_covered"] else 0, ""
    is_nothing = value["turn"] is None and not value["kept"]
    if is_nothing and log is not None and not (source.live or source.session_name):
        session = source.ledger.short_ids([request.session])[0]
        note = f"This is session {session}, the newest of this folder; --session ID selects another one."
    return Report("undo", value, uncut=True, status=status, changed=changed, note=note)


def record_act(log: Log, description: str, turn: int) -> None:
    """Record what the person did with the changes of a worktree, and tell the model with its next request."""
    value = {"told": f"the person {description}", "turn": turn, "shown": f"you {description}"}
    log.record_memo(Memo(UNDONE_FILES, utc_now(), log.last_id(), value))


def notify_worktree_session(source: Source, project: str, name: str, tell: Callable[[LaneLog], None]) -> None:
    """Call `tell` with the log of the session that worked in a worktree: the newest session there, or that of its
    worker. A failure is only reported, because the files are already written."""
    try:
        if ledger_exists(place := ledger_place()):
            from nexus_cli.ledger import Ledger  # noqa: PLC0415

            with closing(Ledger.open(place)) as ledger:
                if infos := ledger.sessions_in_worktree(project, name):
                    tell(ledger.log(infos[0].spawner or infos[0].id))
    except NexusError as error:
        source.say(f"the session of the worktree was not notified: {error.message}.")


def recover_killed_commands(source: Source, project: Path) -> None:
    """Check what a killed command changed in a project and its worktrees, and report what was restored."""
    from nexus_cli.session.settle_projects import settle_projects  # noqa: PLC0415

    for line in settle_projects([project]):
        source.say(line)


def undo_text(value: JsonObject) -> Blocks:
    """List what was restored, removed and kept, and what is left to the person."""
    from nexus_cli.undo.follow_changes import KILLED_MEANWHILE  # noqa: PLC0415
    from nexus_cli.undo.plan_restore import UNSURE  # noqa: PLC0415
    from nexus_cli.undo.read_references import name_references  # noqa: PLC0415

    kinds = [("restored", value["restored"]), ("removed", value["removed"])]
    counts = [f"{_count(paths)} {kind}" for kind, paths in kinds if paths]
    references = value["references"]
    back = name_references([reference for reference in references if reference["restored"]])
    if back:
        counts.append(f"{plural(len(back), 'reference')} restored")
    if value["kept"]:
        counts.append(f"{len(value['kept'])} kept")
    yield _headline(value, ", ".join(counts))
    for kind, paths in kinds:
        yield from _listed([f"{kind:<9} {path}" for path in paths])
    rows = []
    unsure = [entry["path"] for entry in value["kept"] if entry["why"] == UNSURE]
    for row in [entry for entry in value["kept"] if entry["why"] != UNSURE]:
        suffix = f"; earlier version: {row['aside']}" if row["aside"] else ""
        rows.append(f"kept      {row['path']} ({row['why']}){suffix}")
    yield from _listed(rows)
    yield from _listed(
        [f"{'restored' if taken_back['before'] else 'removed':<9} {name}" for name, taken_back in back.items()]
    )
    for name, reference in name_references(
        [reference for reference in references if not reference["restored"]]
    ).items():
        if reference["command"] != (value["head_moved"] or {}).get("command"):
            how = ". To move it back:" if reference["command"] else ""
            yield Wrapped(f"kept      {name} (has moved since){how}", "  ")
            if how:
                yield Verbatim(reference["command"] or "", "  ")
    if moved := value["head_moved"]:
        after = moved["after"].removeprefix("refs/heads/") if "/" in moved["after"] else moved["after"][:12]
        yield f"HEAD was moved and is still at {mask_unprintable(after)}. To move it back:"
        yield Verbatim(moved["command"], "  ")
    if unsure:
        yield f"{describe_unsure(unsure)} To revert them, undo the turn with --all or with their paths."
    for subject in value["unfollowed"]:
        command = subject.removesuffix(f": {KILLED_MEANWHILE}")
        text = f"{value['action'].capitalize()} does not cover {subject}"
        if command != subject:
            text = (
                f"nexus was killed during {command}. All changes until you used the session again, including your own, "
                "count as changes of this turn."
            )
        yield mask_unprintable(text)


def describe_unsure(paths: Sequence[str], project: str = "") -> str:
    """Return a line with the paths that an undo leaves because they may be the person's."""
    names = name_first([mask_unprintable(path.removeprefix(f"{project}/")) for path in paths], 10)
    return f"Possibly yours (changed while a command ran): {names}."


def _count(paths: Sequence[str]) -> str:
    """Return the number of files, folders (their paths end with `/`) and repositories (`.git`)."""
    kinds = [
        "folder" if path.endswith("/") else "file" if os.path.basename(path) != GIT_FOLDER else "repository"
        for path in paths
    ]
    plurals = {"file": "files", "folder": "folders", "repository": "repositories"}
    return join_with_and(
        [plural(kinds.count(kind), kind, plural_form) for kind, plural_form in plurals.items() if kind in kinds]
    )


def _headline(value: JsonObject, counts: str) -> str:
    verb, turn, newest = value["action"], value["turn"], value.get("newest_turn")
    from nexus_cli.undo.follow_changes import KILLED_MEANWHILE  # noqa: PLC0415

    if not counts and any(not subject.endswith(KILLED_MEANWHILE) for subject in value["unfollowed"]):
        return f"Nothing to {verb} in the covered files."
    if not counts:
        return f"Nothing to {verb}." if turn is None else f"Nothing to {verb} in turn {turn}."
    if turn is None:
        return f"Nothing {verb}ne: {counts}."
    past_verb = {"undo": "Undid", "redo": "Redid"}[verb]
    which = f"turns {turn} to {newest}" if newest not in (None, turn) else f"turn {turn}"
    return f"{f'Would {verb}' if value['dry_run'] else past_verb} {which}: {counts}."


def _listed(rows: Sequence[str]) -> Blocks:
    """Yield the first rows, and how many more there are."""
    yield from (Wrapped(mask_unprintable(row), "  ") for row in rows[:MAX_PATHS])
    if len(rows) > MAX_PATHS:
        yield Paragraph(f"[and {len(rows) - MAX_PATHS:,} more]", "  ")


NOUN = Noun(
    "undo",
    "run",
    (Verb(undo_files, "", Authority.ACTS, "write", busy="undoing", of_session=True),),
    "Undo a turn's changes to files.",
    is_first=True,
    is_idle=True,
)
