"""What can be done to a session beside a turn: one file for each, a function that gives an `Act`.

`Session.act` runs it as it runs a turn: with events, stopped by `cancel`. An act gets the session's parts and nothing
else; what it changes it changes through the engine's lane, and what it leaves behind are memos.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from nexus_cli.session.session_state import SessionState

Act: TypeAlias = Callable[[SessionState], Awaitable[None]]
"""Raises `NexusError` for what the person can mend; emits through `state.lane_state`."""
