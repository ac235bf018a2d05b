"""Acts: what can be done to a session beside a turn. Each is a function that returns an `Act`.

`Session.act` runs it like a turn: with events, stopped by `cancel`. An act gets the session's state and nothing else.
It changes the session through its lane and leaves memos.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from nexus_cli.session.session_state import SessionState

Act: TypeAlias = Callable[[SessionState], Awaitable[None]]
"""Raises `NexusError` for what the person can mend; emits through `state.lane_state`."""
