"""The input box: the text that is typed, from its first key to the message that it becomes.

Puts together the buffer, the completion menu, the history and the pastes, and gives the screen one container, its keys,
and `take`. Where the box stands, and when a message leaves it, is decided by the screen.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import (
    Condition,
    emacs_insert_mode,
    emacs_mode,
    has_focus,
    has_selection,
    is_searching,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings import search
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    UIContent,
    Window,
)
from prompt_toolkit.layout.processors import (
    DisplayMultipleCursors,
    HighlightIncrementalSearchProcessor,
    HighlightSelectionProcessor,
)
from prompt_toolkit.widgets import SearchToolbar

from nexus_cli.commands import find, parse
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.input.attached_files import quote_mention
from nexus_cli.ui.input.burst_reader import read_in_bursts
from nexus_cli.ui.input.completion import Completions, completion_menu, find_spot, offers_completion
from nexus_cli.ui.input.editor import edit_text
from nexus_cli.ui.input.file_index import FileIndex
from nexus_cli.ui.input.history import ProjectHistory
from nexus_cli.ui.input.paste import Pastes, TypedMessage, VisibleCharacters, clip_to_bytes, normalize_newlines
from nexus_cli.ui.input.piped import KEPT

Outside = Callable[[Callable[[], Awaitable[str]]], Awaitable[str]]

LONG = 20_000
"""Characters that are put into the box as they are; more of them stand there folded."""
SOON = 0.1
"""Seconds until a completion that is on its way is looked at again."""
NARROW = 12
"""Columns below which the prompt leaves its room to the text."""
_WITH_KEY = re.compile(r"(?s)(\s*/(?:login|connect))\b.*")
"""A line behind which a key may stand: the history remembers its command."""
_MODES = {InputMode.NAVIGATION: "n", InputMode.REPLACE: "r", InputMode.REPLACE_SINGLE: "r"}


async def _directly(work: Callable[[], Awaitable[str]]) -> str:
    return await work()


async def _no_image() -> str:
    return ""


class _Control(BufferControl):
    """Tells the box which application draws it."""

    drawn: Callable[[], None]

    def create_content(self, width: int, height: int, preview_search: bool = False) -> UIContent:
        self.drawn()
        return super().create_content(width, height, preview_search)


class InputBox:
    """The box that a person types into. Everything is called in the loop's thread."""

    def __init__(
        self,
        *,
        folder: Path,
        project: Path,
        commands: Callable[[], Mapping[str, Command]],
        desk: Callable[[], CommandContext | None],
        history: Path,
        vi: bool,
        save: bool = True,
        environ: Mapping[str, str] = os.environ,
        names: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        """Files are completed from `project` and written relative to `folder`. Without `save` nothing is written.

        With `names` these are completed behind `@`, and no files.
        """
        self.outside: Outside = _directly
        """Gives the terminal away while an editor runs."""
        self.clipboard_image: Callable[[], Awaitable[str]] = _no_image
        """Saves the image on the clipboard and returns its path, or ""."""
        self.notice: Callable[[str], None] = self.hint
        """Tells the person one line; until it is replaced, below the box up to the next change."""
        self._environ = environ
        self._commands = commands
        self._vi = vi
        self._hint = ""
        self._editing = False
        self._app: Application[object] | None = None
        self._pastes = Pastes()
        self._index = FileIndex(folder, project, listed=self._listed)
        self._history = ProjectHistory(history, project, save=save, notice=lambda text: self.notice(text))
        self.buffer = Buffer(
            completer=Completions(folder, self._index, commands, desk, environ, names),
            history=self._history,
            complete_while_typing=Condition(lambda: offers_completion(self.buffer.document.text_before_cursor)),
            on_text_changed=lambda buffer: self.hint(""),
        )
        self._toolbar = SearchToolbar(vi_mode=vi, ignore_case=True, backward_search_prompt="search: ")
        self.search_buffer = self._toolbar.search_buffer
        """Field of a history search; it has the focus meanwhile."""
        self.container = self._container()
        """The text, and below it the search, a hint, the menu: as high as it needs, at least one row."""
        self.bindings = box_bindings(self)
        """The keys of the box; but not those that send, stop or leave."""

    @property
    def empty(self) -> bool:
        """True if nothing stands in the box, not even a space."""
        return not self.buffer.text

    @property
    def text(self) -> str:
        """Return the text of the box, with pastes whole."""
        return self._pastes.expand(self.buffer.text)

    @property
    def menu_open(self) -> bool:
        """True if the menu has something to choose."""
        state = self.buffer.complete_state
        return state is not None and bool(state.completions)

    @property
    def completing(self) -> bool:
        """True if Enter takes an entry of the menu (`accept_completion`): one is highlighted, and is not typed yet."""
        state, marked = self.buffer.complete_state, self._highlighted()
        if state is None or marked is None:
            return False
        if state.complete_index is not None:
            return True
        typed = self.buffer.document.text_before_cursor
        return not any(typed.endswith(one.text) and len(one.text) == -one.start_position for one in state.completions)

    def _highlighted(self) -> int | None:
        """Return the number of the highlighted entry: the selected one, else the first of commands and of files."""
        state = self.buffer.complete_state
        if state is None or not state.completions or state.complete_index is not None:
            return state.complete_index if state is not None else None
        spot = find_spot(self.buffer.document.text_before_cursor)
        offered = spot is not None and spot.kind in ("command", "file") and not spot.text.endswith("/")
        return 0 if offered else None

    @property
    def searching(self) -> bool:
        """True if the history is searched: Enter, Esc and Ctrl+C end the search."""
        return self._app is not None and self._app.layout.has_focus(self.search_buffer)

    def accept_completion(self) -> bool:
        """Take the highlighted entry: the menu closes; that of a folder opens again on what is in it.

        Return True if what stands in the box is a command that needs no argument: it can be sent.
        """
        number, state = self._highlighted(), self.buffer.complete_state
        if state is not None and state.complete_index is None and number is not None:
            self.buffer.go_to_completion(number)
        chosen = state.current_completion if state else None
        self.buffer.complete_state = None
        if chosen is None or chosen.text.endswith("/"):
            if chosen is not None:
                self.buffer.start_completion()
            return False
        if self._runs_alone(self.buffer.text):
            return True
        self.space_after()
        return False

    def _runs_alone(self, text: str) -> bool:
        """True if `text` is a command, and none of its arguments has to be given."""
        parsed = parse(text)
        try:
            command = find(parsed[0], self._commands()) if parsed is not None and not parsed[1] else None
        except NexusError:
            return False
        return command is not None and (not command.usage or command.usage.startswith("["))

    def space_after(self) -> None:
        """Go on behind a word that was completed."""
        if not self.buffer.document.current_char.isspace():
            self.buffer.insert_text(" ")
        elif self.buffer.document.current_char == " ":
            self.buffer.cursor_right()

    def break_line(self) -> bool:
        """Make a new line of the backslash before the cursor; False if there is none that stands for itself."""
        before = self.buffer.document.current_line_before_cursor
        if not (len(before) - len(before.rstrip("\\"))) % 2:
            return False
        self.buffer.delete_before_cursor(1)
        self.buffer.newline(copy_margin=False)
        return True

    def take(self) -> TypedMessage:
        """Return what was typed; the box is empty afterwards, and the history remembers it."""
        text = self.buffer.text
        whole = self._pastes.expand(text)
        pasted = tuple(map(replace_surrogates, self._pastes.take_inserted(whole)))
        typed = TypedMessage(replace_surrogates(whole), replace_surrogates(self._pastes.label_pastes(text)), pasted)
        remembered = _WITH_KEY.sub(r"\1", self._pastes.for_history(text))
        self._pastes.release()
        self.buffer.reset()
        self._history.append_string(remembered)
        self._insert()
        return typed

    def fill(self, text: str) -> None:
        """Put `text` into the box instead of what stands there, which undo brings back; a long one is folded.

        An empty one drops what stands there: the history has it then, too.
        """
        text = normalize_newlines(text)
        if not text:
            self._history.append_string(self._pastes.for_history(self.buffer.text))
            # The history is gone through from its end again.
            self.buffer.reset(self.buffer.document)
            self._insert()
        if len(text) > LONG:
            text = self._pastes.expand(text)
            lines = text.count("\n") + 1
            text = self._pastes.fold(text, f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters", "")
        self.buffer.save_to_undo_stack()
        self.buffer.document = Document(text, len(text))

    def paste(self, data: str) -> None:
        """Insert what was pasted at the cursor: as it is, or folded when it is long. It never submits."""
        kept = clip_to_bytes(data)
        cut = len(kept) < len(data)
        self.buffer.save_to_undo_stack()
        self.buffer.insert_text(self._pastes.fold_if_long(normalize_newlines(kept), self.buffer.text, cut=cut))
        if cut:
            self.notice(f"the paste has more than {KEPT >> 20} MiB: the rest was left out")

    async def paste_image(self) -> None:
        """Mention the image on the clipboard at the cursor; say so where there is none."""
        try:
            path = await self.clipboard_image()
        except OSError as error:
            self.hint(f"the image cannot be saved: {error.strerror}")
            return
        if path:
            self.buffer.insert_text(quote_mention(path) + " ")
        else:
            self.hint("no image on the clipboard")

    def hint(self, text: str) -> None:
        """Show one line below the box, until the text changes; "" takes it away."""
        self._hint = sanitize(text)
        if text and self._app is not None:
            self._app.invalidate()

    async def edit(self) -> None:
        """Open the text in the external editor; what fails is shown in one line and leaves it as it was."""
        if self._editing:
            return
        self._editing = True
        before = self.text
        try:
            after = await self.outside(lambda: edit_text(before, self._environ))
        except NexusError as error:
            self.notice(error.message + (f". {error.hint}" if error.hint else ""))
        else:
            if after != before:
                self.fill(after)
        finally:
            self._editing = False

    def close(self) -> None:
        """Give up what runs in the background."""
        self._index.close()

    def _insert(self) -> None:
        """Switch vi to insert mode: every message begins in it."""
        if self._app is not None:
            self._app.vi_state.input_mode = InputMode.INSERT

    def _container(self) -> HSplit:
        control = _Control(
            buffer=self.buffer,
            input_processors=[
                HighlightIncrementalSearchProcessor(),
                HighlightSelectionProcessor(),
                DisplayMultipleCursors(),
                VisibleCharacters(self._pastes.label),
            ],
            # prompt-toolkit's own would go on marking what a search has found after it.
            include_default_input_processors=False,
            search_buffer_control=self._toolbar.control,
            preview_search=True,
        )
        control.drawn = self._drawn
        text = Window(
            control,
            height=Dimension(min=1),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._prefix,
            style="class:input",
        )
        hint = Window(
            FormattedTextControl(lambda: [("class:input.hint", self._hint)]),
            height=Dimension(min=0, max=3),
            wrap_lines=True,
            dont_extend_height=True,
        )
        focused = has_focus(self.buffer)
        return HSplit(
            [
                text,
                self._toolbar.container,
                ConditionalContainer(hint, Condition(lambda: bool(self._hint))),
                completion_menu(self.buffer, focused, self._highlighted),
            ]
        )

    def _drawn(self) -> None:
        app = get_app()
        if app is not self._app:
            self._app = app
            app.editing_mode = EditingMode.VI if self._vi else EditingMode.EMACS
            read_in_bursts(app.input)

    def _listed(self) -> None:
        """The first list of files is there, which may have taken longer than a completion waits; in its thread."""
        app = self._app
        if app is None or app.loop is None or app.context is None:
            return
        with suppress(RuntimeError):  # the loop has ended meanwhile
            app.loop.call_soon_threadsafe(self._offer_files, context=app.context.copy())

    def _offer_files(self) -> None:
        place, state = find_spot(self.buffer.document.text_before_cursor), self.buffer.complete_state
        if place is None or place.kind != "file" or self.completing:
            return
        if state is not None and not state.completions:
            # A completion is on its way, perhaps without the list: look again when it has come.
            asyncio.get_running_loop().call_later(SOON, self._offer_files)
            return
        self.buffer.complete_state = None
        self.buffer.start_completion()

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        app = get_app()
        if app.output.get_size().columns < NARROW:
            return []
        mode = _MODES.get(app.vi_state.input_mode, "i") if self._vi else ""
        if line or wrapped:
            return [("class:input.prompt", " " * len(f"{mode}> "))]
        return [("class:input.prompt", f"{mode}> ")]


SEARCHED = 200
"""Characters of a paste that a search takes."""


def box_bindings(box: InputBox) -> KeyBindings:
    """Return the keys that work while `box` has the focus, or while its history is searched."""
    keys = KeyBindings()
    _completion(keys, box)
    _search(keys, box)
    _text(keys, box)
    return keys


def _completion(keys: KeyBindings, box: InputBox) -> None:
    buffer = box.buffer
    here = has_focus(buffer)
    inserting = here & (emacs_insert_mode | vi_insert_mode)
    menu = Condition(lambda: buffer.complete_state is not None)

    @keys.add("tab", filter=inserting)
    def _next(event: KeyPressEvent) -> None:
        state = buffer.complete_state
        if state is None:
            buffer.start_completion(select_first=True)
            return
        buffer.complete_next()
        if len(state.completions) == 1 and box.accept_completion():
            box.space_after()

    @keys.add("s-tab", filter=inserting & menu)
    def _previous(event: KeyPressEvent) -> None:
        buffer.complete_previous()

    @keys.add("down", filter=inserting & menu)
    def _down(event: KeyPressEvent) -> None:
        state = buffer.complete_state
        if state is not None and state.complete_index is None and box.completing and len(state.completions) > 1:
            buffer.complete_next()  # the first is highlighted without being selected
        buffer.complete_next()

    @keys.add("escape", filter=here & emacs_mode & menu)
    def _close(event: KeyPressEvent) -> None:
        buffer.cancel_completion()

    # prompt-toolkit offers completions for what is inserted; here also for what a deletion leaves.
    offered = Condition(lambda: offers_completion(buffer.document.text_before_cursor))

    @keys.add("backspace", filter=inserting & offered & ~has_selection, save_before=lambda event: not event.is_repeat)
    def _shorten(event: KeyPressEvent) -> None:
        get_by_name("backward-delete-char").call(event)
        if offers_completion(buffer.document.text_before_cursor):
            buffer.start_completion()


def _search(keys: KeyBindings, box: InputBox) -> None:
    searching = is_searching & has_focus(box.search_buffer)
    keys.add("c-r", filter=has_focus(box.buffer))(search.start_reverse_incremental_search)
    keys.add("c-r", filter=searching)(search.reverse_incremental_search)
    keys.add("c-s", filter=searching)(search.forward_incremental_search)
    keys.add("enter", filter=searching, eager=True)(search.accept_search)
    keys.add("c-j", filter=searching, eager=True)(search.accept_search)
    keys.add("escape", filter=searching, eager=True)(search.accept_search)
    keys.add("c-g", filter=searching, eager=True)(search.abort_search)
    keys.add("c-c", filter=searching, eager=True)(search.abort_search)

    @keys.add(Keys.BracketedPaste, filter=searching)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(event.data[:SEARCHED].partition("\n")[0])


def _text(keys: KeyBindings, box: InputBox) -> None:
    here = has_focus(box.buffer)

    @keys.add("c-j", filter=here)
    def _newline(event: KeyPressEvent) -> None:
        box.buffer.newline(copy_margin=False)

    @keys.add(Keys.BracketedPaste, filter=here)
    def _paste(event: KeyPressEvent) -> None:
        box.paste(event.data)

    @keys.add("c-v", filter=here)
    def _image(event: KeyPressEvent) -> None:
        event.app.create_background_task(box.paste_image())

    @keys.add("c-g", filter=here)
    @keys.add("c-x", "c-e", filter=here)
    @keys.add("v", filter=here & vi_navigation_mode)
    def _edit(event: KeyPressEvent) -> None:
        event.app.create_background_task(box.edit())
