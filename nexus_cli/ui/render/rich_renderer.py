"""Turns events into text for a terminal: finished text is `put` once, open text is `live`, a wait is `spinner`.

Nothing is drawn here. All that comes from models, tools and files is sanitized first; the only control codes behind
it are the theme's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import assert_never

from nexus_cli.core import event as e
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.ui.cells import wrap
from nexus_cli.ui.render import event_texts, live_area
from nexus_cli.ui.render.drop_batcher import DropBatcher, describe_drop
from nexus_cli.ui.render.live_area import Thought
from nexus_cli.ui.render.markdown import Markdown
from nexus_cli.ui.render.scrollback import Scrollback
from nexus_cli.ui.render.spinner import Spinner
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.tool_line import FinishedCall, format_call, format_finished_call, main_argument
from nexus_cli.ui.reports.lines import plural
from nexus_cli.ui.terminal_sanitizer import sanitize

WAITING, PREPARING = "waiting for the model", "preparing the request"


class RichRenderer:
    """One conversation as a person sees it."""

    def __init__(
        self,
        put: Callable[[str], None],
        width: Callable[[], int],
        theme: Theme,
        clock: Callable[[], float] = time.monotonic,
        *,
        asks: bool = True,
        drawn: bool = True,
        commands: bool = True,
        text: bool = True,
        put_text: Callable[[str], None] | None = None,
    ) -> None:
        """`put` takes finished text that ends in a newline; `width` says how many columns a line may take now.

        With `asks` whoever is asked is shown what it is about, so that it is not shown once more afterwards.
        Where nothing is `drawn`, and so `live` never seen, text comes line by line, and no key is spoken of. Without
        `commands` no slash command is either, and how a turn has failed is told by others. Without `text` what the
        assistant says is only counted; `put_text` takes it if it goes elsewhere.
        """
        self._asks, self._drawn, self._commands, self._shows_text = asks, drawn, commands, text
        self._width: Callable[[], int] = lambda: max(4, width())
        self._theme = theme
        self._clock = clock
        self._scrollback = Scrollback(put, self._width, theme, put_text)
        self._markdown = Markdown(self._width, colour=theme.colour, theme=theme, eager=not drawn)
        self._spinner = Spinner(theme, clock)
        self._calls: dict[str, live_area.OpenCall] = {}
        self._thought: Thought | None = None
        self._folded: Thought | None = None
        self._show_thinking = False
        self._retried: tuple[e.Retry, float] | None = None
        """The newest of the retries of a request, and when the first one came."""
        self._drop_batch = DropBatcher(_describe_drop, lambda: "/drops")
        self._in_turn = False
        self._caches = False
        self._output: tuple[str, str] | None = None
        self._version = 0
        self._seen: tuple[object, list[str]] = (None, [])
        self.last_answer = ""
        """The text of the newest turn that had one."""

    @property
    def moving(self) -> bool:
        """True if the spinner moves."""
        return self._spinner.moving(self._calls.values())

    @property
    def last_output(self) -> tuple[str, str] | None:
        """Title and whole text of the newest tool result, sanitized; None before the first."""
        if self._output is None:
            return None
        title_, text = self._output
        return title_, sanitize(text)

    def keep_output(self, title_: str, text: str) -> None:
        """Take the output of something else for the newest one."""
        self._output = title_, text

    def forget(self) -> None:
        """Another session begins: its last answer and output are its own."""
        self.last_answer, self._output, self._folded = "", None, None

    def spinner(self) -> str:
        """Return what is waited for, on one line; "" when nothing is."""
        return self._spinner.line(self._width(), self._calls.values())

    def show_user_message(self, text: str) -> None:
        """The person's words, from who reads them: `TurnStart` is silent, `SteeringMessage` shows its own."""
        self._show_held_drops()
        self._version += 1
        self._scrollback.add_user_message(text)

    def show_note(self, text: str, role: str = "") -> None:
        """A note of our own, one or more lines, in a role of the theme."""
        self._show_held_drops()
        self._version += 1
        self._scrollback.add_note(text, role)

    def add_lines(self, lines: Sequence[str]) -> None:
        """Lines of others that are ready."""
        self._version += 1
        self._scrollback.add_lines(lines)

    def toggle_thinking(self) -> None:
        """Show or fold thinking from now on; what was folded last is shown when it is switched on."""
        self._version += 1
        self._show_thinking = not self._show_thinking
        shown = self._thought or self._folded
        if self._show_thinking and shown is not None and shown.text:
            self._scrollback.add_thought(shown.text.split("\n"))
        self._folded = None

    def feed(self, event: e.Event) -> None:
        """Show `event`."""
        self._version += 1
        if self._drop_batch.hold(event):
            return
        self._show_held_drops(event)
        if self._retried and not isinstance(event, e.Retry):
            self._show_retries(event)
        match event:
            case e.Text():
                self._text(event.text)
            case e.Thinking():
                self._think(event.text)
            case e.ToolQueue():
                self._close()
                for call, subject in zip(event.calls, event.subjects, strict=True):
                    self._calls[call.id] = live_area.OpenCall(call, subject, self._clock(), waiting=True)
            case e.ToolCallEvent() | e.ToolOutput() | e.ToolResultEvent() | e.ApprovalRequest() | e.ApprovalAnswer():
                self._tool(event)
            case e.SessionStart() | e.TurnStart() | e.SteeringMessage() | e.StepStart() | e.StepEnd() | e.TurnEnd():
                self._went_on(event)
            case e.ContextDrop() | e.ContextRecall() | e.CompactionStart() | e.CompactionDone() | e.CacheResult():
                self._context(event)
            case e.Retry():
                self._retry(event)
            case e.Notice():
                self._scrollback.add_note(event.text, "warn")
            case e.ContextPlan():
                self._scrollback.add_note(event_texts.describe_new_facts(event.plan, self._width() - 2), "dim")
            case e.CacheExpectation():
                pass
            case _:
                assert_never(event)

    def _show_held_drops(self, event: e.Event | None = None) -> None:
        """Show held drops, unless more of them may follow before `event`."""
        for text in self._drop_batch.release(event):
            self._scrollback.add_note(text, "warn")

    def _retry(self, event: e.Retry) -> None:
        """Count the attempts in the spinner; in lines where there is none."""
        self._spinner.retry(event.attempt, event.wait, event.why)
        if self._drawn:
            began = self._retried[1] if self._retried and self._retried[0].attempt < event.attempt else self._clock()
            self._retried = event, began
        else:
            self._scrollback.add_note(f"retry {event.attempt} in {event.wait:.0f} s: {event.why}", "dim")

    def _show_retries(self, event: e.Event) -> None:
        """Show how often a request was sent again, before `event`: why is not said twice where that failed too."""
        assert self._retried is not None, "shown after a retry"
        (last, began), self._retried = self._retried, None
        error = event.outcome.error if isinstance(event, e.TurnEnd) else None
        why = "" if error and last.why in error.get("message", "") else f": {last.why}"
        took = event_texts.format_duration(self._clock() - began)
        self._scrollback.add_note(f"{plural(last.attempt, 'retry', 'retries')} in {took}{why}", "dim")

    def live(self, rows: int) -> list[str]:
        """Return the open block and what runs, in at most `rows` lines; a screen never draws in its last column."""
        self._spinner.lists_calls = rows > 0
        now, width = self._clock(), self._width() - 1
        seconds = [round(call.seconds(now) or 0) for call in self._calls.values()]
        key = (self._version, rows, width, seconds)
        if self._seen[0] != key:
            self._seen = key, self._live(rows, width, now) if rows > 0 else []
        return list(self._seen[1])

    def _live(self, rows: int, width: int, now: float) -> list[str]:
        paint = self._theme.paint
        if self._calls:
            lines, kind = live_area.call_lines(self._calls.values(), now, rows, width, self._theme), "line"
        elif self._markdown.open:
            tail, shape = (
                self._markdown.tail(live_area.KEPT),
                live_area.tail_of_code if self._markdown.in_fence else live_area.tail_of_prose,
            )
            lines, kind = shape(tail, rows, width), "text"
        elif self._thought and self._show_thinking:
            tail = self._thought.tail[-live_area.KEPT :]
            lines = [paint("dim", line) for line in live_area.tail_of_prose(tail, rows, width)]
            kind = "thought"
        elif self._thought and self._thought.words:
            lines = [paint("dim", line) for line in wrap(f"thinking ... {self._thought.words:,} words", width)]
            lines, kind = lines[:rows], "line"
        else:
            return []
        parted = self._scrollback.needs_gap(kind) or (kind == "text" and self._markdown.parted)
        return ["", *lines] if len(lines) < rows and parted and any(lines) else lines

    def _text(self, text: str) -> None:
        if self._thought and text.strip():
            self._end_thought()
        self._spinner.phase("writing")
        self._spinner.wrote(len(text))
        if self._shows_text:
            self._scrollback.add_text(self._markdown.feed(text))

    def _think(self, text: str) -> None:
        if self._thought is None:
            self._thought = Thought(self._clock)
        if not self._markdown.open:
            self._spinner.phase("thinking")
        self._spinner.wrote(len(text))
        lines = self._thought.feed(text)
        if self._show_thinking:
            self._scrollback.add_thought(lines)

    def _end_thought(self) -> None:
        thought, self._thought = self._thought, None
        if thought is None:
            return
        lines = thought.end()
        if self._show_thinking:
            self._scrollback.add_thought(lines)
        elif thought.words:
            self._folded = thought
            self._scrollback.add_note(thought.summary("Ctrl+T shows" if self._drawn and self._commands else ""), "dim")

    def _close(self) -> None:
        """The model has said what it had to say for now: nothing of it stays open."""
        self._end_thought()
        self._scrollback.add_text(self._markdown.flush())
        self._markdown.begin()
        self._scrollback.start_text()

    def _tool(
        self, event: e.ToolCallEvent | e.ToolOutput | e.ToolResultEvent | e.ApprovalRequest | e.ApprovalAnswer
    ) -> None:
        match event:
            case e.ToolCallEvent():
                self._close()
                call = live_area.OpenCall(event.call, event.subject, self._clock())
                self._calls[event.call.id] = call
                self._spinner.phase(PREPARING)
            case e.ToolOutput():
                if event.call_id in self._calls:
                    self._calls[event.call_id].feed(event.text)
            case e.ToolResultEvent():
                self._resulted(event)
            case e.ApprovalRequest():
                if asked := self._calls.get(event.question.call.id):
                    asked.asked, asked.shown = True, event.question.detail if self._asks else ""
            case e.ApprovalAnswer():
                if event.call_id in self._calls:
                    self._calls[event.call_id].asked = False
                    self._calls[event.call_id].began = self._clock()
            case _:
                assert_never(event)

    def _resulted(self, event: e.ToolResultEvent) -> None:
        call, result = self._calls.pop(event.call.id, None), event.result
        subject = call.subject if call else main_argument(event.call)
        if not self._calls:
            self._spinner.phase(PREPARING if self._in_turn else "", again=True)
        self._output = format_call(event.call, subject), result.text if result.full is None else result.full
        known = call is not None and bool(result.diff) and call.shown.strip() == result.diff.strip()
        whole = ": /transcript" if self._commands else ""
        done = FinishedCall(event.call, subject, result, event.tokens, event.seconds, known, whole)
        self._scrollback.add_lines(format_finished_call(done, self._width(), self._theme))

    def _went_on(
        self, event: e.SessionStart | e.TurnStart | e.SteeringMessage | e.StepStart | e.StepEnd | e.TurnEnd
    ) -> None:
        self._close()
        match event:
            case e.SessionStart() | e.TurnStart():
                self._in_turn = True
                self._spinner.phase(PREPARING)
            case e.SteeringMessage():
                self._scrollback.add_user_message(event.text)
            case e.StepStart():
                self._spinner.phase(WAITING, again=True)
            case e.StepEnd():
                self._spinner.phase(PREPARING)
            case e.TurnEnd():
                self._ended(event.outcome)
            case _:
                assert_never(event)

    def _ended(self, outcome: e.Outcome) -> None:
        for call in self._calls.values():
            self._scrollback.add_note(f"{call.what}: no result yet", "warn")
        self._calls.clear()
        self._in_turn = False
        self._spinner.phase("")
        if outcome.text:
            self.last_answer = outcome.text
        if self._commands:
            self._show_failure(outcome)
        self._scrollback.add_note(event_texts.describe_totals(outcome, self._theme.signs.dot), "dim")

    def _show_failure(self, outcome: e.Outcome) -> None:
        if outcome.error and outcome.error.get("kind") == "aborted":
            self._scrollback.add_note("Interrupted. Completed steps are kept.", "warn")
        else:
            self._scrollback.add_note(event_texts.describe_failure(outcome), "error")
        self._scrollback.add_note(event_texts.describe_denials(outcome.denied, "/permissions"), "warn")

    def _context(
        self, event: e.ContextDrop | e.ContextRecall | e.CompactionStart | e.CompactionDone | e.CacheResult
    ) -> None:
        match event:
            case e.ContextDrop():
                if event.drop.cause is not Cause.PRUNED:  # a batch of these is told in one line
                    self._scrollback.add_note(_describe_drop(event.drop), "warn")
            case e.ContextRecall():
                self._scrollback.add_note(f"recalled {event.drop_id}, {event.tokens:,} tokens", "dim")
            case e.CompactionStart():
                self._close()
                self._spinner.phase(f"compacting {event.tokens:,} tokens")
            case e.CompactionDone():
                self._spinner.phase(PREPARING if self._in_turn else "")
                self._scrollback.add_note(
                    event_texts.use_slash_names(event_texts.describe_compaction_end(event)),
                    "dim" if event.ok else "warn",
                )
            case e.CacheResult():
                # A provider that has never reported a cache may have none: nothing is missed there.
                self._caches = self._caches or event.read > 0 or event.written > 0 or event.why != ""
                self._scrollback.add_note(event_texts.describe_cache_miss(event) if self._caches else "", "dim")
            case _:
                assert_never(event)


def _describe_drop(drop: Drop) -> str:
    return describe_drop(drop, f"/drops {drop.id}")
