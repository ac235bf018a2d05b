"""The seam between what a REPL does and how it looks: a full screen or single lines, over one pair of protocols.

`ReplController` is what keys reach and what the view shows all the time; `ReplView` is what the REPL draws with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from nexus_cli.commands.command import Choice, Search
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.render.question_text import AnswerKey

T = TypeVar("T")


class ReplController(Protocol):
    """The REPL as a view sees it. Everything is called in the loop's thread and returns at once."""

    @property
    def running(self) -> bool:
        """True if a turn runs: Enter steers it."""

    @property
    def moving(self) -> bool:
        """True if the spinner moves: the view repaints it a few times a second."""

    def submit(self, typed: TypedMessage) -> None:
        """Enter: a message, a command, a shell line; never empty."""

    def enqueue(self, typed: TypedMessage) -> None:
        """Alt+Enter while a turn runs: for afterwards."""

    def take_back(self) -> str:
        """Up or Esc on an empty box: the text that was queued last and is queued no longer, or ""."""

    def detach(self) -> bool:
        """Esc on an empty box: the next message takes along one thing less; False if it takes nothing."""

    def edit_last(self) -> None:
        """Esc twice on an empty box: the person wants to go back to a message."""

    def interrupt(self, *, gently: bool = False) -> None:
        """Ctrl+C while something runs; `gently` (Esc) asks once and forces nothing."""

    def request_exit(self) -> None:
        """Ctrl+D, or Ctrl+C twice on an empty line: the person wants to leave."""

    def cycle_level(self) -> None:
        """Shift+Tab: the next level of what runs without asking."""

    def toggle_thinking(self) -> None:
        """Ctrl+T: show or hide thinking."""

    def show_last_output(self) -> None:
        """Ctrl+O: show the newest output whole, again: the transcript."""

    def live(self, rows: int) -> list[str]:
        """Return the open block and what runs, in at most `rows` lines with SGR codes only; [] when there is
        nothing. 0 rows say that nothing of it is to be seen."""

    def spinner(self) -> str:
        """Return what is waited for, on one line; "" when nothing is."""

    def queued(self) -> list[str]:
        """Return words that wait for their turn, one line each, and what the next message takes along."""

    def status(self, width: int) -> str:
        """Return the status line in at most `width` columns."""


class ReplView(Protocol):
    """The looks of a REPL. `put`, `invalidate`, `fill` and `leave` are called in the loop's thread."""

    @property
    def width(self) -> int:
        """Columns that text may take now."""

    @property
    def height(self) -> int:
        """Rows of the terminal now."""

    @property
    def echoes(self) -> bool:
        """True if typed text stays visible where it was typed, so that it need not be printed again."""

    def put(self, text: str) -> None:
        """Print finished text, with SGR codes only, once and for good; it ends in a newline."""

    def invalidate(self) -> None:
        """Repaint within 1/15 s: what `ReplController` shows has changed."""

    def fill(self, text: str) -> None:
        """Put `text` into the input box instead of what stands there; without one it is kept for the next Enter."""

    async def question(self, text: str, prompt: str, keys: Sequence[AnswerKey] = (), block: str = "") -> str | None:
        """Show `text` and read one line behind `prompt`; None at the end of input and with Esc.

        With `keys` one of them alone is an answer, too, where the terminal gives single keys; Esc is Ctrl+C then.
        Ctrl+C stops what runs, and with it the question (None, unless it is cancelled before). `block` is what it is
        about: it is printed again where the screen is cleared.

        What was typed before the question could be read never answers it: it stays in the input box. Cancellable.
        """

    async def hidden_line(self, prompt: str) -> str | None:
        """Read one line behind `prompt` without showing it; None at the end of input and with Esc. Cancellable."""

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        """Let the person pick one of `choices` and return its key; None if they pick none. Cancellable.

        With `search` these are only the first ones.
        """

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """Give the terminal away while `work` runs (an editor, a pager). `leave` cancels it."""

    async def run(self, controller: ReplController) -> None:
        """Run until `leave`, or until the terminal is gone (`OSError`, `EOFError`)."""

    def interrupt(self) -> None:
        """Do what Ctrl+C means here, where it arrives as a signal."""

    def notify(self, text: str, *, waits: bool = False) -> None:
        """Call a person who is away, with one line; if it `waits` for them, also when they go away later.

        "" says that nothing waits for them any more.
        """

    def leave(self) -> None:
        """End `run`."""
