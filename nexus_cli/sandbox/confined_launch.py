"""Restrict a thread by Landlock rules, a system call filter and fewer capabilities.

`launch` is a program that restricts itself and executes a command, for one that has to join a namespace first. It has
the source of this file and of `syscalls` alone (`confinement.launch_arguments`), so that it starts in milliseconds.
"""

from __future__ import annotations

import errno
import os
import sys

from nexus_cli.sandbox import syscalls

_MAX_FILTER = 1 << 20


class SandboxError(OSError):
    """The requested sandbox could not be set up; nothing was started."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, f"the sandbox could not be set up: {why}")


def restrict_thread(rules: int, program: bytes) -> None:
    """Restrict this thread for good by a Landlock descriptor and a filter; raise `SandboxError` if a test fails."""
    syscalls.forbid_new_privileges()
    syscalls.drop_capabilities()
    syscalls.syscall(syscalls.LANDLOCK_RESTRICT_SELF, rules, 0)
    syscalls.install_filter(program)
    if _can_write_to_device() or not syscalls.has_filter():
        raise SandboxError("the kernel accepted the rules but does not enforce them")


def launch() -> None:
    """Restrict this process as `confinement.launch_arguments` says, and execute the rest of the command line."""
    handles = [int(part) for part in sys.argv[1].split(",")]
    try:
        restrict_thread(handles[0], os.read(handles[1], _MAX_FILTER))
        for handle in handles:
            os.close(handle)
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        os.write(2, f"nexus: {error.strerror or error}\n".encode())
        os._exit(126)


def _can_write_to_device() -> bool:
    """Return True if this thread can write /dev/urandom, which everyone may unless Landlock forbids it."""
    try:
        os.close(os.open("/dev/urandom", os.O_WRONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        return True
    return True
