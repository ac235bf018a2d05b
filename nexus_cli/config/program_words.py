"""Parse the words of the command line without typer: what is an option, its value, the command.

Imports nothing, like `cli/signal_result`: it is used before the program is loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs as much as Python's own start
    from collections.abc import Sequence

VALUED = frozenset(
    """
    --model -m --effort --resume -r --cd -C --recipe --allow --worktree -w --file -f --max-steps
    --max-total-tokens --max-cost --timeout --until --schema --watch-lines --watch-pause --add-dir --connect
    --token-file --max-input --max-input-tokens --max-drop --require-section --rule
    """.split()
)
"""Options of `nexus` and `nexus ask` whose value is the next word."""


def split_arguments(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command of a command line, "" for plain `nexus`, and the options before `--` that take no value."""
    command, options = "", list[str]()
    remaining_words = iter(arguments)
    for word in remaining_words:
        if word == "--":
            break
        if _takes_next(word):
            next(remaining_words, None)
        elif word[:1] == "-":
            options.append(word)
        else:
            command = command or word
    return command, options


def _takes_next(word: str) -> bool:
    """Return True for an option whose value is the next word, also behind short ones that take none (`-qC`)."""
    letters = word[1:] if word[:1] == "-" != word[1:2] else ""
    valued = [place for place, letter in enumerate(letters, 1) if f"-{letter}" in VALUED]
    return word in VALUED or valued[:1] == [len(letters)]
