"""The input box, from the first key to the finished message.

Combines buffer, completion menu, history and pastes, and gives the screen one container, its keys, and `take`. The
screen places the box and decides when a message is sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from prompt_toolkit.application import Application
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
from nexus_cli.core.shared_types import TakeText
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.input.attached_files import IMAGE, list_pasted_files, quote_mention
from nexus_cli.ui.input.burst_reader import read_in_bursts
from nexus_cli.ui.input.completion import Completions, completion_menu, find_spot, offers_completion
from nexus_cli.ui.input.editor import edit_text
from nexus_cli.ui.input.file_index import FileIndex
from nexus_cli.ui.input.history import ProjectHistory
from nexus_cli.ui.input.paste import Pastes, TypedMessage, VisibleCharacters, cut_to_bytes, normalize_newlines
from nexus_cli.ui.input.piped import MAX_INPUT

Outside = Callable[[Callable[[], Awaitable[str]]], Awaitable[str]]

LONG = 20_000
"""Most characters that are inserted unfolded."""
COMPLETION_RETRY_SECONDS = 0.1
"""Seconds before a pending completion is checked again."""
NARROW = 12
"""Columns below which the prompt is left out."""
_WITH_KEY = re.compile(r"(?s)(\s*/(?:login|connect))\b.*")
"""A line that may contain a key: the history keeps only its command."""
_BEFORE_FILE = re.compile(r"(?s)(?!\s*!)(.*\s)?")
"""Text after which a pasted path is a file to attach: no shell command, and no half of a word."""
_MODES = {InputMode.NAVIGATION: "n", InputMode.REPLACE: "r", InputMode.REPLACE_SINGLE: "r"}


async def _directly(work: Callable[[], Awaitable[str]]) -> str:
    return await work()


async def _no_image() -> str:
    return ""


class InputBox:
    """The input box. All methods must be called in the loop's thread."""

    _app: Application[Any]
    """The application that draws the box."""

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
        names: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        """Complete files of `project`, written relative to `folder`. Without `save`, write no history.

        With `names`, complete these after `@` instead of files.
        """
        self.outside: Outside = _directly
        """Suspends the app while an editor has the terminal."""
        self.clipboard_image: Callable[[], Awaitable[str]] = _no_image
        """Saves the image on the clipboard and returns its path, or ""."""
        self.notice: TakeText = self.hint
        """Shows the person one line; by default below the box until the next change."""
        self._commands = commands
        self._vi = vi
        self._hint = ""
        self._editing = False
        self._pastes = Pastes()
        self._index = FileIndex(folder, project, listed=self._listed)
        self._history = ProjectHistory(history, project, save=save, notice=lambda text: self.notice(text))
        self.buffer = Buffer(
            completer=Completions(folder, self._index, commands, desk, names),
            history=self._history,
            complete_while_typing=Condition(lambda: offers_completion(self.buffer.document.text_before_cursor)),
            on_text_changed=lambda buffer: self.hint(""),
        )
        self._toolbar = SearchToolbar(
            vi_mode=vi, ignore_case=True, forward_search_prompt="search forward: ", backward_search_prompt="search: "
        )
        self.search_buffer = self._toolbar.search_buffer
        """Field of a history search; focused during the search."""
        self.container = self._container()
        """The text, and below it the search, a hint, the menu: as high as needed, at least one row."""
        self.bindings = box_bindings(self)
        """The keys of the box, except those that send, stop or leave."""

    @property
    def empty(self) -> bool:
        """True if the box has no text, not even a space."""
        return not self.buffer.text

    @property
    def text(self) -> str:
        """Return the text of the box, with pastes whole."""
        return self._pastes.expand(self.buffer.text)

    @property
    def menu_open(self) -> bool:
        """True if the menu has entries."""
        state = self.buffer.complete_state
        return state is not None and bool(state.completions)

    @property
    def completing(self) -> bool:
        """True if Enter accepts a menu entry (`accept_completion`): one is highlighted that is not typed in full."""
        state, marked = self.buffer.complete_state, self._highlighted()
        if state is None or marked is None:
            return False
        if state.complete_index is not None:
            return True
        typed = self.buffer.document.text_before_cursor
        return not any(
            typed.endswith(completion.text) and len(completion.text) == -completion.start_position
            for completion in state.completions
        )

    def _highlighted(self) -> int | None:
        """Return the index of the highlighted entry: the selected one, else the first for commands and files."""
        state = self.buffer.complete_state
        if state is None or not state.completions or state.complete_index is not None:
            return state.complete_index if state is not None else None
        spot = find_spot(self.buffer.document.text_before_cursor)
        offered = spot is not None and spot.kind in ("command", "file") and not spot.text.endswith("/")
        return 0 if offered else None

    @property
    def searching(self) -> bool:
        """True during a history search, which Enter, Esc and Ctrl+C end."""
        return self._app.layout.has_focus(self.search_buffer)

    def accept_completion(self) -> bool:
        """Accept the highlighted entry and close the menu. For a folder, open it again with the folder's content.

        Return True if the box then has a command without required arguments, which can be sent.
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
        """True if `text` is a command without required arguments."""
        parsed = parse(text)
        try:
            command = find(parsed[0], self._commands()) if parsed is not None and not parsed[1] else None
        except NexusError:
            return False
        return command is not None and (not command.usage or command.usage.startswith("["))

    def space_after(self) -> None:
        """Add a space after a completed word."""
        if not self.buffer.document.current_char.isspace():
            self.buffer.insert_text(" ")
        elif self.buffer.document.current_char == " ":
            self.buffer.cursor_right()

    def break_line(self) -> bool:
        """Replace the backslash before the cursor by a newline; False if there is none, or it is escaped."""
        before = self.buffer.document.current_line_before_cursor
        if not (len(before) - len(before.rstrip("\\"))) % 2:
            return False
        self.buffer.delete_before_cursor(1)
        self.buffer.newline(copy_margin=False)
        return True

    def take(self) -> TypedMessage:
        """Return the typed message, add it to the history, and empty the box."""
        text = self.buffer.text
        expanded = self._pastes.expand(text)
        pasted = tuple(map(replace_surrogates, self._pastes.take_inserted(expanded)))
        labelled, files = self._pastes.label_pastes(text), self._pastes.list_files(text)
        typed = TypedMessage(replace_surrogates(expanded), replace_surrogates(labelled), pasted, files)
        self.remember(text)
        self.buffer.reset()
        self._insert()
        return typed

    def remember(self, text: str) -> None:
        """Add `text` to the history, without a key that it stores."""
        self._history.append_string(_WITH_KEY.sub(r"\1", self._pastes.for_history(text)))

    def fill(self, text: str) -> None:
        """Replace the text of the box by `text`, which is folded if long; undo restores the former one.

        With an empty `text` the former one is also added to the history.
        """
        text = normalize_newlines(text)
        if not text:
            self.remember(self.buffer.text)
            # The history starts again from its end.
            self.buffer.reset(self.buffer.document)
            self._insert()
        if len(text) > LONG:
            text = self._pastes.expand(text)
            lines = text.count("\n") + 1
            text = self._pastes.fold(text, f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters", "")
        self.buffer.save_to_undo_stack()
        self.buffer.document = Document(text, len(text))

    def paste(self, data: str) -> None:
        """Insert a paste at the cursor, folded if it is long. Never submits.

        Paths of images and PDFs, which terminals paste for dragged files, become attachments; a shell command
        gets them as text.
        """
        text = cut_to_bytes(data)
        cut = len(text) < len(data)
        self.buffer.save_to_undo_stack()
        is_free = _BEFORE_FILE.fullmatch(self.buffer.document.text_before_cursor)
        if is_free and (dragged := list_pasted_files(text)):
            for path, kind in dragged:
                self._insert_file(path, kind)
            return
        self.buffer.insert_text(self._pastes.fold_if_long(normalize_newlines(text), self.buffer.text, cut=cut))
        if cut:
            self.notice(f"the pasted text exceeds {MAX_INPUT >> 20} MiB; the rest was cut")

    async def paste_image(self) -> None:
        """Attach the image on the clipboard at the cursor; show a hint if there is none."""
        try:
            path = await self.clipboard_image()
        except OSError as error:
            self.hint(f"the image cannot be saved: {error.strerror}")
            return
        if path:
            self._insert_file(path, IMAGE)
        else:
            self.hint("no image could be read from the clipboard")

    def _insert_file(self, path: str, kind: str) -> None:
        """Insert the mention of a file, shown as `[Image #1]`."""
        mention = self._pastes.fold(quote_mention(path), kind, self.buffer.text, is_file=True)
        self.buffer.insert_text(mention + " ")

    def hint(self, text: str) -> None:
        """Show one line below the box until the text changes; "" removes it."""
        self._hint = sanitize(text)
        if text:
            self._app.invalidate()

    async def edit(self) -> None:
        """Open the text in the external editor. A failure is shown in one line and leaves the text unchanged."""
        if self._editing:
            return
        self._editing = True
        before = self.text
        try:
            after = await self.outside(lambda: edit_text(before))
        except NexusError as error:
            self.notice(error.sentences)
        else:
            if after != before:
                self.fill(after)
        finally:
            self._editing = False

    def close(self) -> None:
        """Cancel background work."""
        self._index.close()

    def _insert(self) -> None:
        """Switch vi to insert mode, in which every message begins."""
        self._app.vi_state.input_mode = InputMode.INSERT

    def _container(self) -> HSplit:
        control = BufferControl(
            buffer=self.buffer,
            input_processors=[
                HighlightIncrementalSearchProcessor(),
                HighlightSelectionProcessor(),
                DisplayMultipleCursors(),
                VisibleCharacters(self._pastes.label),
            ],
            # prompt-toolkit's own version would keep search matches highlighted afterwards.
            include_default_input_processors=False,
            search_buffer_control=self._toolbar.control,
            preview_search=True,
        )
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

    def set_keys(self, *, vi: bool) -> None:
        """Edit the text with the keys of vi, or those of emacs."""
        self._vi = vi
        self._app.editing_mode = EditingMode.VI if vi else EditingMode.EMACS

    def attach(self, app: Application[Any]) -> None:
        """Serve `app`, which draws the box; before anything else is done with it."""
        self._app = app
        self.set_keys(vi=self._vi)
        read_in_bursts(app.input)

    def _listed(self) -> None:
        """Called in the index's thread when the first list is ready, which may be later than a completion waits."""
        app = self._app
        if app.loop is None or app.context is None:
            return
        with suppress(RuntimeError):  # the loop has ended
            app.loop.call_soon_threadsafe(self.offer_again, "file", context=app.context.copy())

    def offer_again(self, kind: str) -> None:
        """Complete what is typed once more if it is of this kind: the entries came later than the text."""
        place, state = find_spot(self.buffer.document.text_before_cursor), self.buffer.complete_state
        if place is None or place.kind != kind or self.completing:
            return
        if state is not None and not state.completions:
            # A completion is pending, perhaps without the list: complete again afterwards.
            asyncio.get_running_loop().call_later(COMPLETION_RETRY_SECONDS, self.offer_again, kind)
            return
        self.buffer.complete_state = None
        self.buffer.start_completion()

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if self._app.output.get_size().columns < NARROW:
            return []
        mode = _MODES.get(self._app.vi_state.input_mode, "i") if self._vi else ""
        if line or wrapped:
            return [("class:input.prompt", " " * len(f"{mode}> "))]
        return [("class:input.prompt", f"{mode}> ")]


SEARCHED = 200
"""Most characters of a paste that are used as a search."""


def box_bindings(box: InputBox) -> KeyBindings:
    """Return the keys that work while `box` has the focus or its history is searched."""
    keys = KeyBindings()
    _completion(keys, box)
    _search(keys, box)
    _text(keys, box)
    return keys


def _completion(keys: KeyBindings, box: InputBox) -> None:
    buffer = box.buffer
    focused = has_focus(buffer)
    inserting = focused & (emacs_insert_mode | vi_insert_mode)
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
            buffer.complete_next()  # the first entry is highlighted without being selected
        buffer.complete_next()

    @keys.add("escape", filter=focused & emacs_mode & menu)
    def _close(event: KeyPressEvent) -> None:
        buffer.cancel_completion()

    # prompt-toolkit offers completions after insertions; this does so after deletions too.
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
    for key in ("enter", "c-j", "escape"):
        keys.add(key, filter=searching, eager=True)(search.accept_search)
    for key in ("c-g", "c-c"):
        keys.add(key, filter=searching, eager=True)(search.abort_search)

    @keys.add(Keys.BracketedPaste, filter=searching)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(event.data[:SEARCHED].partition("\n")[0])


def _text(keys: KeyBindings, box: InputBox) -> None:
    focused = has_focus(box.buffer)

    @keys.add("c-j", filter=focused)
    def _newline(event: KeyPressEvent) -> None:
        box.buffer.newline(copy_margin=False)

    @keys.add(Keys.BracketedPaste, filter=focused)
    def _paste(event: KeyPressEvent) -> None:
        box.paste(event.data)

    @keys.add("c-v", filter=focused)
    def _image(event: KeyPressEvent) -> None:
        event.app.create_background_task(box.paste_image())

    @keys.add("c-g", filter=focused)
    @keys.add("c-x", "c-e", filter=focused)
    @keys.add("v", filter=focused & vi_navigation_mode)
    def _edit(event: KeyPressEvent) -> None:
        event.app.create_background_task(box.edit())
