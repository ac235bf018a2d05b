"""Edit a text in the person's own editor.

Owns the temporary file and its folder, which are private and deleted afterwards. The caller suspends its use of the
terminal meanwhile.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import tempfile
from pathlib import Path

from nexus_cli.config.programs import find_named_program, find_program
from nexus_cli.core.errors import NexusError, UsageError, reason_of
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.real_files import NEW
from nexus_cli.tools.files import ToolError, read_regular_file
from nexus_cli.ui.terminal_handoff import run_on_terminal

FALLBACKS = ("vi", "nano", "pico")
"""Editors to try in this order if neither VISUAL nor EDITOR is set."""
_HINT = "To use another editor, set VISUAL or EDITOR"


async def edit_text(text: str, name: str = "message.md") -> str:
    """Open `text` in the person's editor as a file of this name; return the edited text without its final newline.

    Uses `$VISUAL`, else `$EDITOR` (both may have arguments), else the first of `FALLBACKS` that exists. Raises
    `UsageError` if there is no editor, if it fails, or if the file is missing, empty or not UTF-8
    afterwards.
    """
    editor, *arguments = find_editor()
    command = [_find(editor), *arguments]
    try:
        folder = tempfile.mkdtemp(prefix="nexus-")
    except OSError as error:
        raise UsageError("the editor", f"no temporary folder ({error.strerror})", "Check TMPDIR") from error
    try:
        path = Path(folder, name)
        _write(path, replace_surrogates(text))
        await _run([*command, str(path)])
        return _read_edited(path, command[0], text)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_editor() -> list[str]:
    """Return the editor's program and arguments; raise `UsageError` if none is set and none is found."""
    for name in ("VISUAL", "EDITOR"):
        value = os.environ.get(name, "").strip()
        if not value:
            continue
        try:
            return shlex.split(value)
        except ValueError as error:
            why = f"{name} is not a valid command: {error}"
            raise UsageError("the editor", why, "Fix the quoting") from error
    editor = next(filter(None, map(find_program, FALLBACKS)), None)
    if editor is None:
        raise UsageError("the editor", f"no editor was found ({', '.join(FALLBACKS)})", _HINT)
    return [editor]


def _find(program: str) -> str:
    try:
        return find_named_program(program)
    except OSError as error:
        raise _cannot_start(program, error) from error


def _cannot_start(program: str, error: OSError | ValueError) -> NexusError:
    return UsageError(f"the editor {program}", f"cannot be started ({reason_of(error)})", _HINT)


def _write(path: Path, text: str) -> None:
    try:
        with open(os.open(path, NEW, 0o600), "wb") as file:
            file.write(text.encode() + (b"" if text.endswith("\n") or not text else b"\n"))
    except OSError as error:
        raise UsageError("the editor", f"{path}: {error.strerror}", "Check TMPDIR") from error


async def _run(command: list[str]) -> None:
    try:
        status = await run_on_terminal(command)
    except (OSError, ValueError) as error:
        raise _cannot_start(command[0], error) from error
    if status:
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        raise UsageError(f"the editor {command[0]}", f"{how}; your text is unchanged", _HINT)


def _read_edited(path: Path, name: str, before: str) -> str:
    subject = f"the editor {name}"
    try:
        content = read_regular_file(path)
    except FileNotFoundError as error:
        raise UsageError(
            subject, "the file was removed; your text is unchanged", "Save the file at the same path"
        ) from error
    except (OSError, ToolError) as error:
        why = reason_of(error)
        raise UsageError(subject, f"the file cannot be read ({why}); your text is unchanged") from error
    if content.beyond:
        raise UsageError(subject, "the file has more than 64 MiB; your text is unchanged", "Attach it as a file")
    try:
        text = content.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(subject, "the file is not UTF-8; your text is unchanged", "Save it as UTF-8") from error
    text = text.replace("\r\n", "\n").removesuffix("\n")
    if not text.strip() and before.strip():
        raise UsageError(subject, "the file is empty; your text is unchanged")
    return text
