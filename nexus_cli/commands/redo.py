"""Redo an undone change."""

from __future__ import annotations

from nexus_cli.commands.undo import DryRun, Paths, Undone, open_undo, restore
from nexus_cli.commands.verb import Authority, Noun, Source, Verb


def redo_files(source: Source, path: Paths = None, dry_run: DryRun = False) -> Undone:
    """Redo the changes of the newest undo, or only those to PATH. Repeat to redo earlier undos."""
    return restore(source, *open_undo(source, path, dry_run=dry_run), redo=True)


NOUN = Noun(
    "redo",
    "run",
    (Verb(redo_files, "", Authority.ACTS, "write", busy="redoing", of_session=True),),
    "Redo an undone change.",
    is_idle=True,
)
