"""Run `[[check]]` commands on what a step has edited, and tell the model which findings are new (`nexus docs checks`).

A check runs in the sandbox profile `read`: it cannot change the project. Before the first edit of a file it looks at
the file as it was, so that only findings that were not there before are told. A slow check delays nothing: it goes on
in the background, and its findings come with a later step.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.config.checks import FILES, EditCheck, list_checks, parse_check
from nexus_cli.config.programs import program_environment
from nexus_cli.config.project_environment import use_project_environment
from nexus_cli.context.manager import ContextManager
from nexus_cli.core import event
from nexus_cli.core.elide import cut_at_word, one_line, plural
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import reason_of
from nexus_cli.core.limits import ALL, UNASKED
from nexus_cli.core.real_files import real_path, stamp_content
from nexus_cli.core.tool import COMMAND
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.notices import Notices
from nexus_cli.permission.call_decision import CheckedCall
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.plugins.python_plugins import admit_objects
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import output_as_text
from nexus_cli.tools.process import run_process
from nexus_cli.tools.registry import discover_tools

PATIENCE = 5.0
"""Seconds that an edit, and the end of a step, wait for a check."""
LINES = 20
"""Most findings in one message; the rest is a drop."""
_MAX_HASHED = 64 << 20
"""Most bytes of a file that are read to see whether it has changed."""
MAX_BYTES = 1_000_000
"""Size of an output from which a check counts as broken."""
FAILURES = 2
"""Failures after which a check is switched off for the session."""
LENGTH = 100
"""Most characters of what the shell says about a program that it could not start, and of the person's line about new
findings."""
NAME = 24
"""Most characters of a check's name there."""
SHELL_FAILURE_STATUSES = (126, 127)
"""Exit statuses of a shell that could not start a program."""
_NO_MODULE = re.compile(rb"[^\n]*(?i:python|pypy)[\d.]*: No module named \S+\s*")
"""The output of `python -m NAME` without that module, whose exit status is also that of findings."""
NUMBERS = re.compile(r"(?<![\w./-])\d+(?![\w/-]|\.\w)")
"""Line numbers, but not numbers in the name of a file."""


@dataclass(frozen=True)
class _Look:
    """The findings of a check in files."""

    digests: tuple[str, ...]
    """Digest of each file's content then."""
    lines: list[str]


@dataclass
class _State:
    """The state of one check."""

    check: EditCheck
    looks: dict[tuple[str, ...], _Look] = field(default_factory=dict)
    """The last look at each group of files that one call edited; of the whole project at `()`. Only looks at the same
    group are compared, since a line need not name its file."""
    edited: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    """The groups that this step edits, with their digests before."""
    edits: int = 0
    """Number of edits so far of files that it looks at."""
    pending: dict[tuple[str, ...], None] = field(default_factory=dict)
    """The edited groups that it has to look at."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the look that runs: one at a time, in the order of the edits."""
    is_slow: bool = False
    """True if its last look took longer than `PATIENCE`."""
    is_lateness_reported: bool = False
    failures: int = 0
    off: str = ""
    """Why it is switched off."""
    is_reported: bool = False

    @property
    def is_whole(self) -> bool:
        """True if it looks at the whole project."""
        return FILES not in self.check.command

    def key(self, group: tuple[str, ...]) -> tuple[str, ...]:
        """Return the key in `looks` of a group of files."""
        return () if self.is_whole else group

    def fail(self, why: str) -> None:
        """Count a failure; switch the check off after `FAILURES`."""
        self.failures += 1
        if self.failures >= FAILURES:
            self.off = f"{why}, the last of {FAILURES} failures"


class EditChecks:
    """The checks of one session."""

    def __init__(
        self,
        project: Path,
        configured: Sequence[EditCheck] | None,
        permission: CallPermission,
        level: Callable[[], str],
    ) -> None:
        """`level` returns the permission level in force."""
        self._project = real_path(project)
        self._configured = configured
        self._permission = permission
        self._level = level
        self._states: dict[EditCheck, _State] = {}
        self._edited: dict[str, None] = {}
        """Files edited in this step, relative to the project."""
        self._looks: set[asyncio.Task[None]] = set()

    async def look_before(self, targets: Iterable[Path]) -> None:
        """Note files that are about to be edited; look at those whose content no check has seen, for `PATIENCE`."""
        names = [name for target in targets if (name := self._name(target)) and name not in self._edited]
        self._edited |= dict.fromkeys(names)
        for state in self._active(names):
            group = tuple(_matching(state.check, names))
            state.edited[group] = digests = self._digests(group)
            key = state.key(group)
            last = state.looks.get(key)
            if last is None or not (state.is_whole or last.digests == digests):
                state.looks.pop(key, None)
                await self._wait(state, self._look_before(state, key, state.edits))
            state.edits += 1

    async def report(self, context: ContextManager, notices: Notices, control: Control) -> None:
        """Run the checks of the files edited since the last report; keep new findings for the next request, those that
        come after `PATIENCE` for a later one."""
        names, self._edited = list(self._edited), {}
        begun = []
        for state in self._active(names):
            changed = [group for group, digests in state.edited.items() if self._digests(group) != digests]
            state.pending |= dict.fromkeys(changed)
            if state.pending:
                begun.append(state)
        looks = (self._wait(state, self._look_after(state, context, notices, control)) for state in begun)
        for state, is_over in zip(begun, await asyncio.gather(*looks), strict=True):
            if not (is_over or state.is_lateness_reported):
                state.is_lateness_reported = True
                notices.tell(f"check `{state.check.name}` is slow: findings, if any, come with a later result")
        for state in self._states.values():
            state.edited.clear()
            _notify_switched_off(state, notices, control)

    async def aclose(self) -> None:
        """Stop the checks that still run."""
        for task in self._looks:
            task.cancel()
        await asyncio.gather(*self._looks, return_exceptions=True)

    async def _wait(self, state: _State, look: Coroutine[Any, Any, None]) -> bool:
        """Begin a look, wait for it, unless the last one of the check took longer than `PATIENCE`, and return True if
        it is over."""
        task = asyncio.create_task(look)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        if not state.is_slow:
            await asyncio.wait([task], timeout=PATIENCE)
            state.is_slow = not task.done()
        return task.done()

    async def _look_before(self, state: _State, key: tuple[str, ...], edits: int) -> None:
        """Look at files before the edit that follows `edits` others; a look that it overtook does not count."""
        async with state.turn:
            look = await self._look(state, key) if state.edits == edits else None
            if look is not None and state.edits == edits:
                state.looks[key] = look

    async def _look_after(self, state: _State, context: ContextManager, notices: Notices, control: Control) -> None:
        """Look at what was edited, unless an earlier look has done that."""
        async with state.turn:
            names = dict[tuple[str, ...], list[str]]()
            for group in state.pending:
                names.setdefault(state.key(group), []).extend(group)
            state.pending = {}
            before_edits = {key: state.looks.get(key) for key in names}
            for key, last in before_edits.items():
                look = None if state.off else await self._look(state, key)
                if look is None:
                    continue
                state.looks[key] = look
                if last is not None:
                    findings = _find_new(last.lines, look.lines)
                else:
                    findings = [line for line in look.lines if key or any(name in line for name in names[key])]
                if findings:
                    notices.keep("", *_notices(context, control, state.check, findings, are_new=last is not None))
        _notify_switched_off(state, notices, control)

    def _active(self, names: Sequence[str]) -> list[_State]:
        if not names:
            return []
        checks = list_checks(
            self._project,
            self._configured,
            runs_project=self._level() in UNASKED,
            added=plugin_checks(),
        )
        states = [self._states.setdefault(check, _State(check)) for check in checks]
        return [state for state in states if not state.off and _matching(state.check, names)]

    async def _look(self, state: _State, key: tuple[str, ...]) -> _Look | None:
        """Run a check on a group of files, or on the whole project; return None if the check is broken."""
        digests, files = self._digests(key), [name for name in key if (self._project / name).is_file()]
        lines: list[str] | None = []
        if files or state.is_whole:
            began = time.monotonic()
            lines = await run_in_thread(lambda stop: self._run(state, files, stop))
            state.is_slow = time.monotonic() - began > PATIENCE
        return None if lines is None else _Look(digests, lines)

    def _run(self, state: _State, names: Sequence[str], stop: StopFlag) -> list[str] | None:
        """Return the lines of a check that fails, [] for one that passes, None for one that is broken. Blocks."""
        check, permission = state.check, self._permission
        if not permission.has_sandbox():
            state.off = "no sandbox is available"
            return None
        files = [f"./{name}" if name.startswith("-") else name for name in names]
        shell = next(tool for tool in discover_tools().values() if tool.runs_commands)
        command = check.command.replace(FILES, shlex.join(files))
        decision = permission.decide(CheckedCall(shell, {COMMAND: command}, {}), ALL)
        if decision.is_denied:
            state.off = decision.why
            return None
        sandbox = permission.make_sandbox("read")
        env = program_environment(sandbox.env, self._project)
        if self._level() in UNASKED:
            env, _ = use_project_environment(env, self._project, self._project, is_sandboxed=True)
        try:
            result = run_process(
                ["/bin/sh", "-c", check.command.replace(FILES, '"$@"'), "sh", *files],
                cwd=self._project,
                env={**env, "TERM": "dumb", "NO_COLOR": "1"},
                stop=stop,
                seconds=check.seconds,
                confinement=sandbox.confinement,
            )
        except (OSError, ValueError) as error:
            state.fail(f"it could not be started ({reason_of(error)})")
            return None
        size = len(result.output) + result.uncounted
        is_missing = result.status in SHELL_FAILURE_STATUSES or _NO_MODULE.fullmatch(result.output)
        if result.timed_out or is_missing or size > MAX_BYTES:
            slow = f"it took longer than {check.seconds:g} s" if result.timed_out else ""
            large = f"it printed {size / 1e6:,.0f} MB" if size > MAX_BYTES else ""
            state.fail(
                slow
                or large
                or f"a program could not be started ({cut_at_word(one_line(output_as_text(result.output)), LENGTH)})"
            )
            return None
        return [line for line in output_as_text(result.output).splitlines() if line.strip()] if result.status else []

    def _name(self, target: Path) -> str:
        """Return the path of a file relative to the project, "" for one outside."""
        real = real_path(target)
        return str(real.relative_to(self._project)) if real.is_relative_to(self._project) else ""

    def _digests(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self._digest, names))

    def _digest(self, name: str) -> str:
        try:
            return stamp_content(self._project / name, _MAX_HASHED)
        except OSError:
            return ""


def _notify_switched_off(state: _State, notices: Notices, control: Control) -> None:
    """Notify the person and the model once that a check is switched off."""
    if state.off and not state.is_reported:
        state.is_reported = True
        control.emit_from_background(event.Notice(f"check `{state.check.name}` is off: {state.off}"))
        notices.tell(f"check `{state.check.name}` is off ({state.off}): later edits are not checked")


def _notices(
    context: ContextManager, control: Control, check: EditCheck, lines: Sequence[str], *, are_new: bool
) -> list[str]:
    """Return the lines for the model about findings; show the person how many there are."""
    count = plural(len(lines), "new finding" if are_new else "finding")
    notices = [f"Edit applied. {count} of `{check.name}`", *lines[:LINES]]
    if hidden := lines[LINES:]:
        size, text = context.count("\n".join(hidden)), "\n".join(lines)
        drop = context.conversation.record_drop(f"findings of {check.name}", size, Cause.OUTPUT_CAP, text)
        control.emit_drop(drop)
        notices.append(f"and {len(hidden):,} more: recall {drop.id}")
    summary = f"{count} of `{cut_at_word(check.name, NAME)}`: {one_line(lines[0])}"
    control.emit_from_background(event.Notice(cut_at_word(summary, LENGTH), warning=False))
    return notices


def _matching(check: EditCheck, names: Iterable[str]) -> list[str]:
    return [name for name in names if check.matches(name)]


def _find_new(known_lines: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return the `lines` that are not known; one that an edit above it has moved has other line numbers."""
    moved = Counter(map(_without_numbers, (Counter(known_lines) - Counter(lines)).elements()))
    new = []
    for line in (Counter(lines) - Counter(known_lines)).elements():
        plain = _without_numbers(line)
        if moved[plain]:
            moved[plain] -= 1
        else:
            new.append(line)
    return new


def _without_numbers(line: str) -> str:
    return NUMBERS.sub("", line)


def plugin_checks() -> list[EditCheck]:
    """Return the checks of plugins, each once."""
    admitted = admit_objects("checks", _is_check, lambda check: (f"{check.glob} {check.command}",), ())
    return [check for check, _ in admitted.values()]


def _is_check(check: Any) -> bool:
    with suppress(ValueError):
        parse_check(asdict(check) if isinstance(check, EditCheck) else None)
        return True
    return False
