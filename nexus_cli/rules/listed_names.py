"""Whether the output of a pipeline is names of files in the project, each of them one harmless word.

A name that begins like an option, that a shell or `xargs` takes apart, or a link that leads out of the project: then
nothing that is handed such names is free.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from nexus_cli.core.real_files import read_beginning
from nexus_cli.rules.command_line import NotFree, SimpleCommand
from nexus_cli.rules.git_repository import MOST_INDEX, NotPlain, read_entries
from nexus_cli.rules.wrappers import system_name

MOST_NAMES = 20_000
"""Files and folders of a project whose names are looked at."""
_FILTERS = {"grep": "vEFiwxe", "head": "n", "tail": "n", "sort": "rRfVu", "uniq": "", "tac": ""}
"""Programs that choose lines and change none, with their letters."""
_ODD = frozenset(" \t\n\r\v\f\"'\\*?")
_SEARCHES = re.compile(
    r"-[lriwEFPvesSu0]+|-[tTg].*|--(?:files|files-with-matches|include|exclude|exclude-dir|glob|type|hidden|no-ignore"
    r"|null|ignore-case)(?:=.*)?"
)
_LINK_MODE = 0o120000
Links = Callable[[str], bool]
"""Whether a link by that name may be listed."""


def any_link(name: str) -> bool:
    """Return True: every link may be listed."""
    return True


def no_link(name: str) -> bool:
    """Return False: regular files alone are listed."""
    return False


def find_listing(stages: Sequence[SimpleCommand], project: str) -> tuple[Links, bool] | None:
    """Return which links a pipeline may list, and True if its names are not known to be words; None if it does more
    than list files and choose some of them. Raises `NotFree` for odd names in git's index."""
    if not stages or not all(one.words and all(word.is_known for word in one.words) for one in stages):
        return None
    first, *rest = stages
    program, *texts = [system_name(first.words[0]), *(word.text for word in first.words[1:])]
    flags = [text for text in texts if text.startswith("-")]
    links: Links | None = None
    is_split = True
    if program == "find" and not {"-printf", "-ls", "-exec"} & set(texts):
        links = _links_of_find(texts)
    elif program in ("rg", "grep", "egrep", "fgrep") and all(map(_SEARCHES.fullmatch, flags)):
        is_list = any(re.match("-[a-zA-Z0]*l|--files", flag) for flag in flags)
        links = no_link if is_list else None  # they search regular files alone
    elif program == "git" and texts[:1] == ["ls-files"] and set(flags) <= {"-c", "-m", "-z", "--cached", "--modified"}:
        links, is_split = _look_at_index(project), False
    elif program in ("fd", "fdfind") or (program == "ls" and all(re.fullmatch("-[1aArtSd]+", flag) for flag in flags)):
        links = any_link
    return (links, is_split) if links is not None and all(map(_is_filter, rest)) else None


def _look_at_index(project: str) -> Links:
    """Return which links git's index may list. Raises `NotFree` if a name in it, existing or not, is an odd one."""
    git = os.path.join(project, ".git")
    if any(name.startswith("sharedindex.") for name in os.listdir(git)):
        raise NotFree("the index is split")
    try:
        entries = list(read_entries(read_beginning(os.path.join(git, "index"), MOST_INDEX)))
    except NotPlain as why:
        raise NotFree(str(why)) from None
    if any(is_odd(part) for _, name in entries for part in os.fsdecode(name).split("/")):
        raise NotFree("git tracks a name that is taken for more than a name")
    return any_link if any(mode == _LINK_MODE for mode, _ in entries) else no_link


def is_odd(name: str) -> bool:
    """Return True for a name that is taken for an option, or apart."""
    return name.startswith("-") or bool(_ODD & set(name))


def _links_of_find(texts: Sequence[str]) -> Links:
    pairs = list(pairwise(texts))
    if ("-type", "f") in pairs and not {"!", "-not", "-o", "-or", ","} & set(texts):
        return no_link
    named = [value.lower() for test, value in pairs if test in ("-name", "-iname")]
    if not named or {"!", "-not", "-o", "-or", ","} & set(texts):
        return any_link
    return lambda name: any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in named)


def _is_filter(command: SimpleCommand) -> bool:
    name, texts = system_name(command.words[0]), [word.text for word in command.words[1:]]
    if name in ("head", "tail") and "-n" in texts:
        place = texts.index("-n")
        texts = texts[:place] + texts[place + 2 :]
    flags = {sign for text in texts if text.startswith("-") for sign in text[1:].rstrip("0123456789")}
    operands = [text for text in texts if not text.startswith("-")]
    return name in _FILTERS and flags <= set(_FILTERS[name]) and len(operands) <= (name == "grep")


def look_at_names(start: str, project: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether a file in the folder `start` has an odd name, and the names of the links that lead out of the
    project. Raises `NotFree` where there are too many."""
    waiting, left, has_odd, out = [start], MOST_NAMES, False, list[str]()
    while waiting:
        folder = waiting.pop()
        if not os.path.isdir(folder):
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                if not left:
                    raise NotFree("the project has too many files to look at the names that are listed")
                has_odd = has_odd or is_odd(entry.name)
                if not entry.is_symlink():
                    waiting += [entry.path] if entry.is_dir(follow_symlinks=False) else []
                elif not Path(os.path.realpath(entry.path)).is_relative_to(project):
                    out.append(entry.name)
    return has_odd, tuple(out)
