"""Arguments of a guide in a command are words of the shell, and never more."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest

from nexus_cli.session.skill_guides import _Expansion, _is_unsure

ARGUMENT = "a;echo${IFS}INJ $(echo INJ) ' \" `echo INJ`"
NONE: Any = None
"""What filling in arguments does not look at: session and guide."""


@pytest.mark.parametrize(
    "command",
    ["printf %s $1", 'printf %s "$1"', "printf %s x$1'y'", 'printf %s "a"$1"b"', 'printf %s "$ARGUMENTS"'],
)
def test_an_argument_is_one_word(command: str) -> None:
    given = ARGUMENT if "ARGUMENTS" in command else shlex.quote(ARGUMENT)
    filled = _Expansion(NONE, NONE, given)._fill(command, quote=True)
    assert not _is_unsure(command)
    done = subprocess.run(["sh", "-c", filled], capture_output=True, text=True, check=True)
    assert ARGUMENT in done.stdout


@pytest.mark.parametrize("command", ["echo '$1'", 'echo "a $1"', 'echo "$(echo "$1")"', 'echo "$(echo a $ARGUMENTS)"'])
def test_an_argument_within_other_quotes_is_refused(command: str) -> None:
    assert _is_unsure(command)
