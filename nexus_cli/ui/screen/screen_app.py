"""prompt-toolkit's application as the screen wants it: drawn when the screen says so, and failing to the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prompt_toolkit.application import Application


class App(Application[None]):
    """Leaves the moment of drawing after a change of size to the screen, and tells it what fails in drawing."""

    def __init__(self, resized: Callable[[], None], failed: Callable[[Exception], None], **rest: Any) -> None:
        self._resized = resized
        self._draw_failed = failed
        super().__init__(**rest)

    def _redraw(self, render_as_done: bool = False) -> None:
        try:
            super()._redraw(render_as_done)
        except Exception as bug:  # told to whoever runs the screen, not to the loop
            self._draw_failed(bug)

    def _on_resize(self) -> None:
        self._resized()
