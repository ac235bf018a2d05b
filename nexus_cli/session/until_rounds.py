"""Work until a command exits 0 (`--until`): after each reply run the command, and send its result to the model.

All rounds belong to one turn, with its limits. A memo keeps the command until it has passed or the person ends it. The
command runs like a call of the tool `bash`, by the same rules, at the same level and in the same sandbox.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import shlex
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from pathlib import Path

from nexus_cli.core import event
from nexus_cli.core.elide import one_line, plural
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.event import UntilObject
from nexus_cli.core.goals import open_until
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.real_files import stamp_content
from nexus_cli.core.tool import Tool
from nexus_cli.core.typed_text import NOT_DONE
from nexus_cli.engine.requests.clip_output import clip_to_cap, omit_repeats
from nexus_cli.permission.call_decision import CallDecision, CheckedCall
from nexus_cli.permission.run_limits import SWITCHED_OFF
from nexus_cli.session.acts.goal import finish_goal, set_until
from nexus_cli.session.base_session import BaseSession
from nexus_cli.session.continuation import Continuation
from nexus_cli.text.untrusted_text import neutralize
from nexus_cli.tools.builtin.bash import MAX_SECONDS
from nexus_cli.tools.pipe_statuses import describe_failed_part

TOOL = "bash"
MAX_TOKENS = 1500
"""Most tokens of the command's output in one message to the model; the rest is a drop."""
MAX_LINES = 8
"""Last lines of the command that the person is shown when the work stops."""
STALE = 2
"""Rounds in a row without anything new after which the work stops."""
MAX_BYTES = 8_000_000
"""Size of a changed file above which its size and time stand for its content."""
VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+|^\[sandbox: .*\n", re.MULTILINE)
"""Text that differs between two runs with the same result: durations, addresses, process ids, notes of the sandbox."""

BLOCK_END = re.compile(r"<\s*/\s*shell", re.IGNORECASE)


class UntilRounds(Continuation):
    """The rounds of one turn."""

    has_work = True

    def __init__(self, session: BaseSession, command: str, *, is_new: bool) -> None:
        """`is_new`: the session does not work for `command` already."""
        super().__init__(session)
        self._command, self._is_new = command, is_new
        self._rounds = 0
        self._last: ToolResult | None = None
        self._agreed: CallDecision | None = None
        """The decision on the command that the person has approved."""
        self._digests: set[str] = set()
        """Digests of what the rounds brought."""
        self._stale = 0
        self._own: set[str] = set()
        """Files that the command itself changes: they are no progress."""

    def admit(self, *, has_message: bool) -> str:
        """Record the command, unless the session works for it already."""
        if self._is_new:
            self._record_command(self._command)
        return ""

    async def begin(self) -> None:
        """Name command and limits, and get permission; raise `NexusError("denied", ...)` if it may not run."""
        call, tool = self._call()
        spending = self._engine.spending
        limits = describe_limits(self._dispatcher.limits, is_chat=spending.is_chat or spending.is_served)
        line = f"working until {self._command_label} exits 0: {limits}"
        self._engine.control.emit_notice(line, warning=False)
        decision = await self._dispatcher.decide(CheckedCall(tool, call.arguments, {}, call))
        if decision.result is not None:
            raise self._refused(decision.result)
        self._agreed = decision if decision.answer else None
        goal = f"this turn continues until {self._command_label} exits 0"
        self._engine.notices.tell(f"{goal}; nexus runs that command each time you stop")

    async def next_message(self) -> str:
        """Run the command at the end of a round. Return the message with its result, "" if it exits 0.

        Raises `NexusError("limit", ...)` if the newest rounds brought nothing new, `NexusError("denied", ...)` if the
        command may not run any more.
        """
        work = open_until(self._engine.conversation, self._session.id)
        if not work:  # ended by the person
            return ""
        self._engine.control.check_ending()
        result = self._last = await self._run()
        self._rounds += 1
        if self._is_done:
            self._finish(work.get("goal", ""))
            return ""
        if result.status is None:
            raise self._refused(result) if result.denied else NexusError("limit", self._command_label, result.error)
        digest = await asyncio.to_thread(self._digest, result)
        self._stale = self._stale + 1 if digest in self._digests else 0
        self._digests.add(digest)
        if self._stale >= STALE:
            why = f"the command {self._describe_end(result)}, and {STALE} rounds in a row repeated earlier results"
            raise NexusError(
                "limit",
                f"stopped after {self._rounds} rounds of {self._command_label}",
                why,
                "Tell the model what to try next",
            )
        return await self._message(result)

    def close(self, ended: event.Outcome) -> event.Outcome:
        """Return the outcome with the state of the work and the files that the command changed; show the person what is
        left if it failed."""
        last = self._last
        has_left = last and not (ended.ok or self._is_done or last.denied)
        last_lines = [line for line in last.text.splitlines() if line.strip()][-MAX_LINES:] if last and has_left else []
        has_seen = self._session.has_more_turns and ended.finish == "aborted"  # it was on the screen a moment ago
        if last_lines and not has_seen:
            for line in (f"last output of {self._command_label}:", *(f"| {line}" for line in last_lines)):
                self._engine.control.emit_notice(line, warning=False)
        status = last.status if last else None
        report: UntilObject = {
            "command": self._command,
            "passed": self._is_done,
            "rounds": self._rounds,
            "status": status,
            "left": last_lines,
        }
        return replace(ended, until=report, changed=tuple(dict.fromkeys((*ended.changed, *sorted(self._own)))))

    @property
    def _is_done(self) -> bool:
        """True if the last run exits 0, and so do all parts of its last pipe."""
        last = self._last
        return last is not None and last.status == 0 and not describe_failed_part(self._command, last.pipe)

    def _describe_end(self, result: ToolResult) -> str:
        part = "" if result.status else describe_failed_part(self._command, result.pipe)
        return f"exits {result.status}" + (f", but {part}" if part else "")

    @property
    def _command_label(self) -> str:
        return f"`{one_line(self._command)}`"

    def _call(self) -> tuple[ToolCall, Tool]:
        """Make the next call, and a step of its own with the answer that the person has given."""
        tool = self._dispatcher.registry.get(TOOL)
        if tool is None:
            raise UsageError(
                f"--until {self._command_label}",
                f"this session has no tool {TOOL}",
                "Omit --no-tools, or choose a model that supports tool calls",
            )
        call = ToolCall(f"until-{secrets.token_hex(6)}", TOOL, {"command": self._command, "timeout": MAX_SECONDS})
        if refusal := self._dispatcher.begin_own_call(self._engine, call, tool, self._agreed):
            self._end_in_chat()
            hint = "Omit --no-tools" if refusal.why == SWITCHED_OFF else ""
            raise UsageError(f"--until {self._command_label}", refusal.why, hint)
        return call, tool

    async def _run(self) -> ToolResult:
        call, tool = self._call()
        result = await self._dispatcher.execute_own(call, tool, one_line(self._command))
        self._own.update(set(result.changed) - set(self._dispatcher.changed))
        return result

    def _record_command(self, command: str) -> None:
        set_until(self._engine.conversation, self._session.id, command)

    def _finish(self, goal: str) -> None:
        self._record_command("")
        if goal:
            finish_goal(self._engine.conversation, goal)
        rounds = plural(self._rounds, "round")
        self._engine.control.emit_notice(f"{self._command_label} exited 0 after {rounds}", warning=False)

    def _refused(self, result: ToolResult) -> NexusError:
        """Return the error for a command that may not run."""
        self._end_in_chat()
        hint = "Allow it, or use another command"
        for decision in self._dispatcher.denied[-1:]:
            rule = decision.minimal_grant.rule
            commands = [decision.minimal_grant.option] if decision.minimal_grant.option else []
            commands += [f"nexus rules add --here {shlex.quote(f'allow {rule}')}"] if rule else []
            commands += [f"--allow {decision.allow}"] if decision.allow else []
            hint = f"Allow it: {', or '.join(commands)}" if commands else hint
        return NexusError("denied", f"--until {self._command_label} is not allowed to run", result.error, hint)

    def _end_in_chat(self) -> None:
        """End work whose command may not run, or each further message of a chat would fail."""
        if self._session.has_more_turns:
            self._record_command("")

    def _digest(self, result: ToolResult) -> str:
        """Hash the output, without numbers, and the files that the turn has changed so far."""
        names = sorted(set(self._dispatcher.changed) - self._own)
        files = [f"{name} {digest}" for name, digest in _hash_files(self._dispatcher.project_root, names)]
        text = "\n".join([str(result.status), VARYING.sub("", result.text), *files])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    async def _message(self, result: ToolResult) -> str:
        context, control = self._engine.context, self._engine.control
        label = f"result of {TOOL} {self._command[:80]}"
        text = await omit_repeats(context, control, result.text, label)
        neutral = BLOCK_END.sub("< /shell", neutralize(text))
        cap = min(MAX_TOKENS, context.budget.output_cap)
        clipped = await clip_to_cap(
            context, control, neutral, cap, label, Cause.OUTPUT_CAP, full_text=text, uncounted=result.uncounted
        )
        block = f'<shell command="{escape(self._command)}">\n{clipped.text.rstrip()}\n</shell>'
        return f"{NOT_DONE}{self._command_label} {self._describe_end(result)}. Work on until it exits 0.\n{block}"


def describe_limits(limits: Limits, *, is_chat: bool) -> str:
    """Return the limits of a turn on steps, dollars and time, for a person; of tokens only if there is one."""
    option = "limits.{}" if is_chat else "--{}"
    rows = [
        ("step", limits.max_steps, "at most {:,} requests", "max_steps"),
        ("token", limits.max_total_tokens, "{:,} tokens", ""),
        ("cost", _format_dollars(limits.max_cost), "{}", "max_cost"),
        ("time", limits.timeout, "{:,.0f} seconds", "timeout"),
    ]
    parts = []
    for name, value, form, key in rows:
        if value is not None:
            parts.append(form.format(value))
        elif key:
            setting = option.format(key if is_chat else key.replace("_", "-"))
            parts.append(f"no {name} limit ({setting})")
    return ", ".join(parts)


def _format_dollars(amount: float | None) -> str | None:
    """Format an amount with two decimals, or as many as it has."""
    return amount if amount is None else f"${max(f'{amount:.2f}', f'{amount:.12f}'.rstrip('0'), key=len)}"


def _hash_files(project: Path, names: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in names:
        try:
            yield name, stamp_content(project / name, MAX_BYTES)
        except OSError as error:  # deleted, a folder, a link, or not readable
            yield name, type(error).__name__
