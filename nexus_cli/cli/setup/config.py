"""`nexus config edit`: the whole config.toml in an editor; its other verbs are those of the noun."""

from __future__ import annotations

import os

import typer

from nexus_cli.cli.confirm import can_confirm, confirm
from nexus_cli.cli.shell_command import add_verbs
from nexus_cli.config.paths import defaults_dir, places
from nexus_cli.core.errors import NexusError
from nexus_cli.ui.print.stream import write_stderr_line

app = add_verbs(typer.Typer(add_completion=False, rich_markup_mode=None), "config")


@app.command("edit")
def edit() -> int:
    """Edit the personal config.toml with $VISUAL or $EDITOR. An invalid file is not saved."""
    named = any(os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))
    if not named and not (os.isatty(0) and os.isatty(1)):
        why = "there is no terminal, and neither VISUAL nor EDITOR names an editor"
        raise NexusError("usage", "config edit", why, "nexus config set KEY VALUE changes one setting")
    from nexus_cli.cli.setup.edit_config import edit_settings  # noqa: PLC0415  (only for writing)

    changed = edit_settings(places(), defaults_dir(), os.environ, _again)
    write_stderr_line(f"nexus: {places().settings} was written." if changed else "nexus: nothing was changed.")
    return 0


def _again(error: NexusError) -> bool:
    """Ask the person whether to edit the text again; False without a terminal."""
    if not can_confirm():
        return False
    write_stderr_line(error.line)
    return confirm("Edit the file again? (no: keep the previous version)", "y")
