"""The table that is read at start has what is declared: the page of `nexus --help`, each command with its options.

python tests/cli/test_start_table.py        writes it, after a change of a command, an option, a help or a setting
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nexus_cli.cli import app
from nexus_cli.cli.start_table import COMPLETED_BY, HELP, TABLE, read_rows
from nexus_cli.commands import discover

WRITE = "python tests/cli/test_start_table.py"
COLUMN, WIDTH = 31, 60
"""Columns of the names on the page of `nexus --help`, and of the page."""


def make_table() -> str:
    """Return the whole table."""
    app.load_command.cache_clear()  # a command that has run has the help option of its caller
    blocks = {HELP: make_help_page(), "": [*list_commands(), *list_parameters(app.build(completion=True))]}
    for name in (row[1] for row in list_commands() if row[0] == "command"):
        blocks |= make_blocks(app.load_command(name), name)
    texts = [f"# `{WRITE}` writes this table.\n"]
    for name, rows in blocks.items():
        texts.append(f"[{name}]\n" + "".join("\t".join(row) + "\n" for row in rows))
    return "\n".join(texts)


def make_help_page() -> list[list[str]]:
    """Return the lines of the page of `nexus --help`."""
    command = app.build(completion=False)
    context = command.context_class(command, info_name="nexus")
    options = {option.name: option.get_help_record(context) for option in command.params}
    first = [(f"nexus {words}", text) for words, text in app.FIRST.items()]
    first_options = [(names, shorten(text)) for names, text in map(options.__getitem__, app.FIRST_OPTIONS)]
    lines = ["Usage: nexus [OPTIONS] [COMMAND]", "", *textwrap.wrap(command.short_help, WIDTH)]
    for rows in (first, first_options):
        lines += ["", *(f"  {names.ljust(COLUMN - 2)}{text}" for names, text in rows)]
    return [[line] for line in (*lines, "", "nexus --help all lists all commands; see COMMAND --help.")]


def shorten(text: str) -> str:
    """Return the first words of a help that the page has room for: all, or up to a comma, colon or semicolon."""
    begins = [text[:place].rstrip(".") for place, sign in enumerate(f"{text};") if sign in ",:;"]
    fitting = [begin for begin in begins if COLUMN + len(begin) <= WIDTH]
    return fitting[-1][:1].lower() + fitting[-1][1:]


def list_commands() -> Iterator[list[str]]:
    """Yield the sections with their commands, then further names."""
    further = [noun for name in discover() if name not in app.COMMANDS and (noun := app.find_noun(name))]
    listed = {*app.COMMANDS, *(noun.name for noun in further)}
    for title, names in app.GROUPS.items():
        yield ["section", title, "", ""]
        here = [noun.name for noun in further if app.SECTIONS[noun.group] == title]
        yield from (["command", name, "", describe(name)] for name in (*names, *here))
    aliases = {alias: command.name for command in discover().values() for alias in (command.name, *command.aliases)}
    for alias, name in (aliases | app.FORMER).items():
        if alias not in listed:
            yield ["alias" if name in listed else "slash", alias, name, ""]


def describe(name: str) -> str:
    """Return the summary of a command: that of its noun, else the first sentence of its help."""
    noun = None if name in app.TYPED else app.find_noun(name)
    text = (noun and noun.summary) or app.load_command(name).help.partition("\n\n")[0]
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def make_blocks(command: Any, path: str) -> dict[str, list[list[str]]]:
    """Return the rows of a command and of those below it, by their names."""
    below = getattr(command, "commands", {})
    rows = [["command", name, "", describe_verb(part)] for name, part in below.items()]
    blocks = {path: rows + list_parameters(command)}
    for name, part in below.items():
        blocks |= make_blocks(part, f"{path} {name}")
    if verbs := app.list_verbs(path):  # `nexus sessions --all` is `nexus sessions list --all`
        blocks[path] += [row for row in blocks[f"{path} {verbs[0]}"] if row not in blocks[path]]
    return blocks


def describe_verb(command: Any) -> str:
    """Return the first sentence of the help of a subcommand."""
    return " ".join(command.help.partition("\n\n")[0].split())


def list_parameters(command: Any) -> list[list[str]]:
    """Return the rows of the arguments and options of a command."""
    context = command.context_class(command, info_name="nexus")
    rows = []
    for parameter in command.get_params(context):
        is_option = parameter.param_type_name == "option"
        is_repeated = parameter.multiple if is_option else parameter.nargs == -1
        kind = "flag" if is_option and parameter.is_flag else parameter.param_type_name + "s" * is_repeated
        names = " ".join(parameter.opts) if is_option else parameter.make_metavar(context)
        values = " ".join(item.value for item in parameter.shell_complete(context, ""))
        rows.append([kind, names, values, " ".join((parameter.help or "").split())])
    return rows


def test_the_table_has_what_is_declared() -> None:
    assert Path(TABLE).read_text(encoding="utf-8") == make_table(), f"write it anew: {WRITE}"


def test_every_value_that_a_verb_is_asked_for_is_that_of_a_verb() -> None:
    commands = set(re.findall(r"^\[(.*)\]$", Path(TABLE).read_text(encoding="utf-8"), re.MULTILINE)) - {HELP}
    values = {row[2] for command in commands for row in read_rows(command)}
    asked = {value.removeprefix(COMPLETED_BY) for value in values if value.startswith(COMPLETED_BY)}
    for noun, _, verb in (name.partition(" ") for name in asked):
        found = app.find_noun(noun)
        assert found and any(each.name == verb and callable(each.complete) for each in found.verbs), (noun, verb)
    assert len(asked) > 30


if __name__ == "__main__":
    Path(TABLE).write_text(make_table(), encoding="utf-8")
