"""The README's table of keys: each key in each state does what its cell says.

A cell's words name an effect of `EFFECTS`: what stands in the box before, and what is to be seen after the key.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.buffer import Buffer
from search import sample
from ui.put_clock import run_at_once
from ui.screen.screen_driver import make_box
from ui.screen.screen_stand import Stand, stand

from nexus_cli.commands import help as help_text
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion
from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.screen import question
from nexus_cli.ui.screen.layout import key_rows
from nexus_cli.ui.screen.screen import Screen

README = Path(__file__).resolve().parents[3] / "README.md"
ANSWERS = (AnswerKey("y", "yes"), AnswerKey("a", "always"), AnswerKey("n", "no"))
STATES = ("at the prompt", "menu open", "turn running", "at a question")
KEYS = {
    "Enter": "\r",
    "Alt+Enter": "\x1b\r",
    "Shift+Enter": "\x1b[13;2u",
    "`\\` Enter": "\\\r",
    "Esc": "\x1b",
    "Up": "\x1b[A",
    "Tab": "\t",
    "Shift+Tab": "\x1b[Z",
    "?": "?",
}


def bytes_of(name: str) -> str:
    """What a terminal sends for a key of the table."""
    return KEYS.get(name) or "".join(chr(ord(letter) & 0x1F) for letter in re.findall(r"Ctrl\+(\w)", name))


def rows_of_table() -> list[tuple[str, tuple[str, ...]]]:
    """The name of each key and its cells; an empty cell says what the first says."""
    lines = README.read_text().splitlines()
    start = lines.index(f"|key|{'|'.join(STATES)}|") + 2
    found = []
    for line in lines[start : lines.index("", start)]:
        names, *cells = line[1:-1].split("|")
        found += [(name, tuple(cell or cells[0] for cell in cells)) for name in names.split(", ")]
    return found


class Bench:
    """A screen with the real box, in one of the states."""

    def __init__(self, on: Stand, box: InputBox, state: str) -> None:
        self.on, self.box, self.state = on, box, state
        self.asked: asyncio.Task[str | None] | None = None
        self.outside: list[str] = []

    @property
    def said(self) -> list[str]:
        return self.on.controller.said

    @property
    def buffer(self) -> Buffer:
        return self.on.screen._panel.buffer if self.asked else self.box.buffer

    @property
    def text(self) -> str:
        return self.buffer.text

    async def prepare(self, text: str) -> None:
        """Come to the state, with `text` in the box or the field."""
        self.said.clear()
        self.on.controller.running = self.state in ("turn running", "at a question")
        if self.state == "at a question":
            self.asked = asyncio.ensure_future(self.on.screen.question(AskedQuestion("Run this?", ANSWERS)))
            await self.on.until(lambda: self.on.screen._panel.is_open)
        elif self.state == "menu open":
            text = "/e"
        if text:
            self.on.type(text)
            await self.on.until(lambda: self.text == text)
        if self.state == "menu open":
            await self.on.until(lambda: self.box.menu_open)

    async def finish(self) -> None:
        if self.asked:
            self.asked.cancel()
            await asyncio.wait([self.asked])
            self.asked = None
        self.on.controller.running, self.on.controller.waiting = False, []
        if self.box.searching:
            self.on.type("\x07")
            await self.on.until(lambda: not self.box.searching)
        self.box.buffer.reset()
        self.on.screen._layout.hint, self.outside = "", []
        await self.on.still()

    def remembers(self) -> bool:
        """The history is there again: the box loads it anew after each message."""
        loading = self.box.buffer._load_history_task
        return loading is not None and loading.done()

    @property
    def marked(self) -> str:
        """The key of the question that Enter takes."""
        panel = self.on.screen._panel
        place = panel.marked
        return "" if place is None else panel.question.keys[place].key

    def answered(self, *answers: str | None) -> bool:
        return self.asked is not None and self.asked.done() and self.asked.result() in answers


@dataclass(frozen=True)
class Effect:
    """What a key does."""

    holds: Callable[[Bench], object]
    before: str = ""
    """In the box or the field; the menu has its own."""
    first: str = ""
    """Keys before it."""
    again: str = ""
    """Keys after the first: a key that is pressed twice."""


EFFECTS = {
    "sends": Effect(lambda b: b.said == ["entered 'words'"] and b.text == "", "words"),
    "steers the turn": Effect(lambda b: b.said == ["entered 'words'"] and b.text == "", "words"),
    "queues the message": Effect(lambda b: b.said == ["queued 'words'"] and b.text == "", "words"),
    "selects the entry": Effect(lambda b: b.said == ["entered '/exit'"]),
    "new line": Effect(lambda b: b.text in ("words\n", "/e\n") and not b.said, "words"),
    "selects the marked answer": Effect(lambda b: b.answered("y"), first="\t"),
    "lets you type an answer": Effect(lambda b: b.answered("words", "words\\"), "words"),
    "previous answer": Effect(lambda b: b.marked == "n"),
    "next answer": Effect(lambda b: b.marked == "y"),
    "refuses the call": Effect(lambda b: b.answered(None) and not b.said),
    "twice: back to a message": Effect(lambda b: b.said == ["edits"], again="\x1b"),
    "closes the menu": Effect(lambda b: not b.box.menu_open and b.text == "/e"),
    "stops the turn": Effect(
        lambda b: b.said in (["stopped"], ["interrupted"]) and (b.text == "words" or (b.asked and b.asked.done())),
        "words",
    ),
    "clears the input, twice: exits": Effect(
        lambda b: b.text == "" and "again to exit" in b.on.screen._layout.hint, "w", again="\x03"
    ),
    "exits": Effect(lambda b: b.said == ["left"]),
    "history": Effect(lambda b: b.text in ("earlier", "w")),
    "previous entry": Effect(lambda b: b.text == "/reload"),
    "next entry": Effect(lambda b: b.text == "/exit" and b.box.menu_open),
    "edits the queued message": Effect(lambda b: b.said == ["taken back"] and b.text == "queued words"),
    "completes": Effect(lambda b: b.text.startswith("/he") and b.text.strip() == "/help", "/he"),
    "level: ask, edit, auto, plan": Effect(lambda b: b.said == ["level"]),
    "lists the keys": Effect(lambda b: any(row.startswith("Shift+Tab") for row in b.on.seen()) and b.text == ""),
    "types `?`": Effect(lambda b: b.text in ("?", "/e?")),
    "searches history": Effect(lambda b: b.box.searching),
    "your editor": Effect(lambda b: b.outside == ["editor"]),
    "pastes an image": Effect(lambda b: b.box.text.endswith("@one.png ")),
    "shows thinking": Effect(lambda b: b.said == ["thinking"]),
    "shows the last output in full": Effect(lambda b: b.said == ["output"]),
    "draws anew": Effect(lambda b: "printed" not in b.on.seen()),
    "to the background": Effect(lambda b: b.outside == ["suspended"]),
    "cursor left": Effect(lambda b: b.text and b.buffer.cursor_position == len(b.text) - 1 and not b.said, "words"),
    "moves the command and workers to the background": Effect(lambda b: b.said == ["released"]),
    "nothing": Effect(lambda b: not b.said and b.text in ("", "/e") and not (b.asked and b.asked.done())),
}


async def check_state(state: str, folder: Path) -> list[str]:
    """The keys of the table that do something else in `state`."""
    box = make_box(folder)
    wrong = []
    async with stand(80, 30, box=box) as on:
        bench = Bench(on, box, state)

        async def edited(work: Any) -> str:
            bench.outside.append("editor")
            return box.text

        async def image() -> str:
            return "one.png"

        box.outside, box.clipboard_image = edited, image
        on.screen.suspend = lambda: bench.outside.append("suspended")  # type: ignore[method-assign]
        on.screen.leave = lambda: None  # type: ignore[method-assign]
        on.type("earlier\r")
        await on.until(lambda: bench.said)
        for name, cells in rows_of_table():
            effect = EFFECTS[cells[STATES.index(state)]]
            on.screen.put("printed\n")
            on.controller.waiting = ["queued words"] if name == "Up" and state == "turn running" else []
            await bench.prepare(effect.before)
            await on.until(bench.remembers)
            await on.still()
            on.type(effect.first)
            await on.still()
            on.type(bytes_of(name))
            await on.still()
            if effect.again:
                on.type(effect.again)
            try:
                await on.until(partial(effect.holds, bench), 2.0)
                await on.still()
                assert effect.holds(bench)
            except AssertionError:
                wrong.append(f"{name}: not {cells[STATES.index(state)]!r}: {bench.said}, {bench.text!r}")
            await bench.finish()
        Screen.leave(on.screen)
    box.close()
    return wrong


@pytest.mark.matrix
@pytest.mark.parametrize("state", sample(STATES, 3))
def test_each_key_does_what_the_table_of_the_readme_says(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "QUIET", 0.0)
    monkeypatch.setattr(question, "WITHDRAWAL_SECONDS", 0.0)
    monkeypatch.setattr("nexus_cli.ui.screen.key_bindings.AFTER_STOP_SECONDS", 0.0)
    assert len(rows_of_table()) > 15
    assert {cells[STATES.index(state)] for _, cells in rows_of_table()} <= EFFECTS.keys(), "a cell that is not tried"
    assert run_at_once(check_state(state, tmp_path)) == []


@pytest.mark.parametrize(("columns", "most"), [(40, 21), (80, 16), (160, 8)])
def test_every_key_is_listed_in_full_on_a_screen_of_24_rows(columns: int, most: int) -> None:
    rows = key_rows(help_text.KEYS, columns - 1)
    assert len(rows) <= most and max(map(len, rows)) < columns and not any("…" in row for row in rows)
    shown = " ".join(" ".join(rows).split())
    if columns < 100:  # with more they are in two columns
        assert all(" ".join(f"{keys} {what}".split()) in shown for keys, what in help_text.KEYS)
