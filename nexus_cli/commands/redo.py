"""Bring back what an undo took back."""

from __future__ import annotations

from typing import Any

from nexus_cli.commands.undo import DryRun, Paths, open_undo, restore
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb


def redo_files(source: Source, path: Paths = None, dry_run: DryRun = False) -> Report[Any]:
    """Bring back what the newest undo took back, or of that a PATH alone. Again goes further forward."""
    return restore(*open_undo(source, path, dry_run=dry_run), redo=True)


NOUN = Noun(
    "redo",
    "run",
    (Verb(redo_files, "", Authority.ACTS, "write", busy="redoing", of_session=True),),
    "Bring back what an undo took back.",
    is_idle=True,
)
