"""Write one line to stderr; find the nearest of several names."""

from __future__ import annotations

import os
from collections.abc import Iterable

from nexus_cli.ui.terminal_sanitizer import sanitize


def write_stderr_line(line: str) -> None:
    """Write `line` to stderr as one sanitized line; a closed stderr is no error."""
    text = sanitize(" ".join(line.split())) + "\n"
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:
        pass


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the one of `names` that is most like `name`, or ""."""
    import difflib  # noqa: PLC0415  (only on the way to an error message)

    found = difflib.get_close_matches(name, list(names), 1, 0.5)
    return found[0] if found else ""
