"""A key in an argument or a setting that is refused: one line says what was expected, and shows the key nowhere."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[bytes]]

KEY = "sk-proj-Ab12Cd34Ef56Gh78"
UNKNOWN_FORM = "Zx81QwErTy72UiOpAs63DfGh"
REFUSED = [
    ("config", "set", "keys.OPENAI_API_KEY", "{}"),
    ("config", "set", "OPENAI_API_KEY", "{}"),
    ("config", "set", "limits.max_steps", "{}"),
    ("config", "set", "{}", "x"),
    ("config", "get", "{}"),
    ("login", "{}"),
    ("login", "openai", "{}"),
    ("login", "openai", "--as", "{}"),
    ("logout", "{}"),
    ("ask", "--effort={}", "hello"),
    ("{}",),
]
"""Command lines that an ordinary check refuses."""


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_key_that_is_given_is_refused_in_one_line_and_printed_nowhere(
    nexus: Run, config: Path, words: tuple[str, ...]
) -> None:
    done = nexus(*(word.format(KEY) for word in words), env={"OPENAI_API_KEY": "sk-nobody"})
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert KEY.encode() not in done.stdout + done.stderr and not config.exists()


def test_an_invalid_value_that_is_longer_than_a_name_is_not_shown(nexus: Run, config: Path) -> None:
    config.write_text(f'[limits]\nmax_steps = "{UNKNOWN_FORM}"\n')
    for words in (("config", "show"), ("config", "set", "limits.max_steps", UNKNOWN_FORM), ("ask", "--json", "hi")):
        done = nexus(*words)
        assert done.returncode == 2 and UNKNOWN_FORM.encode() not in done.stdout + done.stderr, words
        assert b"max_steps is a value of 26 characters, expected a whole number" in done.stderr, words


@pytest.mark.matrix
@pytest.mark.parametrize("text", ['allow = "{}"\n', '"{}" = 1\n', '[limits]\n"{}" = 1\n', 'model = ["{}"]\n'])
def test_an_error_about_the_file_shows_no_key(nexus: Run, config: Path, text: str) -> None:
    config.write_text(text.format(KEY))
    done = nexus("config", "show")
    assert done.returncode == 2 and KEY.encode() not in done.stderr


@pytest.mark.matrix
def test_a_key_in_place_of_a_model_is_shown_by_no_report(nexus: Run, config: Path) -> None:
    config.write_text(f'model = "{KEY}"\n[alias]\nfast = "{KEY}"\n')
    for words in (("config", "show"), ("config", "show", "--json"), ("doctor",), ("doctor", "--json"), ("status",)):
        done = nexus(*words)
        said = b"[redacted]" in done.stdout or b"it contains an API key" in done.stdout
        assert KEY.encode() not in done.stdout + done.stderr and said, words
    assert nexus("config", "get", "model").stdout == f"{KEY}\n".encode(), "asked for by its name"
