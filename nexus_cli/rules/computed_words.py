"""The words of a command that bash computes: variables of the line, and the output of a few programs.

A form of a command has known words: each value of a variable once, and a pattern where files are listed, because what
is listed may be called like an option. Nothing is looked up for a listed name: wherever it leads, the walls of the
profile `read` hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nexus_cli.rules.command_line import SimpleCommand, Word, WordPiece, shorten
from nexus_cli.rules.folders import LISTED, Folders, NotReadOnly, check_path
from nexus_cli.rules.wrappers import system_name

MOST_FORMS = 400
"""Forms of all commands of a line that are looked at."""
MOST_COMMANDS = 60
"""Commands of a line in which bash computes words."""
_INERT = re.compile(r"[\w.,:@%+=/-]+", re.ASCII)
"""A value that is one word and no pattern, quoted or not."""
_SHOWN = frozenset({"HOME", "PWD", "USER", "?"})
"""Variables that may be printed."""
_FACTS = frozenset({"arch", "basename", "date", "dirname", "id", "nproc", "pwd", "uname", "wc", "whoami"})
_GIT_FACTS = frozenset({"describe", "merge-base", "rev-parse"})
_SEARCHES = re.compile(
    r"-[lriwEFPsSu0]+|-[tTg].*"
    r"|--(?:files|files-with-matches|include|exclude|exclude-dir|glob|type|hidden|no-ignore|null)(?:=.*)?"
)
_GIT_LISTS = {
    "ls-files": re.compile(r"-[cmoz]+|--(?:cached|modified|others|exclude-standard)"),
    "diff": re.compile(r"--(?:name-only|cached|staged|diff-filter=\w+)"),
    "grep": re.compile(r"-[liwEF]+|--(?:files-with-matches|name-only)"),
}
_FILTERS = {"grep": "vEFiwxe", "head": "n", "tail": "n", "sort": "rRfVu", "uniq": "", "tac": ""}
"""Programs that choose lines and change none, with their letters."""
_GLOB = frozenset("*?[")
CODE_FIRST = frozenset({"awk", "gawk", "jq", "mawk", "printf", "sed"})
"""Programs whose first operand is code or a format."""
NAME, _TEXT = Word(LISTED, True, True), Word("text")
"""Placeholders for a listed name, and for text that is only shown."""


def find_forms(command: SimpleCommand, folders: Folders) -> Iterator[tuple[Word, ...]]:
    """Yield the forms that a command may take. Raises `NotReadOnly` for a word that is not understood."""
    words, line = command.words, folders.line
    if all(word.is_known for word in words):
        yield words
        return
    if len(line.commands) > MOST_COMMANDS:
        raise NotReadOnly("it has too many commands beside words that are not known before it runs")
    name = system_name(words[0]) if words[0].is_known else ""
    if not name or name == "cd" or (name == "git" and not words[1].is_known):
        unknown = next(word.text for word in words if not word.is_known)
        raise NotReadOnly(f"the value of {shorten(unknown)} is not known before it runs")
    operand = next((word for word in words[1:] if not word.text.startswith("-")), None)
    if name in CODE_FIRST and operand is not None and not operand.is_known:
        raise NotReadOnly(f"the script of {name} is not known before it runs")
    values = [_expand(word, command, name, place, folders) for place, word in enumerate(words)]
    first = tuple(value[0] for value in values)
    # The checks look at each word by itself: every value beside the first one of the others is enough.
    yield first
    for place, value in enumerate(values):
        yield from ((*first[:place], one, *first[place + 1 :]) for one in value[1:])


def _expand(word: Word, command: SimpleCommand, name: str, place: int, folders: Folders) -> list[Word]:
    """Return the values of the word at `place` of a command called `name`."""
    if word.is_known:
        return [word]
    if not word.pieces:
        raise NotReadOnly(f"the value of {shorten(word.text)} is not known before it runs")
    only_shown = name == "echo" or (name == "printf" and place > 1) or (name == "test" and word.is_single)
    found, is_open = [Word("")], False
    for piece in word.pieces:
        values = _values(piece, command.place, folders, only_shown, word.is_single)
        is_open = is_open or NAME in values or _TEXT in values
        _count_forms(len(found) * len(values), folders)
        found = [_join(one, value) for one in found for value in values]
    if is_open and any(_GLOB & set(piece.shape) for piece in word.pieces):
        raise NotReadOnly(f"what {shorten(word.text)} finds is not known before it runs")
    if name == "test" and not word.is_single and any(not _INERT.fullmatch(one.text) for one in found):
        raise NotReadOnly("a word of the test may become several")
    # Where it is only shown or tested, a name that a pattern found counts as one word.
    return [Word(re.sub(r"[*?\[\]\0]", "x", one.text)) for one in found] if only_shown and name != "echo" else found


def _count_forms(count: int, folders: Folders) -> None:
    """Charge `count` values to the line before they are made. Once it has too many, every later command has too."""
    folders.forms += count
    if folders.forms > MOST_FORMS:
        raise NotReadOnly("its words have too many values")


def _join(one: Word, other: Word) -> Word:
    return Word(one.text + other.text, True, one.has_glob or other.has_glob)


def _values(piece: WordPiece, at: int, folders: Folders, only_shown: bool, is_quoted: bool) -> list[Word]:
    if piece.stages:
        return [_output(piece, folders, only_shown)]
    if not piece.is_variable:
        return [Word(piece.text, True, bool(_GLOB & set(piece.shape)))]
    bound = [one for one in folders.line.bindings if one.name == piece.text]
    if not bound and piece.text in _SHOWN and only_shown:
        return [_TEXT]
    is_set = any(one.start <= at < one.end for one in bound)
    if not is_set:
        raise NotReadOnly(f"the value of ${piece.text[:40]} is not known before it runs")
    return [_bound_value(word, folders, only_shown, is_quoted) for one in bound for word in one.words]


def _bound_value(word: Word, folders: Folders, only_shown: bool, is_quoted: bool) -> Word:
    if not word.is_known:
        if len(word.pieces) != 1 or not word.pieces[0].stages:
            raise NotReadOnly(f"the value of {shorten(word.text)} is not known before it runs")
        return _output(word.pieces[0], folders, only_shown)
    if word.has_glob:
        check_path(word, folders)
    if word.has_tilde or (not word.has_glob and not _INERT.fullmatch(word.text) and not (only_shown and is_quoted)):
        raise NotReadOnly(f"{shorten(word.text)} may become several words")
    return word


def _output(piece: WordPiece, folders: Folders, only_shown: bool) -> Word:
    """Return the placeholder for the output of a pipeline."""
    stages = [folders.line.made[one] for one in piece.stages if one in folders.line.made]
    if len(stages) == len(piece.stages) and lists_names(stages):
        return _TEXT if only_shown else NAME
    texts = [word.text for word in stages[-1].words[:2]] if stages else []
    is_fact = texts[:1] and (texts[0] in _FACTS or (texts[0] == "git" and texts[1:] and texts[1] in _GIT_FACTS))
    if not is_fact or not only_shown:
        raise NotReadOnly("the output of a command is not known before it runs")
    return _TEXT


def lists_names(stages: Sequence[SimpleCommand]) -> bool:
    """Return True if a pipeline lists files of the project, or small numbers, and chooses some of them."""
    if not stages or not stages[0].words or any(one.assignments for one in stages):
        return False
    first, *rest = stages
    program, *texts = [system_name(first.words[0]), *(word.text for word in first.words[1:])]
    flags = [text for text in texts if text.startswith("-")]
    if not all(map(_is_filter, rest)) or not all(word.is_known for word in first.words):
        return False
    if program == "find":
        return not {"-printf", "-ls", "-exec"} & set(texts)
    if program == "seq":
        return 0 < len(texts) < 4 and all(re.fullmatch(r"\d{1,3}", text) for text in texts)
    if program == "ls":
        return all(re.fullmatch("-[1aArtSd]+", flag) for flag in flags)
    if program in ("rg", "grep", "egrep", "fgrep"):
        is_list = any(re.match("-[a-zA-Z0]*l|--files", flag) for flag in flags)
        return is_list and all(map(_SEARCHES.fullmatch, flags))
    if program == "git":
        options = _GIT_LISTS.get(texts[0] if texts else "")
        is_list = bool(texts) and (texts[0] == "ls-files" or bool({"--name-only", "-l"} & set(flags)))
        return options is not None and is_list and all(map(options.fullmatch, (one for one in flags if one != "--")))
    return program in ("fd", "fdfind") and all(re.fullmatch("-[HIeg0t]|--(?:hidden|glob)", flag) for flag in flags)


def _is_filter(command: SimpleCommand) -> bool:
    if not all(word.is_plain for word in command.words):
        return False
    name, texts = system_name(command.words[0]), [word.text for word in command.words[1:]]
    if name in ("head", "tail") and "-n" in texts:
        place = texts.index("-n")
        texts = texts[:place] + texts[place + 2 :]
    flags = {sign for text in texts if text.startswith("-") for sign in text[1:].rstrip("0123456789")}
    operands = [text for text in texts if not text.startswith("-")]
    return name in _FILTERS and flags <= set(_FILTERS[name]) and len(operands) <= (name == "grep")
