"""Settle projects in which nexus was killed during a command, before anything there is read or obeyed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nexus_cli.config.command_records import is_unchecked
from nexus_cli.config.paths import places
from nexus_cli.config.worktree_record import read_project_records
from nexus_cli.core.errors import NexusError, reason_of


def settle_projects(projects: Iterable[Path]) -> list[str]:
    """Undo what a killed nexus's command changed in protected places of projects and of their worktrees, where git
    does not run before; return lines. Raise `NexusError` if that fails in one of `projects`."""
    own_places, lines = places(), list[str]()
    if not is_unchecked(Path("/"), own_places.data):  # as nearly always
        return lines
    for project in projects:
        for folder in (project, *(record.folder for record in read_project_records(project))):
            if is_unchecked(folder, own_places.data):
                from nexus_cli.sandbox.command_guard import settle_project  # noqa: PLC0415  (after a killed process)

                try:
                    lines += settle_project(folder, own_places)
                except OSError as error:
                    if folder is not project:
                        continue  # who works in that worktree is told
                    why = reason_of(error)
                    raise NexusError(
                        "internal",
                        "an interrupted command could not be checked",
                        why,
                        f"Its records are in {own_places.data}",
                    ) from error
    return lines
