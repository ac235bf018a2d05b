"""The resume file of `nexus map`: a JSON line for each finished item, appended before the item counts as finished.

A line has the keys of `MapLine` and the item's `key`, or, for an item that has begun, only `item`, `key` and `session`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypedDict, cast

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import ErrorObject, NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import json_text

_BEGINNING = b'{"item":'
"""Beginning of every line, also of one that was cut off when its writer was killed."""


class MapLine(TypedDict):
    """A line of `nexus map`: the result of one item."""

    item: str
    """The path or the line of stdin."""
    ok: bool
    text: str
    """The answer; in a failed item possibly partial."""
    data: Any
    """With `--schema`: the answer as JSON, else null."""
    cost_usd: float | None
    """null if a price is unknown; 0 for an item that occurs again."""
    error: ErrorObject | None


def item_key(item: str, trigger: Trigger, settings: JsonObject) -> str:
    """Return the digest of an item, its content, the prompt and `settings`, which identifies its result."""
    digest = hashlib.sha256(json.dumps([item, trigger.text, settings], sort_keys=True).encode())
    for part in trigger.parts:
        digest.update(part.data)
    return digest.hexdigest()


class MapJournal:
    """Results of finished items, by key."""

    def __init__(self, path: Path | None) -> None:
        """Open and lock the file, which is created if missing; None keeps the results for this process alone.

        Raises `UsageError` if it cannot be written, is locked, or is no resume file.
        """
        self.path = path
        self.answered: dict[str, MapLine] = {}
        """Results of the items that succeeded, by key."""
        self.begun: dict[str, str] = {}
        """Sessions of the items that have begun, by key."""
        self._keys: dict[str, str] = {}
        """The newest key of each of these sessions: it changes where a session changes the file of its item."""
        self._is_torn = False
        """True if the last line of the file has no end."""
        self._file = _open(path) if path else None
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        line = b"\n"
        for number, line in enumerate(self._file.read().splitlines(keepends=True) if self._file else (), 1):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                if line.startswith(_BEGINNING[: len(line)]):
                    continue  # its writer was killed
                value = None
            if not _is_entry(value):
                why = f"line {number} is not a result of `nexus map --resume`"
                raise UsageError(f"--resume {self.path}", why, "Use a new file, or one written by --resume")
            self._note(value)
        self._is_torn = not line.endswith(b"\n")

    def _note(self, value: JsonObject) -> None:
        key = str(value["key"])
        if "ok" not in value:
            session = str(value["session"])
            former = self._keys.get(session, "")
            if self.begun.get(former) == session:
                del self.begun[former]
            self._keys[session] = key
            self.begun[key] = session
        elif value["ok"]:
            self.answered[key] = cast("MapLine", {name: part for name, part in value.items() if name != "key"})
        else:
            self.answered.pop(key, None)

    def add(self, key: str, line: MapLine) -> None:
        """Append a result; it is on disk when this returns. Raises `NexusError` if that fails."""
        self._append({**line, "key": key}, sync=True)

    def begin(self, key: str, item: str, session: str) -> None:
        """Record the session of an item, which continues if this process is killed; an earlier key of it is void."""
        self._append({"item": item, "key": key, "session": session}, sync=False)

    def close(self) -> None:
        """Release the file. May be called twice."""
        if self._file:
            self._file.close()

    def remove(self) -> None:
        """Release and delete the file."""
        self.close()
        if self.path:
            with suppress(OSError):
                self.path.unlink()

    def _append(self, value: JsonObject, *, sync: bool) -> None:
        if self._file:
            line = json_text(value, escaped=False).encode("utf-8", "replace") + b"\n"
            unwritten = memoryview(b"\n" * self._is_torn + line)
            try:
                self._is_torn = True
                while unwritten:
                    unwritten = unwritten[self._file.write(unwritten) :]
                self._is_torn = False
                if sync:
                    os.fsync(self._file.fileno())
            except OSError as error:
                why, hint = str(error.strerror), "Free some space, or use another file"
                raise NexusError("internal", f"{self.path} cannot be written", why, hint) from error
        self._note(value)


def _open(path: Path) -> IO[bytes]:
    """Open and lock a resume file."""
    label = f"--resume {path}"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise UsageError(label, str(error.strerror).lower(), "Use a writable file") from error
    file = open(handle, "r+b", buffering=0)  # noqa: SIM115
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UsageError(label, "not a regular file", "Name a new file")
        with suppress(OSError):  # a closed stdout
            if os.path.sameopenfile(handle, 1):
                raise UsageError(label, "stdout is redirected to this file too", "Name another file")
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.seek(0)
    except BlockingIOError as error:
        file.close()
        raise UsageError(
            label, "another process has locked it", "Wait for that process, or name another file"
        ) from error
    except BaseException:
        file.close()
        raise
    return file


def _is_entry(value: Any) -> bool:
    """Return True for the value of a line that `add` or `begin` has written; what is printed has no key."""
    if not isinstance(value, dict):
        return False
    keys = MapLine.__annotations__.keys() if "ok" in value else {"item", "session"}
    return keys <= value.keys() and isinstance(value.get("key"), str)
