"""Find the project of a folder in a shared ledger: its repository's name, the same for every clone, else its path.

The name is looked for once per folder and ledger, and again when the repository's configuration has changed; the result
is kept in data/projects. At the first look this role's own rows of the path become rows of the repository.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from nexus_cli.config.ledger_place import shown_place
from nexus_cli.config.paths import places
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.ledger.blobs import BLOBS_OF
from nexus_cli.ledger.database import Database
from nexus_cli.sandbox.repository_key import configuration_stamp, repository_key

_TABLES = ("sessions", "lanes", "epochs", "blobs", "facts", "spaces", "runs")
"""Tables whose rows have a project."""
_OWN = "made_by = current_user AND project = ?"


def find_project(db: Database, server: str, path: str) -> str:
    """Return the project of the root folder `path` in the ledger on `server`."""
    stamp = configuration_stamp(Path(path))
    if not stamp:
        return path
    digest = sha256(f"{shown_place(server)}\0{path}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
    record = places().data / "projects" / digest
    try:
        recorded_stamp, project = record.read_text(encoding="utf-8", errors="surrogateescape").split("\n", 1)
    except (OSError, ValueError):
        recorded_stamp, project = "", path
    if recorded_stamp == stamp or (key := repository_key(Path(path))) is None:
        return project
    project = key or path
    with suppress(NexusError, OSError):  # the next look tries again
        if key:
            move_rows(db, path, project)
        replace_private_file(record, f"{stamp}\n{project}".encode("utf-8", "surrogateescape"))
    return project


def move_rows(db: Database, path: str, project: str) -> None:
    """Make this role's own rows of the project `path` rows of `project`, which they are shared like."""
    old, new = replace_surrogates(path), replace_surrogates(project)
    some = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE {_OWN}" for table in ("sessions", "facts", "spaces"))
    if not db.one(f"{some} LIMIT 1", old, old, old):
        return
    with db.write(alone=True):
        db.run("SET LOCAL statement_timeout = 0")
        for table, (_, columns) in BLOBS_OF.items():  # a text is stored once for a project and maker
            for column in columns:
                db.run(
                    f"UPDATE {table} SET {column} = kept.id FROM blobs gone JOIN blobs kept"
                    " ON kept.hash = gone.hash AND kept.made_by = gone.made_by AND kept.project = ?"
                    f" WHERE gone.id = {table}.{column} AND gone.made_by = current_user AND gone.project = ?",
                    new,
                    old,
                )
        db.run(
            f"DELETE FROM blobs WHERE {_OWN} AND hash IN"
            " (SELECT hash FROM blobs WHERE made_by = current_user AND project = ?)",
            old,
            new,
        )
        for table in _TABLES:
            db.run(f"UPDATE {table} SET project = ? WHERE {_OWN}", new, old)
        db.run(
            "INSERT INTO project_members (project, role, owner) SELECT ?, role, owner FROM project_members"
            " WHERE owner = current_user AND project = ? ON CONFLICT DO NOTHING",
            new,
            old,
        )
        db.run("DELETE FROM project_members WHERE owner = current_user AND project = ?", old)
