"""Read the texts for the model from `defaults/prompts/*.md` and fill their blanks."""

from __future__ import annotations

import re

from nexus_cli.config.paths import defaults_dir
from nexus_cli.config.text_file import read_text
from nexus_cli.core.errors import NexusError

BLANK = re.compile(r"\{([a-z_]+)\}")


def load_prompt(name: str, **values: object) -> str:
    """Return the text `defaults/prompts/NAME.md`, stripped, each `{key}` replaced by the value of that name.

    Filled in one pass: braces in a value, and braces without a value of that name, stay unchanged. Raises
    `NexusError("internal", ...)` if the installation lacks the file.
    """
    path = defaults_dir() / "prompts" / f"{name}.md"
    file_text = read_text(path)
    if file_text is None:
        raise NexusError("internal", str(path), "this package file is missing", "Reinstall nexus")
    return fill_blanks(file_text.text, **values).strip()


def fill_blanks(text: str, **values: object) -> str:
    """Return `text` with each `{key}` replaced by `values[key]`, if it exists."""
    return BLANK.sub(lambda blank: str(values[blank[1]]) if blank[1] in values else blank[0], text)
