"""Keeps the output of a child within the hard limit: its beginning and its newest part. Running it is in `process`."""

from __future__ import annotations

from nexus_cli.tools.files import HARD_LIMIT


class BoundedOutput:
    """Collects output: all of it up to a limit, then the first half and the newest half."""

    def __init__(self, limit: int = HARD_LIMIT) -> None:
        self._half = limit // 2
        self._most = self._half + self._half // 8
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    @property
    def uncounted(self) -> int:
        """Bytes that came and are not kept."""
        return self._dropped + max(0, len(self._tail) - self._half)

    def add(self, data: bytes) -> None:
        """One more piece, in time that grows with its length alone, however small the pieces are."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._most:
            self._trim()

    def joined(self) -> bytes:
        """What was kept, with a line where the hole is."""
        self._trim()
        hole = f"\n[... {self.uncounted} bytes beyond the hard limit, not kept ...]\n" if self.uncounted else ""
        return b"".join((self._head, hole.encode(), self._tail))

    def _trim(self) -> None:
        surplus = max(0, len(self._tail) - self._half)
        del self._tail[:surplus]
        self._dropped += surplus
