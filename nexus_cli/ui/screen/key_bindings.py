"""The key bindings of the screen: Enter, Esc and the control keys. The box has the editing keys.

Bindings only; their actions are in `Screen` (through `ScreenActions`) and in `ReplController`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, emacs_insert_mode, has_focus, vi_insert_mode, vi_navigation_mode
from prompt_toolkit.key_binding import KeyBindings, KeyBindingsBase, KeyPressEvent
from prompt_toolkit.key_binding.key_bindings import ConditionalKeyBindings, _parse_key, merge_key_bindings
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

from nexus_cli.config.setting_rules import KEYS_OF_ACTIONS
from nexus_cli.ui.asked_question import is_command_line, is_only_answer
from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.repl.view import ReplController
from nexus_cli.ui.screen.picker import PickerPanel, picker_bindings
from nexus_cli.ui.screen.question import QuestionPanel, UnmarkedPaste, expire, field_bindings, loop_time

AFTER_STOP_SECONDS = 1.5
"""Seconds after a Ctrl+C or Esc that stopped work in which another one can only mean the same: the work may have
settled."""
FIXED = (Keys.ControlC, Keys.ControlM)
"""Keys with which none of a person's begins: they stop work and send messages, and would wait for the next key."""


class ScreenActions(Protocol):
    """The screen's actions for keys."""

    @property
    def controller(self) -> ReplController: ...
    def leaving(self) -> None:
        """Ctrl+C on an empty box."""

    def editing_last(self) -> None:
        """Esc on an empty box with nothing to stop or take back."""

    @property
    def help_left(self) -> bool:
        """True if this key has closed the list of keys."""

    def show_keys(self) -> None:
        """`?` on an empty box: list the keys until the next key."""

    def clear(self) -> None:
        """Ctrl+L: clear the screen."""

    def suspend(self) -> None:
        """Ctrl+Z: suspend nexus."""


class Stops:
    """Ctrl+C and Esc as they stop work; the same instance for messages and for questions."""

    def __init__(self, controller: Callable[[], ReplController]) -> None:
        self._controller = controller
        self._at = -AFTER_STOP_SECONDS
        self.typed = False
        """True if a key was typed since the last stop."""

    def stop(self, *, gently: bool = False) -> bool:
        """Stop running work; True if there was any. `gently` never exits nexus, however often it comes."""
        controller = self._controller()
        if not controller.running:
            return False
        self._at, self.typed = loop_time(), False
        controller.interrupt(gently=gently)
        return True

    @property
    def has_just_stopped(self) -> bool:
        """True if the work that a key stopped has ended within `AFTER_STOP_SECONDS`."""
        return loop_time() - self._at < AFTER_STOP_SECONDS


def screen_bindings(box: InputBox, panel: QuestionPanel, picker: PickerPanel, reach: ScreenActions) -> KeyBindingsBase:
    """Return all bindings of the app: the box's own while no field has the focus, and above them the screen's."""
    of_box = ConditionalKeyBindings(box.bindings, ~has_focus(panel.buffer) & ~has_focus(picker.buffer))
    stops = Stops(lambda: reach.controller)
    of_question = field_bindings(
        panel,
        enter=partial(_answer, panel, reach),
        stop=partial(_stop_question, box, panel, stops),
        cycle_level=lambda: reach.controller.cycle_level(),
    )
    of_box_and_screen = (
        _line_bindings(box, panel, reach, stops),
        _escape_bindings(box, reach, stops),
        _control_bindings(box, reach, stops),
    )
    return merge_key_bindings([of_box, *of_box_and_screen, of_question, picker_bindings(picker), _of_both(reach)])


def bind_own_keys(own_keys: Mapping[str, str], base: KeyBindingsBase, reach: ScreenActions) -> tuple[KeyBindings, str]:
    """Return the bindings of `own_keys`, actions and commands by key, and a line about the keys that cannot be bound.

    An action does what its own key does in `base` at that moment.
    """
    bindings, problems = KeyBindings(), []
    for name, action in own_keys.items():
        try:
            keys = tuple(map(_parse_key, name.split()))
        except ValueError:
            keys = ()
        bound_keys = [binding.keys for binding in bindings.bindings]
        if not keys or Keys.Any in keys:
            problems.append(f"{name} is not a valid key")
        elif keys[0] in FIXED or keys == (Keys.Escape,):
            problems.append(f"{name.split()[0]} cannot be rebound")
        elif len(keys[0]) == 1:
            problems.append(f"{name} is needed for typing text")
        elif any(
            keys[: len(other_keys)] == other_keys[: len(keys)] for other_keys in bound_keys
        ) or base.get_bindings_starting_with_keys(keys):
            problems.append(f"{name} conflicts with another key binding")
        else:
            bindings.add(*keys)(_own_key(action, base, reach))
    return bindings, f"[bindings]: {'; '.join(problems)} (see `nexus docs personal`)" if problems else ""


def _own_key(action: str, base: KeyBindingsBase, reach: ScreenActions) -> Callable[[KeyPressEvent], None]:
    keys = tuple(map(_parse_key, KEYS_OF_ACTIONS.get(action, "").split()))

    def act(event: KeyPressEvent) -> None:
        if not keys:
            reach.controller.submit(TypedMessage(action, action))
            return
        for binding in reversed(base.get_bindings_for_keys(keys)):
            if binding.filter():
                binding.call(event)
                return

    return act


def _line_bindings(box: InputBox, panel: QuestionPanel, reach: ScreenActions, stops: Stops) -> KeyBindings:
    """Return the keys that send a message, break its lines or take it back, and those of an empty box.

    Several lines at once may be typed ahead and are sent; while a question is about to open, they are a paste and stay
    in the box. An answer that was typed before the question takes keys is kept for it or cleared, never sent.
    """
    bindings, paste = KeyBindings(), UnmarkedPaste()
    focused, empty = has_focus(box.buffer), Condition(lambda: box.empty)
    menu = Condition(lambda: box.menu_open)

    @bindings.add("enter", filter=focused)
    def _enter(event: KeyPressEvent) -> None:
        if box.completing and not box.accept_completion():
            return
        if box.break_line():
            return
        if panel.asking and paste.goes_on(event):
            box.buffer.newline(copy_margin=False)
        elif panel.asking and (paste.ends or panel.early_answer):
            return
        elif panel.came_early:
            box.fill("")
        elif box.buffer.text.strip():
            stops.typed = True  # taking the text is not a change of it
            reach.controller.submit(box.take())

    @bindings.add("escape", "enter", filter=focused)
    def _alt_enter(event: KeyPressEvent) -> None:
        if not reach.controller.running:
            box.buffer.newline(copy_margin=False)
        elif panel.came_early:
            box.fill("")
        elif box.buffer.text.strip():
            reach.controller.enqueue(box.take())

    @bindings.add("c-j", filter=focused)
    def _newline(event: KeyPressEvent) -> None:
        box.buffer.newline(copy_margin=False)

    @bindings.add("up", filter=focused & empty & ~menu)
    def _up(event: KeyPressEvent) -> None:
        text = reach.controller.take_back()
        if text:
            box.fill(text)
        else:
            box.buffer.auto_up(count=event.arg)

    @bindings.add("?", filter=focused & empty & (emacs_insert_mode | vi_insert_mode))
    def _keys(event: KeyPressEvent) -> None:
        if reach.help_left:
            box.buffer.insert_text("?")
        else:
            reach.show_keys()

    @bindings.add("s-tab", filter=focused & ~menu)
    def _level(event: KeyPressEvent) -> None:
        reach.controller.cycle_level()

    return bindings


def _escape_bindings(box: InputBox, reach: ScreenActions, stops: Stops) -> KeyBindings:
    """Return Esc: it stops running work, takes back queued messages, and twice on an empty box lists the messages to go
    back to.

    With vi keys it first leaves the insert mode if there is text.
    """
    bindings = KeyBindings()
    focused, empty = has_focus(box.buffer), Condition(lambda: box.empty)
    menu = Condition(lambda: box.menu_open)
    running = Condition(lambda: reach.controller.running)
    inserting = Condition(lambda: get_app().editing_mode == EditingMode.VI) & ~vi_navigation_mode
    box.buffer.on_text_changed += lambda _: setattr(stops, "typed", True)

    @bindings.add("escape", filter=focused & running & ~menu & (empty | ~inserting))
    def _stop(event: KeyPressEvent) -> None:
        stops.stop(gently=True)

    @bindings.add("escape", filter=focused & empty & ~running & ~menu)
    def _back(event: KeyPressEvent) -> None:
        if reach.help_left or (stops.has_just_stopped and not stops.typed and not inserting()):
            return
        text = reach.controller.take_back()
        if text:
            box.fill(text)
        elif reach.controller.detach():
            return
        elif inserting():
            event.app.vi_state.input_mode = InputMode.NAVIGATION
        else:
            reach.editing_last()

    return bindings


def _control_bindings(box: InputBox, reach: ScreenActions, stops: Stops) -> KeyBindings:
    bindings = KeyBindings()
    focused, empty = has_focus(box.buffer), Condition(lambda: box.empty)

    @bindings.add("c-c", filter=focused)
    @bindings.add("<sigint>", filter=focused)
    def _stop(event: KeyPressEvent) -> None:
        if stops.stop() or stops.has_just_stopped:
            return
        if not box.empty:
            box.fill("")
        else:
            reach.leaving()

    @bindings.add("c-d", filter=focused & empty)
    def _end(event: KeyPressEvent) -> None:
        reach.controller.request_exit(asks=True)

    @bindings.add("c-b", filter=focused & empty & Condition(lambda: reach.controller.running))
    def _release(event: KeyPressEvent) -> None:
        reach.controller.release_workers()

    @bindings.add("c-d", filter=focused & ~empty)
    def _delete(event: KeyPressEvent) -> None:
        box.buffer.delete(event.arg)

    return bindings


def _stop_question(box: InputBox, panel: QuestionPanel, stops: Stops, *, gently: bool) -> None:
    """Stop the work that asks, and move words that were typed for it to the empty box; without such work, and at Esc on
    a question for a line, give no answer."""
    question, words = panel.question, panel.buffer.text
    if (question.keys or not gently) and stops.stop(gently=gently):
        if words.strip() and box.empty and not question.is_hidden and not is_only_answer(words, question):
            box.fill(words)
            panel.buffer.text = ""
        expire(panel.answer)
    else:
        panel.submit(None)


def _answer(panel: QuestionPanel, reach: ScreenActions) -> None:
    """Answer with the typed text; a command is run instead."""
    line = panel.buffer.text
    if panel.question.keys and is_command_line(line):
        panel.buffer.text = ""
        reach.controller.submit(TypedMessage(line, line))
    else:
        panel.enter()


def _of_both(reach: ScreenActions) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("c-t")
    def _thinking(event: KeyPressEvent) -> None:
        reach.controller.toggle_thinking()

    @bindings.add("c-o")
    def _output(event: KeyPressEvent) -> None:
        reach.controller.show_last_output()

    @bindings.add("c-l")
    def _clear(event: KeyPressEvent) -> None:
        reach.clear()

    @bindings.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        reach.suspend()

    return bindings


def catch_key_failures(processor: KeyProcessor, end: Callable[[Exception], None]) -> None:
    """Pass a failure of a key to `end`, instead of to its reader."""
    process = processor.process_keys

    def processed() -> None:
        try:
            process()
        except Exception as bug:  # the last seam of the keys
            end(bug)

    processor.process_keys = processed  # type: ignore[method-assign]
