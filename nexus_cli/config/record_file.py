"""Keep a record in the data folder: a private file with a JSON object of entries by name, changed by one process at a
time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import places, with_tilde
from nexus_cli.config.private_file import named_write_errors, replace_private_file
from nexus_cli.core.json_value import JsonDict, JsonObject, parse_nested
from nexus_cli.core.real_files import read_beginning

WAIT = 10.0
"""Seconds to wait for another process's change of a record."""


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A record."""

    file: str
    """Its name in the data folder."""
    key: str
    """The key of the file that the entries are below."""
    version: int = 1

    @property
    def path(self) -> Path:
        """Return the file."""
        return places().data / self.file

    def read(self) -> JsonObject:
        """Return the entries by name; {} (nothing is accepted) if the file is missing or invalid."""
        try:
            return self._load()
        except (OSError, ValueError):
            return {}

    def describe_problem(self, effect: str) -> str:
        """Return a line with the `effect` of a file that is there and cannot be read; "" if it can."""
        try:
            self._load()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a record of nexus"
            return f"{with_tilde(self.path)} cannot be read: {why}; {effect}"
        return ""

    def _load(self) -> JsonDict:
        """Return the entries; raise `OSError`, or `ValueError` for a file that is no record."""
        data = read_beginning(self.path)
        document = parse_nested(json.loads, data.decode(json.detect_encoding(data)))
        if not (isinstance(document, dict) and isinstance(entries := document.get(self.key), dict)):
            raise ValueError
        return entries

    def read_items(self) -> dict[str, JsonDict]:
        """Return the entries that are objects."""
        return {name: entry for name, entry in self.read().items() if isinstance(entry, dict)}

    def write(self, entries: JsonObject) -> None:
        """Replace the entries; raise `OSError` if that fails."""
        text = json.dumps({"version": self.version, self.key: entries}, indent=1) + "\n"
        replace_private_file(self.path, text.encode())

    @contextmanager
    def change(self) -> Iterator[dict[str, JsonDict]]:
        """Lock the record, yield its entries for changes, and replace it, or remove it once it is empty; raise
        `NexusError("internal", ...)` if that fails."""
        with named_write_errors(self.path), FileLock.wait_for(places().data / "trust.lock", WAIT):
            entries = self.read_items()
            yield entries
            if entries:
                self.write(entries)
            else:
                self.path.unlink(missing_ok=True)


TRUST_RECORD = RecordFile("trust.json", "projects", version=2)
"""The trusted projects by real path, each with the hashes of its items."""
