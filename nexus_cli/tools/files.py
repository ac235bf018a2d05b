"""Read files for tools: paths, bytes up to the hard limit, text or binary, and line ends.

`permission` decides on the paths; `nexus_cli.core.decode` guesses encodings.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import os
import stat
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.decode import HEAD, MARKS, DecodedText, decode
from nexus_cli.core.errors import reason_of
from nexus_cli.core.real_files import is_there, open_at, open_folder, real_path, stat_real
from nexus_cli.core.tool import ToolContext

HARD_LIMIT = 64 * 1024 * 1024
"""Most bytes kept of a file or an output; bytes beyond are counted (law 5)."""

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class ToolError(Exception):
    """A call cannot be executed; the text is for the model."""


def resolve_path(path: str, cwd: Path) -> Path:
    """Return the real path of `path`: `~` expanded, relative to `cwd`, links and `..` resolved.

    The file need not exist; an existing one with another spelling (`core/file_names`) is preferred. Raises `ToolError`
    for an invalid path.
    """
    if not path.strip() or "\0" in path:
        raise ToolError("a path must not be empty or contain a NUL")
    from nexus_cli.core.file_names import resolve_spelling  # noqa: PLC0415  (a call names a path)

    try:
        return real_path(resolve_spelling(str(cwd), path))
    except OSError as error:  # a link was removed or replaced meanwhile
        raise ToolError("changed while it was looked up: try again") from error


def project_relative(path: Path, project: Path) -> str:
    """Return `path` relative to the project if it is inside, else absolute; with `/`."""
    root = real_path(project)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def decided_path(path: str, context: ToolContext) -> Path:
    """Return the real path that permission decided on for `path`, else resolve it; raise as `resolve_path`."""
    decided = context.targets.get(path)
    return decided or resolve_path(path, context.cwd)


def describe_problem(path: str, error: OSError | ValueError | ToolError, context: ToolContext) -> str:
    """Return a line for the model about an unusable path, with the nearest name if it does not exist."""
    why = reason_of(error)
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    return f"{path}: {why}{_suggest_path(path, context) if missing else ''}"


def _suggest_path(path: str, context: ToolContext) -> str:
    """Return `. Did you mean src/app.py?` if there is a similar existing path, else ""."""
    folder = os.path.realpath(context.cwd)
    from nexus_cli.core.file_names import nearest_path  # noqa: PLC0415  (a path is wrong)

    near = nearest_path(folder, str(decided_path(path, context)))
    fits = near and near.isprintable() and is_there(os.path.join(folder, near))
    return f". Did you mean {near}?" if fits else ""


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file."""

    data: bytes
    beyond: int = 0
    """Bytes after the hard limit that were not read."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 in hex of `data`, which is the whole file only if `beyond` is 0."""
        return sha256_hex(self.data)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 in hex, as `SeenFileStore` stores it."""
    return hashlib.sha256(data).hexdigest()


def read_regular_file(path: Path) -> FileContent:
    """Read at most `HARD_LIMIT` bytes of a regular file, following links.

    Raises `ToolError` for a FIFO, socket or device (which are not opened, so that nothing blocks), `IsADirectoryError`
    for a folder, and `OSError`.
    """
    check_regular(os.stat(path).st_mode)
    return _read_descriptor(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), HARD_LIMIT)


def read_real_file(path: Path, limit: int = HARD_LIMIT) -> FileContent:
    """Read the file at a real path as `read_regular_file` does, but raise `OSError` for a link on the way."""
    with open_folder(path.parent) as folder:
        return read_file_at(folder, path.name, limit)


def read_file_at(folder: int, name: str, limit: int = HARD_LIMIT) -> FileContent:
    """Read `name` in the folder with this descriptor, as `read_real_file` does."""
    check_regular(stat_real(folder, name).st_mode)
    return _read_descriptor(open_at(folder, name), limit)


def _read_descriptor(descriptor: int, limit: int) -> FileContent:
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        check_regular(status.st_mode)
        parts: list[bytes] = []
        remaining = limit
        while remaining > 0 and (part := _read_ready(file, min(remaining, 1 << 20))):
            parts.append(part)
            remaining -= len(part)
        excess = 0
        if remaining == 0:
            excess = max(status.st_size - limit, len(_read_ready(file, 1)))
    return FileContent(b"".join(parts), excess)


def _read_ready(file: io.FileIO, most: int) -> bytes:
    """Read bytes that are there now; raise `ToolError` for a file that would wait for more, as some of `/proc` do."""
    part = file.read(most)
    if part is None:
        raise ToolError("has no more content now; reading more would block")
    return part


def encode_text(form: DecodedText | None, text: str) -> bytes:
    """Encode `text` like `form` (None: UTF-8); raise `ToolError` if that lacks a character, or above the limit."""
    try:
        data = text.encode("utf-8") if form is None else form.encode(text)
    except UnicodeEncodeError as error:
        raise ToolError(f"is {form.encoding if form else 'utf-8'}, which has no {text[error.start]!r}") from None
    if len(data) > HARD_LIMIT:
        raise ToolError("would be over 64 MiB")
    return data


def check_regular(mode: int) -> None:
    """Raise `ToolError` for the mode of a FIFO, socket or device, `IsADirectoryError` for that of a folder."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "is a folder")
    for test, name in _KINDS:
        if test(mode):
            raise ToolError(f"is {name}, not a regular file")


_SAMPLE = 64 * 1024
"""First bytes of a stream that decide whether it is binary."""
_MIN = 16
"""Least bytes for the detection of UTF-16 without a byte order mark."""
_CONTROLS = bytes(set(range(1, 32)) - set(b"\t\n\v\f\r\b\a\x1a\x1b\x1c\x1d\x1e\x1f"))
"""Control characters that are rare in text. Separators (0x1c to 0x1f) are not: data in text form uses them."""
NUL = "\u2400"
"""Replacement for a NUL in a text that is shown or sent."""


def decode_file(data: bytes) -> DecodedText | None:
    """Decode a file; the text encodes back to exactly these bytes. Return None if it is binary.

    Binary are a NUL near the beginning without a byte order mark, invalid text after such a mark, and text of which
    more than a tenth are stray bytes that outnumber its valid UTF-8 characters.
    """
    read = decode(data)
    if read is None or read.errors == "replace" or (not read.bom and b"\0" in data[:HEAD]):
        return None
    return None if _is_noise(read) else read


def decode_stream(data: bytes, *, cut: bool) -> DecodedText | None:
    """Decode piped input; return None if it is binary. `cut`: the last character may be incomplete.

    Unlike in a file, some NULs are allowed (`find -print0`), and UTF-16 needs no byte order mark (Windows programs).
    """
    return _utf_16(data) or decode(data, cut=cut)


def decode_output(data: bytes, *, cut: bool = False) -> DecodedText | None:
    """Decode the output of a command as `decode_stream` does; many stray bytes or control characters are binary
    too."""
    read = decode_stream(data, cut=cut)
    if read is None or _is_noise(read):
        return None
    head = data[:_SAMPLE]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    narrow = not read.encoding.startswith("utf-16")
    return None if narrow and (head.count(0) * 3 > len(head) or controls * 20 > len(head)) else read


def output_as_text(data: bytes) -> str:
    """Return the output of a command as text, "" if it is binary."""
    decoded = decode_output(data)
    return decoded.plain if decoded else ""


def _utf_16(data: bytes) -> DecodedText | None:
    """Decode UTF-16 without a byte order mark: at least 90 % of every second byte are NUL, none of the others."""
    head = data[:_SAMPLE]
    if len(data) < _MIN or len(data) % 2 or data.startswith(tuple(bom for bom, _ in MARKS)):
        return None
    for encoding, offset in (("utf-16-le", 1), ("utf-16-be", 0)):
        if not head[1 - offset :: 2].count(0) and head[offset::2].count(0) * 10 >= len(head[offset::2]) * 9:
            with contextlib.suppress(UnicodeDecodeError):
                return DecodedText(data.decode(encoding), encoding)
    return None


def _is_noise(read: DecodedText) -> bool:
    """Return True if more than a tenth are stray bytes, and more than the UTF-8 characters outside of ASCII."""
    beyond_ascii = len(read.text) - len(read.text.encode("ascii", "ignore"))
    return read.invalid_bytes * 10 > len(read.text) and read.invalid_bytes * 2 > beyond_ascii


_COMPARED = 4_000_000
"""Most lines before times lines after of a text with mixed line ends that are compared directly."""
_NAMES = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}


def split_lines(text: str) -> list[tuple[str, str]]:
    """Split a text into lines, each with its end ("" for a last line without one).

    An end is `\\n` with all `\\r` before it. A lone `\\r` ends a line only in a text without `\\n`.
    """
    if "\r" in text and "\n" not in text:
        *ended, last = text.split("\r")
        lines = [(body, "\r") for body in ended]
    else:
        *ended, last = text.split("\n")
        bodies = [line.rstrip("\r") for line in ended]
        lines = [(body, f"{line[len(body) :]}\n") for body, line in zip(bodies, ended, strict=True)]
    return [*lines, (last, "")] if last else lines


def count_lines(text: str) -> int:
    """Count the lines; the last one may have no end."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def to_lf(text: str) -> str:
    """Replace every `\\r\\n` by `\\n`."""
    return text.replace("\r\n", "\n")


def keep_line_ends(old: str, new: str, default: str) -> str:
    """Return `new` (line ends `\\n` or `\\r\\n`) with the line ends of `old`, the text that it replaces.

    An unchanged line keeps its end, a changed one takes that of the line it replaces, an added one that of the previous
    line. `default` is used for lines without an end in `old`.
    """
    if "\n" not in new:
        return new
    olds, news = split_lines(old), split_lines(to_lf(new))
    ends = {end for _, end in olds if end} or {default}
    if len(ends) == 1:
        sources = [next(iter(ends))] * len(news)
    else:
        sources = [end or default for end in _aligned_ends(olds, news)]
    return "".join(body + (source if end else "") for (body, end), source in zip(news, sources, strict=True))


def count_common_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """Count the common lines at the beginning, and those at the end."""
    shortest = min(len(old), len(new))
    head = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _aligned_ends(olds: list[tuple[str, str]], news: list[tuple[str, str]]) -> list[str]:
    """Return for each new line the end of the old line that it equals, replaces or follows."""
    before, after = [body for body, _ in olds], [body for body, _ in news]
    head, tail = count_common_ends(before, after)
    inner_old, inner_new = before[head : len(before) - tail], after[head : len(after) - tail]
    ends = [end for _, end in olds[:head]]
    if len(inner_old) * len(inner_new) <= _COMPARED:
        codes = difflib.SequenceMatcher(None, inner_old, inner_new, False).get_opcodes()
    else:
        codes = [("replace", 0, len(inner_old), 0, len(inner_new))]
    for _, low, high, start, stop in codes:
        for index in range(stop - start):
            nearest = head + (min(low + index, high - 1) if high > low else low - 1)
            ends.append(olds[nearest][1] if nearest >= 0 else olds[0][1])
    return [*ends, *(end for _, end in olds[len(olds) - tail :])] if news else []


def near_line_end(text: str, start: int, end: int) -> str:
    """Return the line end after `text[start:end]`, else the one before it, else any."""
    if "\n" not in text:
        return "\r" if "\r" in text else "\n"
    after = text.find("\n", end)
    near = after if after >= 0 else text.rfind("\n", 0, start)
    if near < 0:
        near = text.find("\n")
    return "\r\n" if near > 0 and text[near - 1] == "\r" else "\n"


def main_line_end(text: str) -> str:
    """Return the most frequent line end, `\\n` if there is none."""
    counted = Counter(end for _, end in split_lines(text) if end)
    return counted.most_common(1)[0][0] if counted else "\n"


def describe_line_ends(text: str) -> str:
    """Describe the line ends: `CRLF`, or with counts if they are mixed: `3 CRLF, 1 LF`."""
    counted = Counter(_NAMES.get(end, "CR CRLF") for _, end in split_lines(text) if end)
    if len(counted) < 2:
        return next(iter(counted), "none")
    return ", ".join(f"{count:,} {name}" for name, count in counted.most_common())
