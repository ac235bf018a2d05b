"""Number and keep the events of one agent for its listeners, without ever blocking the agent.

A listener that reads too slowly is cut off; one that reconnects names the last event that it saw and gets the rest. The
listener of one turn, which cannot reconnect, gets a gap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from nexus_cli.core.clock import local_now
from nexus_cli.core.event_json import EventNumbers
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import json_text

MAX_EVENTS = 2_000
MAX_BYTES = 1 << 20
"""Bytes that a feed keeps for listeners that reconnect."""
MAX_UNREAD = 32 << 20
"""Bytes that may wait for one listener: a large event says nothing about the speed of its reader."""
GAP = "gap"
"""Type of the event that replaces events no longer kept: from `first` to `last`."""
CUT = "cut"
"""Type of the last event of a listener that is cut off; `why` is the reason."""


class FeedItem(NamedTuple):
    """One event as it is sent."""

    seq: int
    data: bytes
    """JSON on one line."""


@dataclass
class BoundedQueue:
    """Events in order; the oldest are dropped when there are too many."""

    items: deque[FeedItem] = field(default_factory=deque)
    size: int = 0
    """In bytes."""

    def append(self, item: FeedItem) -> None:
        """Add the newest event."""
        self.items.append(item)
        self.size += len(item.data)

    def appendleft(self, item: FeedItem) -> None:
        """Add an event before the oldest."""
        self.items.appendleft(item)
        self.size += len(item.data)

    def popleft(self) -> FeedItem:
        """Remove and return the oldest."""
        item = self.items.popleft()
        self.size -= len(item.data)
        return item

    def exceeds(self, events: int, size: int) -> bool:
        """True if it has more than so many events or bytes; one event alone may be larger."""
        return len(self.items) > events or (self.size > size and len(self.items) > 1)


class Listener:
    """One reader of events. The writer never waits for it."""

    def __init__(self, *, drops: bool = False) -> None:
        """With `drops` unread events give way to a `gap`; else too many of them end the listener."""
        self._queue = BoundedQueue()
        self._drops = drops
        self._gap: int | None = None
        """The first event of the gap that is unread."""
        self._news = asyncio.Event()
        self._ended = False
        self.is_cut_off = False
        """True if it read too slowly; its unread events are lost."""

    def put(self, item: FeedItem) -> None:
        """Send an event."""
        if self._ended:
            return
        self._queue.append(item)
        self._news.set()
        if not self._queue.exceeds(2 * MAX_EVENTS, MAX_UNREAD):
            return
        if self._drops:
            self._drop_oldest()
        else:
            self.is_cut_off = self._ended = True
            self._queue = BoundedQueue()

    def _drop_oldest(self) -> None:
        """Replace unread events, the oldest first, until no more wait than a feed keeps."""
        dropped = self._queue.popleft()
        self._gap = dropped.seq if self._gap is None else self._gap
        while self._queue.exceeds(MAX_EVENTS, MAX_BYTES):
            dropped = self._queue.popleft()
        self._queue.appendleft(gap_item(self._gap, dropped.seq))

    def end(self) -> None:
        """Accept no more events."""
        self._ended = True
        self._news.set()

    async def read(self, seconds: float) -> list[FeedItem] | None:
        """Return new events, waiting at most `seconds` for them; None after the end."""
        if not self._queue.items and not self._ended:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        feed_items = list(self._queue.items)
        self._queue, self._gap = BoundedQueue(), None
        return None if self._ended and not feed_items else feed_items


class EventFeed:
    """The events of one agent, or of one of its turns."""

    def __init__(self, *listeners: Listener) -> None:
        self._numbers = EventNumbers(local_now)
        self._recent = BoundedQueue()
        self._listeners = set(listeners)

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self._numbers.next

    @property
    def has_listeners(self) -> bool:
        """True if there is a listener."""
        return bool(self._listeners)

    def add(self, kind: str, value: JsonObject) -> FeedItem:
        """Number an event, keep it, send it to every listener, and return it."""
        item = feed_item(self._numbers.line(kind, value))
        self._recent.append(item)
        while self._recent.exceeds(MAX_EVENTS, MAX_BYTES):
            self._recent.popleft()
        for listener in self._listeners:
            listener.put(item)
        return item

    def listen(self, after: int | None = None) -> Listener:
        """Return a listener of all new events, or of those after the number `after`.

        Events that are no longer kept become one event `gap`. If no event had the number `after`, all earlier events
        do.
        """
        listener = Listener()
        if after is not None:
            for item in self._missed(after):
                listener.put(item)
        self._listeners.add(listener)
        return listener

    def _missed(self, after: int) -> list[FeedItem]:
        kept_items = list(self._recent.items)
        if not -1 <= after < self.next:  # numbers of an earlier agent of that name
            after, kept_items = -1, []
        first = kept_items[0].seq if kept_items else self.next
        behind = [item for item in kept_items if item.seq > after]
        if after + 1 >= first or not self.next:
            return behind
        return [gap_item(after + 1, first - 1), *behind]

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        listener.end()

    def end(self) -> None:
        """End all listeners once they have read the remaining events."""
        for listener in self._listeners:
            listener.end()


def gap_item(first: int, last: int) -> FeedItem:
    """Return the event in the place of those from `first` to `last`."""
    return feed_item(EventNumbers(local_now, last).line(GAP, {"first": first, "last": last}))


def feed_item(line: JsonObject) -> FeedItem:
    """Return an event as the object that is sent."""
    return FeedItem(int(line["seq"]), json_text(line, escaped=False, dense=True).encode("utf-8", "replace"))
