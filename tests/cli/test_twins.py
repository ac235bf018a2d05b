"""Twins of slash commands: every declared one is a shell command with its help and options."""

from __future__ import annotations

from importlib import import_module
from inspect import getdoc, signature

import pytest

from nexus_cli.cli.app import COMMANDS, load_command
from nexus_cli.commands import discover
from nexus_cli.commands.command import Twin

WITH_TWINS = ("cache", "memory", "runs", "schedule", "timeline", "why")


@pytest.mark.parametrize("name", WITH_TWINS)
def test_a_twin_is_a_shell_command_with_the_help_and_options_of_its_function(name: str) -> None:
    twins: tuple[Twin, ...] = import_module(f"nexus_cli.commands.{name}").TWINS
    assert name in discover() and name in COMMANDS and twins
    whole = load_command(name)
    for twin in twins:
        command = whole.commands[twin.verb] if twin.verb else whole
        assert command.help == getdoc(twin.build)
        own = list(signature(twin.build).parameters)[1:]
        session = ["session"] if twin.of_session else []
        assert [one.name for one in command.params] == [*session, *own, "json"]


def test_commands_with_twins_are_listed_here() -> None:
    found = {run.run.__module__.rpartition(".")[2] for run in discover().values()}
    there = tuple(sorted(name for name in found if hasattr(import_module(f"nexus_cli.commands.{name}"), "TWINS")))
    assert there == WITH_TWINS, f"write into tests/cli/test_twins.py: WITH_TWINS = {there}"
