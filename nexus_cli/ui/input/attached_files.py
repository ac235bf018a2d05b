"""Files that go along with a message: named by `--file`, or mentioned as `@path` in the words themselves.

Owns how a file becomes a block or an image part, and which words are mentions. Who names files, and what else a message
is made of, is up to the caller.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.core.attachment import Part, image_type
from nexus_cli.core.errors import NexusError
from nexus_cli.core.file_names import find_spelling, nearest_path, resolve_spelling
from nexus_cli.ui.input.piped import KEPT, Input, Reader

NAMES = 200
"""Names of a mentioned folder that are listed."""
_MOST = 1000
"""Words with an `@` that are looked at in one message."""

_MENTION = re.compile(
    r"""(?<![\w.@+/\\-])@(?:"(?P<quoted>(?:[^"\\\n]|\\.){1,4096})(?:"|$)|(?P<plain>[^\s"'`<>|]{1,4096}))""",
    re.MULTILINE,
)
_BEHIND = ".,;:!?)]}*_"
"""Characters that may follow a path in a sentence and are no part of it."""
_LONGEST = 200
"""Characters of a word that may look like a path."""
_PATH = re.compile(r"[~\w./ -]*(?:/[~\w. -]|\.[A-Za-z]\w{0,4}\Z)[~\w./ -]*")
"""Matches text that looks like a path although no file is there: with a slash, or with the ending of a file."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """The additions of mentioned files to a message."""

    blocks: tuple[str, ...] = ()
    """To stand behind the words, a blank line between."""
    parts: tuple[Part, ...] = ()
    """Images."""
    notices: tuple[str, ...] = ()
    """Notes for the person on how files were read, or why not."""
    uncounted: int = 0
    """Bytes beyond the hard limit: counted, not kept."""
    along: tuple[str, ...] = ()
    """Names of the attachments, for a person: `a.py, 12 lines`."""
    missing: tuple[str, ...] = ()
    """Words that look like a path and name nothing."""


def quote_mention(path: str) -> str:
    """Return `path` as it is mentioned: `@a.py`, or `@"a b.txt"` where it would not be read back otherwise."""
    bare = _MENTION.fullmatch("@" + path)
    if bare and bare["plain"] == path and path[-1:] not in _BEHIND:
        return "@" + path
    return '@"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def file_block(name: str, text: str) -> str:
    """Return the content of a file as it stands in a message."""
    return f'<file path="{_safe(name)}">\n{text.removesuffix(chr(10))}\n</file>'


def read_attachment(name: str, what: str) -> Part | Input:
    """Return an image as a part, another file (also a pipe) as text; `what` names it in errors.

    Raises `NexusError("usage", ...)` for what is missing, unreadable, a folder, a device, binary, too large an image.
    """
    try:
        path = resolve_spelling(os.getcwd(), name)
        kind = os.stat(path).st_mode
        if stat.S_ISDIR(kind):
            raise NexusError("usage", what, "it is a folder", "Attach files, one --file each")
        if not stat.S_ISREG(kind) and not stat.S_ISFIFO(kind):
            raise NexusError("usage", what, "it is not a file or a pipe", "Attach a file")
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "the name is not valid"
        raise NexusError("usage", what, why[:1].lower() + why[1:], _hint(name, error)) from error
    try:
        if stat.S_ISREG(kind):
            kind_of_image = image_type(os.pread(descriptor, 16, 0))
            if kind_of_image:
                return _image(descriptor, kind_of_image, os.path.basename(path), what)
        return Reader(descriptor, name).read()
    finally:
        os.close(descriptor)


def _hint(name: str, error: OSError | ValueError) -> str:
    """Return what to do about a file that is not there: the nearest name where there is one."""
    near = ""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        with contextlib.suppress(OSError):
            near = nearest_path(os.getcwd(), name)
    return f"Did you mean {near}" if near else "Check the path"


def _image(descriptor: int, kind: str, name: str, what: str) -> Part:
    if os.fstat(descriptor).st_size > KEPT:
        why = f"the image has more than {KEPT >> 20} MiB"
        raise NexusError("usage", what, why, "Attach a smaller one")
    with open(descriptor, "rb", closefd=False) as file:
        return Part(kind, file.read(KEPT), name)


@dataclass(slots=True)
class _Gathering:
    folder: Path
    blocks: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    uncounted: int = 0
    along: list[str] = field(default_factory=list)
    missing: dict[str, None] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)

    def mention(self, written: str, *, exact: bool) -> None:
        """Add the file or folder that `written` names; nothing when it names none."""
        named = written if exact else written.rstrip(_BEHIND)
        while written:
            path = find_spelling(os.path.join(self.folder, os.path.expanduser(written)))
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                shorter = written[:-1] if not exact and written[-1] in _BEHIND else ""
                written = shorter if any(char.isalnum() for char in shorter) else ""
                continue
            if (status.st_dev, status.st_ino) not in self.seen:
                self.seen.add((status.st_dev, status.st_ino))
                self._add(written, path, status.st_mode)
            return
        if len(named) <= _LONGEST and _PATH.fullmatch(named):
            near = nearest_path(str(self.folder), named)
            self.missing[f"{named} (did you mean {near}?)" if near else named] = None

    def _add(self, written: str, path: str, mode: int) -> None:
        try:
            if stat.S_ISDIR(mode):
                listed, count = _listing(written, path)
                self.blocks.append(listed)
                self.along.append(f"{written}, {count:,} {'name' if count == 1 else 'names'}")
            elif stat.S_ISREG(mode):
                read = read_attachment(path, f"@{written}")
                if isinstance(read, Part):
                    self.parts.append(read)
                    self.along.append(f"{written}, an image")
                else:
                    count = len(read.text.splitlines())
                    self.along.append(f"{written}, {count:,} {'line' if count == 1 else 'lines'}")
                    self.blocks.append(file_block(written, read.text))
                    self.notices += [read.notice] if read.notice else []
                    self.uncounted += read.uncounted
        except NexusError as error:
            self.notices.append(f"{error.message}; it was not attached")
        except OSError as error:
            self.notices.append(f"@{written}: {error.strerror}; it was not attached")


def read_mentions(text: str, folder: Path) -> Mentions:
    """Return what every `@path` and `@"path with spaces"` of `text` adds that names a file or a folder; each once.

    Paths are relative to `folder`, `~` is expanded. A word that names nothing (an address, a decorator) stays a word,
    and so does a device. Reads at most 64 MiB of each file; blocking.
    """
    found = _Gathering(folder)
    for number, match in enumerate(_MENTION.finditer(text)):
        if number >= _MOST:
            found.notices.append(f"only the first {_MOST:,} words with an @ were looked at")
            break
        if match["quoted"] is not None:
            found.mention(re.sub(r"\\(.)", r"\1", match["quoted"]), exact=True)
        else:
            found.mention(match["plain"], exact=False)
    return Mentions(
        tuple(found.blocks), tuple(found.parts), tuple(found.notices), found.uncounted, tuple(found.along),
        tuple(found.missing),
    )  # fmt: skip


def _listing(written: str, path: str) -> tuple[str, int]:
    with os.scandir(path) as entries:
        names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in entries)
    lines = [name.encode("utf-8", "replace").decode().replace("\n", "\u2424") for name in names[:NAMES]]
    if len(names) > NAMES:
        lines.append(f"... and {len(names) - NAMES:,} more")
    return f'<folder path="{_safe(written)}">\n' + "\n".join(lines) + "\n</folder>", len(names)


def _safe(name: str) -> str:
    return name.replace("&", "&amp;").replace('"', "&quot;").replace("\n", "&#10;")
