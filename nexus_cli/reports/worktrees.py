"""Report worktrees: the list with its text, and the text of an apply."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.config.paths import project_root
from nexus_cli.config.worktree_record import find_source, find_worktree
from nexus_cli.core.clock import format_age, local_now
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.reports.text.blocks import Blocks, Table, Wrapped
from nexus_cli.reports.text.lines import plural
from nexus_cli.worktrees.worktrees import WorktreeObject, describe_worktree, list_worktrees


class WorktreesReport(VersionedReport):
    """The worktrees of a project, or of all."""

    project: str | None
    worktrees: list[WorktreeObject]


def find_project(folder: Path) -> Path:
    """Return the project of a folder; that of a worktree is the project it was made from."""
    here = find_worktree(folder)
    return find_source(here.folder if here else project_root(folder))


def worktrees_report(project: Path | None) -> WorktreesReport:
    """Return the worktrees of a project, or of all, and what is in them."""
    worktrees = [describe_worktree(record) for record in list_worktrees(project)]
    return {"version": 1, "project": str(project) if project else None, "worktrees": worktrees}


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
