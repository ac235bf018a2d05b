"""The folder that a run works in: the person's own, or with --worktree the same place in a worktree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.paths import project_root
from nexus_cli.config.worktree_record import WorktreeRecord, find_source, find_worktree
from nexus_cli.ui.print.stream import write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.worktrees.worktrees import WorktreeStay


@dataclass
class WorkFolder:
    """The working folder of a run; of one in a worktree it ends the stay there."""

    path: Path
    stay: WorktreeStay | None = None
    removes: bool = False
    """True if a worktree with nothing in it goes when the run ends."""
    quiet: bool = False

    def __enter__(self) -> WorkFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    @property
    def worktree(self) -> str:
        """Return the name of the worktree, "" without one."""
        return self.stay.record.name if self.stay else ""

    @property
    def notices(self) -> list[str]:
        """Return what a person should know of the worktree."""
        return self.stay.notices if self.stay else []

    def leave(self) -> None:
        """End the stay in a worktree, and say on stderr what is in it. Once or more often."""
        if self.stay is None:
            return
        if not self.removes:
            self.stay.end()
        elif (line := self.stay.leave()) and not self.quiet:
            write_stderr_line(f"nexus: {line}.")

    def describe(self) -> str:
        """Return the place for a person."""
        if self.stay is None:
            return str(self.path)
        inside = os.path.relpath(self.path, self.stay.record.folder)
        place = self.stay.record.source if inside == "." else self.stay.record.source / inside
        return f"worktree {self.worktree} of {place}"


def open_work_folder(folder: Path, worktree: str, *, quiet: bool = False) -> WorkFolder:
    """Return the place of `folder`, also in the worktree of this name, which is made if there is none; "" means none.

    Raises `NexusError` where none can be made.
    """
    here = find_worktree(folder)
    if not worktree and here is None:
        return WorkFolder(folder)
    from nexus_cli.worktrees.worktrees import enter_worktree, stay_in  # noqa: PLC0415  (few runs are in a worktree)

    if here is not None and worktree in ("", here.name):
        return WorkFolder(folder, stay_in(here))
    root = here.folder if here else project_root(folder)
    stay = enter_worktree(find_source(root), worktree)
    return WorkFolder(_place_in(stay.record, folder, root), stay, removes=True, quiet=quiet)


def _place_in(record: WorktreeRecord, folder: Path, root: Path) -> Path:
    """Return the folder of a worktree where `folder` is in the project; its root where that cannot be."""
    place = record.folder / os.path.relpath(folder, root)
    try:
        real = Path(os.path.realpath(place))
        if not real.is_relative_to(record.folder):
            return record.folder
        real.mkdir(parents=True, exist_ok=True)
        return real
    except OSError:
        return record.folder
