"""Describe the walls of this system for a person: the backend tried anew, each profile, and the cost of a start."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import Places
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.probe import find_backend
from nexus_cli.sandbox.profile import PROFILES, Profile, TempFolder, make_profile

STARTS = 7
"""Starts of `true` that are timed for each profile; their median counts."""
TEMP = "$TMPDIR"


def inspect_walls(settings: SandboxSettings, own: Places, project: Path, cwd: Path) -> dict[str, Any]:
    """Return `backend`, `why`, `walls` that held just now, `abi`, and `profiles` by name.

    A profile has what it `writes`, `network`, `hides` (what exists and cannot be read), `notes`, and `start_ms`: the
    time of a start of `true`, measured here and now, None where it failed, for the reason in `problem`. Without a
    backend there is only the profile `none`.
    """
    probe = find_backend(settings.backend, own=own, project=project, keep=False)
    names = PROFILES if probe.backend is not Backend.NONE else ("none",)
    profiles: dict[str, Any] = {}
    temp = TempFolder(own)
    try:
        for name in names:
            made = make_profile(
                name,
                project=project,
                cwd=cwd,
                own=own,
                temp=temp.path if name != "none" else None,
                write=settings.write,
                unix_sockets=settings.unix_sockets,
                make_caches=False,
            )
            profiles[name] = _profile_value(made, probe)
    finally:
        temp.close()
    return {**probe.to_json(), "abi": probe.abi, "profiles": profiles}


def _profile_value(profile: Profile, probe: BackendProbe) -> dict[str, Any]:
    writes = ["/"] if profile.name == "none" else [*map(str, profile.writable), TEMP]
    value = {"writes": writes, "network": profile.network, "hides": _existing(profile.hidden)}
    value["notes"] = list(profile.notes)
    try:
        confinement = Confinement(profile, probe)
        try:
            return value | {"start_ms": _measure_start(confinement), "problem": ""}
        finally:
            confinement.close()
    except (OSError, subprocess.SubprocessError) as error:
        return value | {"start_ms": None, "problem": str(error)}


def _existing(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths if os.path.lexists(path)]


def _measure_start(confinement: Confinement) -> float:
    """Return the median time of a start of `true`, in milliseconds. Raises `OSError` if one fails."""
    program = next((path for path in ("/bin/true", "/usr/bin/true") if os.path.exists(path)), shutil.which("true"))
    taken = []
    for _ in range(STARTS):
        began = time.perf_counter()
        child = confinement.start(
            (program or "true",),
            cwd=confinement.profile.cwd,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        _, errors = child.communicate(timeout=20)
        if child.returncode:
            raise OSError(errors.decode("utf-8", "replace").strip() or f"exit status {child.returncode}")
        taken.append(1000 * (time.perf_counter() - began))
    return round(statistics.median(taken), 2)
