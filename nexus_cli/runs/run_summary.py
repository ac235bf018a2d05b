"""Facts about a run besides the text of its model: requests, tokens, branch and commits, files, failed commands.

They are kept in the options of the run, as `began` (the repository when it began) and `record` (at its end).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.conversation.compaction.work_log import CommandRun, WorkLog
from nexus_cli.core.clock import local_now, utc_now
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import WORK
from nexus_cli.core.run import Run
from nexus_cli.core.tool import SIGPIPE
from nexus_cli.worktrees.repository_state import list_commits, look_at_repository

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

MOST = 50
"""Most paths, commits and commands of each kind that are kept."""
_VIEW = re.compile(r"(\s*2>&1)?(\s*\|\s*(cat|cut|grep|head|less|sed|tail|wc)\b[^|;&]*)*\s*\Z")
"""The end of a command that only cuts or filters what it prints: `make 2>&1 | tail -3` is `make`."""


def describe_end(session: Session, run: Run) -> JsonObject:
    """Return the facts about a run that ends, as `RunObject` has them. Blocks."""
    ledger, log, began = session.ledger, session.record, run.options.get("began") or {}
    folder, present = session.folder, look_at_repository(session.folder)
    dirty = present.get("dirty", began.get("dirty", ()))
    work = WorkLog(session.dispatcher.registry.get)
    for entry in log.read(1, log.last_id()):
        work.add(entry)
    last = {_VIEW.sub("", command_run.command).strip(): command_run for command_run in work.commands.values()}
    failed = [
        {"command": command_run.command, "status": _status(command_run)}
        for command_run in last.values()
        if command_run.is_failing
    ]
    notes = [memo.value for memo in log.memos(WORK) if not memo.value.get("worktree")]
    changed = list(dict.fromkeys(os.path.relpath(path, folder) for note in notes for path in note.get("files", ())))
    has_more = any(note.get("more") for note in notes)  # files without a name may be any of these
    before = set() if has_more else set(began.get("dirty", ())) - set(changed)
    begun = datetime.fromisoformat(began.get("at") or run.created)
    return {
        **ledger.runs.count_usage(session.id),
        "seconds": round((local_now() - begun).total_seconds(), 1),
        "files_changed": changed[:MOST],
        "failed_commands": failed[-MOST:],
        "branch": present.get("branch") or None,
        "commits": [line for line in _commits(folder, began, "%h %s") if line not in began.get("others", ())],
        "uncommitted": [path for path in dirty if path not in before][:MOST],
        "no_longer_uncommitted": [path for path in began.get("dirty", ()) if not _is_in(path, dirty)][:MOST],
    }


def _is_in(path: str, dirty: Sequence[str]) -> bool:
    """True if a file, or a file in a folder without tracked files, is uncommitted."""
    return any(dirty_path == path or (path.endswith("/") and dirty_path.startswith(path)) for dirty_path in dirty)


def _status(run: CommandRun) -> int | None:
    """Return the status of a failing command: of the part of its pipe that failed, if its last one did not."""
    return run.status or next((part_status for part_status in run.pipe if part_status not in (0, SIGPIPE)), run.status)


def find_commits_of_others(session: Session, run: Run) -> list[str]:
    """Return the commits since the newest entry of a run that waited or had ended: none of them is its own. Blocks."""
    log, began = session.record, run.options.get("began") or {}
    entries = log.read(log.last_id(), log.last_id())
    if not entries or "head" not in began:
        return []
    since = int(datetime.fromisoformat(entries[0].at).timestamp())
    commits = (line.split(" ", 1) for line in _commits(session.folder, began, "%ct %h %s"))
    return [line for committed_at, line in commits if int(committed_at) > since and line not in began.get("others", ())]


def _commits(folder: Path, began: JsonObject, form: str) -> list[str]:
    """Return the commits since a run began, newest first, each in a format of git."""
    if "head" not in began:
        return []
    return list_commits(folder, f"{began['head']}..HEAD" if began["head"] else "HEAD", form, MOST)


def begin_record(session: Session) -> JsonObject:
    """Return the option `began` of a run. Blocks."""
    return {"at": utc_now(), **look_at_repository(session.folder)}
