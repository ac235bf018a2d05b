"""The seccomp filter of a profile: BPF for x86_64 and aarch64, assembled here.

Refuses sockets by address family (numbers can be filtered, addresses cannot), the calls that lead around such a filter
(io_uring), new user namespaces, and kernel services that a build never needs. What a file system wall does not cover
is refused here too: changes of metadata in a profile without writes, truncation where Landlock is too old for it.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 5, 0xF
_CLONE_NEW_ANY = 0x7E020080
"""All flags of `clone` and `unshare` that make a namespace."""
_O_TRUNC, _O_ACCMODE = 0o1000, 0o3
_X32 = 0x40000000
"""Bit of system call numbers of the x32 interface, which has second numbers for everything."""

_FAKE_INPUT = (0x5412, 0x541C)
"""ioctl TIOCSTI and TIOCLINUX: typing into somebody's terminal."""
_FILE_FLAGS = (0x40086602, 0x40046602, 0x401C5820)
"""ioctl FS_IOC_SETFLAGS (64 and 32 bit) and FS_IOC_FSSETXATTR: `chattr`, which asks for no right to write."""

_LD, _AND, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`. Both machines are little-endian: the low half of an argument comes first."""
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


@dataclass(frozen=True, slots=True)
class Machine:
    """System call numbers of one processor."""

    audit: int
    """AUDIT_ARCH_*: calls that come by another interface (32 bit) carry another one."""
    calls: dict[str, int]
    metadata: tuple[int, ...]
    """Calls that change mode, owner, times or attributes of a file."""
    by_path: dict[str, int]
    """`truncate` and the openers, with the position of their flags looked up by name."""


_SHARED = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435}
_MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        {"socket": 41, "socketpair": 53, "clone": 56, "unshare": 272, "ioctl": 16, "setns": 308, "keyctl": 250,
         "add_key": 248, "request_key": 249, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, **_SHARED},
        (90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199, 463, 466, 469),
        {"truncate": 76, "open": 2, "openat": 257, "openat2": 437},
    ),
    "aarch64": Machine(
        0xC00000B7,
        {"socket": 198, "socketpair": 199, "clone": 220, "unshare": 97, "ioctl": 29, "setns": 268, "keyctl": 219,
         "add_key": 217, "request_key": 218, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, **_SHARED},
        (52, 53, 452, 54, 55, 88, 5, 6, 7, 14, 15, 16, 463, 466, 469),
        {"truncate": 45, "openat": 56, "openat2": 437},
    ),
}  # fmt: skip
_FLAGS_AT = {"open": 1, "openat": 2}


def can_filter(machine: str = "") -> bool:
    """True if there is a filter for this processor; without one there is no network wall beside Landlock."""
    return (machine or platform.machine()) in _MACHINES


def assemble_filter(
    families: frozenset[int],
    *,
    unix_sockets: bool = False,
    keep_metadata: bool = False,
    keep_sizes: bool = False,
    machine: str = "",
) -> bytes:
    """Return the filter that lets sockets of `families` be made, and connected pairs of Unix sockets.

    `unix_sockets` allows these too. `keep_metadata` refuses chmod and its kind, `keep_sizes` truncation by those who
    may not write the file (Landlock before its third version). A 32-bit or foreign interface ends the process.
    """
    own = _MACHINES[machine or platform.machine()]
    call = own.calls
    refused, absent = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    program = [
        (_LD, 0, 0, _ARCHITECTURE), (_JEQ, 1, 0, own.audit), (_RET, 0, 0, _KILL),
        (_LD, 0, 0, _NUMBER), (_JGE, 0, 1, _X32), (_RET, 0, 0, refused),
    ]  # fmt: skip
    # The libraries that use these have another way where the kernel is too old for them.
    missing = ["clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"]
    for name in missing:
        program += _on(call[name], [(_RET, 0, 0, absent)])
    for name in ("setns", "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd"):
        program += _on(call[name], [(_RET, 0, 0, refused)])
    allowed = families | {AF_UNIX} if unix_sockets else families
    program += _on(call["socket"], _only(0, sorted(allowed), refused))
    if not unix_sockets:
        # A pair of datagram sockets can be sent to any address later; a connected stream stays as it is.
        pairs = _only(1, [_SOCK_STREAM, _SOCK_SEQPACKET], refused, _SOCK_TYPE_MASK)
        program += _on(call["socketpair"], [_argument(0), (_JEQ, 1, 0, AF_UNIX), (_RET, 0, 0, refused), *pairs])
    for name in ("clone", "unshare"):
        test = [_argument(0), (_JSET, 0, 1, _CLONE_NEW_ANY), (_RET, 0, 0, refused), (_RET, 0, 0, _ALLOW)]
        program += _on(call[name], test)
    program += _on(call["ioctl"], _all_but(1, (*_FAKE_INPUT, *(_FILE_FLAGS if keep_metadata else ())), refused))
    if keep_metadata:
        for number in own.metadata:
            program += _on(number, [(_RET, 0, 0, refused)])
    if keep_sizes:
        program += _on(own.by_path["truncate"], [(_RET, 0, 0, _ERRNO | errno.EACCES)])
        program += _on(own.by_path["openat2"], [(_RET, 0, 0, absent)])
        for name, position in _FLAGS_AT.items():
            if name in own.by_path:
                # Read only, and yet truncating: what Landlock lets pass and no program wants.
                test = _all_but(position, (_O_TRUNC,), _ERRNO | errno.EACCES, _O_TRUNC | _O_ACCMODE)
                program += _on(own.by_path[name], test)
    program.append((_RET, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


_Instruction = tuple[int, int, int, int]


def _on(number: int, then: list[_Instruction]) -> list[_Instruction]:
    """Return the code that runs `then`, which must return, for the system call `number`, and else goes on."""
    return [(_JEQ, 0, len(then), number), *then]


def _argument(position: int, mask: int = 0) -> _Instruction:
    return (_LD, 0, 0, _ARGUMENTS + 8 * position)


def _only(position: int, values: list[int], verdict: int, mask: int = 0) -> list[_Instruction]:
    """Return code that allows the call if the argument is one of `values`, and else returns `verdict`."""
    tests: list[_Instruction] = [_argument(position), *([(_AND, 0, 0, mask)] if mask else [])]
    for index, value in enumerate(values):
        tests.append((_JEQ, len(values) - index, 0, value))
    return [*tests, (_RET, 0, 0, verdict), (_RET, 0, 0, _ALLOW)]


def _all_but(position: int, values: tuple[int, ...], verdict: int, mask: int = 0) -> list[_Instruction]:
    """Return code that returns `verdict` if the argument is one of `values`, and else allows the call."""
    tests: list[_Instruction] = [_argument(position), *([(_AND, 0, 0, mask)] if mask else [])]
    for index, value in enumerate(values):
        tests.append((_JEQ, len(values) - index, 0, value))
    return [*tests, (_RET, 0, 0, _ALLOW), (_RET, 0, 0, verdict)]
