"""Run the commands of the person's own settings beside the screen: a line for the status line, a notification.

They are the person's own, as are hooks of `config.toml`: no sandbox confines them, time and output are bounded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from nexus_cli import __version__
from nexus_cli.config.paths import project_root
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.hooks.hook_input import encode_input
from nexus_cli.session.status import Status
from nexus_cli.text.cells import cut, one_line, without_codes
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import output_as_text

SECONDS = 5.0
"""Seconds after which a command is stopped."""
MAX_BYTES = 16_384
"""Most bytes of its output that are kept."""
LENGTH = 300
"""Most cells of its line."""
DEBOUNCE_SECONDS = 0.3
"""Seconds in which several changes of the status are one."""


async def run_personal_command(setting: str, command: str, folder: Path, value: JsonObject) -> str:
    """Run `command` of `setting` in `folder` with `value` as JSON on stdin; return the first line of its output, ""
    without a command. Raises `NexusError("config", ...)` if it fails."""
    if not command:
        return ""
    return await run_in_thread(partial(_run, setting, command, folder, value), stop=StopFlag())


def _run(setting: str, command: str, folder: Path, value: JsonObject, stop: StopFlag) -> str:
    from nexus_cli.tools.process import find_shell, run_process  # noqa: PLC0415  (few settings have such a command)

    argv, text = [find_shell(folder), "-c", command], encode_input(value)
    try:
        result = run_process(argv, cwd=folder, env=os.environ, stop=stop, seconds=SECONDS, stdin=text, keep=MAX_BYTES)
    except (OSError, ValueError) as error:  # ValueError for a NUL
        raise NexusError("config", setting, f"the command cannot be started: {error}") from error
    line = one_line(without_codes(output_as_text(result.output)).strip().partition("\n")[0])
    if result.timed_out or result.status:
        why = f"timed out after {SECONDS:g} s" if result.timed_out else f"exit status {result.status}: {line}"
        raise NexusError("config", setting, why.rstrip(": "), "Fix the command; see `nexus docs personal`")
    return cut(line, LENGTH, "...")


class StatusCommand:
    """Runs `ui.status_command` when the status may have changed: one run at a time, always with the newest status."""

    def __init__(
        self, start_background: Callable[[Coroutine[Any, Any, None]], object], changed: Callable[[], None]
    ) -> None:
        """`start_background` shows the error of its work; `changed` is called with each new line."""
        self._start, self._changed = start_background, changed
        self.line = ""
        """The newest line; "" if there is none."""
        self._next: tuple[str, Status] | None = None
        """The command and the status of the next run."""
        self._runs = False
        self._failed = ""
        """The command whose failure was shown."""

    def update(self, command: str, status: Status) -> None:
        """Run `command` with `status` soon; "" removes the line."""
        self._next = (command, status)
        if (command or self.line) and not self._runs:
            self._runs = True
            self._start(self._run())

    async def _run(self) -> None:
        line, failure = self.line, None
        try:
            while self._next is not None:
                await asyncio.sleep(DEBOUNCE_SECONDS)
                (command, status), self._next = self._next, None
                try:
                    payload = describe_status(status)
                    folder = Path.cwd() if status.server else Path(status.folder)
                    line = await run_personal_command("ui.status_command", command, folder, payload)
                except NexusError as error:
                    line, failure, self._failed = "", error if command != self._failed else failure, command
                if line != self.line:
                    self.line = line
                    self._changed()
        finally:
            self._runs = False
        if failure is not None:
            raise failure


def describe_status(status: Status) -> JsonObject:
    """Return `status` with the keys that Claude Code gives to such a command."""
    used = round(100 * status.used / max(1, status.budget), 1)
    return {
        "session_id": status.session,
        "cwd": status.folder,
        "version": __version__,
        "model": {"id": status.model, "display_name": status.model.rpartition("/")[2]},
        "workspace": {"current_dir": status.folder, "project_dir": str(project_root(Path(status.folder)))},
        "level": status.allow,
        "cost": {"total_cost_usd": status.cost_usd},
        "context_window": {
            "context_window_size": status.budget,
            "total_input_tokens": status.used,
            "used_percentage": used,
        },
    }
