"""Know the readers: programs, and subcommands of programs, that run unasked in the profile `read`.

The kernel holds what a reader may do, whatever its options and scripts say. Words decide what the kernel cannot: which
paths lie outside the project, where the sandbox shows nothing and a model would take that for a fact; and which command
plainly wants to write, so that the question comes before it fails.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from nexus_cli.config.programs import find_program
from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.core.approval import NOT_KNOWN
from nexus_cli.rules.command_line import SimpleCommand, Word, Words, shorten
from nexus_cli.rules.folders import Folders, NotReadOnly, check_path
from nexus_cli.rules.foreign_code import AWKS
from nexus_cli.rules.read_only_environment import ENVIRONMENT, HARMLESS_VARIABLES
from nexus_cli.rules.reader_options import (
    READERS,
    SUBCOMMANDS_THAT_READ,
    can_write_nothing,
    find_verb,
    has_write_option,
    is_reader,
)
from nexus_cli.rules.wrappers import WRAPPERS, find_inner, find_wrapper, skip_options, system_name
from nexus_cli.sandbox.profile import find_worktree_folder

MAX_VALUES = 400
"""Values of the variables in all words of a line that are looked at."""
_CHANGES = {
    "branch": re.compile(r".*(?: -(?!-)\w*[dDmMcCfu]| --(?:del|move|copy|forc|set|unset|edit|track|create)| [^- ])"),
    "tag": re.compile(r".*(?: -(?!-)\w*[adfFmsu]| --(?:del|forc|sign|anno|mess|file|edit|local-user)| [^- ])"),
    "remote": re.compile(r"(?! (?:-v|--verbose|show|get-url)\b).+"),
    "stash": re.compile(r"(?! (?:list|show)\b)"),
    "worktree": re.compile(r"(?! list\b)"),
    "reflog": re.compile(r" (?:expire|delete|drop|write)\b"),
    "symbolic-ref": re.compile(r".* -(?:d|-delete)|.* [^- ]\S* [^- ]"),
    "config": re.compile(r"(?! (?:-l|--list|list|get|--get[\w-]*)\b)"),
}
"""What changes the repository: subcommands of git that mostly read, with the words behind them."""
_LISTS = re.compile(r".* (?:-\w*[ln]\d*|--(?:list|(?:no-)?contains|(?:no-)?merged|points-at)(?:=\S*)?)(?: |$)")
"""An option with which `git branch` and `git tag` list what the words behind it name."""
MIXED = frozenset(_CHANGES) - {"reflog", "symbolic-ref"}
"""Those of them that an allow rule covers whole: they are there for changes too."""
_VERSIONS = frozenset(
    "python python3 rustc uv ruby gcc g++ clang cc make cmake ninja docker perl php tar curl bash sh git java".split()
) | frozenset({"node", *SUBCOMMANDS_THAT_READ})
"""Further programs that say their version."""
_VERSION = re.compile(r"--?version|-V|-v|version")
_TEXTS = frozenset("echo printf basename dirname seq expr true false : tr sleep type which uname id xargs".split())
"""Readers whose words are no paths."""
_SHOW_OPERANDS = frozenset("cat head tail less more nl tac wc od xxd hexdump strings base64".split())
"""Readers that open each operand, and have no option whose value looks like the name of a file."""
_SHOW_CONTENT = frozenset("diff show blame annotate".split())
"""Subcommands of git that show the content of the files that they name, if they have no options."""
_CODE_FIRST = AWKS | {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "sed", "jq", "yq", "fd", "fdfind"}
"""Readers whose first operand is a pattern or a script."""
_SCRIPT = re.compile(r"-\w*e|--(?:expression|regexp)")
"""An option before a pattern or a script."""
_PRINTABLE_VARIABLES = frozenset({"HOME", "PWD", "USER", "?"})
"""Variables that may be printed."""
_DELIMITER = re.compile(r"-\w*[dtFs]")
_READS_FOLDER = frozenset({"ls", "find", "grep", "egrep", "fgrep", "rg", "fd", "fdfind", "du", "tree", "git", "df"})
"""Without an operand they read the folder that they are in."""
_NEXUS = re.compile(r"docs(?: [^- ]\S*)*|skill list(?: --json)?|skill use [^- ]\S*(?: --json)?")
_QUOTED = re.compile(r"\"[^\"]*\"")
_DATE_VALUE = re.compile(r"-[uR]*[dr]|--(?:date|reference)")
_DATE = re.compile(
    r"\+.*|-[uR]+|-[uR]*[dr].+|-I\w*|--(?:date|reference|iso-8601|rfc-3339)=.*|--(?:utc|universal|iso-8601)", re.DOTALL
)


def check_read_only(command: SimpleCommand, folders: Folders) -> str:
    """Return the reason that a command does not run as a reader, "" if it does. Follows a `cd` in `folders`."""
    try:
        _check(command.words, command, folders)
    except NotReadOnly as why:
        return str(why)
    except (OSError, ValueError, RecursionError):
        return "a path of the command cannot be resolved"
    return ""


def keeps_form(argv: Sequence[str], words: Words) -> bool:
    """Return True if an allow rule that begins with `argv` covers `words`, which begin so.

    A rule for a reader covers what it reads, wherever that is. One that names more, such as `sort -o`, or a command
    that also writes, such as `git branch`, covers every form.
    """
    prefix = tuple(map(Word, argv))
    if not is_reader(prefix) or argv[-1] in MIXED:
        return True
    places = Folders("/", "/", "/", [], anywhere=True)
    if len(argv) > 1 + (argv[0] == "git") and check_read_only(SimpleCommand(prefix), places):
        return True
    if prefix[0].text != "git" and not can_write_nothing(SimpleCommand(words)):
        return False
    return not check_read_only(SimpleCommand(words), places)


def _check(words: Words, command: SimpleCommand, folders: Folders) -> None:
    """Raise `NotReadOnly` unless `words`, of `command` or of one that it runs, are those of a reader."""
    if not words:
        raise NotReadOnly("part of the command line runs no program")
    if folders.is_lost:
        raise NotReadOnly("an earlier command on the line may change what later commands do")
    if not HARMLESS_VARIABLES.issuperset(command.assignments):
        raise NotReadOnly("the command sets an environment variable")
    if not words[0].is_known:
        raise NotReadOnly(f"the value of {shorten(words[0].text)} is not known before the command runs")
    name = system_name(words[0])
    if name == "cd":
        if words is not command.words:
            raise NotReadOnly("another command runs cd, so the working folder is unknown")
        folders.enter(command)
        return
    texts = [word.text for word in words[1:]]
    wrapper, head = find_wrapper(words)
    if (name in ("env", "hostname") and not texts) or (name == "command" and texts[:1] in (["-v"], ["-V"])):
        return
    if wrapper is not None and wrapper.is_transparent and name:
        inner, sure = skip_options(words, WRAPPERS[name], head)
        if not sure or not inner:
            raise NotReadOnly(f"nexus cannot determine which command {name} runs")
        _check(inner, command, folders)
        return
    if len(texts) == 1 and name in _VERSIONS and _VERSION.fullmatch(texts[0]):
        _check_program(name, folders)
        return
    if name == "tar" and texts and re.fullmatch(r"-?(?=[a-z]*t)[a-zA-Z]+", texts[0]):
        _check_words(words, name, command, folders)
        return
    if name == "nexus" and _NEXUS.fullmatch(" ".join(texts)):
        return
    if name in SUBCOMMANDS_THAT_READ:
        _check_subcommand(words, name, folders)
    elif name not in READERS:
        raise NotReadOnly(f"{shorten(words[0].text)} {NOT_KNOWN}")
    if has_write_option(name, words):
        raise NotReadOnly(f"{name} can write files with this option")
    if name == "date":
        _check_date(words[1:])
    _check_words(words, name, command, folders)
    if name in ("xargs", "find", "fd", "fdfind"):
        inner_commands = find_inner(words)
        for inner_words in [*inner_commands.commands, *inner_commands.guesses]:
            _check(inner_words, command, folders)


def _check_program(name: str, folders: Folders) -> None:
    """Raise `NotReadOnly` where the PATH leads to a program of the project: in the walls another one would be found."""
    program = shutil.which(name)
    if program is not None and program != find_program(name, Path(folders.project)):
        raise NotReadOnly(f"{name} is a program from the project")


def _check_date(words: Sequence[Word]) -> None:
    """Raise `NotReadOnly` for anything beyond forms, because an operand sets the clock."""
    remaining_words = iter(words)
    for word in remaining_words:
        if _DATE_VALUE.fullmatch(word.text):
            value = next(remaining_words, None)
            if value is not None and not value.has_glob and (value.is_known or _QUOTED.fullmatch(value.text)):
                continue
        is_single = word.is_known or _QUOTED.fullmatch(word.text)
        if word.has_glob or not is_single or not _DATE.fullmatch(word.text.lstrip('"')):
            raise NotReadOnly("date with these arguments may set the clock")


def _check_subcommand(words: Words, name: str, folders: Folders) -> None:
    """Raise `NotReadOnly` for a subcommand off the list, or where git finds a repository outside the project."""
    place = find_verb(words)
    verb = words[place].text if place < len(words) and words[place].is_plain else ""
    if verb not in SUBCOMMANDS_THAT_READ[name]:
        unknown = next((word.text for word in words[1 : place + 1] if not word.is_known), "")
        if unknown:
            raise NotReadOnly(f"the value of {shorten(unknown)} is not known before the command runs")
        subcommand = f"{name} {shorten(verb)}".rstrip()
        raise NotReadOnly(f"{subcommand} {NOT_KNOWN}")
    if name != "git":
        _check_program(name, folders)
        return
    operands = "".join(f" {word.text}" for word in words[place + 1 :])
    changes = _CHANGES.get(verb)
    if changes is not None and changes.match(operands) and not _lists(verb, operands):
        raise NotReadOnly(f"git {verb} with these arguments changes the repository")
    own_values = {value.casefold() for key, value in ENVIRONMENT.items() if key.startswith("GIT_CONFIG_KEY")}
    if verb == "config" and any(word.text.casefold() in own_values for word in words):
        raise NotReadOnly("nexus sets this key for read-only commands")
    _check_repository(folders)


def _lists(verb: str, operands: str) -> bool:
    """Return True for `git branch` and `git tag` with names that they list."""
    changes = re.search(r" -(?!-)\w*[dDmMcCfu]| --(?:del|edit|set|forc|mov)", operands)
    return verb in ("branch", "tag") and bool(_LISTS.match(operands)) and not changes


def _check_repository(folders: Folders) -> None:
    """Raise `NotReadOnly` where git finds a repository outside the project, of which the sandbox shows nothing."""
    if folders.anywhere:
        return
    for start in dict.fromkeys((folders.start, folders.assumed, *folders.alternatives)):
        place = start
        while not os.path.lexists(os.path.join(place, ".git")) and place != os.path.dirname(place):
            place = os.path.dirname(place)
        git = os.path.join(place, ".git")
        if not os.path.lexists(git):
            continue
        is_on_other_machine = os.path.islink(git) or not os.path.isdir(git)
        is_worktree = find_worktree(Path(place)) is not None or find_worktree_folder(Path(place)) is not None
        if not folders.holds(place) or (is_on_other_machine and not is_worktree):
            raise NotReadOnly("git would use a repository other than the project's")


def _check_words(words: Sequence[Word], name: str, command: SimpleCommand, folders: Folders) -> None:
    """Raise `NotReadOnly` if a word may name something outside the project."""
    if folders.anywhere:
        return
    operands = [word for word in words[1:] if not word.text.startswith("-") or word.text == "-"]
    is_code = name in _CODE_FIRST and "--files" not in {word.text for word in words}
    code = operands[0] if is_code and operands else None
    is_text = name in _TEXTS
    is_handed_on = "a command substitution" in folders.line.forms or any(
        simple_command.words and simple_command.words[0].text == "xargs" for simple_command in folders.line.commands
    )
    if not operands and name in _READS_FOLDER:
        for folder in (folders.assumed, *folders.alternatives):
            if not folders.holds(folder) and os.path.lexists(folder):
                raise NotReadOnly("the folder may be outside the project")
    for before, word in pairwise(words):
        if not word.is_known:
            is_shown = is_text or (name == "test" and (len(words) == 4 or words[1].text in ("-n", "-z")))
            _check_computed(word, is_shown, command, folders)
        elif is_text and not word.has_glob and not is_handed_on:
            continue
        elif (
            word.text.startswith("-")
            or word is code
            or (is_text and not word.has_glob)
            or (is_code and _SCRIPT.fullmatch(before.text))
        ):
            _check_existing(word, folders, alone=len(operands) == 1)
        elif word.text != "/" or not _DELIMITER.fullmatch(before.text):
            check_path(word, folders)


def find_shown_files(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words that a reader is sure to open as files: those that are no pattern, script or value of an
    option."""
    name = system_name(words[0])
    if name in _SHOW_OPERANDS:
        return [word for word in words[1:] if not word.text.startswith("-")]
    place = find_verb(words)
    operands = [word for word in words[place + 1 :] if word.text != "--"]
    is_shown = name == "git" and place < len(words) and words[place].text in _SHOW_CONTENT
    return operands if is_shown and not any(word.text.startswith("-") for word in operands) else ()


def _check_existing(word: Word, folders: Folders, *, alone: bool) -> None:
    """Raise `NotReadOnly` if a pattern or an option holds the path of something outside the project that exists."""
    text = word.text
    if text.startswith("--"):
        text = text.partition("=")[2]
    elif text.startswith("-"):
        text = text[2:]
        alone = False
    if text.startswith(("/", "~", "..")) and (text != "/" or alone):
        place = os.path.join(folders.assumed, os.path.expanduser(text))
        if os.path.lexists(place):
            check_path(Word(place), folders)


def check_input(target: Word, place: int, folders: Folders) -> None:
    """Raise `NotReadOnly` if the input of a redirect at `place` may be outside the project."""
    if target.is_known:
        check_path(target, folders)
    else:
        _check_computed(target, False, SimpleCommand((target,), place=place), folders)


def _check_computed(word: Word, is_shown: bool, command: SimpleCommand, folders: Folders) -> None:
    """Raise `NotReadOnly` for a word that bash computes, unless its pieces are variables of the line, or output."""
    if not word.pieces:
        if "{}" not in word.text and word.text != "$@":
            raise NotReadOnly(f"the value of {shorten(word.text)} is not known before the command runs")
        if word.text.startswith(("/", "~")) or ".." in word.text.split("/"):
            raise NotReadOnly(f"{shorten(word.text)} may be outside the project")
        return
    for place, piece in enumerate(word.pieces):
        if piece.is_variable:
            _check_variable(piece.text, place == 0, is_shown, command, folders)
        elif not piece.is_output and (not is_shown or {"*", "?", "["} & set(piece.shape)):
            is_first = place == 0 and piece.text.startswith(("/", "~"))
            if piece.text == "$" or ".." in piece.text or (is_first and len(word.pieces) > 1):
                raise NotReadOnly(f"{shorten(word.text)} may be outside the project")


def _check_variable(name: str, is_first: bool, is_shown: bool, command: SimpleCommand, folders: Folders) -> None:
    """Raise `NotReadOnly` for a variable that the line does not set, or sets to a path outside the project."""
    bound = [binding for binding in folders.line.bindings if binding.name == name]
    if not bound and name in _PRINTABLE_VARIABLES and is_shown:
        return
    if not any(binding.start <= command.place < binding.end for binding in bound):
        raise NotReadOnly(f"the value of ${name[:40]} is not known before the command runs")
    folders.forms += sum(len(binding.words) for binding in bound)
    if folders.forms > MAX_VALUES:
        raise NotReadOnly("the variables of the command have too many possible values to check")
    for value in (word for binding in bound for word in binding.words):
        if not value.is_known:
            _check_computed(value, is_shown, command, folders)
        elif is_shown and not {"*", "?", "["} & set(value.text):
            continue
        elif not is_first and ".." in value.text:
            raise NotReadOnly(f"{shorten(value.text)} may be outside the project")
        elif value.has_glob:
            check_path(value, folders)
        elif is_first:
            for part in value.text.split():
                check_path(replace(value, text=part), folders)
