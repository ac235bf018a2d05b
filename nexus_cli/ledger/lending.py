"""The facts of a ledger that nothing is written to, for a session that saves nothing: read once, without a trace.

No lock file is made and no table brought forward; where that would be needed there is nothing to read.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Fact
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.facts import FactTable


def lent(path: Path, project: str) -> list[Fact]:
    """What the ledger at `path` remembers of `project` and everywhere; nothing where it is not there, is older than
    facts are, or cannot be read. Raises nothing."""
    if not path.is_file():
        return []
    # With a log beside it another process may be writing, and its locks count; without one the file is all there is.
    how = "readonly_shm=1" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&{how}", uri=True)) as connection:
            return FactTable(Database(connection)).listing(project)
    except (NexusError, sqlite3.Error, ValueError):
        return []
