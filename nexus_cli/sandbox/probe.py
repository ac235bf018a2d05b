"""Find a working sandbox backend by testing it: a small program in the sandbox attempts allowed and forbidden actions.

A success is cached per boot, kernel, user and setting. The cache only selects the backend: it is still set up for each
command and refuses to start one if that fails (`confinement`). A failure is never cached.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from nexus_cli.config.paths import Places
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.config.programs import REAL_INTERPRETER, end_group
from nexus_cli.core.real_files import real_path
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.bwrap import find_bwrap
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.landlock import NEWEST_ABI, landlock_abi
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.sandbox.seatbelt import PROGRAM as SANDBOX_EXEC
from nexus_cli.sandbox.seccomp import can_filter

WALLS = ("work inside", "read outside", "no write outside", "no read of hidden", "no sockets", "no other process")
READ_WALL = "no effect of readers"
"""The wall of the profile `read`, in which readers run unasked: no attempt succeeds."""
_SECONDS = 20
_FILE = "sandbox.json"
_UNFOLLOWED = os.O_NOFOLLOW | os.O_NONBLOCK

_ATTEMPTS = """
import json, os, socket, sys
inside, outside, secret, port, parent = sys.argv[1:]
def attempt(act):
    try:
        act()
        return True
    except OSError:
        return False
def call(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(3)
        one.connect(address)
print(json.dumps({
    "work inside": attempt(lambda: open(inside + "/made", "x").close()),
    "read outside": attempt(lambda: open(outside + "/read").read()),
    "no write outside": not attempt(lambda: open(outside + "/made", "x").close())
        and not attempt(lambda: open(outside + "/read", "a").close()),
    "no read of hidden": not attempt(lambda: open(secret).read()),
    "no sockets": not attempt(lambda: call(socket.AF_INET, ("127.0.0.1", int(port))))
        and not attempt(lambda: call(socket.AF_UNIX, outside + "/socket")),
    "no other process": not attempt(lambda: open("/proc/" + parent + "/environ").read()),
}))
"""


def find_backend(
    setting: str, *, own: Places, project: Path | None = None, abi: int = NEWEST_ABI, keep: bool = True
) -> BackendProbe:
    """Return the backend for `sandbox.backend = setting`, tested now or earlier since boot. Never raises.

    `auto` and `required` prefer bwrap to Landlock; for `required` the caller must reject a result of `Backend.NONE`.
    `abi` caps the Landlock version; `keep=False` neither reads nor writes the cache.
    """
    if setting == "off":
        return BackendProbe(Backend.NONE, 'the setting sandbox.backend is "off"')
    candidates = [
        candidate for candidate in _candidates(project, abi) if setting in ("auto", "required", candidate.backend)
    ]
    if not candidates:
        return BackendProbe(Backend.NONE, _explain_no_backend(setting))
    proven = _read_proven(own, setting) if keep else ""
    reasons: list[str] = []
    for candidate in candidates:
        is_proven = bool(proven) and _identity(candidate) == proven
        walls, why = (WALLS, "") if is_proven else _try_walls(candidate)
        if not why:
            if keep and not is_proven:
                _keep_proven(own, setting, _identity(candidate))
            return replace(candidate, why="; ".join(reasons), walls=walls)
        reasons.append(f"{candidate.backend}: {why}")
    return BackendProbe(Backend.NONE, "; ".join(reasons))


def _candidates(project: Path | None, abi: int) -> list[BackendProbe]:
    """Return the available backends, untested, the best first."""
    if sys.platform == "darwin":
        return [BackendProbe(Backend.SEATBELT)] if os.path.exists(SANDBOX_EXEC) else []
    if not sys.platform.startswith("linux") or not can_filter():
        return []
    probes = []
    program = find_bwrap(project)
    if program is not None:
        probes.append(BackendProbe(Backend.BWRAP, program=program))
    version = min(landlock_abi(), abi)
    if version > 0:
        probes.append(BackendProbe(Backend.LANDLOCK, abi=version))
    return probes


def _explain_no_backend(setting: str) -> str:
    if sys.platform == "darwin":
        return (
            f"{SANDBOX_EXEC} is missing"
            if setting in ("auto", "required", "seatbelt")
            else "macOS supports only seatbelt"
        )
    if not sys.platform.startswith("linux"):
        return f"no sandbox is supported on {sys.platform}"
    if not can_filter():
        return f"the network cannot be blocked on {platform.machine()}"
    reasons = {
        "bwrap": "no bwrap on the PATH is protected from changes by other users",
        "landlock": "Landlock is not available",
        "seatbelt": "only macOS supports seatbelt",
    }
    return reasons.get(setting, "Landlock is not available, and no usable bwrap is on the PATH")


def _try_walls(candidate: BackendProbe) -> tuple[tuple[str, ...], str]:
    """Test a backend; return the enforced restrictions, and the error ("" if all are enforced)."""
    try:
        with tempfile.TemporaryDirectory(prefix="nexus-probe-") as name:
            folder = real_path(name)
            result = _run_attempts(candidate, folder)
            has_effect = not result.returncode and _have_readers_effect(candidate, folder)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return (), str(error)
    if result.returncode != 0:
        lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
        return (), lines[-1][:200] if lines else f"exit status {result.returncode}"
    results = json.loads(result.stdout)
    enforced = tuple(wall for wall in WALLS if results.get(wall) is True)
    fallen = [wall for wall in WALLS if wall not in enforced] + [READ_WALL] * has_effect
    return enforced, f"failed checks: {', '.join(fallen)}" if fallen else ""


def _have_readers_effect(candidate: BackendProbe, folder: Path) -> bool:
    """Return True if the attempts changed, saw or reached anything in the profile `read`."""
    inside = folder / "inside"
    (inside / "made").unlink(missing_ok=True)
    result = _run_attempts(
        candidate, folder, SandboxProfile("read", inside, inside, hidden=(folder,), revealed=(inside,))
    )
    results = {} if result.returncode else json.loads(result.stdout)
    return results != {wall: wall not in ("work inside", "read outside") for wall in WALLS}


def _run_attempts(
    candidate: BackendProbe, folder: Path, profile: SandboxProfile | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the attempts in the profile `write` of a new scene, or in `profile`."""
    inside, outside, secret = folder / "inside", folder / "outside", folder / "hidden"
    if profile is None:
        for path in (inside, outside, secret):
            path.mkdir()
        (outside / "read").write_text("x")
        (secret / "key").write_text("x")
        profile = SandboxProfile("write", inside, inside, writable=(inside,), hidden=(secret,))
    (outside / "socket").unlink(missing_ok=True)
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as local:
        tcp.bind(("127.0.0.1", 0))
        local.bind(str(outside / "socket"))
        for server in (tcp, local):
            server.listen()
        arguments = (str(inside), str(outside), str(secret / "key"), str(tcp.getsockname()[1]), str(os.getpid()))
        with closing(Confinement(profile, candidate)) as confinement:
            return run_in(confinement, (REAL_INTERPRETER, "-I", "-S", "-c", _ATTEMPTS, *arguments), {})


def run_in(confinement: Confinement, argv: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a short program in a sandbox. Raises `OSError`, and `subprocess.TimeoutExpired` after killing it."""
    with confinement.start(
        argv,
        cwd=confinement.profile.cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        try:
            out, errors = child.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            end_group(child.pid)
            raise
    return subprocess.CompletedProcess(argv, child.returncode, out, errors)


def _identity(candidate: BackendProbe) -> str:
    """Return the key for which a test result is valid: boot, kernel, user, backend and its program."""
    parts = [READ_WALL, _boot(), platform.release(), str(os.getuid()), candidate.backend, str(candidate.abi)]
    if candidate.program is not None:
        status = candidate.program.stat()
        parts += [str(candidate.program), str(status.st_ino), str(status.st_size), str(status.st_ctime_ns)]
    return "|".join(parts)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _read_proven(folders: Places, setting: str) -> str:
    """Return the identity of the last tested backend for `setting`; "" if others could have written the file."""
    try:
        with open(folders.cache / _FILE, opener=lambda name, flags: os.open(name, flags | _UNFOLLOWED)) as file:
            status = os.fstat(file.fileno())
            is_ours = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not stat.S_ISREG(status.st_mode) or not is_ours:
                return ""
            identity = json.loads(file.read(4096)).get(setting, "")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return identity if isinstance(identity, str) and _boot() else ""


def _keep_proven(folders: Places, setting: str, identity: str) -> None:
    try:
        replace_private_file(folders.cache / _FILE, json.dumps({setting: identity}).encode())
    except OSError:
        return
