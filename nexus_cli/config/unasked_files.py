"""Decide whether a file of a project may be sent to the model unasked: without a tool call that was decided on.

The only such gate. Through it go instruction files, what they import, rules by path, skills, commands and identity
files of projects and plugins, and what a guide of a project attaches. Files that the person names (`-f`, `@path`, their
own instruction folders) are their choice and do not pass the gate, except where a name in the project stands for
credentials.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.config.protected_places import INSTRUCTION_FILES, SecretPlaces, fold_name, has_password
from nexus_cli.config.repository_owner import belongs_to_other_user
from nexus_cli.core.elide import one_line
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.real_files import read_real, real_path

DOCUMENTS = (".md", ".mdc", ".mdx", ".markdown", ".rst", ".adoc")
"""Suffixes of files that are written to be read, where a key is an example."""
MAX_SEARCHED = 256 * 1024
"""Bytes of any other file that are searched for a password, and most that are read of it."""
_SAMPLES = (".example", ".sample", ".template", ".dist")
"""Endings of `.env` files without values."""


class FileRefused(Exception):
    """A file may not be sent; its text is the reason, to follow the file's name."""


@dataclass(frozen=True, slots=True)
class UnaskedFile:
    """The content of a file that may be sent."""

    data: bytes
    """Its first `limit` bytes; one byte more if the file is larger."""
    size: int
    """Bytes of the whole file."""
    limit: int


class UnaskedFiles:
    """The gate of one project."""

    def __init__(self, project: Path, is_denied: Callable[[Path], bool] | None = None) -> None:
        """Initialize; `is_denied` returns True for a real path that a deny rule keeps from `read_file`."""
        self.project = real_path(project)
        self._is_denied = is_denied
        self._secrets: SecretPlaces | None = None

    def check(self, path: Path, *, by_name: bool = False) -> Path:
        """Return the real path of a file in the project; raise `FileRefused` if it may not be sent. Reads nothing.

        A file found `by_name` and through no link is what the project gives to read: it may have any name, and no deny
        rule takes it away.
        """
        real = real_path(path)
        self._check_place(path, real, by_name)
        return real

    def _check_place(self, path: Path, real: Path, by_name: bool) -> None:
        leads = f"links to {_format_path(real)}, " if real != Path(os.path.abspath(path)) else ""
        if not real.is_relative_to(self.project):
            raise FileRefused(f"links to {_format_path(real)}, outside the project")
        if belongs_to_other_user(path):
            raise FileRefused("belongs to another user")
        if by_name and not leads:
            return
        if self._is_denied is not None and self._is_denied(real):
            raise FileRefused(f"{leads or 'is '}denied by a rule for read_file")
        if self._find_secrets().find(real) or is_credential_name(real.name):
            raise FileRefused(f"{leads}which holds credentials" if leads else "holds credentials")

    def read(self, path: Path, limit: int, *, by_name: bool = False) -> UnaskedFile | None:
        """Return the beginning of a file, None if it is no regular file; raise as `check`, and `OSError`.

        The real path that was checked is opened through no link, and the bytes that are searched are those returned.
        """
        if not _is_file(path):
            return None
        real = self.check(path, by_name=by_name)
        limit = limit if is_made_to_be_read(real.name) else min(limit, MAX_SEARCHED)
        data, status = read_real(real, limit + 1)
        self._check_content(path, real, data, status)
        return UnaskedFile(data, status.st_size, limit)

    def check_read(self, path: Path, real: Path, data: bytes, status: os.stat_result) -> None:
        """Raise `FileRefused` as `read` by name, for content and status of `real`, which `path` led to then."""
        self._check_place(path, real, by_name=True)
        self._check_content(path, real, data, status)

    def check_named(self, path: Path, status: os.stat_result) -> None:
        """Raise `FileRefused` if `path`, an absolute path that the person named, is in the project and another name of
        credentials, by a link or a hard link: a command may have made it. `status` is that of the open file."""
        real, has_more_names = real_path(path), status.st_nlink > 1
        if not path.is_relative_to(self.project):
            return
        if not _is_same(real, status):
            raise FileRefused("changed while it was opened")
        if (real == path and not has_more_names) or is_credential_name(path.name):
            return
        secrets = self._find_secrets()
        if secrets.find(path):
            return
        if secrets.find(real) or is_credential_name(real.name) or (has_more_names and self._is_secret(status)):
            leads = f"links to {_format_path(real)}" if real != path else "is a hard link to a file"
            raise FileRefused(f"{leads}, which holds credentials")

    def _check_content(self, path: Path, real: Path, data: bytes, status: os.stat_result) -> None:
        # A second name of `.env` is a document by its own name.
        has_more_names = status.st_nlink > 1
        if holds_credentials("" if has_more_names else real.name, data) or (has_more_names and self._is_secret(status)):
            leads = real != Path(os.path.abspath(path))
            raise FileRefused(
                f"links to {_format_path(real)}, which holds credentials" if leads else "holds credentials"
            )

    def _is_secret(self, status: os.stat_result) -> bool:
        """Return True if a file has the name of credentials too, in the project's folder or in a secret place."""
        inside = (self.project / name for name in os.listdir(self.project) if is_credential_name(name))
        return any(_is_same(path, status) for path in (*inside, *self._find_secrets().paths()))

    def _find_secrets(self) -> SecretPlaces:
        self._secrets = self._secrets or SecretPlaces(places(), self.project)
        return self._secrets


def holds_credentials(name: str, data: bytes) -> bool:
    """Return True if a file of this name, "" if it is unknown, and of this content must not be sent."""
    return is_credential_name(name) or (not is_made_to_be_read(name) and has_password(data))


def is_credential_name(name: str) -> bool:
    """Return True for `.env` and its variants (`.env.local`), whatever is in them; not for a sample."""
    folded = fold_name(name)
    return folded == ".env" or (folded.startswith(".env.") and not folded.endswith(_SAMPLES))


def is_made_to_be_read(name: str) -> bool:
    """Return True for a document, and for the name of an instruction file."""
    folded = fold_name(name)
    return folded.endswith(DOCUMENTS) or (folded in INSTRUCTION_FILES and not folded.endswith(".json"))


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_same(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except OSError:
        return False


def _format_path(path: Path) -> str:
    return one_line(replace_surrogates(str(path)))
