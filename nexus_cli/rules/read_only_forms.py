"""Commands that only read in a few exact forms, beside the table of `read_only_table`.

An allow rule for one of them covers it whole, as before: these forms only say what runs unasked.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from nexus_cli.config.programs import find_program
from nexus_cli.rules.command_line import Word
from nexus_cli.rules.folders import Folders, NotReadOnly, check_path
from nexus_cli.rules.read_only_table import ENVIRONMENT, READ_ONLY, ReadOnlyCommand

AWKS = frozenset({"awk", "gawk", "mawk"})
AWK = ReadOnlyCommand("text paths", valued="Fv", is_safe_with_globs=True)
_VERSIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("python", "python3", "pip", "pip3", "rustc", "cargo", "uv"), ("-V",)),
    **dict.fromkeys(("ruby", "gcc", "g++", "clang", "cc", "make", "cmake", "ninja", "docker", "perl", "php"), ()),
    **dict.fromkeys(("tar", "awk", "gawk", "curl", "bash", "sh"), ()),
    "node": ("-v",),
    "npm": ("-v",),
    "go": ("version",),
}
"""Programs that say their version, with words for it besides `--version`."""
_PIP = re.compile(r"(?:list|show [A-Za-z0-9][\w.-]*|--version)", re.ASCII)
_TAR = re.compile(r"-?(?=[a-z]*t)[tvzjJ]*f")
_KEY = re.compile(r"[A-Za-z0-9.-]+")


def find_form(name: str, words: tuple[Word, ...], folders: Folders) -> bool:
    """Return True if `words` of program `name` only read; raise `NotReadOnly` for paths or programs elsewhere."""
    if not all(word.is_plain for word in words):
        return False
    texts = [word.text for word in words]
    if name == "tar" and len(texts) == 2 and _TAR.fullmatch(texts[0]):
        check_path(words[1], folders)
        return ":" not in texts[1] and not texts[1].startswith("-")
    has_help = name in READ_ONLY and name.isalnum() and texts in (["--version"], ["--help"])
    says_version = len(texts) == 1 and name in _VERSIONS and texts[0] in ("--version", *_VERSIONS[name])
    if says_version or has_help or (name in ("pip", "pip3") and _PIP.fullmatch(" ".join(texts))):
        _check_program(name, folders)
        return True
    return False


def reads_config(words: tuple[Word, ...]) -> bool:
    """Return True for a listing of git's configuration, and for a key that nexus does not set itself."""
    texts = [word.text for word in words]
    own = {value.lower() for name, value in ENVIRONMENT.items() if name.startswith("GIT_CONFIG_KEY")}
    is_get = len(texts) == 2 and texts[0] == "--get" and _KEY.fullmatch(texts[1]) and texts[1].lower() not in own
    return all(word.is_plain for word in words) and (bool(is_get) or texts in (["-l"], ["--list"]))


def _check_program(name: str, folders: Folders) -> None:
    """Raise `NotReadOnly` where the PATH leads to a program of the project: in the walls another one would be found."""
    found = shutil.which(name)
    if found is not None and found != find_program(name, Path(folders.project)):
        raise NotReadOnly(f"{name} is a program of the project")
