"""Build a policy for macOS `sandbox-exec`, from public documentation. Only the text of the policy is tested.

Reported by users of similar policies: Go programs cannot verify certificates, and some Xcode tools do not start.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nexus_cli.config.paths import is_below
from nexus_cli.sandbox.profile import SandboxProfile

PROGRAM = "/usr/bin/sandbox-exec"
"""An absolute path, so that nothing on the PATH can replace it."""

_BASE = """(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow mach-priv-task-port (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow pseudo-tty)
(allow user-preference-read)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.cfprefsd.agent")
  (global-name "com.apple.cfprefsd.daemon")
  (global-name "com.apple.bsd.dirhelper"))
(allow file-read*)
(allow file-ioctl file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/ptmx"))
(allow file-write* (literal "/dev/null"))
"""
_NETWORK = """(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.networkd")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.SecurityServer"))
"""


def seatbelt_arguments(profile: SandboxProfile, argv: Sequence[str], read_only: Sequence[Path]) -> list[str]:
    """Return the command line that runs `argv` in the sandbox of `profile`.

    Paths are passed as parameters, so that no character of a path is parsed as policy. Later rules win: first writable
    paths, then hidden and shown ones, then `read_only`, whose parents cannot be removed or renamed.
    """
    lines = [_BASE, _NETWORK if profile.network else ""]
    if profile.unix_sockets and not profile.network:
        lines.append("(allow network* (local unix-socket) (remote unix-socket))\n")
    values: list[Path] = []

    def name(path: Path) -> str:
        values.append(path)
        return f'(param "P{len(values) - 1}")'

    lines += [f"(allow file-write* (subpath {name(root)}))\n" for root in profile.roots]
    # Sorted, parents first: a hidden place may contain a shown one, and that a hidden one in turn.
    for path, is_shown in sorted(
        [*((folder, False) for folder in profile.hidden), *((folder, True) for folder in profile.revealed)]
    ):
        if not is_shown:
            lines.append(f"(deny file-read* file-write* (subpath {name(path)}))\n")
            continue
        rights = "file-read* file-write*" if path in profile.roots else "file-read*"
        lines += [f"(allow file-read-metadata (literal {name(parent)}))\n" for parent in reversed(path.parents)]
        lines.append(f"(allow {rights} (subpath {name(path)}))\n")
    for path in read_only:
        lines.append(f"(deny file-write* (subpath {name(path)}))\n")
        parents = [parent for parent in path.parents if is_below(parent, *profile.writable)]
        lines += [f"(deny file-write-unlink (literal {name(parent)}))\n" for parent in parents]
    parameters = [word for number, path in enumerate(values) for word in ("-D", f"P{number}={path}")]
    return [PROGRAM, "-p", "".join(lines), *parameters, "--", *argv]
