"""The newcomer's path in a terminal: no key, a key pasted unseen and stored, the first answer."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Callable
from typing import Any

import pytest
from search import sample
from terminal.golden import check, styled
from terminal.repl import Place, Repl
from terminal.terminal import ENTER, ESCAPE, Terminal, ctrl

KEY = "sk-proj-newcomer-0123456789"
BARE: dict[str, str | None] = {"OPENAI_API_KEY": None, "NEXUS_MODEL": None}
ALONE = """
from nexus_cli.cli.run import first_run, run_repl
first_run.local_servers = run_repl.local_servers = list
"""
"""No model server answers on the machine of the test."""


def echoes(terminal: Terminal) -> bool:
    return bool(termios.tcgetattr(terminal._master)[3] & termios.ECHO)


def test_a_newcomer_without_a_key_pastes_one_and_gets_an_answer(
    places: Callable[..., Place], opened: Callable[[Terminal], Any]
) -> None:
    here = places(["Hello, newcomer."])
    (here.nexus_home / "config" / "config.toml").unlink()
    first = opened(Repl(here, env=BARE, bug=ALONE))
    first.wait_for("Provider [openai]:")
    first.send("OpenAI" + ENTER)
    first.wait_for("Key (not shown):")
    assert not echoes(first)
    first.send(KEY + ENTER)
    first.wait_for("Model [openai/scripted]:")
    first.send(ENTER)
    first.wait_for("Permission level [ask]:")
    assert f"Key (not shown): {'*' * len(KEY)} ({len(KEY)} characters)" in first.lines()
    first.send("all")
    first.wait_for("]: all")
    first.send(ENTER)
    first.ready()
    first.say("hello")
    first.wait_for("Hello, newcomer.")
    assert here.server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    first.send("!!env" + ENTER)
    first.wait_for("NEXUS_HOME=")
    first.idle()
    assert KEY.encode() not in first.raw, "neither typed, nor told, nor given to a command"
    first.send(ctrl("d"))
    assert first.status() == 0
    again = opened(Repl(here, env=BARE, bug=ALONE))
    again.ready()
    again.wait_for("openai/scripted")
    assert "Provider" not in again.picture()


@pytest.mark.parametrize(
    ("name", "columns", "env"),
    sample([("60", 60, {}), ("100", 100, {}), ("160", 160, {"NO_COLOR": "1"}), ("dumb", 60, {"TERM": "dumb"})], 2),
)
def test_the_first_start_looks_the_same_in_every_terminal(
    name: str, columns: int, env: dict[str, str], places: Callable[..., Place], opened: Callable[[Terminal], Any]
) -> None:
    here = places()
    (here.nexus_home / "config" / "config.toml").unlink()
    made = opened(
        Repl(here, env={**BARE, "PATH": "", "OPENAI_API_BASE": None, **env}, bug=ALONE, columns=columns, rows=50)
    )
    made.wait_for("Provider [anthropic]:")
    made.send("2" + ENTER)
    made.wait_for("Key (not shown):")
    check(f"first_start_{name}", styled(made.cells()))
    assert b"\x1b" not in made.raw


def test_settings_without_a_key_or_a_model_are_asked_for_a_key_too(
    places: Callable[..., Place], opened: Callable[[Terminal], Any]
) -> None:
    made = opened(Repl(places(), env=BARE, bug=ALONE))
    made.wait_for("Provider [openai]:")
    assert "Permission level" not in made.picture()
    made.send("1" + ENTER)
    made.wait_for("Key (not shown):")
    made.send(KEY + ENTER)
    made.ready()
    made.wait_for("Using openai/scripted, because OPENAI_API_KEY is stored", back=True)


def test_login_in_a_terminal_reads_the_key_unseen_and_nothing_stores_nothing(
    places: Callable[..., Place], opened: Callable[[Terminal], Any]
) -> None:
    here = places()
    for typed, status in (("", 2), (KEY, 0)):
        made = opened(Repl(here, "login", "openai", env=BARE))
        made.wait_for("Key (not shown):")
        made.send(typed + ENTER)
        assert made.status() == status and KEY.encode() not in made.raw
    assert (here.nexus_home / "data" / "keys" / "OPENAI_API_KEY").read_text() == KEY


@pytest.mark.matrix
def test_a_key_stays_unseen_after_a_shell_has_continued_the_program(
    places: Callable[..., Place], opened: Callable[[Terminal], Any]
) -> None:
    made = opened(Repl(places(), "login", "openai", env=BARE))
    made.wait_for("Key (not shown):")
    mode = termios.tcgetattr(made._master)
    mode[3] |= termios.ECHO
    termios.tcsetattr(made._master, termios.TCSANOW, mode)
    os.kill(made.pid, signal.SIGCONT)
    made.wait_for(lambda terminal: not echoes(terminal))
    made.send(KEY + ENTER)
    assert made.status() == 0 and KEY.encode() not in made.raw and echoes(made)


def test_a_model_whose_key_is_missing_asks_for_it_and_enter_goes_on(
    places: Callable[..., Place], opened: Callable[[Terminal], Any]
) -> None:
    here = places()
    keyless: dict[str, str | None] = {"OPENAI_API_KEY": None, "OPENAI_API_BASE": None}
    left = opened(Repl(here, env=keyless))
    left.wait_for("Key (not shown):")
    assert not echoes(left)
    left.send(ctrl("c"))
    assert left.status() == 130 and echoes(left), "a signal leaves the terminal as it was"
    without = opened(Repl(here, env=keyless))
    without.wait_for("Key (not shown):")
    without.send(ENTER)
    without.ready()
    without.send("hello" + ENTER)
    without.wait_for("or run `/login")
    without.idle()
    without.send("/login openai" + ENTER)
    without.wait_for("(not shown, Esc cancels)")
    without.send(ESCAPE)
    without.wait_for("No key was stored.")
    assert not list(here.nexus_home.glob("data/keys/*"))


def test_after_a_wrong_key_another_one_is_used_at_once_and_the_turn_goes_on(
    places: Callable[..., Place], opened: Callable[[Terminal], Any]
) -> None:
    here = places([{"fault": 401}, "It works now."])
    made = opened(Repl(here, env={"OPENAI_API_KEY": "sk-proj-wrong-0123456789"}))
    made.ready()
    made.say("hello")
    made.send("/login" + ENTER)
    made.wait_for("Which provider is the key from?")
    made.send(ENTER)
    made.wait_for("(not shown, Esc cancels)")
    made.send(KEY)
    made.wait_for("*" * len(KEY))
    made.send(ENTER)
    made.wait_for("OPENAI_API_KEY is ignored in this session")
    made.idle()
    made.say("/continue")
    made.wait_for("It works now.")
    assert here.server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in made.raw


def test_esc_cancels_each_field_and_shows_nothing(
    places: Callable[..., Place], opened: Callable[[Terminal], Any]
) -> None:
    for typed, status, said in (
        ("", 0, "Cancelled."),
        ("banana" + ENTER + "1" + ENTER, 2, "Use one of the options above"),
    ):
        here = places()
        (here.nexus_home / "config" / "config.toml").unlink()
        made = opened(Repl(here, env=BARE, bug=ALONE))
        made.wait_for("Provider [openai]:")
        made.send(typed)
        made.wait_for("Key (not shown):" if typed else "Provider [openai]:")
        made.send("half a word\x1b[A\x7f")
        made.send(ESCAPE)
        assert made.status() == status and said in made.picture() and "^[" not in made.picture()
        assert not typed or 'unknown provider "banana"' in made.picture()
        assert echoes(made) and not list(here.nexus_home.glob("data/keys/*"))
