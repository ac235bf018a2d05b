"""Run a command in the background, in its own thread: a ring holds its newest output, its input stays open."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from nexus_cli.core.errors import reason_of
from nexus_cli.core.tool import CommandSandbox
from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped
from nexus_cli.tools.listeners import ListeningPort, find_listeners, list_listening
from nexus_cli.tools.output_text import STYLE, decode_text
from nexus_cli.tools.process import ProcessResult, find_shell, run_process
from nexus_cli.tools.process_tree import find_tree

WITHOUT_TERMINAL = {"TERM": "dumb", "GIT_EDITOR": "true", "EDITOR": "false", "VISUAL": "false"}
"""Variables of a command, which nobody can type into: git takes a message or a list of commits as it is, so that
`git rebase --continue` and `git merge` go on, and a commit without a message is refused. Other programs that would
open an editor, as `crontab -e`, fail."""
MAX_KEPT = 1 << 20
"""Most bytes of output that are kept of a command."""


class OutputRing:
    """The newest bytes of an output, and how far they were read. Thread-safe."""

    def __init__(self) -> None:
        self._data, self._lock = bytearray(), threading.Lock()
        self._total = self._read = 0

    def add(self, data: bytes) -> None:
        """Append bytes; the oldest beyond the limit are lost. Amortized linear time."""
        with self._lock:
            self._data += data[-MAX_KEPT:]
            self._total += len(data)
            if len(self._data) > MAX_KEPT + MAX_KEPT // 8:
                del self._data[: len(self._data) - MAX_KEPT]

    @property
    def has_new(self) -> bool:
        """True if there is output that `read_new` has not returned."""
        return self._total > self._read

    def read_new(self, *, is_over: bool) -> tuple[bytes, int]:
        """Return the output since the last call, and the number of bytes before it that were lost.

        An incomplete UTF-8 character at the end is left for the next call unless the output `is_over`.
        """
        with self._lock:
            new = min(self._total - self._read, MAX_KEPT)
            lost = self._total - self._read - new
            data = bytes(self._data[len(self._data) - new :]) if new else b""
            incomplete = 0 if is_over else _count_incomplete(data)
            self._read = self._total - incomplete
            return data[: len(data) - incomplete], lost

    def tail(self, most: int) -> bytes:
        """Return the last `most` bytes, read or not."""
        with self._lock:
            return bytes(self._data[-most:])


def _count_incomplete(data: bytes) -> int:
    """Return the number of bytes at the end of `data` that begin a UTF-8 character and do not complete it."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if size > back else 0
        if byte < 0x80:
            return 0
    return 0


class BackgroundProcess:
    """A command that runs until it ends or is stopped, its process tree with it."""

    output: OutputRing
    result: ProcessResult | None = None
    error: str = ""
    """The reason that it could not be started."""
    _input = -1

    def __init__(
        self,
        command: str,
        cwd: Path,
        sandbox: CommandSandbox,
        *,
        seconds: float | None,
        ended: Callable[[], None],
    ) -> None:
        """Start `command`, at most for `seconds`. `ended` is called in its thread, when `result` or `error` is set.

        Closes the confinement of `sandbox` at the end.
        """
        self.output = OutputRing()
        self._command, self._cwd, self._sandbox, self._ended = command, cwd, sandbox, ended
        self._seconds = math.inf if seconds is None else seconds
        self._stop, self._lock = StopFlag(), threading.Lock()
        self._source, self._input = os.pipe()
        os.set_blocking(self._input, False)
        self._thread = threading.Thread(target=self._run, name="job", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return self.result is not None or bool(self.error)

    def list_listening(self) -> frozenset[str]:
        """Return the listening sockets in its network, see `listeners.list_listening`. Blocks."""
        child = self._stop.child
        return list_listening(child[0]) if child else frozenset()

    def find_listeners(self) -> list[ListeningPort]:
        """Return the ports on which its processes listen. Blocks."""
        child = self._stop.child
        return find_listeners(process.pid for process in find_tree(*child)) if child else []

    def stop(self) -> None:
        """Send SIGTERM to its process tree, and SIGKILL two seconds later; called again, at once. Does not wait."""
        self._stop.press()

    def write(self, text: str) -> str:
        """Write a line to its input; return the reason if that fails, else ""."""
        data = text.encode(errors="replace")
        with self._lock:
            if self._input < 0:
                return "it takes no input"
            try:
                written = os.write(self._input, data)
            except OSError as error:
                return (
                    "its input buffer is full: nothing was written"
                    if isinstance(error, BlockingIOError)
                    else str(error.strerror)
                )
        return "" if written == len(data) else f"only the first {written:,} of {len(data):,} bytes fit into its input"

    def read_text(self) -> str:
        """Return the output since the last call as text. Blocks while it is decoded."""
        data, lost = self.output.read_new(is_over=self.is_over)
        text = STYLE.sub("", decode_text(data))
        return f"[... bytes not kept: {lost:,} ...]\n{text}" if lost else text

    def last_lines(self, lines: int, characters: int) -> list[str]:
        """Return its last non-empty lines as text."""
        text = STYLE.sub("", decode_text(self.output.tail(4 * characters)))[-characters:]
        return [line for line in text.splitlines() if line.strip()][-lines:]

    def _run(self) -> None:
        try:
            self.result = run_process(
                [find_shell(self._cwd), "-c", self._command],
                cwd=self._cwd,
                env={**self._sandbox.env, **WITHOUT_TERMINAL},
                stop=self._stop,
                seconds=self._seconds,
                stdin=self._source,
                show=self.output.add,
                keep=0,
                confinement=self._sandbox.confinement,
            )
        except ThreadStopped:
            self.error = "it was stopped before it began"
        except (OSError, ValueError) as error:
            self.error = reason_of(error)
        finally:
            self.error = self.error if self.is_over else "nexus failed to run it"
            with self._lock:
                os.close(self._source)
                os.close(self._input)
                self._source = self._input = -1
            if self._sandbox.confinement is not None:
                self._sandbox.confinement.close()
            self._ended()


class AdoptedProcess(BackgroundProcess):
    """A command that `bash` began and that goes on in the background, without input and time limit."""

    def __init__(
        self,
        output: OutputRing,
        stop: StopFlag,
        task: asyncio.Task[ProcessResult],
        results: Sequence[ProcessResult],
        began: float,
    ) -> None:
        """Take over the command of `task`, whose output is added to `output`, and its result to `results`. It began at
        `began`, in seconds of the monotonic clock."""
        self.began = began
        self.output, self._lock, self._task, self._results = output, threading.Lock(), task, results
        self._stop = stop
        stop.is_unlimited = True

    def watch(self, ended: Callable[[], None]) -> None:
        """Call `ended` at its end, when `result` or `error` is set."""

        def note(task: asyncio.Task[ProcessResult]) -> None:
            why = None if task.cancelled() else task.exception()
            self.result = self._results[0] if self._results else None
            self.error = "" if self.result else str(why or "nexus failed to run it")
            ended()

        self._task.add_done_callback(note)

    def stop(self) -> None:
        self._task.cancel()
