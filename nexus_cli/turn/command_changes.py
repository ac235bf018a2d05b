"""Find the files of a project that changed, appeared or went while a command ran, in a git repository.

Git lists the names, as for `glob`: those that it tracks or would track. What lies in folders that tools fill does not
count. What changed is read from the times at which the files changed, which no command can set. Git compares no
content, so no filter runs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import repository_root
from nexus_cli.config.protected_places import MADE_BY_TOOLS
from nexus_cli.core.message import ToolResult
from nexus_cli.core.shield import run_shielded
from nexus_cli.core.tool import Effect, Tool, ToolContext
from nexus_cli.lane.work_notes import COMMAND_DID, WORK, work_note
from nexus_cli.permission.run_limits import CHANGES
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.listing import list_files

SECONDS = 3.0
"""Time limit of one listing. After one that took longer the project's commands are not followed any more."""
SECONDS_STOPPED = 0.3
"""The same where the person has stopped the command: then what it changed may stay unknown."""
MOST = 20_000
"""Files of a project whose commands are followed."""
_SECOND = 1_000_000_000


class CommandChanges:
    """The files of one project, looked at after each command, and before the first."""

    def __init__(self) -> None:
        self._project = Path()
        self._names: set[str] | None = None
        """Those of the last listing and of the files that tools changed since; None before the first."""
        self._off = False
        self._cut: set[str] = set()
        """Changed by a command that was stopped."""

    def note(self, tool: Tool | None, project: Path, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Note what a call changed, which a later command may delete; return its memo for the record of the work, by
        its kind. A tool that changes nothing itself has none: workers note what they do."""
        if self._names is not None:
            self._names.update(names)
        if tool is None or tool.effect not in CHANGES:
            return {}
        return {WORK: work_note(project, names, COMMAND_DID if tool.effect is Effect.RUN else "")}

    def take_cut(self) -> tuple[str, ...]:
        """Return what a command changed that was stopped, once."""
        names, self._cut = tuple(sorted(self._cut)), set()
        return names

    async def run(
        self, tool: Tool, profile: str, context: ToolContext, work: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Return the result of a call; that of a command which may write with what it changed."""
        if tool.effect is not Effect.RUN or profile == "read" or self._off:
            return await work()
        if self._names is None:
            self._project = Path(os.path.realpath(context.project))
            self._off = repository_root(self._project) is None
            self._names = await self._list()
        before, began = await asyncio.to_thread(self._times, self._names), time.time_ns() - _SECOND
        try:
            result = await work()
        except asyncio.CancelledError:
            self._cut.update(await run_shielded(self._find(before, began, is_stopped=True)))
            raise
        return replace(result, changed=(*result.changed, *sorted(await self._find(before, began))))

    async def _find(self, before: dict[str, int], began: int, *, is_stopped: bool = False) -> set[str]:
        """Return the names of what changed since `before`; a name that is new counts if its file changed meanwhile.

        Of a command that `is_stopped` only the files that were known are looked at where the listing takes long."""
        listed = await self._list(SECONDS_STOPPED if is_stopped else SECONDS)
        if self._off and not is_stopped:
            return set()
        now = await asyncio.to_thread(self._times, listed | before.keys())
        self._names = set(now)
        changed = {name for name, at in now.items() if at != before.get(name, at if at < began else None)}
        return changed | (before.keys() - now.keys())

    async def _list(self, seconds: float = SECONDS) -> set[str]:
        """Return the names that git lists within so many seconds; none where commands are not followed."""
        if self._off:
            return set()

        def work(stop: StopFlag) -> set[str]:
            names = list_files(self._project, self._project, stop)
            return {name for name in names if MADE_BY_TOOLS.isdisjoint(name.lower().split("/"))}

        try:
            async with asyncio.timeout(seconds):
                names = await run_in_thread(work)
        except TimeoutError:
            names = set()
            self._off = seconds == SECONDS
        self._off = self._off or len(names) > MOST
        return set() if self._off else names

    def _times(self, names: Iterable[str]) -> dict[str, int]:
        """Return when each file that is there changed, in nanoseconds."""
        found = {}
        for name in names:
            try:
                found[name] = os.lstat(self._project / name).st_ctime_ns
            except (OSError, ValueError):
                continue
        return found
