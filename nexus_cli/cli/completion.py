"""Complete a line in a shell, for the scripts that `nexus --install-completion` installs.

The words are those of the start table. Imports only modules that Python itself has loaded, unless the line has quotes
or a verb has to be asked for values, such as the names of sessions.
"""

from __future__ import annotations

import os

from nexus_cli.cli.start_table import COMPLETED_BY, read_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = ("flag", "option", "options")
"""Kinds of rows that begin with a dash."""
POWERSHELL = ("powershell", "pwsh")
FORMS = {
    "zsh": ('"{}"', '"{}":"{}"'),
    "fish": ("{}", "{}\t{}"),
    **dict.fromkeys(POWERSHELL, ("{}::: ", "{}:::{}")),
}
"""A word, and a word with its help, as the script of typer reads them. Bash reads the word alone."""
ZSH_ESCAPES = str.maketrans({'"': r"\"", "'": r"'\''", "$": r"\$", "`": r"\`", ":": r"\\:"})


def complete_line(shell: str) -> tuple[int, str]:
    """Return the exit status and the text for the shell, which passes the line in environment variables."""
    *before, typed = _read_words(shell)
    matches = [(word, text) for word, text in _list_words(before, typed) if word.startswith(typed)]
    if os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return int(not matches), ""
    escapes = ZSH_ESCAPES if shell == "zsh" else {}
    forms = FORMS.get(shell, ("{}", "{}"))
    lines = "\n".join(
        forms[bool(text)].format(word.translate(escapes), text.translate(escapes)) for word, text in matches
    )
    if shell == "zsh":
        lines = f"_arguments '*: :(({lines}))'" if matches else "_files"
    return 0, f"{lines}\n"


def _read_words(shell: str) -> list[str]:
    """Return the words behind the name of the program; the last one is typed, and may be empty. The value of
    `--option=value` is a word of its own. Bash has split the line itself; for other shells quotes and backslashes are
    read, unless a quote is open: then each text between spaces is a word."""
    read_variable = os.environ.get
    line = read_variable("COMP_WORDS") or read_variable("_TYPER_COMPLETE_ARGS", "")
    if shell in POWERSHELL and not read_variable("_TYPER_COMPLETE_WORD_TO_COMPLETE"):
        line += " "
    words = line.split("\n" if "\n" in line else " ")[1:]
    if shell != "bash" and any(sign in line for sign in "\"'\\"):
        import shlex  # noqa: PLC0415  (most lines have no quotes)

        try:
            words = shlex.split(f"{line}_")[1:]  # the added sign keeps an empty word at the end
            words[-1:] = [word[:-1] for word in words[-1:]]
        except ValueError:
            pass
    if shell == "bash":  # it passes what follows too, and has split the words at each `=`
        words = [*words, ""][: int(read_variable("COMP_CWORD", "1"))]
    parts = [part for word in words for part in (word.split("=", 1) if word[:1] == "-" else [word.removeprefix("=")])]
    return [*filter(None, parts[:-1]), *(parts[-1:] or [""])]


def _list_words(before: Sequence[str], typed: str) -> list[tuple[str, str]]:
    """Return the words that may follow others, each with its help; options only if one is typed."""
    command, rows = "", read_rows("")
    given_rows: list[list[str]] = []
    count, words = 0, iter(before)
    for word in words:
        if word == "--":
            rows = [row for row in rows if row[0] not in OPTIONS]
        kind, _, values, _ = row = next((row for row in rows if word in row[1].split()), [""] * 4)
        if kind in ("command", "alias"):
            command = values or f"{command} {word}".lstrip()
            rows = read_rows(command)
        elif kind in OPTIONS:
            given_rows.append(row)
            if kind != "flag" and next(words, None) is None:
                return _list_values(values)
        else:
            count += not word.startswith("-")
    if typed.startswith("-"):
        options = [row for row in rows if row[0] in OPTIONS and (row not in given_rows or row[0] == "options")]
        return [(name, row[3]) for row in options for name in row[1].split()]
    candidates = [(row[1], row[3]) for row in rows if row[0] == "command" and not count]
    for place, (kind, _, values, _) in enumerate(row for row in rows if row[0].startswith("argument")):
        if place == count or (kind == "arguments" and place < count):
            candidates += _list_values(values)
    return candidates


def _list_values(values: str) -> list[tuple[str, str]]:
    """Return the values of an option or argument, as its row has them."""
    if not values.startswith(COMPLETED_BY):
        return [(value, "") for value in values.split()]
    from nexus_cli.core.lazy_methods import compile_methods_lazily  # noqa: PLC0415  (most lines ask for no values)
    from nexus_cli.core.private_process import make_process_private  # noqa: PLC0415  (as above)

    compile_methods_lazily()
    make_process_private()
    from nexus_cli.cli.verb_values import list_values  # noqa: PLC0415  (as above)

    noun, _, verb = values.removeprefix(COMPLETED_BY).partition(" ")
    return [(value, "") for value in list_values(noun, verb)]
