"""Describe the sandbox of this system: the backend, tested again, each profile, and the time to start a command."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TypedDict

from nexus_cli.config.paths import Places
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.core.json_value import JsonOf, to_json_value
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.probe import find_backend, run_in
from nexus_cli.sandbox.profile import PROFILES, SandboxProfile, TempFolder, make_profile

STARTS = 7
"""Starts of `true` timed for each profile; the median is reported."""
TEMP = "$TMPDIR"


class ProfileObject(TypedDict):
    """A sandbox profile, tested on this system."""

    writes: list[str]
    network: bool
    hides: list[str]
    notes: list[str]
    start_ms: float | None
    problem: str


class SandboxReport(JsonOf[BackendProbe]):
    """The sandbox, tested on this system."""

    abi: int
    """Landlock ABI version."""
    profiles: dict[str, ProfileObject]


def inspect_sandbox(settings: SandboxSettings, folders: Places, project: Path, cwd: Path) -> SandboxReport:
    """Return `backend`, `why`, the `walls` that were just tested, `abi`, and `profiles` by name.

    A profile has `writes`, `network`, `hides` (existing hidden paths), `notes`, and `start_ms`: the time to start
    `true`, measured now; None on a failure, with the reason in `problem`. Without a backend only `none` is listed.
    """
    probe = find_backend(settings.backend, own=folders, project=project, keep=False)
    names = PROFILES if probe.backend is not Backend.NONE else ("none",)
    profiles: dict[str, ProfileObject] = {}
    with closing(TempFolder(folders)) as temp:
        for name in names:
            profile = make_profile(
                name,
                project=project,
                cwd=cwd,
                own=folders,
                temp=temp.path if name != "none" else None,
                write=settings.write,
                unix_sockets=settings.unix_sockets,
                make_caches=False,
            )
            profiles[name] = _profile_value(profile, probe)
    return SandboxReport(**to_json_value(probe), abi=probe.abi, profiles=profiles)


def _profile_value(profile: SandboxProfile, probe: BackendProbe) -> ProfileObject:
    writes = ["/"] if profile.name == "none" else [*map(str, profile.writable), TEMP]
    value: ProfileObject = {
        "writes": writes,
        "network": profile.network,
        "hides": [str(path) for path in profile.hidden if os.path.lexists(path)],
        "notes": list(profile.notes),
        "start_ms": None,
        "problem": "",
    }
    try:
        with closing(Confinement(profile, probe)) as confinement:
            return {**value, "start_ms": _measure_start(confinement)}
    except (OSError, subprocess.SubprocessError) as error:
        return {**value, "problem": str(error)}


def _measure_start(confinement: Confinement) -> float:
    """Return the median time to start `true`, in milliseconds. Raises `OSError` if a start fails."""
    program = next((path for path in ("/bin/true", "/usr/bin/true") if os.path.exists(path)), shutil.which("true"))
    durations = []
    for _ in range(STARTS):
        began = time.perf_counter()
        run = run_in(confinement, (program or "true",), {"PATH": os.defpath})
        if run.returncode:
            raise OSError(run.stderr.decode("utf-8", "replace").strip() or f"exit status {run.returncode}")
        durations.append(1000 * (time.perf_counter() - began))
    return round(statistics.median(durations), 2)
