"""`nexus config edit`: edit the whole config.toml in an editor. The other verbs are in `commands/config.py`."""

from __future__ import annotations

import os
from functools import partial

from nexus_cli.commands.verb import Act, Authority, Source, Verb, report_act
from nexus_cli.config.paths import places
from nexus_cli.core.errors import NexusError, UsageError


def edit(source: Source) -> Act:
    """Edit the personal config.toml with $VISUAL or $EDITOR. An invalid file is not saved."""
    has_editor = any(os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))
    if not has_editor and not (os.isatty(0) and os.isatty(1)):
        why = "there is no terminal, and neither VISUAL nor EDITOR is set"
        raise UsageError("config edit", why, "`nexus config set KEY VALUE` changes a setting")
    from nexus_cli.cli.setup.edit_config import edit_settings  # noqa: PLC0415  (only for writing)

    changed = edit_settings(places(), partial(_again, source))
    path = str(places().settings)
    return report_act(f"{path} was written.", path) if changed else report_act("nothing was changed.")


def _again(source: Source, error: NexusError) -> bool:
    """Ask the person whether to edit the text again; False without a terminal."""
    if source.confirm is None:
        return False
    from nexus_cli.cli.confirm import confirm  # noqa: PLC0415  (loads asyncio, where the text cannot be read)

    source.say(error.line.removeprefix("nexus: "))
    return confirm("Edit the file again? (no: keep the previous version)", "y")


VERBS = (Verb(edit, "edit", Authority.PERMITS, "nothing"),)
