"""`nexus config edit`: edit the whole config.toml in an editor. The other verbs are in `commands/config.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nexus_cli.commands.verb import Act, Authority, Source, Verb, report_act
from nexus_cli.config.load_settings import read_settings_text
from nexus_cli.config.paths import Places, places
from nexus_cli.config.settings_file import (
    lock_settings,
    replace_settings,
    replace_settings_text,
    require_unchanged,
)
from nexus_cli.config.settings_text import settings_template
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.real_files import real_path


def edit(source: Source) -> Act:
    """Edit the personal config.toml with $VISUAL or $EDITOR. An invalid file is not saved."""
    has_editor = any(os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))
    if not has_editor and not (os.isatty(0) and os.isatty(1)):
        why = "there is no terminal, and neither VISUAL nor EDITOR is set"
        raise UsageError("config edit", why, "`nexus config set KEY VALUE` changes a setting")
    changed = edit_settings(places(), partial(_ask_to_edit_again, source))
    path = str(places().settings)
    return report_act(f"{path} was written.", path) if changed else report_act("nothing was changed.")


def _ask_to_edit_again(source: Source, error: NexusError) -> bool:
    """Ask the person whether to edit the text again; False without a terminal."""
    if source.confirm is None:
        return False
    from nexus_cli.cli.confirm import confirm  # noqa: PLC0415  (loads asyncio, where the text cannot be read)

    source.say(error.line.removeprefix("nexus: "))
    return confirm("Edit the file again? (no: keep the previous version)", "y")


def edit_settings(places: Places, again: Callable[[NexusError], bool]) -> bool:
    """Open the whole file, or a template if there is none, in an editor; return False if nothing changed.

    `again` gets the error of an invalid text. If it returns True, the editor opens again. Otherwise the error is
    raised, the file stays unchanged, and the text is saved beside it. The text is also saved there if another process
    has changed the file meanwhile. Raises `NexusError` if the editor fails.
    """
    import asyncio  # noqa: PLC0415  (for this verb alone)

    from nexus_cli.ui.input.editor import edit_text  # noqa: PLC0415  (as above)

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


VERBS = (Verb(edit, "edit", Authority.PERMITS, "nothing"),)
