"""Shell commands of nouns: every verb that is declared for the shell is there, with its help and options."""

from __future__ import annotations

from inspect import Parameter, getdoc, signature
from typing import Any

import pytest
from search import sample

from nexus_cli.cli.app import TYPED, find_noun, list_help_lines, load_command, run
from nexus_cli.commands import discover
from nexus_cli.commands.verb import Authority, Noun
from nexus_cli.config.host_environment import IN_SESSION

NAMES = [name for lines in list_help_lines().values() for name in lines if name not in TYPED]
NOUNS = [noun for name in NAMES if (noun := find_noun(name))]


def test_every_noun_with_a_verb_for_the_shell_is_listed() -> None:
    assert [noun.name for noun in NOUNS] == NAMES
    assert {name for name in discover() if find_noun(name)} <= set(NAMES)


@pytest.mark.parametrize("noun", sample(NOUNS, 6), ids=lambda noun: noun.name)
def test_a_verb_is_a_shell_command_with_the_help_and_options_of_its_function(noun: Noun) -> None:
    whole: Any = load_command(noun.name)
    for verb in noun.verbs:
        command = whole.commands[verb.name] if verb.name else whole
        assert command.help == getdoc(verb.run)
        session = ["session"] if verb.of_session else []
        own = [one.name for one in verb.parameters]
        assert [one.name for one in command.params] == [*session, *own, *(["json"] if verb.has_report else [])]
        assert not any(one.secondary_opts for one in command.params), "no --no-NAME"


def test_every_parameter_of_a_verb_is_declared() -> None:
    for noun in NOUNS:
        for verb in noun.verbs:
            names = [one.name for one in verb.parameters]
            assert [*signature(verb.run).parameters][1:] == names, f"{noun.name} {verb.name}"


PERMITS = {
    *("config edit", "config set", "config unset", "import", "ledger share", "ledger unshare", "login", "logout"),
    *("mcp add", "mcp login", "mcp remove", "model use", "plugin add", "plugin remove", "plugin update"),
    *("rules add", "rules remove", "trust"),
}
"""What changes trust, rules, keys, plugins, servers and settings."""


def test_what_changes_what_is_permitted_is_refused_to_commands_of_a_session(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(IN_SESSION, "1")
    refused = set[str]()
    for noun in NOUNS:
        for verb in noun.verbs:
            if verb.authority is Authority.PERMITS:
                required = [one for one in verb.parameters if one.option.is_argument and one.default is Parameter.empty]
                words = [word for word in (noun.name, verb.name) if word]
                status, name = run([*words, *("x" for _ in required)]), " ".join(words)
                assert status == 3 and capfd.readouterr().err.startswith(f"nexus: {name}: commands and hooks of a"), (
                    name
                )
                refused.add(name)
    assert refused == PERMITS


@pytest.mark.parametrize("noun", [noun for noun in NOUNS if noun.in_shell], ids=lambda noun: noun.name)
def test_what_the_shell_alone_has_is_known_behind_the_slash(noun: Noun) -> None:
    behind = {verb.name for verb in discover()[noun.name].verbs if verb.only != "shell"}
    assert set(noun.in_shell) == {verb.name for verb in noun.verbs} - behind
