"""Show on one line that nexus waits: for the model, a tool, an answer, the next attempt, a compaction.

Knows only the events that the renderer passes on; finished work is not shown here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nexus_cli.core.elide import plural
from nexus_cli.core.event import Retry
from nexus_cli.reports.event_texts import describe_event
from nexus_cli.text.cells import cells, cut, one_line
from nexus_cli.ui.render.live_area import OpenCall
from nexus_cli.ui.render.theme import Theme

SPEED = 10
"""Frames per second."""
SILENCE_SECONDS = 10.0
"""Seconds without new text of an answer after which this is shown."""
RECONNECTING = "reconnecting"
"""The phase in which the events of a turn do not arrive."""


class Spinner:
    """The state of a turn as one line."""

    def __init__(self, theme: Theme, clock: Callable[[], float]) -> None:
        self._theme = theme
        self._clock = clock
        self.doing = ""
        """The current work, "" for none."""
        self._began = 0.0
        self._characters = 0
        self._wrote = 0.0
        self._retry: tuple[Retry, float] | None = None
        """The newest retry, and the time of the next attempt."""
        self.lists_calls = False
        """True if running calls are shown elsewhere, each with its time."""

    @property
    def is_reconnecting(self) -> bool:
        """True while nothing is known of the running work."""
        return self.doing == RECONNECTING

    def phase(self, name: str, *, again: bool = False) -> None:
        """Show `what` as the current work, "" for none; `again` restarts its clock even if it is the same as before."""
        if name != self.doing or again:
            self.doing, self._began, self._characters = name, self._clock(), 0
        self._retry = None

    def wrote(self, characters: int) -> None:
        """Count characters that the model has written."""
        self._characters += characters
        self._wrote = self._clock()

    def retry(self, retry: Retry) -> None:
        """Show that the request is sent again."""
        self._retry = retry, self._clock() + retry.wait

    def line(self, width: int, calls: Sequence[OpenCall], *, is_asking: bool) -> str:
        """Return one line in fewer than `width` cells: the running calls, else the phase; "" if there is none.
        `is_asking`: a question waits for the person."""
        if not self.doing:
            return ""
        if is_asking:
            return self._theme.paint("warn", cut("waiting for your answer", max(1, width - 1)))
        frames = self._theme.signs.frames
        sign = frames[int(self._clock() * SPEED) % len(frames)]
        return f"{self._theme.paint('accent', sign)} {self.text(width - 3, calls)}" if width > 3 else sign

    def text(self, room: int, calls: Sequence[OpenCall]) -> str:
        """Return the text for what the turn waits for, in at most `room` cells."""
        now, calls = self._clock(), [] if self.is_reconnecting else calls
        theme = self._theme
        retry, until = self._retry or (None, 0.0)
        if retry and until > now:
            return theme.cut(one_line(describe_event(replace(retry, wait=until - now))), room)
        if calls and self.lists_calls:
            count = sum(not call.waiting for call in calls)
            return theme.cut("running" if count < 2 else f"running {count} calls", room)
        if calls:
            first = min(calls, key=lambda call: (call.waiting, call.began))
            more = f" +{len(calls) - 1}" if len(calls) > 1 else ""
            tail = f"{more} {now - first.began:.0f} s"
            return theme.cut(theme.cut(first.title, max(4, room - cells(tail))) + tail, room)
        phase = f"attempt {retry.attempt + 1}, {self.doing}" if retry else self.doing
        text = f"{phase} {now - self._began:.0f} s"
        if self._characters:
            text += f"{theme.dot}~{plural(max(1, self._characters // 4), 'token')}"
            if now - self._wrote >= SILENCE_SECONDS:
                text = f"no data for {now - self._wrote:.0f} s{theme.dot}{text}"
        return theme.cut(text, room)
