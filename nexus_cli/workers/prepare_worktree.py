"""Enter a worktree, and run the person's set-up command in a new one, in the sandbox."""

from __future__ import annotations

import os
from pathlib import Path

from nexus_cli.config.host_environment import host_environment
from nexus_cli.config.paths import places
from nexus_cli.config.project_environment import use_project_environment
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.core.errors import NexusError, reason_of
from nexus_cli.rules.denied_files import find_denied_files
from nexus_cli.rules.rule_set import read_rules
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.probe import find_backend
from nexus_cli.sandbox.profile import TempFolder, make_profile
from nexus_cli.sandbox.sandbox_environment import sandbox_environment
from nexus_cli.text.cells import one_line
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.process import run_process
from nexus_cli.tools.registry import rule_tools
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
            why, shown = _run_setup(command, stay.record.folder, settings.sandbox), one_line(command)
            stay.notices.append(f"worktree.setup failed: {shown}: {why}" if why else f"worktree.setup has run: {shown}")
    return stay


def _run_setup(command: str, folder: Path, settings: SandboxSettings) -> str:
    """Run a command confined, without network or denied files; return why it failed, "" for success."""
    own = places()
    probe = find_backend(settings.backend, own=own, project=folder)
    if probe.backend is Backend.NONE:
        return f"it runs only in a sandbox, and none is available ({probe.why})"
    try:
        temp = TempFolder(own)
        try:
            denied = find_denied_files(read_rules(own, folder, rule_tools()), folder, folder).paths
            profile = make_profile(
                "write", project=folder, cwd=folder, own=own, temp=temp.path, write=settings.write, denied=denied
            )
            confinement = Confinement(profile, probe)
            env, _ = sandbox_environment(profile, os.environ, settings.env_pass)
            env, _ = use_project_environment(host_environment(env, folder), folder, folder, is_sandboxed=True)
            done = run_process(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env=env,
                stop=StopFlag(),
                seconds=SETUP_SECONDS,
                confinement=confinement,
            )
            confinement.close()
        finally:
            temp.close()
    except NexusError as error:  # the rules cannot be read
        return str(error)
    except OSError as error:
        return reason_of(error)
    if done.timed_out:
        return f"stopped after {SETUP_SECONDS:.0f} s"
    last = done.output.decode(errors="replace").strip().rpartition("\n")[2]
    return f"exit status {done.status}: {one_line(last)[:200]}" if done.status else ""
