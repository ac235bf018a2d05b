"""What a person sees: the program in a pseudo-terminal, at several widths, with and without colour."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli.conftest import RUN_ENGINE
from program.terminal_run import TerminalRun


def screen(scenario: str, *arguments: str, columns: int = 80, **environ: str) -> str:
    env = {**os.environ, "NEXUS_MODEL": "m", "TERM": "xterm-256color", **environ}
    words, home = (scenario, "ask", "hi", *arguments), Path(env["HOME"])
    with TerminalRun(*words, env=env, cwd=home, code=RUN_ENGINE, kind="light", columns=columns) as child:
        text: str = child.finish()
    assert child.exitstatus == 0
    return text


@pytest.mark.matrix
def test_the_answer_is_rendered_in_a_terminal() -> None:
    text = screen("answer")
    assert "\x1b[1" in text and "# Title" not in text and "**" not in text and " • " in text


@pytest.mark.matrix
@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_control_code_where_none_is_wanted(environ: dict[str, str]) -> None:
    texts = {scenario: screen(scenario, columns=80, **environ) for scenario in ("answer", "tools", "escapes")}
    assert not any("\x1b" in text for text in texts.values())
    assert "\u2713 bash ls" in texts["tools"]


@pytest.mark.matrix
def test_escapes_of_a_model_are_shown_not_obeyed() -> None:
    text = screen("escapes")
    assert "␛[31mred" in text and "<U+202E>txt" in text and "ls ␛[2J" in text and "\x1b[31mred" not in text


@pytest.mark.matrix
def test_progress_has_tools_times_and_errors() -> None:
    text = screen("tools", NO_COLOR="1")
    assert "\u2713 bash ls \u00b7 1.5 s" in text and "\u2717 bash ls -x\r\n    no such option\r\n    more" in text
    assert "bash ls" not in screen("tools", "-q", NO_COLOR="1")


@pytest.mark.matrix
@pytest.mark.parametrize("columns", [12, 40])
def test_progress_fits_a_narrow_terminal(columns: int) -> None:
    lines = [
        line
        for line in screen("tools", NO_COLOR="1", columns=columns).split("\r\n")
        if line.startswith(("\u2713 ", "\u2717 ", "  "))
    ]
    assert lines and max(map(len, lines)) <= columns


@pytest.mark.matrix
def test_json_on_a_terminal_is_plain_ascii() -> None:
    text = screen("escapes", "--stream-json", "-q")
    assert text.isascii() and "\x1b" not in text and "\\u202e" in text


@pytest.mark.matrix
def test_where_no_spinner_can_be_drawn_a_line_breaks_the_silence() -> None:
    assert screen("silent", TERM="dumb").count("\u00b7 waiting for the model ") == 2
    assert "waiting" not in screen("silent", "-q", TERM="dumb")
