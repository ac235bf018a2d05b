"""Replace a private file atomically, with mode 0600."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nexus_cli.config.paths import private_dir
from nexus_cli.core.errors import NexusError, write_failure_hint


def replace_private_file(path: Path, data: bytes, check: Callable[[], None] = lambda: None) -> None:
    """Write `data` to a temporary file beside `path`, sync it, call `check`, and rename it to `path`.

    Raises `OSError` and whatever `check` raises; the file is unchanged then, and the temporary file removed.
    """
    draft = private_dir(path.parent) / f".{path.name}-{os.urandom(8).hex()}"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        check()
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def named_write_errors(path: Path) -> Iterator[None]:
    """Raise `NexusError("internal", ...)` if the block, which locks or writes `path`, raises `OSError`."""
    try:
        yield
    except OSError as error:
        otherwise = "Try again later" if isinstance(error, TimeoutError) else "Check the permissions of its folder"
        hint = write_failure_hint(error, otherwise)
        raise NexusError("internal", str(path), f"cannot be written ({error.strerror})", hint) from error
