"""Keys of the person's own: each does what another key does at that moment, and what cannot be bound is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.key_binding.key_bindings import _parse_key
from search import sample
from ui.screen.screen_stand import stand

from nexus_cli.cli.terminal_view import TerminalView
from nexus_cli.config.load_settings import check_value
from nexus_cli.config.setting_rules import KEYS_OF_ACTIONS
from nexus_cli.config.setting_tables import SETTINGS
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError

pytestmark = pytest.mark.put_clock


async def test_a_key_does_what_the_key_of_its_action_does_and_can_be_changed() -> None:
    async with stand() as on:
        said = on.controller.said
        # Ctrl+O does now what Ctrl+T does, and Ctrl+Y what Ctrl+O did: no key runs through another one of these.
        own = {"c-o": "thinking", "c-y": "output", "escape l": "level", "c-x m": "/compact now", "f5": "newline"}
        assert on.screen.bind_keys(own) == ""
        for keys in ("\x0f", "\x19", "\x1bl", "\x18m"):
            on.type(keys)
            await on.still()
        on.type("a\x1b[15~b")
        await on.until(lambda: on.box.buffer.text == "a\nb")
        on.type("\x19")
        await on.until(lambda: len(said) == 5)
        on.screen.bind_keys({})
        on.type("\x0f")
        await on.until(lambda: len(said) == 6)
        assert list(said) == ["thinking", "output", "level", "entered '/compact now'", "output", "output"]


async def test_every_action_has_a_key_on_the_screen() -> None:
    async with stand() as on:
        base = on.screen._bindings
        keys = {name: on.screen.bind_keys({"f5": name}) for name in KEYS_OF_ACTIONS}
        assert not any(keys.values())
        taken = {
            name
            for name, key in KEYS_OF_ACTIONS.items()
            if not base.get_bindings_for_keys(tuple(map(_parse_key, key.split())))
        }
        assert taken <= {"search", "editor", "image"}, "these are keys of the real box"


@pytest.mark.parametrize(
    ("name", "why"),
    sample(
        [
            ("c-foo", "c-foo is not a valid key"),
            ("", " is not a valid key"),
            ("<any>", "<any> is not a valid key"),
            ("c-c", "c-c cannot be rebound"),
            ("c-m", "c-m cannot be rebound"),
            ("c-c x", "c-c cannot be rebound"),
            ("enter x", "enter cannot be rebound"),
            ("escape", "escape cannot be rebound"),
            ("x", "x is needed for typing text"),
            ("space c-x", "space c-x is needed for typing text"),
            ("c-x", "c-x conflicts with another key binding"),
            ("c-x m q", "c-x m q conflicts with another key binding"),
            ("tab", "tab conflicts with another key binding"),
        ],
        5,
    ),
)
async def test_a_key_that_cannot_be_bound_is_named_and_the_others_work(name: str, why: str) -> None:
    async with stand() as on:
        own = {"c-x m": "/compact", "c-i": "level", name: "stop", "c-y": "output"}
        assert on.screen.bind_keys(own) == f"[bindings]: {why} (see `nexus docs personal`)"
        on.type("\x19")
        await on.until(lambda: on.controller.said)
    assert on.controller.said == ["output"]


def test_an_unknown_action_is_an_error_with_those_that_there_are() -> None:
    assert check_value('bindings."c-x m"', "/compact") == "/compact"
    with pytest.raises(
        NexusError, match=r"bindings.c-y is \"levle\", expected a command such as \"/compact\", or one of"
    ):
        check_value("bindings.c-y", "levle")
    assert "bindings" not in SETTINGS


def test_the_list_of_keys_has_them_and_a_problem_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Told:
        keys: tuple[tuple[str, str], ...] = ()
        notes: list[str] = []  # noqa: RUF012

        def show_note(self, text: str, role: str) -> None:
            self.notes.append(text)

    monkeypatch.setenv("TERM", "xterm")
    view, told = TerminalView(Settings(bindings={"c-y": "level", "x": "stop"}), tmp_path, save=False), Told()
    view.connect(told)  # type: ignore[arg-type]
    assert told.keys[-2:] == (("c-y", "level"), ("x", "stop")) and len(told.notes) == 1
    view.apply(Settings())
    assert ("c-y", "level") not in told.keys and len(told.notes) == 1
    assert view.box is not None
    view.box.notice("the editor vi: exit status 1")
    assert told.notes[1:] == ["nexus: the editor vi: exit status 1"]
    view.close()
