"""Arguments of a guide in a command are words of the shell, and never more."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest

from nexus_cli.context.sections.skills import Skill
from nexus_cli.session.skill_guides import _Expansion

ARGUMENT = "a;echo${IFS}INJ $(echo INJ) ' \" `echo INJ`"
NONE: Any = None
"""What filling in arguments does not look at: the session."""
GUIDE = Skill("g", "", "g.md", b"", "personal")


@pytest.mark.parametrize(
    "command",
    ["printf %s $1", 'printf %s "$1"', "printf %s x$1'y'", 'printf %s "a"$1"b"', 'printf %s "$ARGUMENTS"'],
)
def test_an_argument_is_one_word(command: str) -> None:
    given = ARGUMENT if "ARGUMENTS" in command else shlex.quote(ARGUMENT)
    called = _Expansion(NONE, GUIDE, given)
    filled = called._fill(command, quote=True)
    assert not called.is_unsure(command)
    done = subprocess.run(["sh", "-c", filled], capture_output=True, text=True, check=True)
    assert ARGUMENT in done.stdout


@pytest.mark.parametrize("command", ["echo '$1'", 'echo "a $1"', 'echo "$(echo "$1")"', 'echo "$(echo a $ARGUMENTS)"'])
def test_an_argument_within_other_quotes_is_refused(command: str) -> None:
    assert _Expansion(NONE, GUIDE, shlex.quote(ARGUMENT)).is_unsure(command)


def test_a_sign_without_an_argument_belongs_to_the_shell() -> None:
    called = _Expansion(NONE, GUIDE, "a")
    line = """printf 'x y\\n' | awk '{print $2}'; echo "$3" $1"""
    assert not called.is_unsure(line) and called._fill(line, quote=True) == line.replace("$1", "a")
