"""Enter a worktree, and run the person's set-up command in a new one, in the sandbox."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.core.errors import NexusError, reason_of
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.text.cells import one_line
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.process import run_process
from nexus_cli.worktrees.worktrees import WorktreeStay, enter_worktree

SETUP_SECONDS = 600.0
"""Time limit of a set-up command."""


def enter_prepared(project: Path, name: str) -> WorktreeStay:
    """Enter the worktree of this name; run the set-up command of the settings if it was created now.

    A failure of the command is one of the notices of the stay. Raises `NexusError` if the worktree cannot be made.
    """
    stay = enter_worktree(project, name)
    if stay.is_new:
        settings = settings_in(project)
        if command := settings.worktree.setup.strip():
            why, command_line = _run_setup(command, stay.record.folder, settings.sandbox), one_line(command)
            stay.notices.append(
                f"worktree.setup failed: {command_line}: {why}" if why else f"worktree.setup succeeded: {command_line}"
            )
    return stay


def _run_setup(command: str, folder: Path, settings: SandboxSettings) -> str:
    """Run a command confined, without network or denied files; return why it failed, or what the sandbox refused to a
    part of it; "" for success."""
    with closing(CallPermission(folder, folder, sandbox=settings)) as permission:
        probe = permission.probe_backend()
        if probe is None or probe.backend == "none":
            return f"the command requires a sandbox, and none is available ({probe.why if probe else ''})"
        try:
            sandbox = permission.make_sandbox("write", asks=False)
            outcome = run_process(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env=sandbox.env,
                stop=StopFlag(),
                seconds=SETUP_SECONDS,
                confinement=sandbox.confinement,
            )
        except NexusError as error:  # the rules cannot be read
            return str(error)
        except OSError as error:
            return reason_of(error)
    if outcome.timed_out:
        return f"stopped after {SETUP_SECONDS:.0f} s"
    text = outcome.output.decode(errors="replace").strip()
    last = text.rpartition("\n")[2]
    if outcome.status:
        return f"exit status {outcome.status}: {one_line(last)[:200]}"
    return one_line(sandbox.describe_denial(command, text, outcome.status))
