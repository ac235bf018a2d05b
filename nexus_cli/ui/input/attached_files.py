"""Read files that are attached to a message: named by `--file`, or mentioned as `@path` in its text.

Owns the recognition of mentions, and the conversion of a file to a block or an image part. Callers name the files and
build the rest of the message.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from nexus_cli.core.attachment import FOLDER, TEXT, AttachedFile, Attachments, Part, ReadFile, image_type
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.file_names import find_spelling, looks_like_file, nearest_path, resolve_spelling
from nexus_cli.core.image_check import MAX_BYTES, describe_bad_image
from nexus_cli.core.shared_types import TakeText
from nexus_cli.reports.text.lines import describe_attached, plural
from nexus_cli.ui.input.piped import MAX_INPUT, PDF, Input, Reader

if TYPE_CHECKING:
    from nexus_cli.tools.documents import DocumentPart

NAMES = 200
"""Most names of a mentioned folder that are listed."""
_MAX = 1000
"""Most words with an `@` that are checked in one message."""

_MENTION = re.compile(
    r"""(?<![\w.@+/\\-])@(?:"(?P<quoted>(?:[^"\\\n]|\\.){1,4096})(?:"|$)|(?P<plain>[^\s"'`<>|]{1,4096}))""",
    re.MULTILINE,
)
IMAGE = "Image"
"""What an attached image is called in the input box."""
_DRAGGED = re.compile(r"""['"]?(?:/|~/|file:///).+\.(?:png|jpe?g|gif|webp|pdf)['"]?\Z""", re.IGNORECASE)
"""Matches text that ends like the path of an image or a PDF, and begins like a full path."""
_LONGEST_DRAGGED = 20_000
"""Most characters of the paths of dragged files."""
_BEHIND = ".,;:!?)]}*_"
"""Characters that may follow a path in a sentence without being part of it."""
_RANGE = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)
"""Matches `a.py:3-5` and `a.py:3`: lines of a file, unless a file has that name."""
_RESOURCE = re.compile(r"[A-Za-z0-9][\w.-]*:[A-Za-z][A-Za-z0-9+.-]*:")
"""Matches `SERVER:URI`, which the session reads from an MCP server."""


@dataclass(slots=True)
class Mentions(Attachments):
    """The blocks and parts that mentioned files add to a message, and what is missing of them."""

    missing: list[str] = field(default_factory=list)
    """Names that can only be meant as a file, and name none."""

    @property
    def along(self) -> tuple[str, ...]:
        """Names of the attachments, for a person: `a.py, 12 lines`."""
        return tuple(describe_attached(file.to_json()) for file in self.files)


def quote_mention(path: str) -> str:
    """Return `path` as a mention: `@a.py`, or `@"a b.txt"` if it needs quotes to be recognized."""
    bare = _MENTION.fullmatch("@" + path)
    if bare and bare["plain"] == path and path[-1:] not in _BEHIND:
        return "@" + path
    return '@"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def list_pasted_files(text: str) -> list[tuple[str, str]]:
    """Return path and kind (`Image`, `PDF`) of each file if `text` is nothing but full paths of images and PDFs, with
    the quotes and escapes that terminals write for dragged files; else []."""
    stripped = text.strip()
    if not _DRAGGED.match(stripped) or "\n" in stripped or len(stripped) > _LONGEST_DRAGGED:
        return []
    with contextlib.suppress(ValueError):  # an open quote
        for words in ([stripped], shlex.split(stripped)):
            paths = [unquote(urlsplit(word).path) if word.startswith("file://") else word for word in words]
            files = [(path, kind) for path in map(os.path.expanduser, paths) if (kind := _kind_of_file(path))]
            if len(files) == len(words):
                return files
    return []


def _kind_of_file(path: str) -> str:
    """Return `Image`, `PDF`, or "" for what is neither."""
    try:
        if not os.path.isabs(path) or not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            start = file.read(16)
    except (OSError, ValueError):
        return ""
    return IMAGE if image_type(start) else "PDF" if start.startswith(PDF) else ""


def read_attachment(
    name: str, label: str, folder: str = "", timeout: float | None = None, tell: TakeText | None = None
) -> ReadFile:
    """Read a file (also a pipe), an image, the text of a PDF, the cells of a notebook, or `a.py:3-5`: these lines
    (pages, cells), unless a file has that name.

    `name` is relative to `folder`, else to the working folder; `label` names it in errors. A pipe that has not ended
    after `timeout` seconds is `NexusError("limit", ...)`, `tell` reports a long wait for one. Raises
    `UsageError` for a path that is missing, unreadable, a folder, a device or binary, for an image that
    cannot be sent, and for lines that the file does not have.
    """
    folder = folder or os.getcwd()
    try:
        path, lines = find_attached(name, folder)
        name = name if lines is None else _RANGE.sub(r"\g<path>", name)
        kind = os.stat(path).st_mode
        if stat.S_ISDIR(kind):
            raise UsageError(label, "this is a folder", "Attach its files instead")
        if not stat.S_ISREG(kind) and not stat.S_ISFIFO(kind):
            raise UsageError(label, "not a file or a pipe", "Attach a file")
        # Else `open` waits for a writer; on macOS a pipe without one would seem to be empty.
        may_wait = timeout is not None or sys.platform == "linux"
        waits = os.O_NONBLOCK if may_wait and stat.S_ISFIFO(kind) else 0
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | waits)
    except (OSError, ValueError) as error:
        raise _unreadable(name, label, error, folder) from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            _refuse_disguise(path, status, label)
        size = status.st_size
        start = os.pread(descriptor, 16, 0) if stat.S_ISREG(kind) else b""
        kind_of_image = image_type(start)
        if start.startswith(PDF):
            return _pdf_pages(descriptor, name, label, lines)
        if not kind_of_image:
            read = Reader(descriptor, name, timeout, tell).read()
            if notebook := _notebook_cells(read, path, name, label, lines):
                return notebook
            return _chosen_lines(read, name, label, lines) if lines else _whole_text(read, name, size)
        if lines is not None:
            raise UsageError(label, "an image has no lines", "Attach the whole image")
        part = _image(descriptor, kind_of_image, os.path.basename(path), label)
        return ReadFile(AttachedFile(name, kind_of_image, size), part=part)
    except OSError as error:  # the file is open, and its device or file system fails
        raise _unreadable(name, label, error, folder) from error
    finally:
        os.close(descriptor)


def _unreadable(name: str, label: str, error: OSError | ValueError, folder: str) -> NexusError:
    why = getattr(error, "strerror", None) or "the name is not valid"
    return UsageError(label, why[:1].lower() + why[1:], _hint(name, error, folder))


def _refuse_disguise(path: str, status: os.stat_result, label: str) -> None:
    """Raise `UsageError` for a name in the project that leads to credentials."""
    from nexus_cli.config.paths import project_root  # noqa: PLC0415  (few attach a file)
    from nexus_cli.config.unasked_files import FileRefused, UnaskedFiles  # noqa: PLC0415  (as above)

    try:
        UnaskedFiles(project_root(Path.cwd())).check_named(Path(os.path.abspath(path)), status)
    except FileRefused as error:
        raise UsageError(label, f"it {error}", "Attach that file itself") from error


def find_attached(
    name: str, folder: str, resolve: Callable[[str, str], str] = resolve_spelling
) -> tuple[str, tuple[int, int] | None]:
    """Return the absolute path of `name`, and the lines that it selects, None for the whole file."""
    path, chosen = resolve(folder, name), _RANGE.fullmatch(name)
    if chosen is None or os.path.lexists(path):
        return path, None
    return resolve(folder, chosen["path"]), (int(chosen["first"]), int(chosen["last"] or chosen["first"]))


def _resolve_mention(folder: str, path: str) -> str:
    """Return the absolute path of `path`, in which an `@` is part of the name."""
    return find_spelling(os.path.join(folder, os.path.expanduser(path)))


def _whole_text(read: Input, name: str, size: int) -> ReadFile:
    """Return a text as a block; `size` is the size of its file, 0 for a pipe."""
    size = size or len(read.text.encode(errors="replace")) + read.uncounted
    record = AttachedFile(name, TEXT, size, 1, _count_lines(read.text))
    return ReadFile(record, _block(name, read.text), None, read.notice, read.uncounted)


def _chosen_lines(read: Input, name: str, label: str, lines: tuple[int, int]) -> ReadFile:
    """Return these lines of a text as a block."""
    (first, last), count = lines, _count_lines(read.text)
    if not 1 <= first <= last:
        raise UsageError(label, f"{first}-{last} is not a valid line range", "Use FIRST-LAST, counting from 1")
    if last > count:
        which = f"only the first {MAX_INPUT >> 20} MiB can be attached: " if read.uncounted else "the file has "
        raise UsageError(label, f"{which}{plural(count, 'line')}", "Choose other lines")
    chosen = "\n".join(read.text.split("\n", last)[first - 1 : last])
    record = AttachedFile(name, TEXT, len(chosen.encode(errors="replace")), first, last, count)
    return ReadFile(record, _block(name, chosen, f' lines="{first}-{last}"'), None, read.notice)


def _pdf_pages(descriptor: int, name: str, label: str, pages: tuple[int, int] | None) -> ReadFile:
    """Return the text of a PDF as a block, or of these pages."""
    from nexus_cli.config.paths import project_root  # noqa: PLC0415  (few attach a PDF)
    from nexus_cli.tools.cancellable_thread import StopFlag  # noqa: PLC0415  (as above)
    from nexus_cli.tools.documents import read_pdf  # noqa: PLC0415  (as above)
    from nexus_cli.tools.files import ToolError  # noqa: PLC0415  (as above)

    first, limit = _first_and_limit(pages, "page", label)
    try:
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_INPUT)
        part = read_pdf(data, first, limit, StopFlag(), project_root(Path.cwd()))
    except (ToolError, OSError) as error:
        why = f"it {error}" if isinstance(error, ToolError) else str(error.strerror)
        raise UsageError(label, why, "Attach its text") from error
    return _document_part(part, name)


def _notebook_cells(read: Input, path: str, name: str, label: str, cells: tuple[int, int] | None) -> ReadFile | None:
    """Return the cells of a notebook as a block, or these of them; None for another file, and for a notebook of which
    only the JSON can be attached."""
    if read.uncounted or not path.lower().endswith(".ipynb"):
        return None
    from nexus_cli.tools.documents import read_notebook  # noqa: PLC0415  (few attach a notebook)
    from nexus_cli.tools.files import ToolError  # noqa: PLC0415  (as above)

    first, limit = _first_and_limit(cells, "cell", label)
    try:
        part = read_notebook(read.text, first, limit, 0)
    except ToolError as error:
        raise UsageError(label, f"it {error}", "Choose other cells") from error
    return _document_part(part, name, read.notice) if part else None


def _first_and_limit(chosen: tuple[int, int] | None, unit: str, label: str) -> tuple[int, int | None]:
    """Return the first page or cell, and how many, None for all."""
    if chosen is None:
        return 1, None
    first, last = chosen
    if not 1 <= first <= last:
        raise UsageError(label, f"{first}-{last} is not a valid {unit} range", "Use FIRST-LAST, counting from 1")
    return first, last - first + 1


def _document_part(part: DocumentPart, name: str, notice: str = "") -> ReadFile:
    notice = "; ".join(filter(None, (notice, part.stopped and f"{name}: {part.stopped}")))
    attributes = f' {part.unit}="{part.first}-{part.last}" of="{part.total}"'
    record = AttachedFile(name, TEXT, len(part.text.encode(errors="replace")), 1, _count_lines(part.text))
    return ReadFile(record, _block(name, part.text, attributes), None, notice)


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def _block(name: str, text: str, chosen: str = "") -> str:
    """Return the content of a file in the form that a message has."""
    return f'<file path="{_safe(name)}"{chosen}>\n{text.removesuffix(chr(10))}\n</file>'


def _hint(name: str, error: OSError | ValueError, folder: str) -> str:
    """Return the hint for a missing file: the nearest name if there is one."""
    near = ""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        with contextlib.suppress(OSError):
            near = nearest_path(folder, name)
    return f"Did you mean {near}?" if near else "Check the path"


def _image(descriptor: int, kind: str, name: str, label: str) -> Part:
    with open(descriptor, "rb", closefd=False) as file:
        data = file.read(MAX_BYTES)
    if why := describe_bad_image(data, os.fstat(descriptor).st_size):
        raise UsageError(label, why, "Attach another file, or a smaller copy")
    return Part(kind, data, name)


@dataclass(slots=True)
class _Gathering:
    folder: Path
    mentions: Mentions = field(default_factory=Mentions)
    keys: set[tuple[int, int, tuple[int, int] | None]] = field(default_factory=set)

    def mention(self, written: str, *, exact: bool) -> None:
        """Add the file or folder `written`; if it does not exist and can only be meant as a file, it is missing."""
        name = written if exact else written.rstrip(_BEHIND)
        while written.strip("/"):  # `//` begins a comment, and nobody asks for the names in `/`
            path, lines = find_attached(written, str(self.folder), _resolve_mention)
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                shorter = written[:-1] if not exact and written[-1] in _BEHIND else ""
                written = shorter if any(char.isalnum() for char in shorter) else ""
                continue
            if (is_folder := stat.S_ISDIR(status.st_mode)) and lines is not None:
                return  # `@host:8080`
            if (key := (status.st_dev, status.st_ino, lines)) not in self.keys:
                self.keys.add(key)
                self._add(written, path, lists=is_folder)
            return
        chosen = _RANGE.fullmatch(name)
        name = chosen["path"] if chosen else name
        if _RESOURCE.match(name):
            return
        if looks_like_file(name):
            near = nearest_path(str(self.folder), name)
            label = f"{name} (did you mean {near}?)" if near else name
            if label not in self.mentions.missing:
                self.mentions.missing.append(label)

    def _add(self, written: str, path: str, *, lists: bool) -> None:
        try:
            if lists:
                self.mentions.add(_listing(written, path))
            elif os.path.isfile(path) or os.path.isdir(path):
                self.mentions.add(read_attachment(written, f"@{written}", str(self.folder)))
        except NexusError as error:
            self.mentions.notices.append(f"{error.message}; not attached")
        except OSError as error:
            self.mentions.notices.append(f"@{written}: {error.strerror}; not attached")


def read_mentions(text: str, folder: Path) -> Mentions:
    """Read every file or folder that `text` mentions as `@path` or `@"path with spaces"`; each once.

    Paths are relative to `folder`, `~` is expanded. Other words with an `@` (addresses, decorators) and devices stay
    text. Reads at most 64 MiB of each file; blocking.
    """
    gathering = _Gathering(folder)
    for number, match in enumerate(_MENTION.finditer(text)):
        if number >= _MAX:
            gathering.mentions.notices.append(f"nexus only checks the first {_MAX:,} @ mentions")
            break
        if match["quoted"] is not None:
            gathering.mention(re.sub(r"\\(.)", r"\1", match["quoted"]), exact=True)
        else:
            gathering.mention(match["plain"], exact=False)
    return gathering.mentions


def list_mentioned_files(text: str) -> list[str]:
    """Return the names, as `text` writes them, of the files of the working folder that it mentions. Reads none."""
    matches = _MENTION.finditer(text)
    names = dict.fromkeys(match["quoted"] or match["plain"].rstrip(_BEHIND) for match in matches)
    return [name for name in names if os.path.isfile(find_attached(name, os.getcwd(), _resolve_mention)[0])]


def _listing(written: str, path: str) -> ReadFile:
    """Return the names in a folder as a block."""
    with os.scandir(path) as entries:
        names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in entries)
    lines = [name.encode("utf-8", "replace").decode().replace("\n", "\u2424") for name in names[:NAMES]]
    if len(names) > NAMES:
        lines.append(f"... and {len(names) - NAMES:,} more")
    listed = f'<folder path="{_safe(written)}">\n' + "\n".join(lines) + "\n</folder>"
    return ReadFile(AttachedFile(written, FOLDER, len(listed.encode()), 1, len(names)), listed)


def _safe(name: str) -> str:
    return name.replace("&", "&amp;").replace('"', "&quot;").replace("\n", "&#10;")
