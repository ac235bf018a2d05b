"""Run `[[check]]` commands on what a step has edited, and tell the model which findings are new (`nexus docs checks`).

A check runs in the sandbox profile `read`: it cannot change the project. Before the first edit of a file it looks at
the file as it was, so that only findings that were not there before are told.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.config.checks import FILES, EditCheck, list_checks, parse_check
from nexus_cli.config.programs import program_environment
from nexus_cli.config.project_environment import use_project_environment
from nexus_cli.core import event
from nexus_cli.core.elide import cut_at_word, one_line, plural
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.real_files import stamp_content
from nexus_cli.core.tool import COMMAND
from nexus_cli.lane.control import Control
from nexus_cli.lane.lane_window import LaneWindow
from nexus_cli.lane.upcoming import Upcoming
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.permission.permission import Denial
from nexus_cli.plugins.python_plugins import admit_objects
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import decode_output
from nexus_cli.tools.process import ProcessResult, run_process
from nexus_cli.tools.registry import discover_tools

LINES = 20
"""Most findings in one message; the rest is a drop."""
_MOST_HASHED = 64 << 20
"""Most bytes of a file that are read to see whether it has changed."""
MOST_BYTES = 1_000_000
"""Size of an output from which a check counts as broken."""
FAILURES = 2
"""Failures after which a check is switched off for the session."""
LENGTH = 100
"""Most characters of what the shell says about a program that it could not start, and of the person's line about new
findings."""
NAME = 24
"""Most characters of a check's name there."""
NO_PROGRAM = (126, 127)
"""Exit statuses of a shell that could not start a program."""
NUMBERS = re.compile(r"(?<![\w./-])\d+(?![\w/-]|\.\w)")
"""Line numbers, but not numbers in the name of a file."""
RUNS_PROJECT = ("run", "all")
"""Levels at which programs of the project run without a question."""


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
    failures: int = 0
    off: str = ""
    """Why it is switched off."""
    is_told: bool = False

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
            self.off = f"{why}, {FAILURES} times"


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
        self._project = Path(os.path.realpath(project))
        self._configured = configured
        self._permission = permission
        self._level = level
        self._states: dict[EditCheck, _State] = {}
        self._edited: dict[str, None] = {}
        """Files edited in this step, relative to the project."""

    async def look_before(self, targets: Iterable[Path]) -> None:
        """Note files that are about to be edited; look at those whose content no check has seen."""
        names = [name for target in targets if (name := self._name(target)) and name not in self._edited]
        self._edited |= dict.fromkeys(names)
        for state in self._active(names):
            group = tuple(_matching(state.check, names))
            state.edited[group] = digests = self._digests(group)
            key = state.key(group)
            last = state.looks.get(key)
            is_seen = last is not None and (state.is_whole or last.digests == digests)
            if not is_seen and await self._look(state, key) is None:
                state.looks.pop(key, None)

    async def report(self, window: LaneWindow, upcoming: Upcoming, control: Control) -> None:
        """Run the checks of the files edited since the last report; queue new findings for the model."""
        names, self._edited = list(self._edited), {}
        for state in self._active(names):
            changed = [group for group, digests in state.edited.items() if self._digests(group) != digests]
            keys = list(dict.fromkeys(map(state.key, changed)))
            if await self._all_pass(state, keys):
                continue
            found = [line for key in keys for line in await self._look(state, key) or ()]
            if found:
                upcoming.notices.extend(_notices(window, control, state.check, found))
        for state in self._states.values():
            state.edited.clear()
            if state.off and not state.is_told:
                state.is_told = True
                control.emit_notice(f"check `{state.check.name}` is off: {state.off}")

    def _active(self, names: Sequence[str]) -> list[_State]:
        if not names:
            return []
        checks = list_checks(
            self._project,
            self._configured,
            runs_project=self._level() in RUNS_PROJECT,
            added=plugin_checks(),
        )
        states = [self._states.setdefault(check, _State(check)) for check in checks]
        return [state for state in states if not state.off and _matching(state.check, names)]

    async def _look(self, state: _State, key: tuple[str, ...]) -> list[str] | None:
        """Run a check on files; return the findings that its last look at them had not, [] at the first one. None if
        the check is broken."""
        files = [name for name in key if (self._project / name).is_file()]
        lines: list[str] | None = []
        if files or state.is_whole:
            lines = await run_in_thread(lambda stop: self._run(state, files, stop))
        if lines is None:
            return None
        last, state.looks[key] = state.looks.get(key), _Look(self._digests(key), lines)
        return _find_new(last.lines, lines) if last else []

    async def _all_pass(self, state: _State, keys: Sequence[tuple[str, ...]]) -> bool:
        """Look at several groups at once, if none had findings; return True if none has any now. If one has, only looks
        at each of them tell which findings are new."""
        if len(keys) < 2 or not all((last := state.looks.get(key)) and not last.lines for key in keys):
            return False
        files = [name for key in keys for name in key if (self._project / name).is_file()]
        if files and await run_in_thread(lambda stop: self._run(state, files, stop)) != []:
            return False
        state.looks |= {key: _Look(self._digests(key), []) for key in keys}
        return True

    def _run(self, state: _State, names: Sequence[str], stop: StopFlag) -> list[str] | None:
        """Return the lines of a check that fails, [] for one that passes, None for one that is broken. Blocks."""
        check, permission = state.check, self._permission
        probe = permission.load("read")
        if probe is None or probe.backend == "none":
            state.off = "there is no sandbox here"
            return None
        files = [f"./{name}" if name.startswith("-") else name for name in names]
        shell = next(tool for tool in discover_tools().values() if tool.runs_commands)
        shown = check.command.replace(FILES, shlex.join(files))
        denied = permission.decide(shell, {COMMAND: shown}, "all", {}).verdict
        if isinstance(denied, Denial):
            state.off = denied.why
            return None
        sandbox = permission.make_sandbox("read")
        env = program_environment(sandbox.env, self._project)
        if self._level() in RUNS_PROJECT:
            env, _ = use_project_environment(env, self._project, self._project, is_sandboxed=True)
        try:
            done = run_process(
                ["/bin/sh", "-c", check.command.replace(FILES, '"$@"'), "sh", *files],
                cwd=self._project,
                env={**env, "TERM": "dumb", "NO_COLOR": "1"},
                stop=stop,
                seconds=check.seconds,
                confinement=sandbox.confinement,
            )
        except (OSError, ValueError) as error:
            state.fail(f"it cannot be started ({error})")
            return None
        size = len(done.output) + done.uncounted
        if done.timed_out or done.status in NO_PROGRAM or size > MOST_BYTES:
            slow = f"it took longer than {check.seconds:g} s" if done.timed_out else ""
            large = f"it printed {size / 1e6:,.0f} MB" if size > MOST_BYTES else ""
            state.fail(slow or large or f"it cannot be started ({cut_at_word(one_line(_decode(done)), LENGTH)})")
            return None
        return [line for line in _decode(done).splitlines() if line.strip()] if done.status else []

    def _name(self, target: Path) -> str:
        """Return the path of a file relative to the project, "" for one outside."""
        real = Path(os.path.realpath(target))
        return str(real.relative_to(self._project)) if real.is_relative_to(self._project) else ""

    def _digests(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self._digest, names))

    def _digest(self, name: str) -> str:
        try:
            return stamp_content(self._project / name, _MOST_HASHED)
        except OSError:
            return ""


def _decode(done: ProcessResult) -> str:
    decoded = decode_output(done.output)
    return decoded.plain if decoded else ""


def _notices(window: LaneWindow, control: Control, check: EditCheck, found: Sequence[str]) -> list[str]:
    """Return the lines for the model about new findings; show the person how many there are."""
    timeline = window.lane.timeline
    notices = [f"Edit applied. New findings: {len(found)} of `{check.name}`", *found[:LINES]]
    if rest := found[LINES:]:
        size = window.context.counter.count("\n".join(rest))
        what, text = f"findings of {check.name}", "\n".join(found)
        drop = Drop(timeline.log.next_drop(), what, size, Cause.OUTPUT_CAP, timeline.now(), text=text)
        timeline.log.record_drop(drop)
        control.emit_drop(drop)
        notices.append(f"and {len(rest):,} more: recall {drop.id}")
    said = f"{plural(len(found), 'new finding')} of `{cut_at_word(check.name, NAME)}`: {one_line(found[0])}"
    control.emit(event.Notice(cut_at_word(said, LENGTH), warning=False))
    return notices


def _matching(check: EditCheck, names: Iterable[str]) -> list[str]:
    return [name for name in names if check.matches(name)]


def _find_new(known: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return the `lines` that are not known; one that an edit above it has moved has other line numbers."""
    moved = Counter(map(_without_numbers, (Counter(known) - Counter(lines)).elements()))
    new = []
    for line in (Counter(lines) - Counter(known)).elements():
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
    found = admit_objects("checks", _is_check, lambda one: (f"{one.glob} {one.command}",), ())
    return [check for check, _ in found.values()]


def _is_check(one: Any) -> bool:
    value = {key: getattr(one, key) for key in ("glob", "command", "seconds")} if isinstance(one, EditCheck) else None
    return parse_check(value) is not None
