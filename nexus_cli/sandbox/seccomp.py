"""Assemble the seccomp filter of a profile from a table of rules: BPF for x86_64 and aarch64.

Refuses sockets by address family (a filter sees numbers, not addresses), calls that bypass a filter (io_uring), new
user namespaces, kernel services that a build never needs, and set-id bits on files. Under Landlock, where processes
share one pid namespace, it also refuses calls that reach other processes. It can refuse metadata changes and
truncation, which Landlock does not control. Calls that are newer than this table fail with ENOSYS.
"""

from __future__ import annotations

import errno
import platform
import struct
from functools import cache
from typing import NamedTuple

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 5, 0xF
_CLONE_NEW_ANY = 0x7E020080
"""All flags of `clone` and `unshare` that create a namespace."""
_O_TRUNC, _O_ACCMODE, _CREATES_FILE = 0o1000, 0o3, 0o20000100
"""Flags of `open`; the last is O_CREAT and the bit of O_TMPFILE: without them `open` ignores the mode."""
_SET_ID = 0o4000
_SET_GROUP_ID = 0o2000

_FAKE_INPUT = (0x5412, 0x541C)
"""ioctl TIOCSTI and TIOCLINUX: inject input into a terminal."""
_FILE_FLAGS = (0x40086602, 0x40046602, 0x401C5820)
"""ioctl FS_IOC_SETFLAGS (64 and 32 bit) and FS_IOC_FSSETXATTR: `chattr`, which needs no write access."""

_LD, _AND, _JEQ, _JGE, _RET = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`. Both machines are little-endian: the low half of an argument comes first."""
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSED, _DENIED, _ABSENT = _ERRNO | errno.EPERM, _ERRNO | errno.EACCES, _ERRNO | errno.ENOSYS
_FAKED_SUCCESS = _ERRNO
"""The call returns 0 and does nothing."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""AUDIT_ARCH_*; calls by a 32-bit interface have another value."""
NEWEST = 469
"""The newest system call of the table (Linux 6.17). Numbers of the x32 interface are above it too."""
CALLS = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "clone3": (435, 435),
    "unshare": (272, 97),
    "setns": (308, 268),
    "ioctl": (16, 29),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # files
    "truncate": (76, 45),
    "open": (2, 0),
    "openat": (257, 56),
    "openat2": (437, 437),
    "creat": (85, 0),
    "mknod": (133, 0),
    "mknodat": (259, 33),
    "chmod": (90, 0),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, 0),
    "fchown": (93, 55),
    "lchown": (94, 0),
    "fchownat": (260, 54),
    "utime": (132, 0),
    "utimes": (235, 0),
    "futimesat": (261, 0),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # other processes
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "get_robust_list": (274, 100),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""Numbers of the system calls that a rule names, on x86_64 and aarch64; 0 if the architecture lacks the call."""

_METADATA = tuple(
    """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat setxattr
    lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr
    """.split()
)
"""Calls that change mode, owner, times or attributes of a file."""
_TIMES = ("utime", "utimes", "futimesat", "utimensat")
_CROSS_PROCESS_CALLS = tuple(
    """
    process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp get_robust_list shmget
    shmat shmctl semget semctl semop semtimedop msgget msgctl msgsnd msgrcv mq_open mq_unlink
    """.split()
)
"""Calls that reach other processes: their memory and descriptors, System V IPC, message queues."""
_PID_CALLS = ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setattr", "migrate_pages", "move_pages")
"""Calls whose first argument is a pid; 0 is the caller."""
_MODE_AT = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2, "creat": 1}
_FLAGS_AT = {"open": 1, "openat": 2}
"""Positions of the mode and of the flags among the arguments; a mode follows the flags."""


class _Test(NamedTuple):
    """Tests that one argument, masked, is one of `values`; with `negated`, that it is not."""

    position: int
    values: tuple[int, ...]
    negated: bool = False
    mask: int = 0xFFFFFFFF


class _Rule(NamedTuple):
    """The verdict on a call that passes every test."""

    call: str
    verdict: int
    tests: tuple[_Test, ...] = ()


def can_filter(machine: str = "") -> bool:
    """Return True if there is a filter for this processor; without one Landlock cannot block the network."""
    return (machine or platform.machine()) in _ARCHITECTURES


@cache
def assemble_filter(
    families: frozenset[int],
    *,
    unix_sockets: bool = False,
    keep_metadata: bool = False,
    pretend_times: bool = False,
    keep_sizes: bool = False,
    keep_others: bool = False,
    is_root: bool = False,
    machine: str = "",
) -> bytes:
    """Assemble a filter that allows sockets of `families`, and connected pairs of Unix sockets.

    `unix_sockets` allows Unix sockets in general. `keep_metadata` refuses chmod and the like; with `pretend_times`
    changes of times do nothing and succeed: git stores an object again whose time it cannot renew. `keep_sizes` refuses
    truncation without write access (needed for Landlock before ABI version 3). `keep_others` refuses calls that reach
    another process (needed without a pid and IPC namespace). `is_root` also refuses setgid bits. Calls by a 32-bit or
    foreign interface kill the process.
    """
    name = machine or platform.machine()
    column = list(_ARCHITECTURES).index(name)
    rules = [*_common_rules(families, unix_sockets), *_set_id_rules(_SET_ID | (_SET_GROUP_ID if is_root else 0))]
    if pretend_times:
        rules += [_Rule(call, _FAKED_SUCCESS) for call in _TIMES]
    if keep_metadata:
        refused = [call for call in _METADATA if not (pretend_times and call in _TIMES)]
        rules += [_Rule("ioctl", _REFUSED, (_Test(1, _FILE_FLAGS),)), *(_Rule(call, _REFUSED) for call in refused)]
    if keep_sizes:
        # O_RDONLY with O_TRUNC: Landlock lets it pass, and no program needs it.
        truncates = {call: _Test(index, (_O_TRUNC,), mask=_O_TRUNC | _O_ACCMODE) for call, index in _FLAGS_AT.items()}
        rules += [_Rule("truncate", _DENIED), *(_Rule(call, _DENIED, (test,)) for call, test in truncates.items())]
    if keep_others:
        rules += _rules_for_others()
    program = [
        (_LD, 0, 0, _ARCHITECTURE),
        (_JEQ, 1, 0, _ARCHITECTURES[name]),
        (_RET, 0, 0, _KILL),
        (_LD, 0, 0, _NUMBER),
        (_JGE, 0, 1, NEWEST + 1),
        (_RET, 0, 0, _ABSENT),
    ]
    for rule in rules:
        if number := CALLS[rule.call][column]:
            program += _compile(number, rule)
    program.append((_RET, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _common_rules(families: frozenset[int], unix_sockets: bool) -> list[_Rule]:
    # Libraries that use the absent calls fall back to others, as on old kernels. `openat2` and `clone3` take their
    # arguments in memory, which no filter can read.
    absent = ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register")
    refused = ("setns", "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd")
    allowed = families | {AF_UNIX} if unix_sockets else families
    rules = [_Rule(call, _ABSENT) for call in absent] + [_Rule(call, _REFUSED) for call in refused]
    rules.append(_Rule("socket", _REFUSED, (_Test(0, tuple(sorted(allowed)), negated=True),)))
    if not unix_sockets:
        # A datagram socket of a pair can send to any address later; a connected stream cannot.
        streams = _Test(1, (_SOCK_STREAM, _SOCK_SEQPACKET), negated=True, mask=_SOCK_TYPE_MASK)
        rules += [_Rule("socketpair", _REFUSED, (test,)) for test in (_Test(0, (AF_UNIX,), negated=True), streams)]
    new = (_Test(0, (0,), negated=True, mask=_CLONE_NEW_ANY),)
    rules += [_Rule(call, _REFUSED, new) for call in ("clone", "unshare")]
    return [*rules, _Rule("ioctl", _REFUSED, (_Test(1, _FAKE_INPUT),))]


def _set_id_rules(bits: int) -> list[_Rule]:
    """Return rules against set-id bits: others could run such a file with the rights of the person."""
    rules = [_Rule(call, _REFUSED, (_Test(index, (0,), negated=True, mask=bits),)) for call, index in _MODE_AT.items()]
    for call, index in _FLAGS_AT.items():
        creates = _Test(index, (0,), negated=True, mask=_CREATES_FILE)
        rules.append(_Rule(call, _REFUSED, (creates, _Test(index + 1, (0,), negated=True, mask=bits))))
    return rules


def _rules_for_others() -> list[_Rule]:
    not_own = _Test(0, (0,), negated=True)
    rules = [_Rule(call, _REFUSED) for call in _CROSS_PROCESS_CALLS] + [
        _Rule(call, _REFUSED, (not_own,)) for call in _PID_CALLS
    ]
    # A filter cannot tell own thread ids from those of other processes, and some programs fail without
    # sched_setaffinity. It is only a hint, so that ignoring it is safe.
    rules.append(_Rule("sched_setaffinity", _FAKED_SUCCESS, (not_own,)))
    # Allow the caller and its group, not all processes of a user.
    for call, kinds in (("setpriority", (0, 1)), ("ioprio_set", (1, 2))):
        tests = (_Test(0, kinds, negated=True), _Test(1, (0,), negated=True))
        rules += [_Rule(call, _REFUSED, (test,)) for test in tests]
    return rules


_Instruction = tuple[int, int, int, int]


def _compile(number: int, rule: _Rule) -> list[_Instruction]:
    """Return BPF code that returns the verdict of `rule` if it applies to system call `number`, and else continues."""
    code: list[_Instruction] = [(_RET, 0, 0, rule.verdict)]
    for test in reversed(rule.tests):
        code = [(_LD, 0, 0, _ARGUMENTS + 8 * test.position), (_AND, 0, 0, test.mask), *_branch(test, code)]
    return [(_LD, 0, 0, _NUMBER), *_branch(_Test(0, (number,)), code)]


def _branch(test: _Test, code: list[_Instruction]) -> list[_Instruction]:
    """Prepend jumps to `code`: into it if the loaded value passes `test`, else past its end."""
    after, jumps = len(code), []
    for remaining in range(len(test.values) - 1, -1, -1):
        met = remaining + after if test.negated else remaining
        missed = 0 if test.negated or remaining else after
        jumps.append((_JEQ, met, missed, test.values[len(test.values) - 1 - remaining]))
    return [*jumps, *code]
