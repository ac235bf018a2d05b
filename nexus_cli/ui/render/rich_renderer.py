"""Convert events to text for a terminal: finished text is `put` once, open text is `live`, a wait is `spinner`.

Nothing is drawn here. All text from models, tools and files is sanitized first; control codes come only from the theme.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nexus_cli.core import event as e
from nexus_cli.core.approval import Deny, Question
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.running_workers import REPORTS
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.tool import COMMAND
from nexus_cli.reports import event_texts
from nexus_cli.text.cells import PROSE, wrap
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.tools.registry import describe_past_subject
from nexus_cli.ui.render import live_area
from nexus_cli.ui.render.call_group import CallGroup, HeldNote
from nexus_cli.ui.render.drop_batcher import DropBatcher
from nexus_cli.ui.render.live_area import Thought
from nexus_cli.ui.render.markdown import Markdown
from nexus_cli.ui.render.scrollback import Scrollback
from nexus_cli.ui.render.spinner import RECONNECTING, Spinner
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.tool_line import (
    FinishedCall,
    call_verb,
    file_of_call,
    find_called_tool,
    format_call,
    format_finished_call,
    manages_worker,
)
from nexus_cli.ui.render.worker_tree import WorkerTree

WAITING, PREPARING = "waiting for the model", "preparing the request"


class RichRenderer:
    """One conversation in the form that a person sees."""

    def __init__(
        self,
        put: TakeText | None,
        width: Callable[[], int],
        theme: Theme,
        clock: Callable[[], float] = time.monotonic,
        *,
        asks: bool = True,
        drawn: bool = True,
        commands: bool = True,
        text: bool = True,
        verbose: bool = False,
        put_text: TakeText | None = None,
        folder: Path | None = None,
    ) -> None:
        """`put` accepts finished text that ends in a newline, without it only `put_text` does; `width` returns the
        columns available now.

        With `asks`, a question has shown its calls, so that nothing is repeated: a single call then has only its
        outcome, one of several no diff. Without `drawn`, `live` is never shown: text is output line by line, and no key
        is mentioned. Without `commands`, no slash command is mentioned, and others report a failed turn. Without
        `text`, the assistant's text is only counted; `put_text` accepts it if it goes elsewhere. `verbose` adds
        thinking, the figures of each step and, where nothing is drawn, the calls of workers and all output. Paths
        become links if they are relative to a given `folder`.
        """
        self._asks, self._drawn, self._commands, self._shows_text = asks, drawn, commands, text
        self._verbose = verbose
        self._streams = verbose and not drawn
        """True if the output of a call is lines at once, which its outcome does not repeat."""
        self._full_text_hint = ": /transcript" if commands else ""
        """Hint for showing cut or folded text, now and later."""
        self._width: Callable[[], int] = lambda: max(4, width())
        self._theme = theme
        self.folder = folder
        self._clock = clock
        self._scrollback = Scrollback(put, self._width, theme, self._show_group, put_text)
        self._markdown = Markdown(self._width, theme, eager=not drawn)
        self._spinner = Spinner(theme, clock)
        self._calls: dict[str, live_area.OpenCall] = {}
        """In call order. A finished one stays until all earlier ones have finished."""
        self._asked_blocks: dict[str, str] = {}
        """Blocks of calls that a question has shown, by call id."""
        self._asked_alone = ""
        """The id of the call whose block was output last."""
        self._group = CallGroup()
        self._workers = WorkerTree(clock, drawn=drawn, commands=commands, verbose=verbose)
        self._beside: list[FinishedCall | HeldNote] = []
        """Lines of workers that arrived while a text was open."""
        self._thought: Thought | None = None
        self.folded_thought: Thought | None = None
        """The newest thought that was folded and not shown since."""
        self._show_thinking = verbose
        self._retried: tuple[e.Retry, float] | None = None
        """The newest retry of a request, and the time of the first one."""
        self._drop_batch = DropBatcher(lambda drop: f"/drops {drop}".rstrip(), self._scrollback.add_note)
        self._in_turn = False
        self._caches = False
        self._output: tuple[str, str] | None = None
        self.is_resumed = False
        """True in a turn that was cut short before."""
        self.commands_run = 0
        """Number of commands that the turn ran."""
        self.counted = ""
        """The files and lines that the turn changed, as counted before its end is fed; "" if nobody counts them."""
        self.last_answer = ""
        """The text of the newest turn that had any."""

    @property
    def _live_theme(self) -> Theme:
        """Return the theme of the live area, whose rows are cut, and contain only SGR codes."""
        return replace(self._theme, links=False)

    @property
    def moving(self) -> bool:
        """True if the spinner moves."""
        return bool(self._spinner.doing) and not self.is_asking

    @property
    def _open_calls(self) -> list[live_area.OpenCall]:
        return [call for call in self._calls.values() if call.outcome is None]

    @property
    def last_output(self) -> tuple[str, str] | None:
        """Title and whole text of the newest tool result, sanitized; None before the first."""
        if self._output is None:
            return None
        title_, text = self._output
        return title_, sanitize(text)

    @property
    def worker_asks(self) -> bool:
        """True if a question about a worker's call is open."""
        return self._workers.asks

    @property
    def is_asking(self) -> bool:
        """True if a question about a call is open, of the session or a worker."""
        calls = () if self._spinner.is_reconnecting else self._open_calls
        return self.worker_asks or any(call.awaits_answer for call in calls)

    @property
    def background_workers(self) -> int:
        """Number of workers that run in the background."""
        return len(self._workers.besides(self._calls))

    def keep_output(self, title_: str, text: str) -> None:
        """Set the newest output to that of other work."""
        self._output = title_, text

    def forget(self) -> None:
        """Reset the last answer and output for another session."""
        self.last_answer, self._output, self.folded_thought = "", None, None
        self._workers.forget()

    @property
    def runs_long(self) -> bool:
        """True if a command has run for so long that the person may want it to go on in the background."""
        return any(
            open_call.runs_long(self._clock())
            for open_call in self._open_calls
            if find_called_tool(open_call.call).runs_commands
        )

    def spinner(self) -> str:
        """Describe the current wait on one line; "" if there is none."""
        return self._spinner.line(self._width(), self._open_calls, is_asking=self.is_asking)

    def show_wait(self) -> None:
        """Output what the turn waits for, where no spinner shows it."""
        if self.moving:
            self._scrollback.add_note(self._spinner.text(self._width(), self._open_calls), "dim")

    def show_connection(self, *, is_lost: bool) -> None:
        """Show that the events of a running turn do not arrive, or that they do again."""
        if self._in_turn:
            self._spinner.phase(RECONNECTING if is_lost else WAITING)

    def show_held(self) -> None:
        """Output held lines before other text."""
        self._drop_batch.show_held()
        self._show_group()

    def show_user_message(self, text: str, *, is_typed: bool = False) -> None:
        """Show the person's message for its reader: `TurnStart` shows nothing, `SteeringMessage` its own text. Of the
        reports of workers, which nexus sends as a message, show that they are sent; `is_typed` text is none."""
        self._drop_batch.show_held()
        if text.startswith(REPORTS) and not is_typed:
            self._scrollback.add_note("sending worker reports to the model", "dim")
            return
        self._scrollback.add_user_message(text)

    def show_note(self, text: str, role: str = "") -> None:
        """Show a note of ours, one or more lines, in a role of the theme."""
        self._drop_batch.show_held()
        self._scrollback.add_note(text, role)

    def add_lines(self, lines: Sequence[str]) -> None:
        """Output finished lines of other work."""
        self._scrollback.add_lines(lines)

    def toggle_thinking(self) -> None:
        """Switch between showing and folding thinking. Switching on also shows the last folded thought."""
        self._show_thinking = not self._show_thinking
        thought = self._thought or self.folded_thought
        if self._show_thinking and thought is not None and thought.text:
            self._scrollback.add_thought(thought.text.split("\n"))
        self.folded_thought = None

    def feed(self, event: e.Event) -> None:
        if isinstance(event, e.AgentEvent):
            self._feed_worker(event)
            return
        if isinstance(event, e.SessionAct) and not event.line:
            return
        if self._retried and not isinstance(event, e.Retry | e.StepEnd):
            self._show_retries(event)
        self._drop_batch.feed(event)
        match event:
            case e.Text():
                self._text(event.text)
            case e.Thinking():
                self._think(event)
            case e.ToolQueue():
                self.close_text()
                for call, subject in zip(event.calls, event.subjects, strict=True):
                    self._calls[call.id] = live_area.OpenCall(call, subject, self._clock(), queued=True)
            case e.ToolCallEvent():
                self._begin_call(event)
            case e.ToolOutput():
                if running := self._calls.get(event.call_id):
                    self._add_output(running, event.text)
            case e.ToolResultEvent():
                self._resulted(event)
            case e.ApprovalRequest():
                self._show_group()
                self._ask(event.question)
            case e.ApprovalAnswer():
                self._answered(event)
            case e.SessionStart() | e.TurnStart():
                self.close_text()
                self._workers.forget(ended=True)
                self._in_turn, self.commands_run, self.counted = True, 0, ""
                self.is_resumed = isinstance(event, e.TurnStart) and not event.text
                self._spinner.phase(PREPARING)
                self._note_figures(event)
            case e.SteeringMessage():
                self.close_text()
                self._scrollback.add_user_message(event.text)
            case e.StepStart():
                self.close_text()
                self._spinner.phase(WAITING, again=True)
            case e.StepEnd():
                self.close_text()
                self._spinner.phase(PREPARING)
                self._note_figures(event)
            case e.TurnEnd():
                self.close_text()
                self._ended(event.outcome)
            case e.SessionAct(act="command", line=line, output=output):
                if output:
                    self._output = line, output
                    self._scrollback.add_below(event_texts.end_of_output(output))
            case e.CompactionStart():
                self.close_text()
                self._spinner.phase(text := event_texts.describe_event(event))
                if not self._drawn:
                    self._scrollback.add_note(text, "dim")
            case e.Retry():
                self._retry(event)
            case e.ContextDrop() | e.CacheExpectation() | e.WorkerState():
                pass
            case _:
                self._note(event)

    def _note_figures(self, event: e.Event) -> None:
        if self._verbose:
            self._scrollback.add_note(event_texts.describe_figures(event), "dim")

    def _note(self, event: e.Event) -> None:
        """Show an event that is a line."""
        text, role = event_texts.describe_event(event), "dim"
        match event:
            case e.CompactionDone():
                self._spinner.phase(PREPARING if self._in_turn else "")
                text, role = self._name_commands(text), "dim" if event.ok else "warn"
            case e.CacheResult():
                # A provider that has never reported a cache may have none, so there is no miss.
                self._caches = self._caches or event.read > 0 or event.written > 0 or event.why != ""
                text = (event_texts.describe_figures(event) if self._verbose else text) if self._caches else ""
            case e.Notice():
                text = self._name_commands(event_texts.describe_notice(event, at_terminal=self._commands))
                role = "warn" if event.warning else "dim"
        self._scrollback.add_note(text, role, most=2 if isinstance(event, e.ContextPlan) else 0)

    def _name_commands(self, text: str) -> str:
        """Return a line with the commands of a session, where this is one."""
        if not self._commands:
            return text
        from nexus_cli.commands import use_slash_names  # noqa: PLC0415  (a turn of `nexus ask` loads no commands)

        return use_slash_names(text)

    def _retry(self, event: e.Retry) -> None:
        """Count the attempts in the spinner; without one, in lines."""
        if event.cut:
            self.close_text()
            self._scrollback.add_note(event_texts.describe_event(event), "warn")
            return
        self._spinner.retry(event)
        if self._drawn:
            last, waited = self._retried or (event, 0.0)
            self._retried = event, event.wait + (waited if last.attempt < event.attempt else 0.0)
        else:
            self._scrollback.add_note(event_texts.describe_event(event), "dim")

    def _show_retries(self, event: e.Event) -> None:
        """Show the number of retries before `event`, without the reason if `event` repeats it."""
        assert self._retried is not None, "shown after a retry"
        (last, waited), self._retried = self._retried, None
        self._scrollback.add_note(event_texts.describe_retries(last, waited, event), "dim")

    def _show_group(self) -> None:
        """Output the held calls, if there are any."""
        group, self._group = self._group, CallGroup()
        if not group:
            return
        if group.folds:
            self._output = group.output()
        for item in group.pieces(self._width(), self._theme, self._full_text_hint):
            self._show_item(item)

    def _show_item(self, item: list[str] | HeldNote | FinishedCall) -> None:
        """Output what was held: lines, a note or a call."""
        if isinstance(item, HeldNote):
            self._scrollback.add_note(item.text, item.role)
        elif isinstance(item, FinishedCall):
            self._scrollback.add_lines(format_finished_call(item, self._width(), self._theme))
        else:
            self._scrollback.add_lines(item)

    def live(self, rows: int) -> list[str]:
        """Return the open block and running work in at most `rows` lines; a screen never draws in its last column."""
        self._spinner.lists_calls = rows > 0
        if rows <= 0:
            return []
        now, width = self._clock(), self._width() - 1
        is_known = self._in_turn and not self._spinner.is_reconnecting
        beside = self._workers.besides(self._calls) if is_known else []
        blocks = [self._workers.running_lines(worker, width, self._live_theme) for worker in beside]
        below = live_area.fit_blocks(blocks, max(1, rows // 2), width, self._live_theme)
        lines, kind = self._open_lines(rows - len(below), width, now)
        if lines and kind != "line" and len(lines) + len(below) < rows and below:
            lines = [*lines, ""]
        kind = kind or "line"
        parted = self._scrollback.needs_gap(kind) or (kind == "text" and self._markdown.parted)
        lines = [*lines, *below]
        return ["", *lines] if len(lines) < rows and parted and any(lines) else lines

    def _open_lines(self, rows: int, width: int, now: float) -> tuple[list[str], str]:
        """Return the open text in at most `rows` lines, and its kind; "" for none."""
        paint, prose = self._theme.paint, min(width, PROSE)
        calls = [call for call in self._calls.values() if not (call.awaits_answer or self._spinner.is_reconnecting)]
        if calls or (self._group and not self._markdown.is_open):
            group, theme = self._group.live_lines(width, self._live_theme) if self._group else [], self._live_theme
            running = live_area.call_lines(calls, self._workers, now, max(1, rows - len(group)), width, theme)
            return [*group[: rows - len(running)], *running], "line"
        if self._markdown.is_open:
            tail = self._markdown.tail(live_area.TAIL_CHARACTERS)
            if self._markdown.in_fence:
                return live_area.tail_of_code(tail, rows, width), "text"
            return live_area.tail_of_prose(tail, rows, prose), "text"
        if self._thought and self._show_thinking:
            tail = self._thought.tail[-live_area.TAIL_CHARACTERS :]
            return [paint("dim", line) for line in live_area.tail_of_prose(tail, rows, prose)], "thought"
        if self._thought and self._thought.words:
            lines = [paint("dim", line) for line in wrap(f"thinking ... {self._thought.words:,} words", width)]
            return lines[:rows], "line"
        return [], ""

    def _text(self, text: str) -> None:
        if text.strip():
            self._end_thought()
            self._show_group()
        self._spinner.phase("writing")
        self._spinner.wrote(len(text))
        if self._shows_text:
            self._scrollback.add_text(self._markdown.feed(text))

    def _think(self, event: e.Thinking) -> None:
        if self._thought is None:
            self._thought = Thought(self._clock)
        if not self._markdown.is_open:
            self._spinner.phase("thinking")
        self._spinner.wrote(len(event.text))
        self._thought.seconds += event.seconds
        lines = self._thought.feed(event.text)
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
            self.folded_thought = thought
            note = HeldNote(thought.summary("Ctrl+T shows" if self._drawn and self._commands else ""), "dim")
            if self._group:
                self._group.add(note)
            else:
                self._show_item(note)

    def close_text(self) -> None:
        """Close all open text: the model's message has ended for now."""
        self._end_thought()
        self._scrollback.add_text(self._markdown.flush())
        self._scrollback.start_text()
        self._show_beside()

    def _feed_worker(self, marked: e.AgentEvent) -> None:
        """Show a worker's activity in the live area, and a line at its end."""
        line = self._workers.feed(marked, {call.call.id for call in self._open_calls})
        calls = (open_call for open_call in self._open_calls if manages_worker(open_call.call, marked.agent))
        if isinstance(line, FinishedCall) and (call := next(calls, None)):
            call.after.append(line)
            return
        if line or isinstance(marked.event, e.ApprovalRequest):
            self._name_asked()
        if line:
            self._beside.append(line)
        if not self._markdown.is_open:
            self._show_beside()

    def _show_beside(self) -> None:
        beside, self._beside = self._beside, []
        for item in beside:
            self._show_item(item)

    def _begin_call(self, event: e.ToolCallEvent) -> None:
        self.close_text()
        call = live_area.OpenCall(event.call, event.subject, self._clock())
        self._calls[event.call.id] = call
        # Waiting workers were announced earlier.
        self._calls = dict(sorted(self._calls.items(), key=lambda item: item[1].waiting))
        self._spinner.phase(PREPARING)

    def announce(self, call_id: str) -> None:
        """Name a command that still runs, for a terminal without live lines; only its outcome follows if it runs alone.
        Not one that a question has shown."""
        call = self._calls.get(call_id)
        if (
            call is None
            or call.outcome
            or call_id in self._asked_blocks
            or find_called_tool(call.call).subject != COMMAND
        ):
            return
        self._show_group()
        self._scrollback.add_note(call.title, "dim")
        self._asked_alone = call_id if len(self._open_calls) == 1 else ""

    def _add_output(self, call: live_area.OpenCall, text: str) -> None:
        """Show what a running call prints: below its name in a log, in the live area where there is one."""
        if self._streams:
            if not call.has_output:
                self._scrollback.add_note(call.title, "dim")
            self._scrollback.add_output(text)
        call.feed(text)

    def _ask(self, question: Question) -> None:
        """Show a question about a call, which does not run yet."""
        if call := self._calls.get(question.call.id):
            call.awaits_answer = True
        if self._asks:
            self._name_asked()
            self._asked_alone = "" if self._asked_blocks else question.call.id
            if call and self._asked_alone:
                call.title = call_verb(question.call)  # the rest is right above
            self._asked_blocks[question.call.id] = question.detail

    def _name_asked(self) -> None:
        """Name the call that was asked about alone with its outcome, since other lines come between them."""
        if before := self._calls.get(self._asked_alone):
            before.title = format_call(before.call, before.subject)
        self._asked_alone = ""

    def _answered(self, event: e.ApprovalAnswer) -> None:
        """Let a call wait until the last question of its step is answered: only then do its calls run."""
        if call := self._calls.get(event.call_id):
            call.awaits_answer, call.is_answered, call.declined = False, True, isinstance(event.answer, Deny)
        is_last = not any(open_call.awaits_answer for open_call in self._open_calls)
        for open_call in self._open_calls:
            if open_call.is_answered:
                open_call.is_answered, open_call.began = not is_last, self._clock()

    def _resulted(self, event: e.ToolResultEvent) -> None:
        call, result = self._calls.get(event.call.id), event.result
        if find_called_tool(event.call).tells and not result.error:
            result = replace(result, output=event_texts.describe_shown_result(result, self._name_commands))
        if call and self._streams and call.has_output:
            result = replace(result, output="")  # it stands above
        self.commands_run += result.status is not None
        subject = call.subject if call else describe_past_subject(event.call)
        asked_block = self._asked_blocks.pop(event.call.id, None)
        alone, self._asked_alone = event.call.id == self._asked_alone, ""
        was_shown = asked_block is not None and bool(result.diff) and asked_block.strip() == result.diff.strip()
        finished = self._workers.complete(
            FinishedCall(
                event.call,
                subject,
                result,
                event.seconds,
                was_shown,
                self._address(event.call, result),
                self._full_text_hint,
                alone,
            )
        )
        if call is None:
            self._finish(finished)
            return
        call.outcome = finished
        while self._calls and (first := next(iter(self._calls.values()))).outcome is not None:
            del self._calls[first.call.id]
            self._finish(first.outcome)
            self._beside += first.after
        self._show_beside()
        if not self._open_calls:
            self._spinner.phase(PREPARING if self._in_turn else "", again=True)

    def _address(self, call: ToolCall, result: ToolResult) -> str:
        """Return the address of the file or folder that a call is about; "" where there is none to open."""
        path = file_of_call(call)
        if self.folder is None or result.error or not path:
            return ""
        return (self.folder / os.path.expanduser(path)).as_uri()

    def _finish(self, finished: FinishedCall) -> None:
        """Output the result of a call, or hold it with similar ones."""
        self._output = format_call(finished.call, finished.subject), finished.text
        if self._drawn and CallGroup.fits(finished):
            self._group.add(finished)
        else:
            self._show_item(finished)

    def _ended(self, outcome: e.Outcome) -> None:
        calls, self._calls = list(self._calls.values()), {}
        self._asked_blocks.clear()
        for call in calls:
            if call.outcome is not None:
                self._finish(call.outcome)
            else:
                self._scrollback.add_note(f"{call.title}: no result yet", "warn")
            self._beside += call.after
        self._show_group()
        self._show_beside()
        with_workers = self._workers.are_counted
        self._workers.forget(ended=True)
        self._in_turn = False
        self._spinner.phase("")
        if outcome.text:
            self.last_answer = outcome.text
        if self._commands:
            role = "error" if outcome.has_failed and not outcome.is_stopped else "dim"
            self._scrollback.add_note(event_texts.describe_failure(outcome, self._name_commands), role)
            denials = event_texts.describe_denials(outcome.denied, "/permissions", self._name_commands)
            self._scrollback.add_note(denials, "dim")
        dot = self._theme.signs.dot
        resumed = self.is_resumed
        changed = event_texts.describe_changed(outcome, dot, self.counted, self.commands_run, resumed=resumed)
        totals = event_texts.describe_totals(outcome, dot, with_workers=with_workers, priced=resumed or not changed)
        self._scrollback.add_note("\n".join(filter(None, [totals, changed])), "dim")
