"""Shell commands of nouns: every verb that is declared for the shell is there, with its help and options."""

from __future__ import annotations

from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import Any

import pytest

from nexus_cli import commands
from nexus_cli.cli.app import list_help_lines, load_command
from nexus_cli.commands import discover
from nexus_cli.commands.verb import Noun

FILES = sorted(path.stem for path in Path(commands.__file__).parent.glob("*.py") if path.stem != "__init__")
DECLARED = [
    noun
    for name in FILES
    if isinstance(noun := getattr(import_module(f"nexus_cli.commands.{name}"), "NOUN", None), Noun)
]


def list_names() -> set[str]:
    """Return the names of all shell commands."""
    return {name for lines in list_help_lines().values() for name in lines}


@pytest.mark.parametrize("noun", DECLARED, ids=lambda noun: noun.name)
def test_a_verb_is_a_shell_command_with_the_help_and_options_of_its_function(noun: Noun) -> None:
    verbs = noun.list_verbs("shell")
    assert (noun.name in discover() and not verbs) or noun.name in list_names()
    whole: Any = load_command(noun.name) if verbs else None
    for verb in verbs:
        command = whole.commands[verb.name] if verb.name else whole
        assert command.help == getdoc(verb.run)
        session = ["session"] if verb.of_session else []
        own = [one.name for one in verb.parameters]
        assert [one.name for one in command.params] == [*session, *own, *(["json"] if verb.has_report else [])]
        assert not any(one.secondary_opts for one in command.params), "no --no-NAME"
