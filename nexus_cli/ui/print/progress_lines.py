"""Write to stderr while a session runs: notices and errors always, progress only in a terminal.

The renderer prints the answer on stdout. Every message is sanitized and stays on one line.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from nexus_cli.core import event as e
from nexus_cli.core.elide import clip_text
from nexus_cli.core.entry import Drop
from nexus_cli.permission.approvals import TAKEN_BACK
from nexus_cli.text.terminal_sanitizer import StreamSanitizer, sanitize
from nexus_cli.tools.registry import tells_person
from nexus_cli.ui.render.drop_batcher import LOST, DropBatcher, shell_drops_command

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

WAITS = "waits for"
"""Words of a line that a tool tells the person if the person has to act."""
LONG_WAIT = 10.0
"""Seconds of a wait before a retry that are worth a line in a log."""


class Writable(Protocol):
    """The stream to write to."""

    terminal: bool
    colour: bool

    @property
    def width(self) -> int:
        """Columns."""

    def write(self, text: str) -> None:
        """Write all of `text`."""


class ProgressLines:
    """Prints progress on stderr."""

    def __init__(self, stream: Writable, *, verbose: bool = False, quiet: bool = False, live: bool = False) -> None:
        """With `live`, calls, thinking and retries are shown elsewhere (`terminal_turn`)."""
        self._stream = stream
        self._elsewhere = (
            (e.Thinking, e.ToolCallEvent, e.ToolResultEvent, e.Retry, e.CompactionStart, e.AgentEvent) if live else ()
        )
        self._mark = ""
        """Prefix with the worker that a line is about."""
        self._verbose = verbose and not quiet
        self._quiet = quiet
        self._progress = (stream.terminal or self._verbose) and not quiet
        self._thinking = StreamSanitizer()
        self._in_thought = False
        self.session: Session | None = None
        """The session that hints name, so that their commands work in any folder; set by the caller."""
        self._drop_batch = DropBatcher(self._left_out, lambda: shell_drops_command(self.session))

    def notice(self, text: str) -> None:
        self._show_held_drops()
        self._noted(text)

    def error(self, line: str) -> None:
        """Print an error, even if quiet."""
        self._show_held_drops()
        self._line(line, "31")

    def last(self, line: str) -> None:
        """Print the person's next possible action, even if quiet."""
        self._show_held_drops()
        self._line(line)

    def break_silence(self, seconds: float) -> None:
        """Print that work continues after so long without a line."""
        self._step(f"  still working, {seconds:.0f} s")

    def feed(self, event: e.Event) -> None:
        """Print `event` if it deserves a line."""
        if self._in_thought and not isinstance(event, e.Thinking):
            self._in_thought = False
            self._stream.write(self._thinking.flush() + "\n")
        if (held := self._drop_batch.feed(event)) is None:
            return
        for text in held:
            self._noted(text)
        if isinstance(event, self._elsewhere):
            return
        match event:
            case e.Thinking():
                self._think(event.text)
            case e.ToolCallEvent():
                self._step(f"> {event.call.name} {event.subject}")
            case e.ToolResultEvent():
                self._resulted(event)
            case e.ToolOutput():
                if self._verbose:
                    for line in event.text.splitlines():
                        self._step(f"  | {line}")
            case e.Retry() if event.cut or (event.wait >= LONG_WAIT and not self._progress):
                self.notice(_texts().describe_event(event))
            case e.CompactionDone():
                if line := _texts().describe_event(event):
                    self.notice(line)
            case e.ContextDrop():
                self._noted(self._left_out(event.drop))
            case e.ContextPlan() if not self._verbose:
                pass
            case e.ContextRecall() | e.CompactionStart() | e.WorkerState() | e.ContextPlan() | e.Retry():
                if text := _texts().describe_event(event):
                    self._step(f"  {text}")
            case e.Notice():
                self.notice(event.text.partition(TAKEN_BACK)[0])  # there are no slash commands here
            case e.StepEnd():
                if self._verbose:
                    used = event.usage
                    self._step(
                        f"  step {event.step}: {event.finish}, {used.input:,} tokens in "
                        f"({used.cache_read:,} from the cache), {used.output:,} out"
                    )
            case e.TurnEnd():
                self._ended(event.outcome)
            case e.SessionStart():
                if self._verbose:
                    self._step(f"  session {event.session}, model {event.model}, recipe {event.recipe}")
            case e.CacheResult() if self._verbose and event.why:
                self._step(f"  cache missed, {event.missed:,} tokens: {event.why}")
            case e.AgentEvent():
                self._feed_worker(event)

    def _feed_worker(self, marked: e.AgentEvent) -> None:
        """Print the start and end of a worker, with `verbose` also its calls."""
        inner = marked.event
        if isinstance(inner, e.Notice):
            self.notice(_texts().describe_event(marked))
        elif isinstance(inner, e.WorkerState) or (
            self._verbose and isinstance(inner, e.ToolCallEvent | e.ToolResultEvent)
        ):
            self._mark = "" if isinstance(inner, e.WorkerState) else f"[{marked.agent}] "
            self.feed(inner)
            self._mark = ""

    def _show_held_drops(self) -> None:
        for text in self._drop_batch.release():
            self._noted(text)

    def _noted(self, text: str) -> None:
        if not self._quiet:
            self._line(f"nexus: {text}")

    def _resulted(self, event: e.ToolResultEvent) -> None:
        result = event.result
        if result.error:
            first = next((line for line in result.error.splitlines() if line.strip()), "failed")
            self._step(f"  {event.call.name}: {first}", "31")
        elif result.warning:
            self._step(f"  {event.call.name}: {result.warning}", "33")
        elif tells_person(event.call.name):
            told = result.output.replace("the person", "you").replace("/memory", "nexus memory")
            if WAITS in told:
                self.notice(told)
            else:
                self._step(f"  {event.call.name}: {told}")
        elif self._verbose or event.seconds >= 1 or result.status:
            failed = f"exit status {result.status}, " if result.status else ""
            self._step(f"  {event.call.name}: {failed}{event.seconds:.1f} s, {event.tokens:,} tokens")

    def _ended(self, outcome: e.Outcome) -> None:
        denied = () if outcome.was_declined else outcome.denied
        if denied:
            self._line(f"nexus: {_texts().describe_denials(denied, '--allow')}")
        if outcome.error:
            hint = outcome.error.get("hint", "").rstrip(".")
            line = f"nexus: {outcome.error['message'].rstrip('.')}." + (f" {hint}." if hint else "")
            if outcome.has_failed:
                self.error(line)
            else:
                self.last(line)

    def _think(self, text: str) -> None:
        if self._verbose:
            self._in_thought = True
            self._stream.write(self._thinking.feed(text))

    def _step(self, text: str, colour: str = "2") -> None:
        if not self._progress:
            return
        text = " ".join(sanitize(self._mark + text).split(" ")).replace("\n", " ").replace("\t", " ")
        room = self._stream.width - 1
        self._write(clip_text(text, room), colour)

    def _line(self, text: str, colour: str = "") -> None:
        from nexus_cli.text.cells import one_line  # noqa: PLC0415  (once there is something to say)

        self._write(one_line(text), colour)

    def _write(self, text: str, colour: str) -> None:
        styled = f"\x1b[{colour}m{text}\x1b[0m" if colour and self._stream.colour else text
        self._stream.write(styled + "\n")

    def _left_out(self, drop: Drop) -> str:
        way = shell_drops_command(self.session, drop.id)
        told: str = _texts().describe_drop(drop, way if way == LOST else f"{way} prints it")
        return told


def _texts() -> ModuleType:
    from nexus_cli.reports import event_texts  # noqa: PLC0415  (once there is something to say)

    return event_texts
