"""Linux system calls without a Python function. All raise `OSError` and act on the calling thread alone."""

from __future__ import annotations

import ctypes
import os
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
"""Numbers of the Landlock calls, the same on every architecture."""

_PR_GET_SECCOMP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 21, 22, 38
_SECCOMP_MODE_FILTER = 2
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522

KEPT_CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "NET_BIND_SERVICE": 10,
}
"""Capabilities that a command of root keeps: those over files and users that builds need. Without the others it cannot
read another process's memory or environment, open a file by its handle, create a device, or write to a setuid program
without clearing its bit."""


class _FilterProgram(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def syscall(number: int, *arguments: object) -> int:
    """Make one system call and return its result."""
    # Pass every integer as a full register: a narrower one would leave its upper half undefined.
    registers = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    return _checked(_LIBC.syscall(ctypes.c_long(number), *registers))


def forbid_new_privileges() -> None:
    """Irrevocably ignore setuid bits and file capabilities; Landlock and seccomp require it without root."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Drop every capability but `KEPT_CAPABILITIES`, so that root cannot bypass the sandbox."""
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0))
    data = ctypes.create_string_buffer(24)
    _checked(_LIBC.capget(header, data))
    permitted = struct.unpack("=6I", data.raw[:24])[1]
    kept_bits = permitted & sum(1 << bit for bit in KEPT_CAPABILITIES.values())
    _checked(_LIBC.capset(header, ctypes.create_string_buffer(struct.pack("=6I", kept_bits, kept_bits, 0, 0, 0, 0))))


def join_network(handle: int) -> None:
    """Move this thread into the network namespace of a descriptor."""
    _checked(_LIBC.setns(ctypes.c_int(handle), ctypes.c_int(_CLONE_NEWNET)))


def install_filter(program: bytes) -> None:
    """Install a seccomp filter of 8-byte BPF instructions on this thread and all its future children."""
    filter_program = _FilterProgram(len(program) // 8, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_program))


def has_filter() -> bool:
    """Return True if a seccomp filter is active on this thread and refuses a call that ours refuses."""
    if _prctl(_PR_GET_SECCOMP) != _SECCOMP_MODE_FILTER:
        return False
    # Never succeeds in a process of several threads: EINVAL from the kernel, EPERM from the filter.
    try:
        _checked(_LIBC.unshare(_CLONE_NEWUSER))
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _prctl(option: int, *arguments: object) -> int:
    registers = [ctypes.c_ulong(argument) if isinstance(argument, int) else argument for argument in arguments]
    padded = registers + [ctypes.c_ulong(0)] * (4 - len(registers))
    return _checked(_LIBC.prctl(ctypes.c_int(option), *padded))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
