"""Copy a text to the clipboard, by a desktop program or else by the terminal; save an image from the clipboard.

Owns the ways and their order. The caller chooses the text and reports the outcome.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from nexus_cli.config.private_file import replace_private_file
from nexus_cli.config.programs import end_group, find_program, program_environment, start_program_async
from nexus_cli.core.attachment import image_type
from nexus_cli.core.errors import UsageError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ui.input.piped import MAX_INPUT

SECONDS = 2.0
"""Time limit of one program."""
LARGEST = 100_000
"""Most bytes sent to a terminal: many accept no more by OSC 52."""

_PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-in")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
)
_IMAGE_PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
)
_IMAGE_OF_MAC = ("osascript", "-e", "get the clipboard as \u00abclass PNGf\u00bb")
_APPLESCRIPT = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb")
_HINT = "Install wl-copy, xclip or xsel, or use a terminal that supports OSC 52"


async def copy_to_clipboard(text: str, write: TakeText) -> str:
    """Copy `text` to the clipboard and describe the way: a program, tmux, or the terminal (OSC 52) through `write`.

    `write` sends its text to the terminal unchanged. A terminal's support for OSC 52 cannot be detected. Raises
    `UsageError` if there is nothing to copy or no way works.
    """
    if not text:
        raise UsageError("nothing to copy", "the code block is empty")
    data = replace_surrogates(text).encode()
    for command in _find_commands(_PROGRAMS, ("pbcopy",)):
        if await _ran(command, data):
            return f"copied with {os.path.basename(command[0])}"
    tmux = find_program("tmux") if os.environ.get("TMUX") else None
    # -w forwards the text to the terminal around tmux; older versions do not have it.
    if tmux and await _ran([tmux, "load-buffer", "-w", "-"], data):
        return "copied to the tmux buffer, and to the terminal's clipboard if tmux can set it"
    if os.environ.get("TERM", "") in ("", "dumb"):
        why = "no clipboard program worked, and the terminal (TERM unset or dumb) has no clipboard"
        raise UsageError("the clipboard", why, _HINT)
    if len(data) > LARGEST:
        why = f"{len(data):,} bytes exceed the terminal limit ({LARGEST:,}), and no clipboard program worked"
        raise UsageError("the clipboard", why, "Install wl-copy, xclip or xsel")
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if os.environ.get("TMUX"):
        sequence = "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    write(sequence)
    return "sent to the terminal's clipboard (OSC 52), if the terminal supports that"


async def save_clipboard_image(folder: Path) -> str:
    """Save the image on the clipboard in `folder` and return its path; "" if there is none."""
    for command in _find_commands(_IMAGE_PROGRAMS, _IMAGE_OF_MAC):
        _, data = await _run(command, b"", PIPE)
        if match := _APPLESCRIPT.search(data):
            data = bytes.fromhex(match[1].decode())
        kind = image_type(data[:16])
        if kind and len(data) <= MAX_INPUT:
            path = folder / f"{sha256(data).hexdigest()[:12]}.{kind.rpartition('/')[2]}"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private_file(path, data)
            return str(path)
    return ""


def _find_commands(programs: Sequence[tuple[str, tuple[str, ...]]], of_mac: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the command lines of the programs that are there and have a display."""
    is_mac = sys.platform == "darwin" and not os.environ.get("SSH_CONNECTION")
    usable = [line for variable, line in programs if os.environ.get(variable)]
    for name, *arguments in (*usable, *([of_mac] if is_mac else [])):
        if program := find_program(name):
            yield [program, *arguments]


async def _ran(command: list[str], data: bytes) -> bool:
    """True if the program accepted the text in time."""
    return (await _run(command, data, DEVNULL))[0] == 0


async def _run(command: list[str], data: bytes, output: int) -> tuple[int, bytes]:
    """Return exit status and output of a program; one that is too slow is killed with all its children.

    Without `output`, a program that stays in the background to serve the text is not waited for.
    """
    try:
        env = program_environment(os.environ)
        process = await start_program_async(
            command, env=env, stdin=PIPE, stdout=output, stderr=DEVNULL, start_new_session=True
        )
    except (OSError, ValueError):
        return -1, b""
    stdout = b""
    try:
        stdout = (await asyncio.wait_for(process.communicate(data), SECONDS))[0] or b""
    except TimeoutError:
        return -1, b""
    finally:
        if process.returncode is None:
            end_group(process.pid)
            await process.wait()
    return process.returncode or 0, stdout
