"""What differs between two recordings of the same session, and what stands for it in the file. The whole list.

The clock, the host, the user and the environment are fixed and need none of these.
"""

from __future__ import annotations

import platform
import re
from importlib.metadata import version

Patterns = tuple[tuple[re.Pattern[str], str], ...]
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

REPORTS = (
    # The commit of the source, where the program runs from one.
    (re.compile(r"(?<=nexus VERSION) \(commit [^)\n]*\)"), ""),
    # A folder of each recording, of which a line may show a part.
    (re.compile(r"(?<=-recorded-)\d{6}\b"), "000000"),
    # How long something took.
    (re.compile(r'(?<="seconds": )-?\d[\d.]*'), "N"),
    (re.compile(r"(?<=· )\d+(?:\.\d+)? s(?=[] ]|$)", re.MULTILINE), "N s"),
    (re.compile(r"(?<=\d tokens, )\d+\.\d s$", re.MULTILINE), "N s"),
    (re.compile(r"(?<=copy\.db in )\d+\.\d s(?=: )"), "N s"),
    # Texts of the ledger: two that are the same by chance are one.
    (re.compile(r"\b\d+ texts(?= \()"), "N texts"),
    (re.compile(r"(?<=/worktrees/project-)[0-9a-f]{10}(?=/)"), "DIGEST"),
    # Digests of texts in which the path of the project stands.
    (re.compile(r"\b[0-9a-f]{64}\b"), "SHA256"),
    # The middle of a long output: as many lines of numbers would hold no more.
    (re.compile(r"^( *\d[\d ]*\n)(?: *\d[\d ]*\n){8,}( *\d[\d ]*)$", re.MULTILINE), r"\1[lines of numbers]\n\2"),
)
"""The same for what commands print for people and programs."""


class Replacements:
    """The replacements of one session: ids are numbered as they are first seen."""

    def __init__(self, root: str, port: int, patterns: Patterns = PATTERNS) -> None:
        self._patterns = patterns
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
        for pattern, new in self._patterns:
            text = pattern.sub(new, text)
        return ULID.sub(self._numbered, text)  # ids of sessions are drawn at random

    def learn(self, text: str) -> None:
        """Number the ids in `text`, and replace their last six characters, by which people know them, too."""
        ULID.sub(self._numbered, text)
        ends = {re.compile(rf"\b{one[-6:]}\b"): f"ID{new[-4:]}" for one, new in self._ids.items()}
        self._patterns = (*self._patterns, *ends.items())

    def _numbered(self, found: re.Match[str]) -> str:
        return self._ids.setdefault(found[0], f"SESSION-{len(self._ids) + 1:018}")


def _system() -> str:
    """Return the operating system as Linux names itself, such as `Linux (Debian GNU/Linux 12 (bookworm))`."""
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    return f"{platform.system()} ({name})" if name else platform.system()
