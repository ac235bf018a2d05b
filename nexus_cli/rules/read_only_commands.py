"""Decide whether one command only reads: on the list, with options of its row, on files of the project alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from nexus_cli.rules.awk_script import is_plain_script as is_plain_awk
from nexus_cli.rules.command_line import SimpleCommand, Word, shorten
from nexus_cli.rules.computed_words import CODE_FIRST, NAME, find_forms, lists_names
from nexus_cli.rules.folders import LISTED, Folders, NotReadOnly, check_glob, check_path
from nexus_cli.rules.read_only_forms import AWK, AWKS, find_form, reads_config
from nexus_cli.rules.read_only_table import (
    FIND_FLAGS,
    FIND_TESTS,
    GIT_FLAGS,
    HARMLESS_VARIABLES,
    READ_ONLY,
    ReadOnlyCommand,
)
from nexus_cli.rules.sed_script import is_plain_script
from nexus_cli.rules.wrappers import WRAPPERS, find_wrapper, skip_options, system_name
from nexus_cli.sandbox.git_repository import NotPlain, check_repository

_GLOB = re.compile(r"[*?\[]")
_NUMBERS = {"number": re.compile(r"\d{1,2}(?:\.\d+)?s?"), "duration": re.compile(r"\d+(?:\.\d+)?[smhd]?")}
_OPTION = re.compile(r"-[A-Za-z-]")
_GREPS = frozenset({"grep", "egrep", "fgrep", "rg"})
_TOUCHING = {"tail": re.compile(r"[-+]?\d+\w?|"), "tree": re.compile(r"\d*")}
"""Values that may follow a letter directly, for programs that else take them for further options."""
_MIXED = frozenset({"listed", "remote", "stash", "worktree"})
"""Rows of commands that write in their plain form too."""
_READS_FOLDER = frozenset({"ls", "find", "grep", "egrep", "fgrep", "rg", "fd", "fdfind", "du", "tree", "git", "df"})
"""Without an operand they read the folder that they are in."""


def check_read_only(command: SimpleCommand, folders: Folders) -> str:
    """Return the reason that a command may do more than read, "" if it only reads. Follows a `cd` in `folders`."""
    try:
        for words in find_forms(command, folders):
            _check(replace(command, words=words), folders)
    except NotReadOnly as why:
        return str(why)
    except (OSError, ValueError, RecursionError):
        return "a path in it cannot be resolved"
    return ""


def gets_names(command: SimpleCommand) -> bool:
    """Return True if words of a command are computed when it runs."""
    return any(not word.is_known or word.text in ("xargs", "-exec") for word in command.words)


def keeps_form(argv: Sequence[str], words: tuple[Word, ...]) -> bool:
    """Return True if an allow rule that begins with `argv` covers `words`, which begin so.

    A rule for a command that only reads covers its forms that only read, wherever they read. One that names more, such
    as `sort -o`, or a command that also writes, such as `git branch`, covers every form.
    """
    name = system_name(Word(argv[0])) if argv else ""
    count = 2 if name == "git" else 1
    row = READ_ONLY.get("-".join([name, *argv[1:count]])) if len(argv) >= count else None
    if (row is None and name != "find") or (row is not None and row.operands in _MIXED and len(argv) == count):
        return True
    places = Folders("/", "/", "/", [], anywhere=True)
    if len(argv) > count and check_read_only(SimpleCommand(tuple(map(Word, argv))), places):
        return True
    return not check_read_only(SimpleCommand(words), places)


def _check(command: SimpleCommand, folders: Folders) -> None:
    words = command.words
    if not words:
        raise NotReadOnly("it has no program")
    if folders.is_lost:
        raise NotReadOnly("a command before it changes the shell")
    if not HARMLESS_VARIABLES.issuperset(command.assignments):
        raise NotReadOnly("it sets a variable")
    name = system_name(words[0])
    if name == "cd" and not command.assignments:
        folders.enter(command)
        return
    if name == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
        _check_operands(list(words[2:]), ReadOnlyCommand("text"), "command", folders)
        return
    wrapper, head = find_wrapper(words)
    if wrapper is not None and wrapper.is_transparent and name:
        _check_wrapped(command, name, head, folders)
        return
    if find_form(name, words[1:], folders):
        return
    if name == "find":
        _check_find(words[1:], folders)
    elif name == "xargs":
        _check_xargs(command, folders)
    elif name in AWKS:
        _check_row(words[1:], AWK, name, folders)
    elif name == "git":
        _check_git(words[1:], folders)
    elif name == "nexus":
        _check_nexus([word.text for word in words[1:]])
    elif name in READ_ONLY:
        if name == "sleep" and command.is_nested and not folders.line.doubts:
            folders.line.doubts["a pause that may repeat"] = None
        _check_row(words[1:], READ_ONLY[name], name, folders)
    else:
        raise NotReadOnly(f"{shorten(words[0].text)} is not on the list of commands that only read")


_XARGS = re.compile(r"-[0r]+|-n ?\d+|-I ?(\{\}|%)")


def _check_xargs(command: SimpleCommand, folders: Folders) -> None:
    """Raise `NotReadOnly` unless names of files alone are handed to a command that may get any."""
    stages = [folders.line.made[one] for one in command.before if one in folders.line.made]
    if len(stages) != len(command.before) or not lists_names(stages):
        raise NotReadOnly("what xargs hands on is not known before it runs")
    place, sign = 1, ""
    while place < len(command.words) and command.words[place].text.startswith("-"):
        option = command.words[place].text
        if option in ("-n", "-I"):
            place += 1
            option += f" {command.words[place].text}" if place < len(command.words) else ""
        found = _XARGS.fullmatch(option)
        if found is None:
            raise NotReadOnly(f"xargs {shorten(option)} is not on the list")
        sign, place = found[1] or sign, place + 1
    rest = command.words[place:]
    _check_consumer((*rest, NAME, NAME) if not sign else put_names(rest, sign, NAME), folders)


def put_names(words: tuple[Word, ...], sign: str, name: Word) -> tuple[Word, ...]:
    """Return the words of a command with `name` for each `sign`."""
    return tuple(replace(name, text=one.text.replace(sign, name.text)) if sign in one.text else one for one in words)


def _check_consumer(words: tuple[Word, ...], folders: Folders) -> None:
    """Check a command that gets names of files: one of the table, which `find` and `xargs` run themselves."""
    name = system_name(words[0]) if words and words[0].is_plain else ""
    if name not in READ_ONLY and name not in AWKS:
        raise NotReadOnly("what is run with the names is not on the list of commands that only read")
    operand = next((word.text for word in words[1:] if not word.text.startswith("-")), "")
    if LISTED in operand and name in CODE_FIRST:
        raise NotReadOnly(f"the script of {name} is not known before it runs")
    _check(SimpleCommand(words, is_nested=True), folders)


def _check_nexus(texts: list[str]) -> None:
    """Raise `NotReadOnly` for what does more than list skills, print the guide of one, or read the documentation."""
    if texts[:1] == ["docs"] and not any(text.startswith("-") for text in texts):
        return
    rest = [text for text in texts[2:] if text != "--json"]
    named = texts[:2] == ["skill", "use"] and len(rest) == 1 and not rest[0].startswith("-")
    if not named and (texts[:2] != ["skill", "list"] or rest):
        raise NotReadOnly(
            "of nexus only `docs`, `skill list` and `skill use NAME` are on the list of commands that only read"
        )


def _check_wrapped(command: SimpleCommand, name: str, head: int, folders: Folders) -> None:
    rest, sure = skip_options(command.words, WRAPPERS[name], head)
    before = command.words[head : len(command.words) - len(rest)]
    row = READ_ONLY[f"before-{name}"]
    _check_operands(split_options(before, row, name)[0], row, name, folders)
    if not rest or not sure or system_name(rest[0]) == "cd":
        raise NotReadOnly(f"what {name} runs is not known")
    _check(SimpleCommand(rest, is_nested=command.is_nested), folders)


def _check_row(words: tuple[Word, ...], row: ReadOnlyCommand, name: str, folders: Folders) -> None:
    """Check options and operands of one command against its row."""
    if row.operands == "test":
        _check_test(words, row, folders)
        return
    operands, has_pattern = (list(words), False) if row.operands == "any text" else split_options(words, row, name)
    if row.operands == "path" and operands and operands[0] is not words[-1]:
        raise NotReadOnly(f"{name} may write to what stands behind a file")
    if name == "strings" and any(word.text.startswith("@") for word in words):
        raise NotReadOnly("strings reads options from @FILE")
    check = _CHECKS.get(name)
    if check is not None and operands and not has_pattern:
        check(operands)
    if row.operands == "text paths":
        count = 0 if has_pattern else 1
        _check_operands(operands[:count], row._replace(operands="text"), name, folders)
        operands, row = operands[count:], row._replace(operands="paths")
    _check_operands(operands, row, name, folders)
    if name == "diff":
        for word in operands:
            _check_compared(word, folders)


def _check_compared(word: Word, folders: Folders) -> None:
    """Raise `NotReadOnly` for a folder whose links lead out of the project: `diff` compares what they name."""
    for folder in (folders.assumed, *folders.others):
        path = os.path.join(folder, os.path.expanduser(word.text) if word.has_tilde else word.text)
        if word.has_glob or os.path.isdir(path):
            check_glob(os.path.join(path, "*"), folders)


def split_options(words: tuple[Word, ...], row: ReadOnlyCommand, name: str) -> tuple[list[Word], bool]:
    """Return the operands, and True if an option gave a pattern or script; `NotReadOnly` for an option off the list."""
    operands: list[Word] = []
    has_pattern = False
    rest = iter(words)
    for word in rest:
        text = word.text
        if text == "--":
            operands += (_behind_dashes(one, row) for one in rest)
        elif not text.startswith("-") or text == "-":
            operands.append(word)
        elif word.has_glob:
            raise NotReadOnly(f"{shorten(text)} may become any option")
        else:
            take = _take_long if text.startswith("--") else _take_short
            has_pattern |= take(text, row, name, rest)
    return operands, has_pattern


def _behind_dashes(word: Word, row: ReadOnlyCommand) -> Word:
    """Return an operand behind `--`: what it expands to is no option. `git stash list` drops the `--`."""
    if word.text.startswith("-") and not row.operands.startswith("text"):
        raise NotReadOnly(f"{shorten(word.text)} behind -- may be an option")
    return Word("./" + word.text, True, True, False) if word.has_glob and _GLOB.match(word.text) else word


def _take_long(text: str, row: ReadOnlyCommand, name: str, rest: Iterator[Word]) -> bool:
    flag, equals, value = text[2:].partition("=")
    if name == "sed" and flag == "expression":
        _check_sed(value if equals else _next_value(rest, name))
        return True
    if f"{flag}=" in row.long:
        value = value if equals else _next_value(rest, name, is_pattern=flag == "regexp")
    elif f"{flag}==" in row.long and not equals:
        value = _next_value(rest, name) + _next_value(rest, name)
    elif f"{flag}?" not in row.long and (equals or flag not in row.long):
        raise NotReadOnly(f"{name} --{shorten(flag)} is not on the list")
    _check_value(value, in_form=flag in ("format", "pretty", "sort"))
    return flag == "regexp" or (name == "rg" and flag in ("files", "type-list"))


def _take_short(text: str, row: ReadOnlyCommand, name: str, rest: Iterator[Word]) -> bool:
    for place, letter in enumerate(text[1:], 1):
        behind = text[place + 1 :]
        if name == "sed" and letter == "e":
            _check_sed(behind or _next_value(rest, name))
            return True
        if letter != "?" and f"{letter}?" in row.valued:
            return False
        if name == "xxd" and place > 1:  # it looks at the first letter alone
            return False
        if letter != "?" and letter in row.valued:
            value = behind or _next_value(rest, name, is_pattern=letter == "e")
            if name in _TOUCHING and not _TOUCHING[name].fullmatch(behind):
                raise NotReadOnly(f"{name} -{letter}{shorten(behind)} may be several options")
            # On another system the option may have no value, and this word is a path.
            if not behind and letter != "e" and len(value) > 1 and (value.startswith(("/", "~")) or ".." in value):
                raise NotReadOnly(f"{name} -{letter} {shorten(value)} may be a path")
            _check_value(value)
            return letter == "e"
        if "#" in row.short and letter.isascii() and letter.isdigit():
            continue
        if letter not in row.short or letter == "#":
            raise NotReadOnly(f"{name} -{shorten(letter)} is not on the list")
    return False


def _next_value(rest: Iterator[Word], name: str, *, is_pattern: bool = False) -> str:
    word = next(rest, None)
    if word is None or not word.is_plain:
        raise NotReadOnly(f"an option of {name} has no plain value")
    if _OPTION.match(word.text) and not (is_pattern and name in _GREPS):
        raise NotReadOnly(f"{shorten(word.text)} may be an option of {name}")
    return word.text


def _check_value(value: str, *, in_form: bool = False) -> None:
    if re.search("%[-+ ]?G", value) or (in_form and "signature" in value):
        raise NotReadOnly("%G and `signature` run the program that checks signatures")


def _check_date(operands: list[Word]) -> None:
    if any(not word.text.startswith("+") for word in operands):
        raise NotReadOnly("date with an operand sets the clock")


def _check_printf(operands: list[Word]) -> None:
    if re.search(r"%[^%a-zA-Z]*n", operands[0].text):
        raise NotReadOnly("printf %n sets a variable")


_JQ = re.compile(r"(?<!\.)\benv\b|\.\.\s*env\b|\$\s*(?:ENV|__|#)|\b(?:include|import|get_search_list|modulemeta)\b")
_JQ_LOOP = re.compile(r"(?<!\.)\b(?:def|repeat|while|until|infinite)\b|\brecurse\s*\(")


def _check_jq(operands: list[Word]) -> None:
    if _JQ.search(operands[0].text):
        raise NotReadOnly("the jq program reads the environment or a module")
    if _JQ_LOOP.search(operands[0].text):
        raise NotReadOnly("the jq program may not end")


def _check_seq(operands: list[Word]) -> None:
    texts = [word.text for word in operands]
    if not all(re.fullmatch(r"[-+]?\d{1,9}(?:\.\d{1,9})?", text) for text in texts):
        raise NotReadOnly("seq may not end")
    step = abs(float(texts[1])) if len(texts) == 3 else 1
    if abs(float(texts[0])) + abs(float(texts[-1])) > step * 10**7:
        raise NotReadOnly("seq may take long")


def _check_tail(operands: list[Word]) -> None:
    if any(word.text.startswith("+") and (word.has_glob or not word.text[1:].isdigit()) for word in operands):
        raise NotReadOnly("tail +NUMf follows a file")


def _check_sed(script: str) -> None:
    """Raise `NotReadOnly` for a sed script that does more than print, delete and substitute."""
    if not is_plain_script(script):
        raise NotReadOnly("the sed script may write or run something")


def _check_awk(operands: list[Word]) -> None:
    if operands[0].has_glob or not is_plain_awk(operands[0].text):
        raise NotReadOnly("the awk script may write or run something")


_CHECKS: Mapping[str, Callable[[list[Word]], None]] = {
    **dict.fromkeys(AWKS, _check_awk),
    "date": _check_date,
    "jq": _check_jq,
    "printf": _check_printf,
    "sed": lambda operands: _check_sed(operands[0].text),
    "seq": _check_seq,
    "tail": _check_tail,
}
"""Further checks of the operands of a command, beyond its row."""
_TESTS = frozenset({"-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h"})


def _check_test(words: tuple[Word, ...], row: ReadOnlyCommand, folders: Folders) -> None:
    if len(words) == 3 and words[0].text == "!":
        words = words[1:]
    texts = [word.text for word in words]
    if len(texts) == 2 and texts[0] in _TESTS:
        _check_operands([words[1]], ReadOnlyCommand(), "test", folders)
        return
    compares = len(texts) == 3 and texts[1] in ("=", "==", "!=") and not texts[0].startswith(("-", "(", "!"))
    if any(word.has_glob for word in words) or not (compares or (len(texts) == 2 and texts[0] in ("-n", "-z"))):
        raise NotReadOnly("this test is not on the list")


def _check_operands(operands: list[Word], row: ReadOnlyCommand, name: str, folders: Folders) -> None:
    """Check what stands behind the options of a command."""
    kind = row.operands
    if (kind == "none" and operands) or (kind == "path" and (len(operands) > 1 or any(w.has_glob for w in operands))):
        raise NotReadOnly(f"{name} with more than one operand may write")
    if kind in _NUMBERS and not (len(operands) == 1 and _NUMBERS[kind].fullmatch(operands[0].text)):
        raise NotReadOnly(f"{name} may take long")
    for word in operands:
        if word.has_glob and _GLOB.match(word.text) and not row.is_safe_with_globs:
            raise NotReadOnly(f"a file that {shorten(word.text)} finds may be called like an option")
        if word.has_glob or kind in ("path", "paths"):
            check_path(word, folders)
    if not operands and name in _READS_FOLDER:
        for folder in (folders.assumed, *folders.others):
            if not folders.holds(folder) and os.path.lexists(folder):
                raise NotReadOnly("the folder may lie outside the project")


def _check_find(words: tuple[Word, ...], folders: Folders) -> None:
    """Check `find`: starting points, then tests of the list alone."""
    place = 0
    while place < len(words) and words[place].text not in ("!", "(", ",") and not words[place].text.startswith("-"):
        place += 1
    _check_operands(list(words[:place]), ReadOnlyCommand(), "find", folders)
    rest = iter(words[place:])
    for word in rest:
        if not word.is_plain:
            raise NotReadOnly(f"{shorten(word.text)} in find may become any option")
        if word.text == "-exec":
            _check_consumer(_read_exec(rest), folders)
            continue
        if word.text in FIND_TESTS:
            if not _next_word(rest).is_known or not word.is_plain:
                raise NotReadOnly("a value of find is not known")
        elif word.text == "-newer":
            check_path(_next_word(rest), folders)
        elif word.text not in FIND_FLAGS:
            raise NotReadOnly(f"find {shorten(word.text)} is not on the list")


def _read_exec(rest: Iterator[Word]) -> tuple[Word, ...]:
    """Return the command behind `-exec` with names in it, read up to `;` or `{} +`."""
    words: list[Word] = []
    listed = Word(f"./{LISTED}")
    for word in rest:
        if word.text == ";" and word.is_plain:
            return put_names(tuple(words), "{}", listed)
        if word.text == "+" and words and words[-1].text == "{}" and "{}" not in {one.text for one in words[:-1]}:
            return (*words[:-1], listed, listed)
        if not word.is_plain or word.text == "+" or ("{}" in word.text and word.text != "{}"):
            break
        words.append(word)
    raise NotReadOnly("what find runs is not known")


def _next_word(rest: Iterator[Word]) -> Word:
    word = next(rest, None)
    if word is None or not word.is_plain:
        raise NotReadOnly("a value of find is not plain")
    return word


def _check_git(words: tuple[Word, ...], folders: Folders) -> None:
    """Check `git`: in the folder where the line begins, a subcommand of the list with options of its row."""
    place = 0
    while place < len(words) and words[place].text.startswith("-"):
        if words[place].text == "-C" and place + 1 < len(words):
            target = os.path.join(folders.assumed, words[place + 1].text)
            if not words[place + 1].is_plain or os.path.realpath(target) not in (folders.start, folders.project):
                raise NotReadOnly("git -C leads to another folder")
            place += 2
        elif words[place].text == "--version" and len(words) == place + 1:
            return
        elif words[place].text in GIT_FLAGS:
            place += 1
        else:
            raise NotReadOnly(f"git {shorten(words[place].text)} is not on the list")
    name = words[place].text if place < len(words) else ""
    if name == "config" and reads_config(words[place + 1 :]):
        _check_repository(name, [], folders)
        return
    row = READ_ONLY.get(f"git-{name}")
    if row is None or not words[place].is_plain:
        raise NotReadOnly(f"git {shorten(name)} is not on the list of commands that only read".replace("  ", " "))
    _check_repository(name, [word for word in words[place + 1 :] if not word.text.startswith("-")], folders)
    _check_subcommand(words[place + 1 :], row, name, folders)


def _check_repository(name: str, operands: list[Word], folders: Folders) -> None:
    """Raise `NotReadOnly` where git may find another repository than the project's, or runs what that one names."""
    if folders.anywhere:
        return
    for folder in dict.fromkeys((folders.start, folders.project, folders.assumed, *folders.others)):
        if folder not in folders.repositories:
            try:
                folders.repositories[folder] = check_repository(folder, folders.project)
            except NotPlain as why:
                raise NotReadOnly(str(why)) from None
    if name == "diff" and not all(folders.repositories.values()):  # then it is `diff --no-index`
        for word in operands:
            _check_compared(word, folders)


def _check_subcommand(words: tuple[Word, ...], row: ReadOnlyCommand, name: str, folders: Folders) -> None:
    operands, has_pattern = split_options(words, row, name)
    texts = [word.text for word in operands]
    flags = {word.text for word in words if word.text.startswith("-")}
    match row.operands:
        case "listed":
            listing = flags & {"-l", "--list"} or (name == "tag" and any(f.startswith("-n") for f in flags))
            if operands and not listing:
                raise NotReadOnly(f"git {name} with a name changes it")
        case "remote" if texts and texts[0] != "get-url":
            raise NotReadOnly(f"git remote {shorten(texts[0])} is not on the list")
        case "stash" if texts[:1] not in (["list"], ["show"]) or texts[0] != words[0].text:
            raise NotReadOnly("git stash changes files")
        case "worktree" if texts != ["list"] or words[0].text != "list":
            raise NotReadOnly("git worktree changes files")
    if name == "reflog" and texts[:1] in (["expire"], ["delete"], ["drop"], ["write"]):
        raise NotReadOnly(f"git reflog {texts[0]} changes it")
    if row.operands in ("path", "none") and len(operands) > (row.operands == "path"):
        raise NotReadOnly(f"git {name} with a second name changes it")
    if row.operands == "text paths" and not has_pattern:
        operands = operands[1:]
    for word in operands:
        _check_operands([word], ReadOnlyCommand(), "git", folders)
