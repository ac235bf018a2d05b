"""The keys of the input box: completion, history search, pastes, the editor, new lines (interface.md section 10).

Moving and editing are prompt-toolkit's own keys, emacs or vi. Enter, Alt+Enter, Esc on an empty box and the other keys
that leave the box belong to the screen; here Enter and Esc only end a search or close the menu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings import search
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.keys import Keys

from nexus_cli.ui.input.completion import offers_completion

if TYPE_CHECKING:
    from nexus_cli.ui.input.box import InputBox

SEARCHED = 200
"""Characters of a paste that a search takes."""


def box_bindings(box: InputBox) -> KeyBindings:
    """The keys that work while `box` has the focus, or while its history is searched."""
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
        if len(state.completions) == 1:
            box.accept_completion()

    @keys.add("s-tab", filter=inserting)
    def _previous(event: KeyPressEvent) -> None:
        if buffer.complete_state:
            buffer.complete_previous()
        else:
            buffer.start_completion(select_last=True)

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

    @keys.add("c-g", filter=here)
    @keys.add("c-x", "c-e", filter=here)
    @keys.add("v", filter=here & vi_navigation_mode)
    def _edit(event: KeyPressEvent) -> None:
        event.app.create_background_task(box.edit())
