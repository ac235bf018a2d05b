"""Find text in a command that is code of another language than the shell's, and could bypass a deny or ask rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

_INTERPRETERS: Mapping[str, frozenset[str]] = {
    "python": frozenset({"-c"}),
    "pypy": frozenset({"-c"}),
    "perl": frozenset({"-e", "-E"}),
    "ruby": frozenset({"-e"}),
    "node": frozenset({"-e", "-p", "--eval", "--print"}),
    "bun": frozenset({"-e", "--eval"}),
    "php": frozenset({"-r"}),
    "deno": frozenset({"eval"}),
    "lua": frozenset({"-e"}),
    "osascript": frozenset({"-e"}),
    "R": frozenset({"-e"}),
    "Rscript": frozenset({"-e"}),
    "julia": frozenset({"-e"}),
    "expect": frozenset({"-c"}),
    "tclsh": frozenset(),
}
"""Programs that run code of their language, with the options that begin it; without a file they run their input."""
_GIT_CODE = frozenset({"rebase", "submodule", "filter-branch", "difftool", "mergetool", "bisect", "config"})
"""Subcommands of git of which an argument may be a command."""
AWKS = frozenset({"awk", "gawk", "mawk", "nawk", "original-awk"})
"""Implementations of awk, whose scripts may run programs, open files and write them."""
_ADDRESS = r"(?:\d+|\$|/[^/\\\[]*/)"
_CHANGE = r"s([/|,#])(?:(?!\1)[^\n\[]){0,99}\1(?:(?!\1)[^\n\[]){0,99}\1[gipI\d]*"
_SED = re.compile(rf"(?:(?:{_ADDRESS}(?:,{_ADDRESS})?!?)?(?:[pdqn=]|{_CHANGE})(?:; *|\Z))*")
_RUN_BY_NAME = ("PAGER", "EDITOR", "VISUAL", "_COMMAND", "ASKPASS", "EXTERNAL_DIFF", "LESSOPEN", "BROWSER", "SHELL")


def is_plain_sed(script: str) -> bool:
    """Return True for a script of sed that surely runs nothing and opens no file."""
    return _SED.fullmatch(script) is not None


def sets_program(assignments: Iterable[str]) -> bool:
    """Return True if a variable is set that names a program for the command to run."""
    return any(name.endswith(_RUN_BY_NAME) for name in assignments)


def is_interpreter(name: str) -> bool:
    """Return True if a program runs code of a language of its own."""
    return name.rstrip("0123456789.") in _INTERPRETERS


def find_code(name: str, arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments of a program that may be code, and True if it runs its input."""
    text = " ".join(arguments)
    if is_interpreter(name):
        interpreter = _INTERPRETERS[name.rstrip("0123456789.")]
        is_inline = any(argument.startswith(flag) for argument in arguments for flag in interpreter)
        return ([text] if is_inline else []), not any(not argument.startswith("-") for argument in arguments)
    if name in AWKS:
        return ([text] if any(sign in text for sign in ("system", "|", "@")) else []), False
    if name == "sed":
        return [argument for argument in arguments if not is_plain_sed(argument)], False
    if name != "git":
        return [], False
    codes = [f"git {value}" for flag, value in pairwise(arguments) if flag == "-c"]
    subcommand = next((argument for argument in arguments if not argument.startswith("-")), "")
    return codes + ([f"git {text}" if subcommand == "config" else text] if subcommand in _GIT_CODE else []), False
