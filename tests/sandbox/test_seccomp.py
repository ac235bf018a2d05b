"""The filter of system calls, run here as the kernel would run it: both processors, every number."""

from __future__ import annotations

import errno
import itertools
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.sandbox.seccomp import AF_INET, AF_UNIX, CALLS, NEWEST, assemble_filter, can_filter

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}
OPTIONS = [
    dict(zip(("unix_sockets", "keep_metadata", "keep_sizes", "keep_others", "is_root"), chosen, strict=True))
    for chosen in itertools.product((False, True), repeat=5)
]
ALLOWED, KILLED = 0x7FFF0000, 0x80000000


def verdict(program: bytes, machine: str, number: int, *arguments: int) -> int:
    """Run the filter on one call. Every jump must stay inside the program."""
    data = struct.pack("=IIQ6Q", number, MACHINES[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        code, met, missed, operand = steps[at]
        at += 1
        match code:
            case 0x20:
                value = struct.unpack_from("=I", data, operand)[0]
            case 0x54:
                value &= operand
            case 0x15:
                at += met if value == operand else missed
            case 0x35:
                at += met if value >= operand else missed
            case 0x06:
                return int(operand)
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")


def refusal(machine: str, call: str, *arguments: int, **options: Any) -> int | None:
    """Return the error of a call, 0 if it does nothing, None if it is made."""
    program = assemble_filter(frozenset({AF_INET}), machine=machine, **options)
    found = verdict(program, machine, CALLS[call][list(MACHINES).index(machine)], *arguments)
    return None if found == ALLOWED else found & 0xFFFF


@pytest.mark.matrix
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_no_call_is_newer_than_the_table(machine: str, options: dict[str, bool]) -> None:
    program = assemble_filter(frozenset(), machine=machine, **options)
    for number in range(NEWEST + 1):
        assert verdict(program, machine, number) >> 16 in (ALLOWED >> 16, 5)
    for number in (*range(NEWEST + 1, NEWEST + 100), 0x40000000 | 41, 0xFFFFFFFF):
        assert verdict(program, machine, number) == 0x50000 | errno.ENOSYS
    other = next(one for one in MACHINES if one != machine)
    assert verdict(program, other, 0) == KILLED


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_kernel(machine: str) -> None:
    if not Path(HEADERS[machine]).exists():
        pytest.skip("the headers of the kernel are not installed")
    listed = dict(re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", Path(HEADERS[machine]).read_text(), re.M))
    own = {name: numbers[list(MACHINES).index(machine)] for name, numbers in CALLS.items()}
    known = max(map(int, listed.values()))
    assert {
        name: number for name, number in own.items() if str(number) != listed.get(name, "0") and number <= known
    } == {}


@pytest.mark.parametrize("machine", MACHINES)
def test_under_landlock_calls_reach_the_caller_and_nobody_else(machine: str) -> None:
    others = {"keep_others": True}
    for call in ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setattr", "migrate_pages", "move_pages"):
        assert refusal(machine, call, 0, **others) is None
        assert refusal(machine, call, 4711, **others) == refusal(machine, call, 2**32 - 1, **others) == errno.EPERM
    for call, own in (("setpriority", 0), ("ioprio_set", 1)):
        assert refusal(machine, call, own, 0, **others) is None and refusal(machine, call, own + 1, 0, **others) is None
        assert refusal(machine, call, own, 4711, **others) == errno.EPERM
        assert refusal(machine, call, own + 2, 0, **others) == errno.EPERM, "all processes of the user"
    assert refusal(machine, "sched_setaffinity", 4711, **others) == 0
    assert refusal(machine, "sched_setaffinity", 0, **others) is None
    for call in ("shmget", "shmat", "msgsnd", "semop", "mq_open", "process_vm_writev", "pidfd_getfd", "kcmp"):
        assert refusal(machine, call, 0, **others) == errno.EPERM
        assert refusal(machine, call, 4711) is None, "bubblewrap has processes and IPC of its own"


@pytest.mark.parametrize("machine", MACHINES)
def test_no_call_sets_a_set_id_bit(machine: str) -> None:
    for call, before in (("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("mknodat", 2)):
        filler = [0] * before
        assert refusal(machine, call, *filler, 0o1777) is None
        assert refusal(machine, call, *filler, 0o4755) == errno.EPERM
        assert refusal(machine, call, *filler, 0o2755) is None
        assert refusal(machine, call, *filler, 0o2755, is_root=True) == errno.EPERM
    for flag in (0o100, 0o20200000):
        assert refusal(machine, "openat", 0, 0, flag, 0o4755) == errno.EPERM
        assert refusal(machine, "openat", 0, 0, flag, 0o755) is None
    assert refusal(machine, "openat", 0, 0, 0, 0o4755) is None, "the mode of a file that is not made does not count"
    assert refusal(machine, "openat2", 0) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_two_rules_on_one_call_both_hold(machine: str) -> None:
    assert refusal(machine, "openat", 0, 0, 0o1000, keep_sizes=True) == errno.EACCES
    assert refusal(machine, "openat", 0, 0, 0o101, 0o4755, keep_sizes=True) == errno.EPERM
    assert refusal(machine, "ioctl", 0, 0x5412, keep_metadata=True) == errno.EPERM
    assert refusal(machine, "ioctl", 0, 0x40086602, keep_metadata=True) == errno.EPERM
    assert refusal(machine, "ioctl", 0, 0x40086602) is None
    assert refusal(machine, "socketpair", AF_INET, 1) == refusal(machine, "socketpair", AF_UNIX, 2) == errno.EPERM
    assert refusal(machine, "socketpair", AF_UNIX, 1 | 0o4000) is None
    assert refusal(machine, "socket", AF_UNIX) == errno.EPERM and refusal(machine, "socket", AF_INET) is None
    assert refusal(machine, "clone", 0x10000000) == errno.EPERM and refusal(machine, "clone", 0x11) is None


def test_other_machines_have_no_filter() -> None:
    assert can_filter("aarch64") and not can_filter("riscv64")
