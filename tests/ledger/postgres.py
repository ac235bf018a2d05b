"""A PostgreSQL server of its own for the tests: started once per process on a private socket, without waiting for
disks, ended with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from programs import NOBODY, missing

_ALWAYS = (
    "shared_buffers=16MB",
    "max_connections=60",
    "listen_addresses=",
    "log_min_messages=fatal",
    "dynamic_shared_memory_type=mmap",
)
_FAST = ("fsync=off", "full_page_writes=off", "autovacuum=off")


def find_programs() -> Path | None:
    """The folder of `initdb` and `postgres`, None if PostgreSQL is not installed."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def sharing(project: str, *roles: str) -> str:
    """The statement by which an administrator lets these roles see each other's rows of a project."""
    rows = ", ".join(f"('{project}', '{one}', '{other}')" for one in roles for other in roles if one != other)
    return f"INSERT INTO project_members (project, role, owner) VALUES {rows}"


def need_postgres() -> Path:
    """`find_programs`, or the test is skipped."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    found = find_programs()
    if found is None:
        pytest.skip(missing("postgres"))
    return found


class Server:
    """One running server. Its administrator is the role `nexus`."""

    def __init__(self, programs: Path, folder: Path, *, waits_for_disk: bool = False) -> None:
        self.programs, self.folder = programs, folder
        self._options = () if waits_for_disk else _FAST
        self._count = 0
        # PostgreSQL refuses to run as root.
        self._as: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            os.chown(folder, NOBODY, NOBODY)
        making = f"{programs}/initdb -D {folder}/data -U nexus -A trust -E UTF8 --locale C.UTF-8 --no-sync".split()
        subprocess.run(making, check=True, stdout=subprocess.DEVNULL, cwd=folder, **self._as)
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        from nexus_cli.ledger import postgres_connection

        postgres_connection.RETRY_AT.clear()
        options = [part for option in (*_ALWAYS, *self._options) for part in ("-c", option)]
        command = [f"{self.programs}/postgres", "-D", f"{self.folder}/data", "-k", str(self.folder), *options]
        process: subprocess.Popen[bytes] = subprocess.Popen(
            command, cwd=self.folder, stderr=subprocess.DEVNULL, **self._as
        )
        deadline = time.monotonic() + 120
        while not self.answers():
            assert process.poll() is None and time.monotonic() < deadline, "PostgreSQL does not start"
            time.sleep(0.02)
        self.process = process

    def answers(self) -> bool:
        """Return whether it can be connected to."""
        import psycopg

        try:
            psycopg.connect(self.url("postgres"), connect_timeout=1).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """End it at once, as a power failure would."""
        subprocess.run(
            [self.programs / "pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop"],
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self._as,
        )
        self.process.wait()

    def url(self, database: str, role: str = "nexus") -> str:
        """The address of a database."""
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def sql(self, *statements: str, database: str = "postgres", role: str = "nexus") -> list[tuple[Any, ...]]:
        """Run statements; the rows of the last one."""
        import psycopg

        with psycopg.connect(self.url(database, role), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def make_roles(self) -> None:
        """Create the roles of the tests that do not exist yet."""
        for role in ("ana", "ben", "mira", "carol"):
            if not self.sql(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
                self.sql(f"CREATE ROLE {role} LOGIN")

    def new_database(self) -> str:
        """The address of an empty ledger: a copy of one that was made before."""
        from nexus_cli.ledger import Ledger

        if not self._count:
            self.sql("CREATE DATABASE first")
            Ledger.open(self.url("first")).close()
        self._count += 1
        self.sql(f"CREATE DATABASE ledger{self._count} TEMPLATE first STRATEGY file_copy")
        return self.url(f"ledger{self._count}")

    def drop(self, url: str) -> None:
        """Remove a database, whoever is connected."""
        name = url.partition("?")[0].rpartition("/")[2]
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def run_server(*, waits_for_disk: bool = False) -> Iterator[Server]:
    """A server in a folder of its own: in memory if there is room for one, unless it is to wait for a disk."""
    programs = need_postgres()
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() and not waits_for_disk else None
    with tempfile.TemporaryDirectory(prefix="nexus-pg-", dir=where) as made:
        server = Server(programs, Path(made), waits_for_disk=waits_for_disk)
        try:
            yield server
        finally:
            server.stop()
