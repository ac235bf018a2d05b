"""Who is away is called once, who is there never, and the title is theirs again after the next key."""

from __future__ import annotations

import asyncio
import os
from unittest.mock import patch

import pytest
from ui.put_clock import run_at_once
from ui.screen.screen_stand import stand

from nexus_cli.ui.screen import notification
from nexus_cli.ui.screen.notification import Notifier

pytestmark = pytest.mark.put_clock

DONE = "\x07\x1b[22;2t\x1b]2;nexus: done in x\x07\x1b]9;nexus: done in x\x07\x1b]777;notify;nexus;done in x\x07"
THERE = "\x1b]2;nexus\x07\x1b[23;2t"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification, "AWAY_SECONDS", 0.2)


async def test_only_who_is_away_is_called() -> None:
    said: list[str] = []
    one = Notifier(said.append, enabled=True)
    one.note_key()
    one.notify("done in x")
    await asyncio.sleep(0.25)
    assert said == [], "a turn that ended while they were there is no news"
    one.notify("done in x")
    one.note_key()
    one.note_key()
    assert said == [DONE, THERE]


async def test_a_question_calls_also_who_goes_away_after_it_was_asked() -> None:
    said: list[str] = []
    one = Notifier(said.append, enabled=True)
    for keys in (True, False):
        one.note_key()
        one.notify("bash; waits \x1b[2J", waits=True)
        await asyncio.sleep(0.1)
        one.note_key()
        await asyncio.sleep(0.15)
        assert said == []
        if keys:
            one.notify("")
        await asyncio.sleep(0.15)
        assert bool(said) is not keys
    one.end()
    one.notify("never")
    called, ended = said
    assert called.count("bash, waits ␛[2J") == 3 and ended == THERE


@pytest.mark.parametrize(
    ("environ", "nine", "seven"),
    [({"TERM_PROGRAM": "ghostty"}, 1, 0), ({"KITTY_WINDOW_ID": "1"}, 1, 0), ({"TMUX": "x"}, 1, 1)],
)
def test_a_terminal_gets_the_forms_that_it_knows(environ: dict[str, str], nine: int, seven: int) -> None:
    async def play(*, enabled: bool) -> str:
        said: list[str] = []
        Notifier(said.append, enabled=enabled).notify("done")
        return "".join(said)

    with patch.dict(os.environ, environ):
        said = run_at_once(play(enabled=True))
    assert (said.count("\x1b]9;"), said.count("\x1b]777;")) == (nine, seven)
    assert said.count("\x1bPtmux;\x1b\x1b]") == (2 if "TMUX" in environ else 0)
    assert run_at_once(play(enabled=False)) == ""


async def test_a_key_on_the_screen_says_that_someone_is_there() -> None:
    async with stand() as on:
        on.type("a")
        on.screen.notify("done in x", waits=True)
        await asyncio.sleep(0.1)
        on.type("b")
        await on.until("ab")
        await asyncio.sleep(0.12)
        assert b"\x07" not in on.raw
        await on.until(lambda: (on.seen(), b"\x1b]777;" in on.raw)[1])
        on.type("c")
        await on.until("abc")
        raw = on.raw
    assert raw.count(DONE.encode()) == 1 and raw.count(THERE.encode()) == 1
