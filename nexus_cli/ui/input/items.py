"""The items of `nexus map`: the list from stdin, and the message of one item."""

from __future__ import annotations

import os
import stat

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import UsageError
from nexus_cli.ui.input.piped import MAX_INPUT, Reader, decode

PLACE = "{}"
"""Stands for the item in a prompt."""


def read_items(descriptor: int, *, nul: bool) -> tuple[list[str], str]:
    """Read one item per line, or per NUL with `nul`; return them without empty ones, and a notice about the encoding.

    Raises `UsageError` for a list that cannot be read, that is binary or above 64 MiB.
    """
    data = Reader(descriptor, "stdin").read_raw(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise UsageError("stdin", f"the list is larger than {MAX_INPUT >> 20} MiB", "Split it")
    if nul:
        return [decode(item, "an item")[0] for item in data.split(b"\0") if item.strip()], ""
    text, notice = decode(data, "stdin") if data else ("", "")
    return [line.removesuffix("\r") for line in text.split("\n") if line.strip()], notice


def _is_named_pipe(path: str) -> bool:
    """Return True for a pipe in a folder, for which a writer may never come; a shell's own `<(COMMAND)` has none."""
    real = os.path.realpath(path)
    return os.path.exists(real) and stat.S_ISFIFO(os.stat(real).st_mode)


def read_item(prompt: str, item: str, *, is_file: bool) -> tuple[Trigger, str]:
    """Return the message of one item, with the content of a file, and a notice about the reading. Blocks.

    `{}` in the prompt becomes the item; without it, a line follows the prompt. Raises `UsageError` for a
    file that cannot be read.
    """
    text = prompt.replace(PLACE, item)
    if not is_file:
        return Trigger(text if PLACE in prompt else f"{prompt}\n\n{item}", "stdin"), ""
    from nexus_cli.ui.input.attached_files import read_attachment  # noqa: PLC0415  (loads the tools)

    if _is_named_pipe(item):
        raise UsageError(item, "named pipes are not supported", "Use regular files")
    read = read_attachment(item, item)
    text = f"{text}\n\n{read.block}" if read.block else text
    return Trigger(text, "person", (read.part,) if read.part else (), (read.record,), read.uncounted), read.notice
