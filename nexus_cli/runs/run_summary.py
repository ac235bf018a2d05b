"""Facts about a run beside the words of its model: requests, tokens, branch and commits, files, failed commands.

They are kept in the options of the run, as `began` (the repository when it began) and `record` (at its end).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexus_cli.context.work_record import SIGPIPE, CommandRun, WorkLog
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.elide import one_line
from nexus_cli.core.run import Run
from nexus_cli.sandbox.own_git import GitError, find_git

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

SECONDS = 20.0
"""Time limit of one run of git."""
MOST = 50
"""Most paths, commits and commands of each kind that are kept."""
FIELDS = {"1": 8, "2": 9, "u": 10, "?": 1}
"""Fields before the path in a line of `git status`, by kind of the line."""

_VIEW = re.compile(r"(\s*2>&1)?(\s*\|\s*(cat|cut|grep|head|less|sed|tail|wc)\b[^|;&]*)*\s*\Z")
"""The end of a command that only cuts or filters what it prints."""


def look_at_repository(folder: Path) -> dict[str, Any]:
    """Return `branch`, `head` (the newest commit, "" for none) and `dirty` (paths with uncommitted changes) of the
    repository of `folder`; {} without one, or if git fails."""
    found = find_git(folder)
    if found is None:
        return {}
    git = replace(found, seconds=SECONDS)
    try:
        listed = git.run(*git.without_filters(), "status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules")
    except (GitError, OSError):
        return {}
    lines = iter(os.fsdecode(listed).split("\0"))
    made: dict[str, Any] = {"branch": "", "head": "", "dirty": []}
    for line in lines:
        kind = line[:1]
        if kind == "#":
            _, name, value = line.split(" ", 2)
            made |= {"branch": value} if name == "branch.head" else {}
            made |= {"head": value} if name == "branch.oid" and not value.startswith("(") else {}
        elif kind in FIELDS and kind:
            made["dirty"].append(one_line(line.split(" ", FIELDS[kind])[-1]))
            if kind == "2":
                next(lines, "")  # the name before it was renamed
    return made


def describe_repository(began: Mapping[str, Any]) -> str:
    """Return the line for the model about branch and dirty files, "" without a repository."""
    if not began.get("branch"):
        return ""
    dirty = began["dirty"]
    more = f" and {len(dirty) - MOST} more" if len(dirty) > MOST else ""
    left = f"Uncommitted when you began, not yours to commit: {', '.join(dirty[:MOST])}{more}." if dirty else ""
    return f"Git branch {one_line(began['branch'])}. {left or 'Nothing was uncommitted when you began.'}"


def describe_end(session: Session, run: Run) -> dict[str, Any]:
    """Return the facts about a run that ends, as `RunObject` has them. Blocks."""
    ledger, log, began = session.ledger, session.record, run.options.get("began") or {}
    assert ledger is not None and log is not None, "a run is in a ledger"
    folder, present = session.folder, look_at_repository(session.folder)
    dirty = present.get("dirty", began.get("dirty", ()))
    work = WorkLog(session.state.dispatcher.registry.get)
    for entry in log.read(1, log.last_id()):
        work.add(entry)
    last = {_without_view(one.command): one for one in work.commands.values()}
    failed = [{"command": one.command, "status": _status(one)} for one in last.values() if one.is_failing]
    changed = [os.path.relpath(path, folder) for path, how in ledger.log(session.id).files() if how != "read"]
    before = set(began.get("dirty", ())) - set(changed)
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
    return any(one == path or (path.endswith("/") and one.startswith(path)) for one in dirty)


def _without_view(command: str) -> str:
    """Return a command without the programs that only cut or filter what it prints: `make 2>&1 | tail -3` is `make`."""
    return _VIEW.sub("", command).strip()


def _status(run: CommandRun) -> int | None:
    """Return the status of a failing command: of the part of its pipe that failed, if its last one did not."""
    return run.status or next((one for one in run.pipe if one not in (0, SIGPIPE)), run.status)


def find_commits_of_others(session: Session, run: Run) -> list[str]:
    """Return the commits since the newest entry of a run that waited or had ended: none of them is its own. Blocks."""
    log, began = session.record, run.options.get("began") or {}
    entries = log.read(log.last_id(), log.last_id()) if log is not None else ()
    if not entries or "head" not in began:
        return []
    since = int(datetime.fromisoformat(entries[0].at).timestamp())
    found = (line.split(" ", 1) for line in _commits(session.folder, began, "%ct %h %s"))
    return [line for at, line in found if int(at) > since and line not in began.get("others", ())]


def _commits(folder: Path, began: Mapping[str, Any], form: str) -> list[str]:
    """Return the commits since a run began, newest first, each in a format of git."""
    git = find_git(folder)
    if git is None or "head" not in began:
        return []
    reach = f"{began['head']}..HEAD" if began["head"] else "HEAD"
    try:
        listed = replace(git, seconds=SECONDS).run("log", "--no-show-signature", f"-{MOST}", f"--format={form}", reach)
    except (GitError, OSError):
        return []
    return [one_line(line) for line in listed.decode("utf-8", "replace").splitlines()]


def begin_record(session: Session) -> dict[str, Any]:
    """Return the option `began` of a run. Blocks."""
    return {"at": format_utc(local_now()), **look_at_repository(session.folder)}
