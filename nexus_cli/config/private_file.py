"""Write private files, with mode 0600: replace them atomically, or append lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nexus_cli.config.paths import private_dir
from nexus_cli.core.errors import NexusError, write_failure_hint
from nexus_cli.core.real_files import NEW


def replace_private_file(path: Path, data: bytes, check: Callable[[], None] = lambda: None) -> None:
    """Write `data` to a temporary file beside `path`, sync it, call `check`, and rename it to `path`.

    Raises `OSError` and whatever `check` raises; the file is unchanged then, and the temporary file removed.
    """
    draft = private_dir(path.parent) / f".{path.name}-{os.urandom(8).hex()}"
    try:
        with open(os.open(draft, NEW, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        check()
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def append_lines(path: Path, lines: bytes, *, synced: bool = True) -> int:
    """Append lines, each with its newline, to a file that other processes write too; return the file's new size.

    An incomplete last line of the file gets a newline first. If `synced`, they are on disk when this returns. Raises
    `OSError`, also for a link.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(private_dir(path.parent) / path.name, flags, 0o600), "ab") as file:
        handle = file.fileno()
        status = os.fstat(handle)
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            os.fchmod(handle, 0o600)
        if status.st_size and os.pread(handle, 1, status.st_size - 1) != b"\n":
            lines = b"\n" + lines
        file.write(lines)
        file.flush()
        if synced:
            os.fsync(handle)
    return status.st_size + len(lines)


@contextmanager
def named_write_errors(path: Path) -> Iterator[None]:
    """Raise `NexusError("internal", ...)` if the block, which locks or writes `path`, raises `OSError`."""
    try:
        yield
    except OSError as error:
        otherwise = "Try again later" if isinstance(error, TimeoutError) else "Check the permissions of its folder"
        hint = write_failure_hint(error, otherwise)
        raise NexusError("internal", str(path), f"cannot be written ({error.strerror})", hint) from error
