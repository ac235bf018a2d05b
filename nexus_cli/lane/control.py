"""The connection between a front end and the running turn: events come out; words and a stop go in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nexus_cli.core.attachment import AttachedFile
from nexus_cli.core.entry import Drop
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import ContextDrop, Event, Notice


@dataclass(frozen=True, slots=True)
class SteeringWords:
    """Something that is said to the running turn."""

    text: str
    pasted: tuple[str, ...] = ()
    """The parts of it that were pasted."""
    files: tuple[AttachedFile, ...] = ()
    """Records of the files in it."""
    source: str = "person"
    """Whose words they are: `person` only where they typed them, else `client` or `agent`."""


@dataclass
class Control:
    """One per session, shared by all of its lanes."""

    events: asyncio.Queue[Event | None] | None = None
    """The events of the newest turn or act; None before the first one: nobody sees them."""
    waiting_texts: Callable[[], Sequence[str]] = tuple
    """Returns the texts that the front end will send with the person's next message."""
    listener: Callable[[Event], None] | None = None
    """Gets what workers do while no turn runs."""
    steering: deque[SteeringWords] = field(default_factory=deque)
    """Words that wait for the end of the current batch."""
    attachment_memos: dict[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Memos of texts that the next message may take along, by text and kind; recorded with the message that does."""
    task: asyncio.Task[None] | None = None
    deadline: float | None = None
    """When the turn's time limit passes, by the monotonic clock; None without a limit."""
    stopped: str = ""
    """Why the turn was stopped: `cancel`, `timeout`, or "" while it runs."""
    is_ending: bool = False
    """True if no request is sent any more: the process is about to end."""

    @property
    def running(self) -> bool:
        """True if there is something to stop."""
        return self.task is not None and not self.task.done()

    def emit(self, event: Event) -> None:
        """Hand an event to the front end."""
        if self.events is not None:
            self.events.put_nowait(event)

    def emit_aside(self, event: Event) -> None:
        """Hand an event of what runs beside the turn to the front end, also while no turn runs."""
        if self.running:
            self.emit(event)
        elif self.listener is not None:
            self.listener(event)

    def emit_notice(self, line: str) -> None:
        """Hand a line for the person to the front end."""
        self.emit(Notice(line))

    def emit_drop(self, drop: Drop) -> None:
        """Tell the front end what was left out, without its text."""
        self.emit(ContextDrop(replace(drop, text=None)))

    async def wait_until_shown(self) -> None:
        """Wait until the front end has shown every event so far."""
        if self.events is not None:
            await self.events.join()

    def check_ending(self) -> None:
        """Raise `NexusError("aborted", ...)` if no request may be sent any more."""
        if self.is_ending:
            raise NexusError("aborted", "stopped", "nexus is shutting down; completed steps are kept")

    def stop(self, why: str) -> None:
        """Stop the running turn; the first reason counts."""
        if self.task is not None and self.running and not self.stopped:
            self.stopped = why
            self.task.cancel()

    def break_in(self, why: str) -> None:
        """Raise `CancelledError` in the turn from a signal handler; nothing where other code runs."""
        if self.running and asyncio.current_task() is self.task:
            self.stopped = self.stopped or why
            raise asyncio.CancelledError
