"""Fixtures of this room: a REPL in a terminal, and the terminals that a test opened, closed after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from server.script import Source
from terminal.repl import SETTINGS, Opens, Place, Repl, place
from terminal.terminal import Terminal


@pytest.fixture
def opened() -> Iterator[Callable[[Terminal], Terminal]]:
    """A function that takes a terminal and closes it after the test."""
    with ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """A function that makes a place: `places(script, **options of the server)`."""
    with ExitStack() as stack:
        made: list[Place] = []

        def make(script: Source = None, **options: Any) -> Place:
            made.append(stack.enter_context(place(tmp_path / f"place{len(made)}", script, **options)))
            return made[-1]

        yield make


@pytest.fixture
def repl(places: Callable[..., Place], opened: Callable[[Terminal], Terminal]) -> Opens:
    """A function that starts a REPL and waits for its prompt: `repl(script, columns=40, env=..., arguments=())`.

    `settings` is more of config.toml, `files` go into the project; `at` is the place of an earlier one.
    """

    def start(
        script: Source = None,
        *,
        at: Place | None = None,
        arguments: tuple[str, ...] = (),
        settings: str = "",
        files: Mapping[str, str] = MappingProxyType({}),
        **options: Any,
    ) -> Repl:
        here = at or places(script)
        if settings:
            here.settings(SETTINGS + settings)
        for name, text in files.items():
            (here.folder / name).write_text(text)
        made = Repl(here, *arguments, **options)
        opened(made)
        made.ready()
        return made

    return start
