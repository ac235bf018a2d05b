"""The seam between the REPL and its views, a full screen or single lines, as a pair of protocols.

`ReplController` handles keys and supplies the view's content; `ReplView` draws for the REPL.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from nexus_cli.commands.command import Choice, Search
from nexus_cli.core.shared_types import T
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.input.paste import TypedMessage


class ReplController(Protocol):
    """The REPL as a view sees it. All methods are called in the loop's thread and return at once.

    A controller that extends this class lacks what it does not define: attachments, workers, thinking, open text.
    """

    @property
    def running(self) -> bool:
        """True if a turn runs: Enter steers it."""

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """The keys that `?` lists, each with what it does."""

    @property
    def moving(self) -> bool:
        """True if the spinner moves, so that the view repaints it a few times a second."""

    def submit(self, typed: TypedMessage) -> None:
        """Enter: a message, a command, a shell line; never empty."""

    def enqueue(self, typed: TypedMessage) -> None:
        """Alt+Enter while a turn runs: queue a message for later."""

    def take_back(self) -> str:
        """Up or Esc on an empty box: remove and return the newest queued text, or ""."""
        return ""

    def detach(self) -> bool:
        """Esc on an empty box: remove the newest attachment of the next message; False if there is none."""
        return False

    def edit_last(self) -> None:
        """Esc twice on an empty box: go back to a message."""

    def interrupt(self, *, gently: bool = False) -> None:
        """Ctrl+C while work runs; `gently` (Esc) asks once and forces nothing."""

    def request_exit(self, *, asks: bool = False) -> None:
        """Ctrl+D, or Ctrl+C twice on an empty line: leave. With `asks` only the second time if workers work."""

    def release_workers(self) -> None:
        """Ctrl+B: let running commands and workers go on in the background, and the turn with its next step."""
        return None

    def cycle_level(self) -> None:
        """Shift+Tab: switch to the next permission level."""

    def toggle_thinking(self) -> None:
        """Ctrl+T: show or hide thinking."""
        return None

    def show_last_output(self) -> None:
        """Ctrl+O: show the whole newest output; pressed again, the transcript."""

    def live(self, rows: int) -> list[str]:
        """Return the open block and running work, in at most `rows` lines with SGR codes only; [] if there is none. 0
        rows mean that none of it is visible."""
        return []

    def spinner(self) -> str:
        """Describe the current wait on one line; "" if there is none."""
        return ""

    def queued(self) -> list[str]:
        """Return the queued messages, one line each, and the attachments of the next message."""

    def status(self, width: int) -> str:
        """Return the status line in at most `width` columns."""


class ReplView(Protocol):
    """A view of the REPL. `put`, `invalidate`, `fill` and `leave` are called in the loop's thread.

    A view that extends this class notifies nobody unless it defines how.
    """

    @property
    def width(self) -> int:
        """Columns available for text."""

    @property
    def height(self) -> int:
        """Rows of the terminal."""

    @property
    def echoes(self) -> bool:
        """True if typed text stays visible, so that it need not be printed again."""

    def put(self, text: str) -> None:
        """Print finished text for good, with SGR codes only; it ends in a newline."""

    def invalidate(self) -> None:
        """Repaint within 1/15 s because the content of `ReplController` has changed."""

    def fill(self, text: str) -> None:
        """Replace the text of the input box by `text`; a view without a box keeps it for the next Enter."""

    async def question(self, question: AskedQuestion) -> str | None:
        """Show a question and read one line; None at the end of input and for Esc.

        With keys, a single one is also an answer if the terminal reports single keys; Esc is then Ctrl+C. Ctrl+C stops
        the running work and with it the question (None, unless it is cancelled before).

        Text typed before the question could be read never answers it: it stays in the input box. Cancellable.
        """

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        """Let the person pick one of `choices` and return its key; None if they pick none. Cancellable.

        With `search`, these are only the first choices.
        """

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """Suspend the view while `work` has the terminal (an editor, a pager). `leave` cancels it."""

    async def run(self, controller: ReplController) -> None:
        """Run until `leave`, or until the terminal is gone (`OSError`, `EOFError`)."""

    def interrupt(self) -> None:
        """Handle Ctrl+C that arrives as a signal."""

    def notify(self, text: str, *, waits: bool = False) -> None:
        """Notify a person who is away, with one line; if work `waits` for them, also when they go away later.

        "" means that nothing waits for them any more.
        """
        return None

    def leave(self) -> None:
        """End `run`."""
