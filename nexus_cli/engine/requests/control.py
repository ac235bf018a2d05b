"""The connection between a front end and the running turn: events out, steering messages and stops in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nexus_cli.core.attachment import IMAGE_TOKENS, Part, Trigger
from nexus_cli.core.entry import Drop, Notes
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import ContextDrop, Event, Notice, RecordedEvent
from nexus_cli.core.image_check import choose_images
from nexus_cli.core.message import ToolResult
from nexus_cli.core.request import ModelInfo

STOPPED_BY: Mapping[str, str] = {
    "person": "the person stopped the turn",
    "parent": "the session that started this worker stopped the turn",
    "end": "the session was closed",
    "timeout": "the turn's time limit was reached",
}
"""Who can stop a turn, in words for the model."""


@dataclass
class Control:
    """One per session, shared by all of its conversations."""

    events: asyncio.Queue[Event | None] | None = None
    """The events of the newest turn or act; None before the first one, when events are discarded."""
    waiting_texts: Callable[[], Sequence[str]] = tuple
    """Returns the texts that the front end will send with the person's next message."""
    recorder: Callable[[RecordedEvent], None] | None = None
    """Records events of the turn or act that runs, for a replay."""
    listener: Callable[[Event], None] | None = None
    """Receives the events of workers while no turn runs."""
    steering: deque[Trigger] = field(default_factory=deque)
    """Messages to deliver at the end of the current batch of calls."""
    images: deque[tuple[str, tuple[Part, ...]]] = field(default_factory=deque)
    """Images in results of the current batch of calls, each group with the line that introduces it."""
    attachment_memos: dict[str, Notes] = field(default_factory=dict)
    """Memos of texts that the next message may contain, by text and kind; recorded with that message."""
    task: asyncio.Task[None] | None = None
    deadline: float | None = None
    """Time at which the turn's limit expires, by the monotonic clock; None without a limit."""
    stopped: str = ""
    """Who stopped the turn, a key of `STOPPED_BY`; "" while the turn runs."""
    problem: str = ""
    """The reason that the request which a stop ended had failed before, "" for none."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Wakes the commands that the turn waits for: they go on in the background."""
    is_ending: bool = False
    """True if the process is shutting down and may send no more requests."""

    @property
    def running(self) -> bool:
        """True while a turn or act runs."""
        return self.task is not None and not self.task.done()

    def emit(self, event: Event) -> None:
        """Send an event to the front end."""
        if self.recorder is not None and isinstance(event, RecordedEvent):
            self.recorder(event)
        if self.events is not None:
            self.events.put_nowait(event)

    def take_images(
        self, origin: str, result: ToolResult, info: ModelInfo, above: Mapping[bytes, str] | None = None
    ) -> ToolResult:
        """Keep the images of a result (`origin`) for the model, and return the result with a line for each instead.
        Warn the person of images that the model does not get. The window has the images that `above` names."""
        parts, lines, refused = choose_images(result.images, info, above, origin)
        counts = dict(result.counts)
        if parts:
            self.images.append((f"[Images in the {origin}]", tuple(parts)))
            counts |= {"images": len(parts), "image_tokens": len(parts) * IMAGE_TOKENS}
        warning = "; ".join(filter(None, (result.warning, refused)))
        return replace(result, images=(), counts=counts, warning=warning).with_line("\n".join(lines))

    def pop_images(self) -> tuple[Part, ...]:
        """Return the images that were kept, for a message that contains their results."""
        parts = tuple(part for _, group in self.images for part in group)
        self.images.clear()
        return parts

    def emit_from_background(self, event: Event) -> None:
        """Send an event of background work to the front end, also while no turn runs."""
        if self.running:
            self.emit(event)
        elif self.listener is not None:
            self.listener(event)

    def emit_notice(self, line: str, *, warning: bool = True) -> None:
        """Send a notice for the person to the front end."""
        self.emit(Notice(line, warning))

    def emit_drop(self, drop: Drop) -> None:
        """Send a drop to the front end, without its text."""
        self.emit(ContextDrop(replace(drop, text=None)))

    async def wait_until_shown(self) -> None:
        """Wait until the front end has shown every event so far."""
        if self.events is not None:
            await self.events.join()

    def release_commands(self) -> None:
        """Let the commands that the turn waits for go on in the background."""
        self.released.set()
        self.released.clear()

    def check_ending(self) -> None:
        """Raise `NexusError("aborted", ...)` if the process is shutting down."""
        if self.is_ending:
            raise NexusError("aborted", "stopped", "nexus is shutting down; completed steps are kept")

    def stop(self, by: str) -> None:
        """Cancel the running turn for `by`, a key of `STOPPED_BY`. The first one is kept."""
        if self.task is not None and self.running and not self.stopped:
            self.stopped = by
            self.task.cancel()

    def interrupt_from_signal(self, by: str) -> None:
        """Raise `CancelledError` if called from a signal handler while the turn's task executes; else do nothing."""
        if self.running and asyncio.current_task() is self.task:
            self.stopped = self.stopped or by
            raise asyncio.CancelledError
