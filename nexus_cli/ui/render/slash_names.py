"""What is advised, for who reads it in a session: commands of the shell become those that can be typed there."""

from __future__ import annotations

import re

HERE = {
    "nexus memory accept": "/memory accept",
    "nexus memory forget": "/memory forget",
    "nexus memory list": "/memory",
    "nexus sessions list": "/sessions",
    "nexus model list": "/model",
    "nexus cache": "/cache",
    "nexus context": "/context",
    "nexus drops show": "/drops",
    "nexus drops": "/drops",
}
"""Commands that there are as both, by what they are called in a shell; a longer one before its beginning."""
_NAMES = "|".join(map(re.escape, HERE))
_SHELL = re.compile(rf"`({_NAMES})`|\b({_NAMES})(?![\w-])")


def use_slash_names(text: str) -> str:
    """`text` with the slash form of each command of the shell that a session has too."""
    return _SHELL.sub(lambda found: HERE[found[1] or found[2]], text)
