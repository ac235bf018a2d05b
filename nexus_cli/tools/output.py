"""Keeps the output of a child within the hard limit: its beginning and its newest part. Running it is in `process`."""

from __future__ import annotations

from collections import deque

from nexus_cli.tools.files import HARD_LIMIT


class Kept:
    """Collects output: all of it up to a limit, then the first half and the newest half."""

    def __init__(self, limit: int = HARD_LIMIT) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = 0
        self.uncounted = 0

    def add(self, data: bytes) -> None:
        """One more piece."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._held += len(data)
        while self._held > self._half:
            first = self._tail.popleft()
            surplus = min(self._held - self._half, len(first))
            if surplus < len(first):
                self._tail.appendleft(first[surplus:])
            self._held -= surplus
            self.uncounted += surplus

    def joined(self) -> bytes:
        """What was kept, with a line where the hole is."""
        hole = f"\n[... {self.uncounted} bytes beyond the hard limit, not kept ...]\n" if self.uncounted else ""
        return b"".join((bytes(self._head), hole.encode(), *self._tail))
