"""A screen in this process, on a terminal that is a file: what is typed is given, what is seen is asked for."""

from __future__ import annotations

import asyncio
import os
import select
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import cast
from unittest.mock import patch

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from terminal.emulator import Emulator
from ui.screen.screen_driver import PlainBox, PlainController

from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.screen.screen import Screen


class Stand:
    """A running screen with what belongs to it."""

    def __init__(
        self,
        keys: PipeInput,
        columns: int,
        rows: int,
        environ: Mapping[str, str],
        theme: Theme | None = None,
        box: InputBox | None = None,
    ) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.read = 0
        self.raw = b""
        self.columns, self.rows = columns, rows
        self.terminal = Emulator(columns, rows)
        self.keys = keys
        self.box, self.controller = box or cast("InputBox", PlainBox()), PlainController()
        with patch.dict(os.environ, environ, clear=True):
            self.screen = self.controller.screen = Screen(
                self.box,
                theme or Theme(),
                stdout=self.file.fileno(),
                keys=keys,
                size=lambda: Size(rows=self.rows, columns=self.columns),
            )

    def seen(self) -> list[str]:
        """The rows of the screen now."""
        data = os.pread(self.file.fileno(), 1 << 26, self.read)
        self.read += len(data)
        self.raw += data
        self.terminal.feed(data)
        return self.terminal.lines_of_screen()

    def all(self) -> list[str]:
        """Everything, from the first line that scrolled off."""
        self.seen()
        return self.terminal.lines_of_all()

    def type(self, text: str) -> None:
        """Keys."""
        self.keys.send_text(text)

    def resize(self, columns: int, rows: int) -> None:
        """Another size, as it is told by SIGWINCH."""
        self.seen()
        self.columns, self.rows = columns, rows
        self.terminal.resize(rows, columns)
        self.screen._app._on_resize()

    async def until(self, holds: str | Callable[[], object], timeout: float = 90.0) -> None:
        """Let the screen work until a text is seen or a condition holds; the timeout is by the real clock."""
        end = time.monotonic() + timeout
        while not (holds in "\n".join(self.seen()) if isinstance(holds, str) else holds()):
            shown = "\n".join(self.seen())
            assert time.monotonic() < end, f"not seen: {holds}\n{shown}\n{self.controller.said}"
            await asyncio.sleep(0.005)

    async def still(self) -> list[str]:
        """The screen when every key has been handled and everything that was due has been drawn."""
        await self.until(self._rests)
        return self.seen()

    def _rests(self) -> bool:
        app = self.screen._app
        typed = select.select([self.keys.fileno()], [], [], 0)[0]
        keys = app.key_processor.input_queue or app.key_processor.key_buffer
        # An Esc may still be the beginning of another key.
        parsed = [task for task in app._background_tasks if "auto_flush_input" in str(task.get_coro())]
        return not (typed or keys or parsed or app.invalidated or self.screen._redraw._due or self.screen._print_queue)


@asynccontextmanager
async def stand(
    columns: int = 60,
    rows: int = 12,
    environ: Mapping[str, str] | None = None,
    theme: Theme | None = None,
    box: InputBox | None = None,
) -> AsyncIterator[Stand]:
    """A running screen; it has left afterwards."""
    with create_pipe_input() as keys:
        made = Stand(keys, columns, rows, {"TERM": "xterm"} if environ is None else environ, theme, box)
        task = asyncio.ensure_future(made.screen.run(made.controller))
        await made.until("model")
        try:
            yield made
        finally:
            if not task.done():
                made.screen.leave()
            await task
            made.file.close()
