"""Print a report on stdout as JSON or as text, which is sanitized even in a pipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from nexus_cli.core.elide import plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import json_text
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import QuietStream, Stream, write_stderr_line

ENDLESS = 2**30
"""A width at which nothing is cut or wrapped."""


def print_diff(value: JsonObject) -> None:
    """Print a diff: drawn in a terminal with colours, in a pipe as it stands; on stderr the files that it lacks."""
    stream, text = Stream(1), value["text"]
    if stream.colour:
        from nexus_cli.ui.render.theme import choose_theme  # noqa: PLC0415  (in a terminal only)
        from nexus_cli.ui.render.unified_diff import diff_lines  # noqa: PLC0415

        theme = choose_theme("auto", stream.colour)
        text = "".join(f"{line}\n" for line in diff_lines(text, stream.width, theme, names=True))
        stream.write(text)
    elif stream.terminal:
        stream.write(sanitize(text))
    else:
        stream.write_bytes(text.encode("utf-8", "surrogateescape"))
    if unread := value["unread"]:
        why = "too large, binary, unreadable, or no copy kept"
        write_stderr_line(f"nexus: {plural(len(unread), 'file')} not shown ({why}): {', '.join(unread)}")


def print_text(text: str) -> None:
    """Print a report's text, sanitized, ending in one newline; nothing if it is empty."""
    if text:
        Stream(1).write(sanitize(text.rstrip("\n") + "\n"))


def print_for_consent(text: Callable[[int], str], *, is_json: bool) -> None:
    """Print what the person is asked to accept; with `is_json` on stderr, as stdout gets only the object."""
    stream = QuietStream(2) if is_json else Stream(1)
    stream.write(sanitize(text(stream.width).rstrip("\n") + "\n"))


def print_original(pieces: Iterable[str]) -> None:
    """Print pieces of a text unchanged for a script; sanitize them in a terminal, where they end in a newline."""
    stream, piece = Stream(1), "\n"
    for piece in pieces:
        stream.write(sanitize(piece) if stream.terminal else piece)
    if stream.terminal and not piece.endswith("\n"):
        stream.write("\n")


def print_json(value: JsonObject) -> None:
    """Print `value` as indented JSON; in a terminal, escape all non-ASCII characters."""
    stream = Stream(1)
    stream.write(json_text(value, escaped=stream.terminal, indent=2) + "\n")


def text_width(*, uncut: bool) -> int:
    """Return the width for text forms. With `uncut`, lines in a pipe are not cut, unless `COLUMNS` sets a width."""
    stream = Stream(1)
    return ENDLESS if uncut and not stream.terminal and not os.environ.get("COLUMNS") else stream.width
