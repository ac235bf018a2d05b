"""Compare two looks at a project: which paths changed between them, and which of these are named."""

from __future__ import annotations

from nexus_cli.config.paths import is_below
from nexus_cli.config.protected_places import MADE_BY_TOOLS
from nexus_cli.undo.project_look import Look
from nexus_cli.undo.read_state import GONE
from nexus_cli.undo.records import FILE, GIT, GIT_FOLDER, HARD_LINK, REPOSITORY, FileChange, FileState


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
    if after.is_lost:
        changes.append(FileChange(GIT_FOLDER, FileState(REPOSITORY), GONE))
        names.append(GIT_FOLDER)
    return changes, names


def _index_state(look: Look, path: str) -> FileState | None:
    """Return the state of a file that is as git's index says, None if it is not tracked."""
    one = look.tracked.get(path)
    return FileState(FILE, one.mode, f"{GIT}{one.oid}", one.size) if one and not one.is_read else None
