"""The facts of a ledger that nothing is written to, for a session that saves nothing: read once, without a trace.

No lock file is made and no table brought forward; where that would be needed there is nothing to read.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Fact
from nexus_cli.ledger.facts import FactTable
from nexus_cli.ledger.reading import ReadDatabase


def lent(path: Path, project: str) -> list[Fact]:
    """What the ledger at `path` remembers of `project` and everywhere; nothing where it is not there, is older than
    facts are, or cannot be read. Raises nothing."""
    if not path.is_file():
        return []
    try:
        with closing(ReadDatabase(path)) as database:
            return FactTable(database).list_facts(project)
    except (NexusError, ValueError):
        return []
