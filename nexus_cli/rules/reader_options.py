"""The readers: programs and subcommands that run unasked in the profile `read`, and what their options do.

The profile holds whatever an option does. The table is for what the profile cannot hold: to ask before a command fails
that plainly writes, to know a reader that needs no profile, and to find what a rule names where the words do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from nexus_cli.core.tool import Effect
from nexus_cli.rules.command_line import SimpleCommand, Word
from nexus_cli.rules.foreign_code import AWKS, is_plain_sed
from nexus_cli.rules.wrappers import GIT_VALUED, system_name


class ReaderOptions(NamedTuple):
    """The words of one program that do more than read what is named, as regular expressions of their beginning."""

    writes: str = ""
    """It writes what such a word or another one names."""
    runs: str = ""
    """It starts a program, or loads code, that such a word names."""
    opens: str = ""
    """It opens files that a list or a script names."""
    is_complete: bool = False
    """True if it can write nothing and start no program without a word of the first two."""
    most_operands: int = 100
    """With more operands it may write the last one."""


PLAIN = frozenset(
    """
    ls cat head tail tac nl wc cut paste tr fold grep egrep fgrep stat du df realpath readlink basename dirname echo
    test true false : pwd which uname id seq sleep cmp diff od cksum md5sum sha1sum sha256sum whoami nproc exit break
    continue rev column expand unexpand join comm fmt base64 base32 expr numfmt sum b2sum sha224sum sha384sum sha512sum
    """.split()
)
"""Readers that can write nothing and start no program."""
READERS = PLAIN | frozenset(
    """
    uniq sort zgrep zcat rg ag ack fd fdfind find file tree hexdump xxd strings printf date jq yq sed awk gawk mawk type
    whereis shasum arch tty groups tsort printenv shuf iconv less more bat eza nm objdump readelf size cloc tokei scc
    zipinfo xargs ps pgrep ss lsof who uptime free mount lsblk
    """.split()
)
"""Programs that run unasked with whatever options."""
SUBCOMMANDS_THAT_READ: Mapping[str, frozenset[str]] = {
    name: frozenset(verbs.split())
    for name, verbs in {
        "git": "status diff log show whatchanged reflog shortlog rev-list blame annotate grep ls-files ls-tree "
        "cat-file rev-parse describe merge-base name-rev for-each-ref show-ref symbolic-ref count-objects check-ignore "
        "check-attr diff-tree diff-index diff-files range-diff cherry branch tag remote stash worktree config version",
        "npm": "ls list ll view info outdated explain why root prefix",
        "pnpm": "ls list why outdated",
        "yarn": "list why info",
        "cargo": "tree metadata pkgid",
        "go": "list env version doc",
        "pip": "list show freeze check",
        "pip3": "list show freeze check",
    }.items()
}
"""Subcommands that run unasked, of programs that do more."""
_AWK = ReaderOptions("-i|inplace", r"-W|-\w*[fEl]|(?s:.*(?:getline|system|ARGV|[|@<]))")
_CHECKSUM = ReaderOptions(opens=r"-\w*c|--c")
_BINARY = ReaderOptions(runs="--plugin", opens="@")
_FD = ReaderOptions(runs=r"-\w*[xX]|--exec", is_complete=True)
_PIP = ReaderOptions("--log(?:=|$)", "--python")
_OPTIONS: Mapping[str, ReaderOptions] = {
    **dict.fromkeys(AWKS, _AWK),
    **dict.fromkeys((name for name in READERS if name.endswith("sum")), _CHECKSUM),
    **dict.fromkeys(("strings", "nm", "objdump", "readelf", "size"), _BINARY),
    **dict.fromkeys(("fd", "fdfind"), _FD),
    **dict.fromkeys(("wc", "du"), ReaderOptions(opens="--f")),
    **dict.fromkeys(("pip", "pip3"), _PIP),
    "ack": ReaderOptions(runs="--pager|--ackrc", opens=r"--files|-\w*x"),
    "ag": ReaderOptions(runs="--pager"),
    "bat": ReaderOptions(runs="--pager"),
    "cargo": ReaderOptions(runs="--config|-Z"),
    "cloc": ReaderOptions("--out|--report", "--extract|--vcs|--config", "--list|--diff-list"),
    "file": ReaderOptions(opens=r"-\w*f|--f"),
    "find": ReaderOptions("-(?:delete|fprint|fls)", "-(?:exec|ok)", "-files0", is_complete=True),
    "git": ReaderOptions("--output|-O", "-O|--open|--exec|--ext|--textconv", "--batch|--stdin|--includes"),
    "go": ReaderOptions("-{1,2}w$", "-{1,2}(?:toolexec|exec|vettool|overlay)"),
    "iconv": ReaderOptions(r"-\w*o|--o"),
    "jq": ReaderOptions(opens=r"-\w*f|--from|(?s:.*(?:import|include))", is_complete=True),
    "perl": ReaderOptions("-[a-zA-Z]*i"),
    "rg": ReaderOptions(runs="--pre(?:=|$)|--host", is_complete=True),
    "sed": ReaderOptions("-[a-zA-Z]*i|--i", r"-\w*[ef].|-\w*[fl]|--[efl]"),
    "sort": ReaderOptions(r"-\w*o|--o", "--co", "--f", is_complete=True),
    "tar": ReaderOptions(runs=r"-\w*[IF]|\w+[IF]\w*$|--(?:use|info|new|check|to|rsh|rmt)", opens=r"-\w*T|--files"),
    "tree": ReaderOptions("-o", opens="--from"),
    "uniq": ReaderOptions(is_complete=True, most_operands=1),
    "xxd": ReaderOptions(is_complete=True, most_operands=1),
    "yq": ReaderOptions("-i|--inplace", opens=r"-\w*f|--from|(?s:.*load)"),
}
"""By program; any other has no such words that are known."""
_SCRIPT = re.compile(r"-\w*e")
"""The option before a script of sed."""


def is_reader(words: Sequence[Word]) -> bool:
    """Return True if the program, with its subcommand, is on the list."""
    name = system_name(words[0]) if words else ""
    if name not in SUBCOMMANDS_THAT_READ:
        return name in READERS
    return any(verb.text in SUBCOMMANDS_THAT_READ[name] for verb in words[find_verb(words) :][:1])


def find_verb(words: Sequence[Word]) -> int:
    """Return the place of the subcommand, behind the options of the program."""
    place = 1
    while place < len(words) and words[place].text.startswith("-"):
        place += 1 + (words[place].text in GIT_VALUED)
    return place


def has_write_option(name: str, words: Sequence[Word]) -> bool:
    """Return True if an option says that program `name` writes: it need not be tried first."""
    pattern = _pattern(_OPTIONS[name].writes if name in _OPTIONS else "")
    return any(pattern.match(word.text) for word in words[1:])


def can_write_nothing(command: SimpleCommand) -> bool:
    """Return True for a reader that writes nothing and starts no program where nothing keeps it from that."""
    name = system_name(command.words[0]) if command.words else ""
    if name in PLAIN or name == "cd":
        return True
    if command.assignments or not all(word.is_known and not word.has_glob for word in command.words):
        return False  # a file may have the name of an option
    texts = [word.text for word in command.words[1:]]
    row = _OPTIONS.get(name, ReaderOptions())
    operands = sum(text == "-" or not text.startswith("-") for text in texts)
    if name != "sed" and (not row.is_complete or operands > row.most_operands):
        return False
    return not any(_pattern(row.writes, row.runs).match(text) for text in texts) and _has_plain_scripts(command)


def reaches_unnamed(command: SimpleCommand, effect: Effect | None) -> bool:
    """Return True if a command runs programs, or for `Effect.READ` opens files, that its words do not show."""
    texts = [word.text for word in command.words]
    if "xargs" in texts or not all(word.is_known for word in command.words):
        return True
    names = {text.rpartition("/")[2] for text in texts}
    rows = [_OPTIONS[name] for name in names & _OPTIONS.keys()]
    patterns = [_pattern(row.runs, row.opens if effect is Effect.READ else "") for row in rows]
    return any(pattern.match(text) for pattern in patterns for text in texts) or not _has_plain_scripts(command)


def _has_plain_scripts(command: SimpleCommand) -> bool:
    """Return True unless the command is `sed`, or runs it, with a script that may write, run or open what it names."""
    texts = [word.text for word in command.words]
    programs = [text.rpartition("/")[2] for text in texts]
    behind = texts[programs.index("sed") + 1 :] if "sed" in programs else []
    scripts = [text for before, text in pairwise(["", *behind]) if _SCRIPT.fullmatch(before)]
    scripts = scripts or [text for text in behind if not text.startswith("-")][:1]
    return all(map(is_plain_sed, scripts))


@cache
def _pattern(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(word for word in words if word) or r"(?!)")
