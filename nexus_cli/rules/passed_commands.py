"""Find the commands that may be in the arguments and the input of a program.

There is no list of programs that run them. Of a program that is not known every argument that names a program begins a
command that it may run, and every argument or input with blanks in it may be shell code. Known are programs with
subcommands, wrappers and those whose arguments are names: of them the values of options alone may be code, but for
messages and the like, and what stands behind `run`, `exec` or `--` of a program with subcommands.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from nexus_cli.rules.command_line import SimpleCommand, Word, Words
from nexus_cli.rules.foreign_code import is_interpreter
from nexus_cli.rules.reader_options import READERS
from nexus_cli.rules.stored_prefix import SUBCOMMANDS
from nexus_cli.rules.wrappers import ARGUMENT_READERS, SHELLS, find_wrapper, program_name

MAX_WORDS = 60
"""Words of a command that are compared with a rule."""
_DATA = frozenset(
    """
    cd pushd popd export unset set cp mv ln mkdir rmdir touch chmod chown chgrp install tee patch rm scp rsync kill
    pkill pgrep killall systemctl service journalctl man info tldr whatis apropos whereis dpkg rpm pacman pytest jest
    vitest ruff black mypy eslint prettier tsc cc gcc g++ clang clang++ ld strip ldd tar zip unzip ag ack
    """.split()
)
"""Programs whose arguments are names, besides those of the read-only list: of their options only texts may be run."""
_OPENERS = frozenset("make gmake code vi vim nvim nano emacs bat help ffmpeg".split())
"""Programs that take a plain word for a file, a target or a topic, and a text or a word behind a sign for code."""
_RUNS = frozenset({"--command", "run", "exec", "x", "dlx", "shell", "develop", "--"})
"""What stands before a command in the arguments of a program with subcommands."""
_PROSE = frozenset(
    """
    message title body notes description comment subject summary author label annotation grep format pretty query
    template prompt text
    """.split()
)
"""Long options, and keys before `=`, that take text for people or a format."""
_LETTERS, _LETTERS_WITH_SUBCOMMANDS = frozenset("mkt"), frozenset("mktbdelnqSG")
"""Such short options of programs that are known, and of those with subcommands."""
_PROGRAM_OPTION = re.compile(r"(?m)^--(?:pre|hostname-bin|compress-p[a-z]*)[=\n](.*)")
"""The program that an option of rg or sort names, in words that stand on a line each."""
_QUERY = re.compile(r"(?i)\s*(?:select|insert|update|delete)\b[\w ,.*='-]*\Z")
"""A query of a database that holds neither a command of its shell nor a second statement."""
_KEYS = re.compile(r"\S*=|\w+:(?=[^\s:])")
"""What stands before a value in one word: `NAME=VALUE`, and `EXEC:COMMAND` of socat."""
_SIGNS = "!:+@\\"
"""Signs that editors, pagers and databases put before a command of the shell."""


def find_passed(command: SimpleCommand, names: Collection[str]) -> tuple[list[Words], list[str]]:
    """Return the commands that begin with one of `names`, and the shell code, that `command` may run. The name `rm*`
    is that of all programs that begin with `rm`."""
    words = command.words
    name = program_name(words[0])
    if is_interpreter(name) and len(words) > 2 and words[1].text == "-m":
        words, name = words[2:], words[2].text
    if name in READERS and name not in _DATA | _OPENERS | ARGUMENT_READERS | {"xargs", "less", "more"}:
        return [], _PROGRAM_OPTION.findall("\n".join(word.text for word in words))
    has_subcommands = name in SUBCOMMANDS
    is_known = has_subcommands or name in _DATA or name in ARGUMENT_READERS or find_wrapper(words)[0] is not None
    start = len(words) if is_known else 0
    if has_subcommands:
        runs = _RUNS | {"-c"} if name == "just" else _RUNS
        start = next((place + 1 for place, word in enumerate(words) if word.text in runs), start)
    letters = _LETTERS_WITH_SUBCOMMANDS if has_subcommands else _LETTERS
    texts = list(_texts(words[:start], letters, of_options=True))
    texts += [] if name in SHELLS else _texts(words[start:])
    runs_input = name == "ssh" or (start < len(words) and name not in SHELLS)
    texts += command.inputs if runs_input else ()
    # A long text is parsed only where it can hold what a rule names.
    parts = [program.removesuffix("*") for program in names]
    codes = [text for text in texts if any(part in text.casefold() for part in parts) and not _QUERY.match(text)]
    return list(_commands(words, start, names)), codes


def _commands(words: Words, start: int, names: Collection[str]) -> Iterator[Words]:
    """Return the words that follow one of `names`; a last word only directly behind the program or `--`."""
    for place in range(start, len(words)):
        folder, _, name = words[place].text.lstrip(_SIGNS).rpartition("/")
        if place == 0 and re.match("-[^-]", name):  # `-O` and its value in one word of a text
            name = max((program for program in names if name.casefold().endswith(program)), key=len, default="")
        if (
            not _is_named(name.casefold(), names)
            or not words[place].is_plain
            or (folder and not folder.endswith("bin"))
        ):
            continue
        if words[place].text == name and program_name(words[0]) in _OPENERS:
            continue
        if place == 0 and program_name(words[0]) == name:  # the command itself
            continue
        if place + 1 < len(words) or place == 1 or words[place - 1].text == "--":
            yield (Word(name), *words[place + 1 : place + MAX_WORDS])


def _is_named(name: str, names: Collection[str]) -> bool:
    """Return True if `name` is one of `names`, or begins as one of them that ends in a star."""
    return name in names or any(name.startswith(program[:-1]) for program in names if program.endswith("*"))


def _texts(words: Words, letters: frozenset[str] = frozenset(), *, of_options: bool = False) -> Iterator[str]:
    """Return the arguments of a program, or the values `of_options` alone, that may be shell code."""
    for before, word in zip(("", *(earlier_word.text for earlier_word in words)), words, strict=False):
        is_option = word.text.startswith("-") or before.startswith("-")
        if (is_option or not of_options) and not _is_prose(before, word.text, letters):
            yield from _code_of(word)


def _is_prose(before: str, text: str, letters: frozenset[str]) -> bool:
    """Return True if `text`, behind the word `before`, is the value of an option for text, or holds one."""
    option = text.split(maxsplit=1)[0] if text.startswith("-") else before
    if option.startswith("-") and not option.startswith("--"):
        flags = option[1:3] if option != before else option[-1:]  # `-mTEXT`, `-amTEXT`; `-am TEXT`
        if not letters.isdisjoint(flags):
            return True
    key = match[0] if (match := _KEYS.match(text)) else ""
    return not _PROSE.isdisjoint(part.lstrip("-") for part in f"{option}={key}".split("="))


def _code_of(word: Word) -> list[str]:
    """Return the text of a word with blanks in it, without a `KEY=` before it."""
    text = word.text
    if not word.is_known or not any(sign.isspace() for sign in text.strip()):
        return []
    return [text[match.end() :] if (match := _KEYS.match(text)) else text]
