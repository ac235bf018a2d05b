"""Fixtures for other rooms: import them in a `conftest.py` of your own (`from server.fixtures import model_server`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from server.play import ScriptedServer
from server.script import Source

Start = Callable[..., ScriptedServer]


@pytest.fixture
def start_server() -> Iterator[Start]:
    """A function that starts servers, `start_server(script, **options)`; all are closed after the test.

    What a scripted function raised fails the test then.
    """
    with ExitStack() as stack:

        def start(script: Source = None, **options: Any) -> ScriptedServer:
            return stack.enter_context(ScriptedServer(script, **options))

        yield start


@pytest.fixture
def model_server(start_server: Start) -> ScriptedServer:
    """One running server with the default answer; give it a script by `model_server.load(script)`."""
    return start_server()
