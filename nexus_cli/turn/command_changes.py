"""Find the files of a project that a command changed, created or deleted, in a git repository.

Git lists the names, as for `glob`: tracked and untracked files, not ignored ones. Folders that tools fill are left out.
A change is found by ctime, which no command can set. Git compares no content, so that no filter of the repository runs.
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
"""Time limit of one listing. After a listing that takes longer, commands of this project are no longer followed."""
SECONDS_STOPPED = 0.3
"""Time limit after the person stopped the command; new files may then stay unknown."""
MOST = 20_000
"""Most files of a project whose commands are followed."""
_SECOND = 1_000_000_000


class CommandChanges:
    """The change times of one project's files, compared before and after each command."""

    def __init__(self) -> None:
        self._project = Path()
        self._names: set[str] | None = None
        """Names of the last listing and of files that tools have changed since; None before the first."""
        self._off = False
        self._cut: set[str] = set()
        """Files that a stopped command changed."""

    def note(self, tool: Tool | None, project: Path, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Add the files that a call changed to the known names, and return the call's memo for the work record.

        Returns {} for a tool with an effect that is not in `CHANGES`: workers record their own work.
        """
        if self._names is not None:
            self._names.update(names)
        if tool is None or tool.effect not in CHANGES:
            return {}
        return {WORK: work_note(project, names, COMMAND_DID if tool.effect is Effect.RUN else "")}

    def take_cut(self) -> tuple[str, ...]:
        """Return the files that stopped commands changed, and forget them."""
        names, self._cut = tuple(sorted(self._cut)), set()
        return names

    async def run(
        self, tool: Tool, profile: str, context: ToolContext, work: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run a call with `work`; add the changed files to the result of a command that may write."""
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
        """Return the names of the files that changed since `before`.

        A new name counts only if its file changed after `began` (nanoseconds). If the command `is_stopped` and the
        listing takes too long, only known files are compared.
        """
        listed = await self._list(SECONDS_STOPPED if is_stopped else SECONDS)
        if self._off and not is_stopped:
            return set()
        now = await asyncio.to_thread(self._times, listed | before.keys())
        self._names = set(now)
        changed = {name for name, at in now.items() if at != before.get(name, at if at < began else None)}
        return changed | (before.keys() - now.keys())

    async def _list(self, seconds: float = SECONDS) -> set[str]:
        """Return the names that git lists within `seconds`; {} on a timeout or if commands are not followed."""
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
        """Return the ctime of each existing file, in nanoseconds."""
        found = {}
        for name in names:
            try:
                found[name] = os.lstat(self._project / name).st_ctime_ns
            except (OSError, ValueError):
                continue
        return found
