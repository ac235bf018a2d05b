"""The content of a command line: simple commands, their words, the variables that it sets, and what is beyond."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from nexus_cli.core.elide import clip_text, show_printable


class WordPiece(NamedTuple):
    """One piece of a word that bash computes."""

    text: str = ""
    """Its value, or the name of a variable."""
    shape: str = ""
    """Its unquoted signs."""
    is_variable: bool = False
    is_output: bool = False
    """True for a substitution."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, unquoted."""

    text: str
    """Its value; the source where it is not known."""
    is_known: bool = True
    """False: bash computes it when the command runs."""
    has_glob: bool = False
    """It holds an unquoted `*`, `?` or `[`."""
    has_tilde: bool = False
    """It begins with an unquoted `~`."""
    pieces: tuple[WordPiece, ...] = field(default=(), compare=False)
    """The pieces of a word with an unknown value, if all of them are understood."""

    @property
    def is_plain(self) -> bool:
        """True if the program gets exactly `text`."""
        return self.is_known and not self.has_glob and not self.has_tilde

    @property
    def is_single(self) -> bool:
        """True if it stays one word whatever bash computes: it is in double quotes, and no list."""
        quoted = self.text[:1] == self.text[-1:] == '"' and self.text.count('"') == 2
        return self.is_known or (quoted and not {"@", "*", "!", "\\"} & set(self.text))


Words = tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program and its arguments, wherever in the line it stands."""

    words: Words
    assignments: tuple[str, ...] = ()
    """Names of the variables set for it alone."""
    is_certain: bool = False
    """True if it runs in the shell of the line itself, whatever the commands before it did."""
    reads_pipe: bool = False
    """True if its input is the output of another command."""
    inputs: tuple[str, ...] = ()
    """Texts in the line that it reads: here-documents, here-strings, words of `echo` or `printf` before it."""
    is_nested: bool = False
    """True in a loop, a condition, a group or a substitution."""
    place: int = 0
    """Its position in the line."""


class Redirect(NamedTuple):
    """A redirect of a command to or from a file."""

    operator: str
    target: Word
    place: int = 0
    """Its position in the line."""

    @property
    def opens_file(self) -> bool:
        """False if it copies or closes a descriptor, such as `2>&1`."""
        is_descriptor = self.target.is_plain and re.fullmatch("[0-9]+|-", self.target.text)
        return not (self.operator in (">&", "<&") and is_descriptor)


class Binding(NamedTuple):
    """Values that a variable of the line may have."""

    name: str
    words: Words
    start: int
    end: int
    """The place at which it surely has one of them."""


@dataclass(slots=True)
class CommandLine:
    """The content of one command line."""

    commands: list[SimpleCommand] = field(default_factory=list)
    """Every simple command, also those in substitutions, functions and loops, in the order of the text."""
    redirects: list[Redirect] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    """Texts of here-documents and here-strings."""
    codes: list[str] = field(default_factory=list)
    """Commands in backticks in a here-document, which the parser leaves as text."""
    doubts: dict[str, None] = field(default_factory=dict)
    """Constructs beyond plain commands, in words, in order."""
    forms: dict[str, None] = field(default_factory=dict)
    """Those of them that a line may have whose commands all only read."""
    bindings: list[Binding] = field(default_factory=list)
    is_unclear: bool = False
    """True: it does not parse, so a command may have been overlooked."""
    is_long: bool = False
    """True: above `LONGEST`."""


def shorten(text: str) -> str:
    """Return `text` for a message: on one line, at most 40 characters."""
    line = show_printable(text[:41])
    return clip_text(line, 40, "...")
