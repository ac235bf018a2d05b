"""Edit the whole personal config.toml in an editor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from nexus_cli.config.paths import Places
from nexus_cli.config.settings_file import (
    lock_settings,
    read_settings_text,
    replace_settings,
    replace_settings_text,
    require_unchanged,
)
from nexus_cli.config.settings_text import settings_template
from nexus_cli.core.errors import NexusError
from nexus_cli.core.real_files import real_path
from nexus_cli.ui.input.editor import edit_text


def edit_settings(places: Places, again: Callable[[NexusError], bool]) -> bool:
    """Open the whole file, or a template if there is none, in an editor; return False if nothing changed.

    `again` gets the error of an invalid text. If it returns True, the editor opens again. Otherwise the error is
    raised, the file stays unchanged, and the text is saved beside it. The text is also saved there if another process
    has changed the file meanwhile. Raises `NexusError` if the editor fails.
    """
    path = real_path(places.settings)
    before = read_settings_text(path)
    text = first = before if path.exists() else settings_template()
    while True:
        edited = asyncio.run(edit_text(text, path.name)).rstrip() + "\n"
        if edited.strip() == first.strip():
            return False
        try:
            with lock_settings(path):
                require_unchanged(path, before)
                replace_settings(path, edited, before)
            return True
        except NexusError as error:
            if error.kind == "usage" or not again(error):
                raise NexusError(error.kind, error.what, error.why, _save_rejected(path, edited)) from None
        text = edited


def _save_rejected(path: Path, text: str) -> str:
    """Save the rejected text beside the file; return a hint with its path."""
    beside = path.with_name(f"{path.name}.rejected")
    try:
        replace_settings_text(beside, text)
    except OSError as error:
        return f"The file is unchanged; your text could not be saved ({error.strerror})"
    return f"The file is unchanged; your text was saved in {beside}"
