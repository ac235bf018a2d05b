"""The working folder of a run: the person's own, or with --worktree the same path in a worktree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.host_environment import refuse_endless_runs
from nexus_cli.config.paths import project_root, with_tilde
from nexus_cli.config.worktree_record import find_source, find_worktree
from nexus_cli.plugins.python_plugins import describe_problems, python_plugins
from nexus_cli.ui.print.stream import write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.worktrees.worktrees import WorktreeStay


@dataclass
class WorkFolder:
    """The working folder of a run. As a context manager, it ends the stay in a worktree."""

    path: Path
    stay: WorktreeStay | None = None
    removes: bool = False
    """True if an empty worktree is removed when the run ends."""
    quiet: bool = False

    def __enter__(self) -> WorkFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    @property
    def worktree(self) -> str:
        """The name of the worktree, "" without one."""
        return self.stay.record.name if self.stay else ""

    @property
    def notices(self) -> list[str]:
        """Notices for the person about the worktree, and about plugins that were changed."""
        return [*(self.stay.notices if self.stay else ()), *load_plugins()]

    def leave(self) -> None:
        """End the stay in a worktree, and print its content in a line on stderr. May be called more than once."""
        if self.stay is None:
            return
        if not self.removes:
            self.stay.end()
        elif (line := self.stay.leave()) and not self.quiet:
            write_stderr_line(f"nexus: {line}.")

    def describe(self) -> str:
        """Describe the folder for a person."""
        if self.stay is None:
            return with_tilde(self.path)
        inside = os.path.relpath(self.path, self.stay.record.folder)
        place = self.stay.record.source if inside == "." else self.stay.record.source / inside
        return f"worktree {self.worktree} of {with_tilde(place)}"


def load_plugins() -> list[str]:
    """Load the plugins, which may take seconds and should not happen in a loop; return a line for each part of a plugin
    that is left out."""
    if python_plugins():
        from nexus_cli.commands.own_guides import admit_plugins  # noqa: PLC0415  (few people have plugins)

        admit_plugins()
    return describe_problems()


def open_work_folder(folder: Path, worktree: str, *, quiet: bool) -> WorkFolder:
    """Return `folder`, or the same path in the worktree of this name, which is created if it does not exist.

    With "", a folder in a worktree stays in that one. Loads the plugins. Raises `NexusError` if the worktree cannot be
    created, and in a run that other runs started one after the other (`refuse_endless_runs`).
    """
    refuse_endless_runs(os.environ)
    python_plugins()
    try:
        os.getcwd()
    except OSError:  # it was deleted, and libraries resolve paths from it
        os.chdir(folder)
    current_worktree = find_worktree(folder)
    if not worktree and current_worktree is None:
        return WorkFolder(folder)
    from nexus_cli.workers.prepare_worktree import enter_prepared  # noqa: PLC0415  (few runs are in a worktree)
    from nexus_cli.worktrees.worktrees import enter_existing  # noqa: PLC0415  (as above)

    if current_worktree is not None and worktree in ("", current_worktree.name):
        return WorkFolder(folder, enter_existing(current_worktree))
    root = current_worktree.folder if current_worktree else project_root(folder)
    stay = enter_prepared(find_source(root), worktree)
    return WorkFolder(stay.place_of(folder, root), stay, removes=True, quiet=quiet)
