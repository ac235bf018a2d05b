"""Find what a command line plainly writes, for deny and ask rules about edits.

Below level `all` the sandbox holds what deny rules name, whatever a program does; a line that plainly writes there is
refused before it runs. At `all` nothing but this search does, and it sees only redirects and the programs of a table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nexus_cli.rules.command_line import Redirect, SimpleCommand, Word
from nexus_cli.rules.folders import Folders
from nexus_cli.rules.reader_options import has_write_option
from nexus_cli.rules.rule_set import PermissionRule, find_by_path
from nexus_cli.rules.wrappers import program_name

REDIRECTS = (">", ">>", ">|", "&>", "&>>", ">&", "<>")
WRITERS = frozenset("rm rmdir unlink shred mv tee touch mkdir truncate chmod chown chgrp patch dd".split())
"""Programs that change every path that they name."""
WRITES_LAST_OPERAND = frozenset("cp ln install rsync".split())
"""Programs that change the last one."""
OF_GIT = frozenset("checkout restore rm mv clean".split())
_GLOB = re.compile(r"[*?\[]")


def find_written(
    command: SimpleCommand, redirects: Iterable[Redirect], strict: Sequence[PermissionRule], folders: Folders
) -> PermissionRule | None:
    """Return the one of `strict`, deny and ask rules for edits with a pattern, that names a path which the command, in
    the folder that is assumed now, or one of the line's `redirects` plainly writes."""
    if not strict:
        return None
    first = folders.line.commands[:1]
    moves = bool(first and first[0].words and program_name(first[0].words[0]) == "cd")
    start = folders.entered[1] if moves and len(folders.entered) > 1 else folders.start
    words = [
        *_written_words(command.words),
        *(redirect.target for redirect in redirects if redirect.operator in REDIRECTS),
    ]
    texts = [path for word in words for path in _paths_of(word)]
    try:
        paths = [os.path.realpath(os.path.join(folders.assumed if command.words else start, text)) for text in texts]
    except (OSError, ValueError):
        return None
    return find_by_path(strict, map(Path, paths), Path(folders.project), [Path(folder) for folder in folders.added])


def _written_words(words: Sequence[Word]) -> Sequence[Word]:
    name = program_name(words[0]) if words else ""
    arguments = words[1:]
    if name == "git":
        place = next((index for index, word in enumerate(arguments) if not word.text.startswith("-")), len(arguments))
        return arguments[place + 1 :] if arguments[place : place + 1] and arguments[place].text in OF_GIT else ()
    if name in WRITERS or has_write_option(name, words):
        return arguments
    if name not in WRITES_LAST_OPERAND:
        return ()
    targets = (
        arguments[index + 1] for index, word in enumerate(arguments[:-1]) if word.text == "-t" and name != "rsync"
    )
    return [*(word for word in arguments if word.text.startswith("-")), *targets, *arguments[-1:]]


def _paths_of(word: Word) -> Iterator[str]:
    """Yield the paths that a word names as it stands; of a glob the folder, of an option its value."""
    if not word.is_known:
        return
    text = os.path.expanduser(word.text) if word.has_tilde else word.text
    if word.has_glob:
        text = _GLOB.split(text, maxsplit=1)[0].rpartition("/")[0]
    for candidate in (text, text.partition("=")[2], text[2:] if text.startswith("-") else ""):
        if candidate:
            yield candidate
