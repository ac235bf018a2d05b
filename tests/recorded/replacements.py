"""What differs between two recordings of the same session, and what stands for it in the file. The whole list.

The clock, the host, the user and the environment are fixed and need none of these.
"""

from __future__ import annotations

import platform
import re
from importlib.metadata import version

ULID = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")
PATTERNS = (
    # How long a worker took, and the whole of a one-shot.
    (re.compile(r"(?<=\[)(w\d+ · [^]\n]*?\$[\d.]+ · )\d+ s(?= ·|])"), r"\1N s"),
    (re.compile(r'(?<="seconds": )[\d.]+(?=, "usage")'), "N"),
    # A worktree: a digest of the project's path, which is another one each time, and letters drawn at random.
    (re.compile(r"(?<=/worktrees/project-)[0-9a-f]{10}/[0-9a-z]{6}(?=-w\d)"), "DIGEST/RANDOM"),
    (re.compile(r"(?<=worktree-)[0-9a-z]{6}(?=-w\d)"), "RANDOM"),
    # The fence around what is to be summarized: a digest of the text, in which the path of the project stands.
    (re.compile(r"===== [0-9a-f]{12} ====="), "===== DIGEST ====="),
    # The cache key that the turns of `nexus map` share: drawn at random.
    (re.compile(r'(?<="prompt_cache_key":")[0-9a-f]{26}(?=")'), "RANDOM"),
)
"""What a pattern finds, and what stands for it."""


class Replacements:
    """The replacements of one session: ids are numbered as they are first seen."""

    def __init__(self, root: str, port: int) -> None:
        self._fixed = {
            root: "/tmp/nexus-recorded-000000",  # each recording has a folder of its own
            f"127.0.0.1:{port}": "127.0.0.1:PORT",  # the kernel chooses it
            f"{_system()}, {platform.machine()}": "SYSTEM, MACHINE",  # of the one who records
            f"nexus {version('nexus-cli')}": "nexus VERSION",
        }
        self._ids: dict[str, str] = {}

    def of(self, text: str) -> str:
        """Return `text` with everything replaced."""
        for old, new in self._fixed.items():
            text = text.replace(old, new)
        for pattern, new in PATTERNS:
            text = pattern.sub(new, text)
        return ULID.sub(self._numbered, text)  # ids of sessions are drawn at random

    def _numbered(self, found: re.Match[str]) -> str:
        return self._ids.setdefault(found[0], f"SESSION-{len(self._ids) + 1:018}")


def _system() -> str:
    """Return the operating system as Linux names itself, such as `Linux (Debian GNU/Linux 12 (bookworm))`."""
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    return f"{platform.system()} ({name})" if name else platform.system()
