"""What the words of a command may become that bash computes: variables of the line, `$HOME`, names that are listed.

A value is known, or a file of the project that `listed_names` has looked at, or text that only what prints may get.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from itertools import islice, product

from nexus_cli.rules.command_line import Binding, CommandLine, NotFree, SimpleCommand, Word, WordPiece
from nexus_cli.rules.wrappers import system_name

MOST_VALUES = 40
"""Forms of one command that are looked at."""
LISTED = Word("./env")
"""In the place of a listed file. No script and no program of `jq` that is free is written so."""
_DEEPEST = 4
_GLOB = frozenset("*?[")
_SPLIT = re.compile(r"[\s*?\[]")
_SHOWN = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM"})
"""Variables of the environment that a line may read."""
_NUMBERS = frozenset({"nproc", "whoami", "pwd", "uname", "id", "arch", "seq", "wc"})
"""Programs whose output is no pattern and names nothing."""


class TextOnly(NotFree):
    """A word is text that nobody knows before; it is one word where it is quoted, or a number."""

    def __init__(self, is_number: bool) -> None:
        super().__init__("the output of a command is not known before it runs")
        self.is_number = is_number


class ComputedWords:
    """The words of one line."""

    def __init__(
        self,
        line: CommandLine,
        folders: Callable[[], Sequence[str]],
        are_listed: Callable[[Sequence[SimpleCommand]], bool],
    ) -> None:
        """`folders` are those that the line may be in now; `are_listed` says whether a pipeline lists files."""
        self._line, self._folders, self._are_listed = line, folders, are_listed

    def forms(self, command: SimpleCommand) -> list[tuple[Word, ...]]:
        """Return the forms that a command may take. Raises `NotFree`."""
        words = command.words
        if all(word.is_known for word in words):
            return [words]
        name = system_name(words[0])
        if not name or name == "cd":
            raise NotFree("what it runs is not known before")
        options = []
        for place, word in enumerate(words):
            try:
                options.append(self._expand(word, command.start, 0))
            except TextOnly:
                if not _takes_text(name, place, words):
                    raise
                options.append([Word("text")])
            if name == "printf" and place == 1 and not word.is_known:
                raise NotFree("what printf prints by is not known before")
        return list(islice(product(*options), MOST_VALUES + 1))

    def _expand(self, word: Word, at: int, depth: int) -> list[Word]:
        if word.is_known:
            return [word]
        if not word.pieces or depth > _DEEPEST:
            raise NotFree(f"the value of {word.text[:40]!r} is not known before it runs")
        texts, found = list[bool](), [Word("")]
        for piece in word.pieces:
            try:
                values = self._values(piece, at, depth)
            except TextOnly as text:
                texts.append(text.is_number)
                continue
            found = [_join(one, value) for one in found for value in values]
            if LISTED in values and len(word.pieces) > 1:
                texts.append(True)  # a part of a listed name may be anything
            if len(found) > MOST_VALUES:
                raise NotFree("it has too many values")
        if texts and any(one.has_glob for one in found):
            raise NotFree("what a pattern finds is not known before")
        if texts:
            raise TextOnly(all(texts))
        return found

    def _values(self, piece: WordPiece, at: int, depth: int) -> list[Word]:
        if piece.stages:
            return self._output(piece)
        if not piece.is_variable:
            return [Word(piece.text, has_glob=piece.has_glob)]
        try:
            values = [Word("0")] if piece.text == "?" else self._variable(piece.text, at, depth)
        except TextOnly as text:
            if piece.is_quoted or text.is_number:
                raise
            raise NotFree(f"the value of ${piece.text} may become several words") from None
        for value in values:
            splits = _SPLIT.search(value.text) and not value.has_glob
            if not piece.is_quoted and (splits or not value.text or (value.has_glob and self._splits(value.text))):
                raise NotFree(f"the value of ${piece.text} may become several words")
        return values

    def _variable(self, name: str, at: int, depth: int) -> list[Word]:
        bound = [one for one in self._line.bindings if one.name == name]
        if not bound and name in _SHOWN and name in os.environ:
            return [Word(os.environ[name])]
        folders = self._folders()
        if not bound and name == "PWD" and len(folders) == 1:
            return [Word(folders[0])]
        if not bound or name in os.environ:
            raise NotFree(f"the value of ${name} is not known before it runs")
        values, texts = list[Word](), list[bool]()
        for word, start in ((word, one.start) for one in bound for word in one.words):
            try:
                values += self._expand(word, start, depth + 1)
            except TextOnly as text:
                texts.append(text.is_number)
            if len(values) > MOST_VALUES:
                raise NotFree("it has too many values")
        if any(value.has_tilde for value in values):
            raise NotFree(f"the value of ${name} is not known before it runs")
        if texts:
            raise TextOnly(all(texts) and not any(_SPLIT.search(value.text) for value in values))
        return values if any(_holds(one, at) for one in bound) else [*values, Word("")]

    def _output(self, piece: WordPiece) -> list[Word]:
        stages = [self._line.made[one] for one in piece.stages if one in self._line.made]
        if len(stages) == len(piece.stages) and self._are_listed(stages):
            return [LISTED]
        last = stages[-1] if stages and len(stages) == len(piece.stages) else SimpleCommand(())
        texts = [word.text for word in last.words]
        is_number = bool(texts) and (texts[0] in _NUMBERS or texts[:2] == ["git", "rev-parse"])
        if _GLOB & set("".join(texts)) or (texts[:1] == ["wc"] and not all(text.startswith("-") for text in texts[1:])):
            is_number = False
        if not piece.is_quoted and not is_number:
            raise NotFree("the output of a command may become several words, or names of files")
        raise TextOnly(is_number)

    def _splits(self, pattern: str) -> bool:
        """Return True if a name that a pattern finds now may be taken for several words."""
        found = (name for folder in self._folders() for name in glob.iglob(os.path.join(glob.escape(folder), pattern)))
        return any(_SPLIT.search(os.path.basename(name)) for name in islice(found, 5_000))


def _join(one: Word, other: Word) -> Word:
    return Word(one.text + other.text, True, one.has_glob or other.has_glob)


def _holds(bound: Binding, at: int) -> bool:
    return bound.start <= at < bound.end


def _takes_text(name: str, place: int, words: Sequence[Word]) -> bool:
    """Return True where a command only prints or compares a word, whatever it is."""
    if name == "echo":
        return place > 0
    if name == "printf":
        return place > 1
    texts = [word.text for word in words]
    return name == "test" and ((len(words) == 3 and texts[1] in ("-n", "-z")) or (len(words) == 4 and place != 2))
