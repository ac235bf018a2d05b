"""Find and read the files of git's settings without git, in every form that git accepts.

No setting that git would read is missed, whatever bytes a file has. `sandbox/git_files` decides what is plain.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nexus_cli.core.real_files import read_beginning
from nexus_cli.core.shared_types import Environ

_MAX = 1 << 20
"""Most bytes of a file that are read."""
_MAX_OF_END = 500
"""Most bytes of the beginning, and of the end, of a section in the names of its settings, each of which repeats it."""
_SECTION = rb'\[(?!\])([a-z0-9.-]*)(?:[ \t\r]+"((?:\\[^\n]|[^"\\\n])*+)")?\]'
_VALUE = rb'((?:\\(?:\r?\n|.)|"(?:\\(?:\r?\n|.)|[^"\\\n])*+"?|[^"\\\n#;])*+)'
_TOKEN = re.compile(
    rb"%b|([a-z][a-z0-9-]*+)[ \t]*+(?:=%b)?([^\n]*)|[^ \t\r\n][^\n]*" % (_SECTION, _VALUE), re.IGNORECASE | re.DOTALL
)
"""A section with its subsection, or a key with its value and the rest of the line, or another line."""
_PART = rb'\\(?:\r?\n|[ntb\\"])'
_VALID = re.compile(rb'(?:%b|"(?:%b|[^"\\])*+"|[^"\\])*+' % (_PART, _PART))
"""A value whose quotes are closed and whose escapes git knows."""
_PIECE = re.compile(rb'\\(\r?\n|.)|(")|([ \t\r]+)|[^\\" \t\r]+', re.DOTALL)
_ESCAPES = {b"\n": b"", b"\r\n": b"", b"n": b"\n", b"t": b"\t", b"b": b"\b"}


def read_configuration(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the name, in lower case and with its subsection (`remote.origin.url`), and the value of each setting; two
    empty texts for a line that git refuses. A long section is without its middle."""
    section = b""
    for token in _TOKEN.finditer(data.removeprefix(b"\xef\xbb\xbf")):
        name, inner, key, written, trailing = token.groups()
        if name is not None:
            section, end, _ = (name if inner is None else b"%b.%b" % (name, inner)).partition(b"\0")
            if len(section) > 2 * _MAX_OF_END:
                section = section[:_MAX_OF_END] + section[-_MAX_OF_END:]
            section += end
        elif key is not None:
            full = (b"%b.%b" % (section, key)).partition(b"\0")[0]  # a NUL in a subsection ends the name for git
            yield os.fsdecode(full).lower(), os.fsdecode(_read_value(written or b""))
            if trailing.strip(b"\r") if written is None else not _VALID.fullmatch(written):
                yield "", ""
        elif token[0][:1] not in b"#;":
            yield "", ""


def _read_value(written: bytes) -> bytes:
    """Return a value without its quotes, its outer blanks, and what follows a NUL, which ends it for git."""
    value, blanks, is_quoted = bytearray(), b"", False
    for piece in _PIECE.finditer(written):
        escaped, quote, blank = piece.groups()
        if blank and not is_quoted:
            blanks += blank if value else b""
            continue
        value += blanks
        blanks = b""
        if quote:
            is_quoted = not is_quoted
        else:
            value += piece[0] if escaped is None else _ESCAPES.get(escaped, escaped)
    return bytes(value).partition(b"\0")[0]


def personal_folder(environ: Environ) -> Path:
    """Return the folder with the person's `config`, `ignore` and `attributes`; a relative path names none."""
    return Path(environ.get("XDG_CONFIG_HOME", "") or os.path.join(environ.get("HOME", ""), ".config"), "git")


def personal_files(environ: Environ) -> list[Path]:
    """Return the settings files of the person with this `environ`, existing or not, in git's order."""
    usual = [personal_folder(environ) / "config", Path(environ.get("HOME", ""), ".gitconfig")]
    moved = environ.get("GIT_CONFIG_GLOBAL")
    return [path for path in (usual if moved is None else [Path(moved)]) if path.is_absolute()]


def read_personal_settings(environ: Environ, *earlier: Path) -> Iterator[tuple[str, str]]:
    """Yield the settings of the files `earlier` and of those of the person, as `read_configuration` does; what they
    include is not read."""
    for path in (*earlier, *personal_files(environ)):
        yield from read_file_settings(path)


def read_file_settings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the settings of a file as `read_configuration` does, none if it cannot be read."""
    with suppress(OSError):
        yield from read_configuration(read_beginning(path, _MAX))
