"""Description of the machine for the model: working folder, operating system, terminal, mode (seed A).

Reads only files and variables, and runs nothing. Date and time are elsewhere: they would break the cached prefix.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.core.elide import one_line
from nexus_cli.core.environ import copy_environ
from nexus_cli.core.shared_types import Environ, Paths

RELEASE_FILES = (Path("/etc/os-release"), Path("/usr/lib/os-release"))
MAC_VERSION_FILE = Path("/System/Library/CoreServices/SystemVersion.plist")
KERNEL_FILE = Path("/proc/version")
SERVER_MODE = "HTTP JSON-RPC Server"
"""The mode for sessions that programs use."""


@dataclass(frozen=True, slots=True)
class Host:
    """Facts about the operating system; tests make their own."""

    system: str
    """`Linux`, `Darwin`, ... as in `uname`."""
    kernel: str
    """Kernel release and, on Linux, the line of /proc/version."""
    release: str = ""
    """The text of /etc/os-release, or of the property list with the version of macOS."""
    environ: Environ = field(default_factory=dict)
    machine: str = ""
    """The architecture as in `uname`: `x86_64`, `arm64`."""
    name: str = ""
    """Name of the machine."""

    @classmethod
    def here(cls) -> Host:
        """Return this machine. Never raises."""
        name = os.uname()
        release = _first_text((MAC_VERSION_FILE,) if name.sysname == "Darwin" else RELEASE_FILES)
        kernel = f"{name.release} {_first_text((KERNEL_FILE,))}" if name.sysname == "Linux" else name.release
        return cls(name.sysname, kernel.strip(), release, copy_environ(), name.machine, name.nodename)


def working_folder() -> Path | None:
    """Return the current folder, or None if it has vanished."""
    try:
        return Path.cwd()
    except OSError:
        return None


def operating_system(host: Host) -> str:
    """Return the operating system, such as `Linux (Debian GNU/Linux 12)` or `macOS 14.2`, else name and release."""
    if host.system == "Darwin":
        match = re.search(r"<key>ProductVersion</key>\s*<string>([^<]*)</string>", host.release)
        return one_line(f"macOS {match[1]}") if match else f"macOS (Darwin {one_line(host.kernel)})"
    if host.system != "Linux":
        return one_line(f"{host.system} {host.kernel}".strip())
    kernel = host.kernel.lower()
    if "microsoft" in kernel:
        second = "wsl2" in kernel or "microsoft-standard" in kernel
        return f"Linux ({'WSL2' if second else 'WSL'} on Windows)"
    name = _release_value(host.release, "PRETTY_NAME") or _release_value(host.release, "NAME")
    return one_line(f"Linux ({name})") if name else "Linux"


def terminal(environ: Environ) -> str:
    """Return the terminal program and the TERM variable as far as they are known, such as `vscode (xterm-256color)`."""
    program = environ.get("TERM_PROGRAM") or ("Windows Terminal" if environ.get("WT_SESSION") else "")
    kind = environ.get("TERM") or ""
    return one_line(f"{program} ({kind})" if program and kind else program or kind or "unknown")


def get_system_info(is_repl: bool = True, cwd: Path | None = None, *, host: Host | None = None) -> str:
    """Return the lines of seed A's `# Environment` section, without the header.

    `cwd` is the working folder (default: the current one), `host` the machine (default: this one). `is_repl` adds the
    terminal and names the mode. Never raises.
    """
    host = host or Host.here()
    folder = cwd or working_folder()
    lines = [
        f"Working directory: {one_line(str(folder)) if folder else 'unknown (it no longer exists)'}",
        f"Operating system: {operating_system(host)}",
    ]
    if is_repl:
        lines.append(f"Terminal: {terminal(host.environ)}")
    lines.append(f"Mode: {'Interactive REPL' if is_repl else SERVER_MODE}")
    return "\n".join(lines)


def _first_text(paths: Paths) -> str:
    for path in paths:
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return ""


def _release_value(text: str, key: str) -> str:
    match = re.search(rf"^{key}=(.*)$", text, re.MULTILINE)
    return match[1].strip().strip("\"'").strip() if match else ""
