"""Git worktrees: list them, show and apply their changes, remove them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.undo import MAX_NAMED, notify_worktree_session, record_act, recover_killed_commands
from nexus_cli.commands.verb import ActReport, Authority, Noun, Report, Source, Verb
from nexus_cli.config.paths import places, project_root
from nexus_cli.config.worktree_record import WorktreeObject, WorktreeRecord, find_source, find_worktree
from nexus_cli.core.clock import format_age, local_now, utc_now
from nexus_cli.core.elide import name_first, plural
from nexus_cli.core.entry import Memo
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.memo_kinds import WORK
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.reports.text.blocks import Blocks, Table, Wrapped

if TYPE_CHECKING:
    from pathlib import Path

    from nexus_cli.commands.diff import DiffReport
    from nexus_cli.core.services import Log
    from nexus_cli.ledger import LaneLog
    from nexus_cli.session.session import Session
    from nexus_cli.worktrees.apply_worktree import ApplyResult


class WorktreesReport(VersionedReport):
    """The worktrees of a project, or of all."""

    project: str | None
    worktrees: list[WorktreeObject]


class RemovalReport(ActReport):
    """A removed worktree."""

    note: str
    """The commits that can still be reached, as words for people; may be empty."""


Name = Annotated[str, Argument("NAME", "Name of the worktree.")]
Applied = Report[Annotated[Any, "worktrees.apply_worktree.AppliedWorktree"]]
MOST = 512 * 1024
"""Most bytes of a diff that a session shows."""


def build_list(
    source: Source, everywhere: Annotated[bool, Option(None, "Show worktrees of every project.", "--all")] = False
) -> Report[WorktreesReport]:
    """List the worktrees of this project and their changes."""
    from nexus_cli.worktrees.worktrees import describe_worktree, list_worktrees  # noqa: PLC0415

    project = None if everywhere else find_project(source.folder())
    if project is not None:
        recover_killed_commands(source, project)
    worktrees = [describe_worktree(record) for record in list_worktrees(project)]
    value: WorktreesReport = {"version": 1, "project": str(project) if project else None, "worktrees": worktrees}
    return Report("worktrees", value, uncut=True)


def build_diff(
    source: Source,
    name: Name,
    stat: Annotated[bool, Option(None, "Count the changed lines of each file.")] = False,
) -> Report[Annotated[Any, "commands.diff.DiffReport"]]:
    """Show the changes made in a worktree, excluding changes that the project had when the worktree was created.

    In a pipe, the output is a patch for git apply, including binary files.
    """
    from nexus_cli.worktrees.carry_ignored import read_carried  # noqa: PLC0415
    from nexus_cli.worktrees.worktrees import diff_worktree  # noqa: PLC0415

    record = find_record(source, name)
    data = diff_worktree(record, stat=stat, binary=source.is_piped and not stat)
    if not source.is_piped and (carried := read_carried(record.home)):
        source.say(f"not in the diff (copied from the project): {', '.join(carried)}.")
    note = "" if data or source.is_piped else "nothing has changed."
    return Report("diff", diff_value(data, MOST if source.live else len(data)), note=note)


def diff_value(data: bytes, most: int = MOST) -> DiffReport:
    """Return the value of a diff of a worktree; bytes that are no UTF-8 are surrogates."""
    from nexus_cli.commands.diff import diff_report  # noqa: PLC0415  (it runs git)

    cut = f"{len(data) - most:,} more bytes" if len(data) > most else ""
    return diff_report(data[:most].decode("utf-8", "surrogateescape"), cut)


def apply_changes(source: Source, name: Name) -> Applied:
    """Apply the changes of a worktree to the project, with a three-way merge of each file.

    Conflicts are marked in the file; a file that cannot be merged keeps the project's version. Exit status 1 if
    conflicts or such files remain. In a session, /undo reverts the apply and the last turn's changes, and the model is
    notified; elsewhere `nexus undo --session worktree-NAME` reverts the apply.
    """
    from nexus_cli.undo.follow_changes import follow_apply  # noqa: PLC0415
    from nexus_cli.worktrees.apply_worktree import apply_worktree  # noqa: PLC0415
    from nexus_cli.worktrees.worktrees import is_in_use  # noqa: PLC0415

    record = find_record(source, name)
    if is_in_use(record):
        source.say(f"a session is working in worktree {name}; its later changes will not be applied.")
    if parent := find_worktree(record.source):
        source.say(
            f"worktree {name} was created from worktree {parent.name}; the changes are applied to that worktree."
        )
    if source.live:
        report: Applied = source.wait(record_apply_in_session(source.live, record))
        return report
    result = follow_apply(places().data, name, record.source, lambda: apply_worktree(record))

    def tell(log: LaneLog) -> None:
        _record_apply(log, record, result, f"worktree {name}", log.count_turns())

    notify_worktree_session(source, str(record.source), name, tell)
    return _report_apply(record, result, f"to undo the apply: nexus undo --session worktree-{name}")


async def record_apply_in_session(
    session: Session, record: WorktreeRecord, worker: str = "", reviewed: str = ""
) -> Applied:
    """Merge a worktree, that of a `worker` if one is named, or its `reviewed` state, into the project as a change of
    the session, and record that."""
    from nexus_cli.worktrees.apply_worktree import apply_worktree  # noqa: PLC0415

    of = f"worker {worker}" if worker else f"worktree {record.name}"
    apply = partial(asyncio.to_thread, apply_worktree, record, reviewed=reviewed)
    result, _ = await session.dispatcher.call_changes.follow(f"apply {of}", "", record.source, apply)
    turn = session.dispatcher.call_changes.turn_number()
    _record_apply(session.conversation.log, record, result, of, turn, worker)
    return _report_apply(record, result, "/undo reverts the apply and the last turn's changes.")


def _report_apply(record: WorktreeRecord, result: ApplyResult, undo: str) -> Applied:
    """Return the report of an apply that `undo` takes back."""
    names = ", ".join(conflict.path for conflict in result.conflicts)
    note = f"{plural(len(result.conflicts), 'conflict')} left for you to resolve: {names}. Your own changes are kept"
    notes = [*([note] if names else []), *([undo] if result.written else [])]
    value, status = result.to_json(record), 1 if names else 0
    changed = bool(result.written or names)  # the model is told of conflicts alone, too
    return Report("applied", value, uncut=True, status=status, note="; ".join(notes), changed=changed)


def _record_apply(log: Log, record: WorktreeRecord, result: ApplyResult, of: str, turn: int, worker: str = "") -> None:
    """Record the files that an apply wrote, and the act of the person, if it changed anything; `of` says whose changes
    they are."""
    from nexus_cli.conversation.compaction.work_log import WorkLog  # noqa: PLC0415

    names = ", ".join(conflict.path for conflict in result.conflicts)
    if result.written:
        work = WorkLog.note(record.source, result.written, worker or of)
        log.record_memo(Memo(WORK, utc_now(), log.last_id(), work))
    if result.written or names:
        conflicts = f"; conflicts are left in {names}" if names else ""
        written = name_first(result.written, MAX_NAMED) or "no file"
        record_act(log, f"applied the changes of {of} to the project: {written}{conflicts}", turn)


def remove(
    source: Source, name: Name, force: Annotated[bool, Option(None, "Discard unapplied changes.")] = False
) -> Report[RemovalReport]:
    """Remove a worktree with its branch.

    A worktree with unapplied changes needs --force; in a terminal nexus asks.
    """
    from nexus_cli.worktrees.worktrees import UnappliedError, is_in_use, remove_worktree  # noqa: PLC0415

    record = find_record(source, name)
    try:
        note = remove_worktree(record, force=force)
    except UnappliedError as error:
        if source.confirm is None:
            raise
        if not source.confirm(f"Worktree {name}: {error.why}. Delete it?") or is_in_use(record):
            return _report_removal("nothing was deleted.")
        note = remove_worktree(record, force=True)
    return _report_removal(f"worktree {name} was removed{f'; {note}' if note else ''}.", name, note=note)


def _report_removal(message: str, *names: str, note: str = "") -> Report[RemovalReport]:
    value: RemovalReport = {"version": 1, "ids": [*names], "message": message, "note": note}
    return Report("", value, note=message, changed=bool(names))


def find_project(folder: Path) -> Path:
    """Return the project of a folder; that of a worktree is the project it was made from."""
    worktree = find_worktree(folder)
    return find_source(worktree.folder if worktree else project_root(folder))


def find_record(source: Source, name: str) -> WorktreeRecord:
    """Return a worktree of the project; raise `UsageError` if there is none of this name."""
    from nexus_cli.worktrees.worktrees import find_worktree_of  # noqa: PLC0415

    project = find_project(source.folder())
    recover_killed_commands(source, project)
    return find_worktree_of(project, name)


def worktrees_text(value: JsonObject) -> Blocks:
    """List the worktrees of a project or of all."""
    now = local_now()
    columns = {
        "name": "name",
        "state": lambda row: f"{row['state']}, in use" if row["in_use"] else row["state"],
        "changes": _changes,
        "created": lambda row: format_age(row["created"], now),
        **({"project": "project"} if value["project"] is None else {}),
        "folder": "folder",
    }
    return [Table(columns, value["worktrees"], "No worktrees. `nexus -w NAME` creates a worktree.")]


def _changes(row: JsonObject) -> str:
    if row["problem"]:
        return str(row["problem"])
    parts = [f"{plural(row['files'], 'file')} +{row['added']} -{row['removed']}"] if row["files"] else []
    if row["commits"]:
        parts.append(plural(row["commits"], "commit"))
    if row["kept"]:
        parts.append(f"also {', '.join(row['kept'][:3])}")
    if row["carried"] and parts:
        parts.append(f"not included: {', '.join(row['carried'][:3])}")
    return ", ".join(parts) or "-"


def applied_text(value: JsonObject) -> Blocks:
    """List the outcome for each path."""
    if value["nothing_new"]:
        return [f"Nothing to apply: every change of worktree {value['name']} was applied before or is in the project."]
    conflicts = {row["path"] for row in value["conflicts"]}
    lines = [f"applied   {path}" for path in value["written"] if path not in conflicts]
    lines += [f"identical {path}" for path in value["there"]]
    for conflict in value["conflicts"]:
        suffix = "" if conflict["is_marked"] else f"; other version: {value['folder']}/{conflict['path']}"
        lines.append(f"conflict  {conflict['path']}: {conflict['why']}{suffix}")
    return map(Wrapped, map(mask_unprintable, lines))


def _complete(source: Source) -> Sequence[str]:
    from nexus_cli.worktrees.worktrees import list_worktrees  # noqa: PLC0415

    return [record.name for record in list_worktrees(find_project(source.folder()))]


NOUN = Noun(
    "worktree",
    "run",
    (
        Verb(build_list, "list", opens="nothing"),
        Verb(build_diff, "diff", opens="nothing", complete=_complete),
        Verb(apply_changes, "apply", Authority.KEEPS, "nothing", complete=_complete),
        Verb(remove, "remove", Authority.KEEPS, "nothing", complete=_complete),
    ),
    "List, diff, apply or remove git worktrees.",
    aliases=("worktrees",),
    is_idle=True,
)
