"""The REPL on a terminal that can be drawn on: finished text scrolls up, the app stays at the bottom.

prompt-toolkit owns the terminal. Finished text is printed once, above the app, into the terminal's own scrollback.
`layout` places the parts of the app, `key_bindings` binds the keys, `terminal` has the descriptors.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100 import raw_mode
from prompt_toolkit.key_binding import DynamicKeyBindings, KeyBindings, KeyBindingsBase, merge_key_bindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import Layout
from prompt_toolkit.styles import Style

from nexus_cli.commands.command import Choice, Search
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.shared_types import T
from nexus_cli.text.cells import without_codes
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.view import ReplController
from nexus_cli.ui.screen.fitted_renderer import FittedRenderer
from nexus_cli.ui.screen.key_bindings import (
    bind_own_keys,
    catch_key_failures,
    screen_bindings,
)
from nexus_cli.ui.screen.layout import ScreenLayout
from nexus_cli.ui.screen.notification import Notifier
from nexus_cli.ui.screen.picker import PickerPanel
from nexus_cli.ui.screen.question import QuestionPanel, loop_time, wait_for_quiet
from nexus_cli.ui.screen.redraw import PrintQueue, RedrawTimer
from nexus_cli.ui.screen.terminal import (
    ESCAPE_SECONDS,
    TerminalInput,
    TerminalOutput,
    disable_escape_delay,
    on_continue,
    size_of,
)
from nexus_cli.ui.terminal_handoff import TerminalHandoff

DOUBLE_PRESS_SECONDS = 2.0
"""Seconds within which a second Ctrl+C leaves, and a second Esc lists the messages to go back to."""
PIECE = 65_536
"""Characters that are printed before keys are read again."""
_STYLE = Style.from_dict({"incsearch": "underline", "incsearch.current": "reverse"})
"""prompt-toolkit gives search matches their own background."""


class Screen:
    """A `ReplView`, one for the life of a terminal; `run` may be called only once."""

    def __init__(
        self,
        box: InputBox,
        theme: Theme,
        *,
        stdin: int = 0,
        stdout: int = 1,
        keys: Input | None = None,
        size: Callable[[], Size] | None = None,
    ) -> None:
        """`keys` and `size` replace the descriptors' own, for tests and for terminals elsewhere."""
        self._box = box
        self._codes = theme.codes
        self._size = size or (lambda: size_of(stdout))
        self._output = TerminalOutput(stdout, self._size, colour=theme.colour, codes=theme.codes)
        self._output.lost = self._end
        self._stdin = stdin
        self._panel = QuestionPanel(
            self._codes, lambda: not box.empty or not self._box_has_keys(), lambda: box.buffer.text
        )
        self._picker = PickerPanel(theme)
        self._layout = ScreenLayout(box, self._panel, self._picker, self._size, self._codes)
        self._print_queue = PrintQueue()
        self._over = False
        self._error: BaseException | None = None
        self._asking = asyncio.Lock()
        self._away = asyncio.Lock()
        """Held by the program that has the terminal: prompt-toolkit's own queue does not survive a cancellation."""
        self._handoff = TerminalHandoff()
        self.notifier = Notifier(self._print, enabled=True)
        self.help_left = False
        self._warned_at = 0.0
        self.controller: ReplController
        """Handles the keys, which come only while the screen runs."""
        self._bindings = screen_bindings(box, self._panel, self._picker, self)
        self._own_bindings: KeyBindingsBase = KeyBindings()
        self._redraw = RedrawTimer(self._draw, lambda: self.controller.moving)
        with self._output.hold_output():
            self._app = self._make_app(keys or TerminalInput(stdin))
            self._output.discard()  # the codes that prompt-toolkit sends before it draws
        self._focused = self._app.layout.current_window
        """The control that gets the focus back after a question."""
        self._mode = InputMode.INSERT
        """Its former vi mode."""

    def _make_app(self, keys: Input) -> Application[None]:
        app = App(
            self._redraw.now,  # the next change of size may come, and rows are found by the terminal's former size
            self._end,
            layout=Layout(self._layout),
            input=keys,
            output=self._output,
            key_bindings=merge_key_bindings([self._bindings, DynamicKeyBindings(lambda: self._own_bindings)]),
            erase_when_done=True,
            style=_STYLE,
            include_default_pygments_style=False,
            max_render_postpone_time=None,
            terminal_size_polling_interval=None,
        )
        app.ttimeoutlen = ESCAPE_SECONDS
        renderer = FittedRenderer(app._merged_style, self._output, self._layout.drawn_row)
        app.renderer = renderer
        self._renderer = renderer
        self._layout.last = lambda: renderer.last_rendered_screen
        app.layout.focus(self._box.buffer)
        self._box.attach(app)
        app.key_processor.before_key_press += self._pressed
        app.key_processor.after_key_press += lambda keys: self._panel.note_early(keys._previous_key_sequence)
        disable_escape_delay(app.key_processor)
        catch_key_failures(app.key_processor, self._end)
        return app

    # Interface to the REPL

    @property
    def width(self) -> int:
        return self._size().columns

    @property
    def height(self) -> int:
        return self._size().rows

    echoes = False

    def put(self, text: str) -> None:
        """Print `text`; before `run`, keep it."""
        if not text:
            return
        self._print_queue.add(text if text.endswith("\n") else text + "\n")
        if self._over:
            self._print(self._ready(self._print_queue.all()))
        else:
            self._redraw.dirty()

    def invalidate(self) -> None:
        self._redraw.dirty()

    def fill(self, text: str) -> None:
        self._box.fill(text)
        self._app.invalidate()

    async def question(self, question: AskedQuestion) -> str | None:
        """See `ReplView`; questions are asked one after the other."""
        async with self._asking:
            if self._over:
                return None
            self.put(question.text)
            answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            self._panel.begin(question, answer)
            self._redraw.dirty()
            opening = asyncio.ensure_future(self._open())
            try:
                return await answer
            finally:
                opening.cancel()
                if self._panel.is_open:
                    self._give_keys_back()
                self._panel.end()
                self._redraw.dirty()

    async def choose(self, title: str, choices: Sequence[Choice], search: Search | None = None) -> str | None:
        async with self._asking:
            if self._over:
                return None
            answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            self._picker.begin(title, choices, answer, search)
            self._take_keys(self._picker.buffer)
            try:
                return await answer
            finally:
                self._give_keys_back()
                self._picker.end()
                self._redraw.dirty()

    async def _open(self) -> None:
        await wait_for_quiet(self._panel)
        early = self._panel.early_answer
        if early:
            self._box.buffer.text = ""
        self._panel.take_keys(early)
        if (
            self._panel.question.approves and not self._panel.drawn_at
        ):  # no letter answers alone that came before it was drawn
            self._panel.note_return()
        self._take_keys(self._panel.buffer)
        self._redraw.dirty()

    def _box_has_keys(self) -> bool:
        """Return False during a history search, whose text is a draft too."""
        return self._panel.is_open or self._app.layout.has_focus(self._box.buffer)

    def _take_keys(self, buffer: Buffer) -> None:
        """Move the focus to the field of a panel."""
        self._focused = self._app.layout.current_window
        self._app.layout.focus(buffer)
        # In navigation mode, `y` would begin a command.
        vi = self._app.vi_state
        self._mode, vi.input_mode = vi.input_mode, InputMode.INSERT
        vi.operator_func, vi.temporary_navigation_mode = None, False
        self._app.invalidate()

    def _give_keys_back(self) -> None:
        """Return the focus to its former control, which may be the history search."""
        self._app.layout.focus(self._focused)
        self._app.vi_state.input_mode = self._mode

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work` while it has the terminal, and return its result.

        Earlier text is printed first, text of the meantime afterwards. Ctrl+Z stops nexus together with the program.
        """

        async def away() -> T:
            while self._draw():  # noqa: ASYNC110  (each round draws what waits)
                await asyncio.sleep(0)
            async with self._away, in_terminal():
                self._stoppable(False)
                try:
                    return await work()
                finally:
                    self._stoppable(self._app.is_running)

        try:
            return await self._handoff.run(away)
        finally:
            self._panel.note_return()
            self._redraw.now()

    async def run(self, controller: ReplController) -> None:
        """Run the app. The terminal is restored when this returns, raises or is cancelled."""
        self.controller = controller
        try:
            with self._attached():
                self.notifier.note_key()
                self._redraw.begin()
                await self._app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            self._over = True
            self.notifier.end()
            self._redraw.end()
            self._panel.submit(None)
            self._picker.submit(None)
            self._print(self._ready(self._print_queue.all()))
        if self._error is not None:
            raise self._error

    def bind_keys(self, own_keys: Mapping[str, str]) -> str:
        """Bind the person's own keys, by name; return a line about those that cannot be bound, or ""."""
        self._own_bindings, problem = bind_own_keys(own_keys, self._bindings, self)
        return problem

    def notify(self, text: str, *, waits: bool = False) -> None:
        self.notifier.notify(text, waits=waits)

    def leave(self) -> None:
        self._end(None)

    # Actions of keys

    def leaving(self) -> None:
        """Ctrl+C with nothing to stop: show how to leave, and leave the second time."""
        self._act_the_second_time("press Ctrl+C again to exit", partial(self.controller.request_exit, asks=True))

    def editing_last(self) -> None:
        """Esc with nothing to do: show the effect of a second one, and the second time do it."""
        self._act_the_second_time("press Esc again to edit an earlier message", self.controller.edit_last)

    def _act_the_second_time(self, hint: str, act: Callable[[], None]) -> None:
        now = loop_time()
        if self._layout.hint == hint and now - self._warned_at <= DOUBLE_PRESS_SECONDS:
            self._layout.hint = ""
            act()
            return
        self._warned_at = now
        self._layout.hint = hint
        asyncio.get_running_loop().call_later(DOUBLE_PRESS_SECONDS, self._unwarn)

    def _unwarn(self) -> None:
        if loop_time() - self._warned_at >= DOUBLE_PRESS_SECONDS - 0.01:
            self._layout.hint = ""
            self._app.invalidate()

    def show_keys(self) -> None:
        """List the keys below the box until the next key."""
        self._layout.help = True

    def clear(self) -> None:
        """Clear the screen; its lines go to the scrollback. An open question is printed again."""
        with self._output.hold_output():
            self._renderer.clear()
            self._app._redraw()
        self.put(self._panel.question.block.lstrip("\n"))

    def suspend(self) -> None:
        """Stop the process; everything is redrawn when the shell continues it."""
        self._app.create_background_task(self._suspended())

    async def _suspended(self) -> None:
        async with self._away, in_terminal():
            self._stoppable(False)
            os.kill(0, signal.SIGTSTP)
            # The SIGCONT that ends it is still to be handled, and must find the app suspended.
            await asyncio.sleep(0.01)
            self._stoppable(self._app.is_running)
        self._panel.note_return()
        self._redraw.now()

    # Drawing

    def _draw(self) -> bool:
        """Draw everything in its current state; True if there is more text to print."""
        app = self._app
        if not app.is_running or app._running_in_terminal or app.is_done:
            return False
        try:
            self._layout.ask(self.controller, self.width - 1)
            text = self._ready(self._print_queue.take(PIECE))
            with self._output.hold_output():
                if text:
                    self._renderer.erase_for_now()
                    self._output.write_raw(text)
                app._redraw()
        except Exception as bug:  # reported to the caller of the screen, not to the loop
            self._end(bug)
            return False
        if self._panel.asking:
            self._panel.note_drawn()
        return bool(self._print_queue)

    def _ready(self, text: str) -> str:
        """Return `text` in the form for the terminal."""
        text = text if self._codes else without_codes(text)
        return text.replace("\r\n", "\n").replace("\n", "\r\n")

    def _print(self, text: str) -> None:
        self._output.write_raw(text)
        self._output.flush()

    def interrupt(self) -> None:
        """SIGINT from outside: same as Ctrl+C."""
        if self._app.is_running:
            self._app.key_processor.send_sigint()

    def _pressed(self, sender: Any) -> None:
        self._panel.note_key()
        self.notifier.note_key()
        self.help_left, self._layout.help = self._layout.help, False

    # The end

    def _end(self, error: BaseException | None) -> None:
        self._error = self._error or error
        self._handoff.end()
        future = self._app.future
        if future is not None and not future.done():
            future.set_result(None)

    @contextmanager
    def _attached(self) -> Iterator[None]:
        """Handle signals and failures while the screen runs: stopped, continued, or an error in the loop."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: self._failed(context))
        self._stoppable(True)
        try:
            with on_continue(self._continued):
                yield
        finally:
            self._stoppable(False)
            loop.set_exception_handler(before)

    def _failed(self, context: JsonObject) -> None:
        """Report a failure that nobody awaits as one line; those of keys and of drawing do not come here."""
        error = context.get("exception")
        message = " ".join(str(context.get("message")).split())
        self.put(sanitize(f"nexus: {message}" + (f": {error!r}" if error is not None else "")) + "\n")

    def _stoppable(self, on: bool) -> None:
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            if on:
                loop.add_signal_handler(signal.SIGTSTP, self.suspend)
            else:
                loop.remove_signal_handler(signal.SIGTSTP)

    def _continued(self) -> None:
        """Redraw after a SIGSTOP and SIGCONT without notice: the shell has changed the terminal's settings."""
        if self._app.is_running and not self._app._running_in_terminal:
            raw_mode(self._stdin).__enter__()
            self._renderer.reset()
            self._redraw.now()


class App(Application[None]):
    """Lets the screen choose the moment of drawing after a change of size, and reports failures of drawing to it."""

    def __init__(self, resized: Callable[[], None], failed: Callable[[Exception], None], **options: Any) -> None:
        self._resized = resized
        self._draw_failed = failed
        super().__init__(**options)

    def _redraw(self, render_as_done: bool = False) -> None:
        try:
            super()._redraw(render_as_done)
        except Exception as bug:  # reported to the caller of the screen, not to the loop
            self._draw_failed(bug)

    def _on_resize(self) -> None:
        self._resized()
