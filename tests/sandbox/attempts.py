"""A program that runs inside walls and tries what a shell cannot: prints a JSON object of name to "" or an errno name.

Started by `scene` from a copy; its environment says where things are. Each attempt returns when it has succeeded.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

OUT, HOME, VICTIM = os.environ["OUT"], os.environ["HOME"], int(os.environ["VICTIM"])
PORT = int(os.environ["PORT"])
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


def syscall(number: int, *arguments: object) -> int:
    whole = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(LIBC.syscall(ctypes.c_long(number), *whole))
    if result < 0:
        raise OSError(ctypes.get_errno(), "system call")
    return result


def read(name: str) -> str:
    with open(f"/proc/{VICTIM}/{name}") as file:
        return file.read()


def connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as one:
        one.settimeout(2)
        one.connect(address)


def send(family: int, address: Any) -> None:
    """Counts by what arrives: the scene looks."""
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", address)


def datagram_pair() -> None:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", OUT + "/datagrams")


def loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 2):
        server.accept()[0].close()


def pair() -> None:
    one, two = socket.socketpair()
    one.send(b"x")
    assert two.recv(1) == b"x"


def run_asyncio() -> None:
    import asyncio

    asyncio.run(asyncio.sleep(0))


def pool() -> None:
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(1) as workers:
        assert workers.map(abs, [-1]) == [1]


def read_memory() -> None:
    buffer = ctypes.create_string_buffer(8)
    start = int(read("maps").split("-")[0], 16)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8)
    syscall(310 if X86 else 270, VICTIM, local, 1, struct.pack("QQ", start, 8), 1, 0)


def take_descriptor() -> None:
    syscall(438, os.pidfd_open(VICTIM), 0, 0)


def limit_another() -> None:
    """Sets the limit that there is."""
    import resource

    resource.prlimit(VICTIM, resource.RLIMIT_CPU, resource.getrlimit(resource.RLIMIT_CPU))


def place_another() -> None:
    one = {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(VICTIM, one)
    if os.sched_getaffinity(VICTIM) != one:
        raise OSError(errno.EPERM, "it is where it was")


def attach_segment() -> None:
    LIBC.shmat.restype = ctypes.c_void_p
    if LIBC.shmat(int(os.environ["SEGMENT"]), None, 0) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "shmat")


def open_queue() -> None:
    os.close(syscall(240 if X86 else 180, os.environ["QUEUE"].encode(), os.O_RDWR, 0, None))


def send_message() -> None:
    syscall(69 if X86 else 189, int(os.environ["MESSAGES"]), struct.pack("l", 1), 0, os.O_NONBLOCK)


def move_pages() -> None:
    syscall(279 if X86 else 239, VICTIM, 0, None, None, None, 0)


def place_a_thread() -> None:
    """As `pthread_create` with a processor in its attributes does, and OpenMP."""
    import threading

    os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0))
    os.sched_setaffinity(0, os.sched_getaffinity(0))


def limit_itself() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))
    os.nice(1)


def make_file(mode: int) -> None:
    name = os.environ["TMPDIR"] + f"/made-{mode:o}"
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, mode))
    check_mode(name, mode)


def make_node(mode: int) -> None:
    name = os.environ["TMPDIR"] + f"/node-{mode:o}"
    os.mknod(name, 0o100000 | mode)
    check_mode(name, mode)


def make_by_openat2(mode: int) -> None:
    name = os.environ["TMPDIR"] + f"/how-{mode:o}"
    os.close(syscall(437, -100, name.encode(), struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, mode, 0), 24))
    check_mode(name, mode)


def change_mode(mode: int) -> None:
    with open(os.environ["TMPDIR"] + f"/changed-{mode:o}", "w") as file:
        os.fchmod(file.fileno(), mode)


def make_with_other_modes() -> None:
    change_mode(0o1755)
    make_file(0o755)
    make_node(0o755)


def check_mode(name: str, mode: int) -> None:
    if os.stat(name).st_mode & 0o7000 != mode & 0o7000:
        raise OSError(errno.EPERM, "the bit is not set")


def attach() -> None:
    if LIBC.ptrace(16, VICTIM, None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def truncating_read() -> None:
    os.close(os.open(OUT + "/long", os.O_RDONLY | os.O_TRUNC))


def by_openat2() -> None:
    how = struct.pack("QQQ", os.O_RDONLY | os.O_TRUNC, 0, 0)
    os.close(syscall(437, -100, (OUT + "/long").encode(), how, 24))


def type_into_terminal() -> None:
    import fcntl

    for flags in (os.O_RDWR, os.O_RDONLY):
        try:
            handle = os.open(os.environ["TTY"], flags | os.O_NOCTTY)
        except OSError:
            continue
        fcntl.ioctl(handle, 0x5412, b"x")
        return
    raise OSError(errno.EACCES, "no terminal")


def read_disks() -> None:
    for name in (*os.listdir("/sys/block"), "mem", "kmsg", "port"):
        try:
            os.close(os.open("/dev/" + name, os.O_RDONLY))
        except OSError:
            continue
        return
    raise OSError(errno.EACCES, "no device")


def foreign_interface() -> None:
    """32-bit getpid on a 64-bit kernel; the process is expected to die."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    child = os.fork()
    if child == 0:
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise OSError(errno.EPERM, "killed")


def run_from_memory(words: str) -> None:
    """Run a shell from a file that has no path."""
    handle = os.memfd_create("sh")
    with open("/bin/sh", "rb") as file:
        os.write(handle, file.read())
    child = os.fork()
    if child == 0:
        sys.stderr.flush()
        os.execv(f"/proc/self/fd/{handle}", ["sh", "-c", words])
    if os.waitpid(child, 0)[1]:
        raise OSError(errno.EACCES, "failed")


def escape_folder() -> None:
    """The old way out of chroot, and by handles of files."""
    os.chroot("/")


def by_handle() -> None:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.create_string_buffer(4)
    syscall(303 if X86 else 264, -100, (OUT + "/file").encode(), handle, mount, 0)
    at = os.open("/", os.O_RDONLY)
    os.close(syscall(304 if X86 else 265, at, handle, os.O_WRONLY))


ATTEMPTS: dict[str, Callable[[], object]] = {
    "truncate": lambda: os.truncate(OUT + "/long", 0),
    "truncating read": truncating_read,
    "openat2": by_openat2,
    "chmod": lambda: os.chmod(OUT + "/file", 0o600),
    "utime": lambda: os.utime(OUT + "/file", (1, 1)),
    "xattr": lambda: os.setxattr(OUT + "/file", "user.x", b"y"),
    "own chmod": lambda: os.chmod(os.environ["TMPDIR"], 0o700),
    "devices": read_disks,
    "terminal": type_into_terminal,
    "inherited": lambda: os.write(int(os.environ["INHERITED"]), b"x"),
    "environ": lambda: read("environ"),
    "memory": lambda: os.close(os.open(f"/proc/{VICTIM}/mem", os.O_RDONLY)),
    "maps": lambda: read("maps"),
    "descriptors": lambda: os.readlink(f"/proc/{VICTIM}/fd/0"),
    "root": lambda: os.listdir(f"/proc/{VICTIM}/root"),
    "read memory": read_memory,
    "take descriptor": take_descriptor,
    "attach": attach,
    "kill": lambda: os.kill(VICTIM, 0),
    "limits": limit_another,
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, 5),
    "scheduler": lambda: os.sched_setscheduler(VICTIM, os.SCHED_BATCH, os.sched_param(0)),
    "processors": place_another,
    "priority of disks": lambda: syscall(251 if X86 else 30, 1, VICTIM, 2 << 13 | 7),
    "move pages": move_pages,
    "shared memory": attach_segment,
    "message queue": send_message,
    "named queue": open_queue,
    "its own threads": place_a_thread,
    "its own limits": limit_itself,
    "setuid": lambda: change_mode(0o4755),
    "setgid": lambda: change_mode(0o2755),
    "made setuid": lambda: make_file(0o4755),
    "node setuid": lambda: make_node(0o4755),
    "openat2 setuid": lambda: make_by_openat2(0o4755),
    "other modes": make_with_other_modes,
    "tcp": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT)),
    "tcp6": lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("::1", PORT)),
    "udp": lambda: send(socket.AF_INET, ("127.0.0.1", PORT)),
    "icmp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).sendto(
        b"\x08\0\xf7\xff\0\0\0\0", ("192.0.2.1", 1)
    ),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    "dns": lambda: socket.getaddrinfo("nexus.invalid", 80) and None,
    "unix": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, OUT + "/socket"),
    "abstract": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + os.environ["ABSTRACT"]),
    "datagram pair": datagram_pair,
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
    "io_uring": lambda: syscall(425, 1, bytes(120)),
    "keyring": lambda: syscall(250 if X86 else 219, 0, -3, 0),
    "bpf": lambda: syscall(321 if X86 else 280, 0, bytes(64), 64),
    "loopback": loopback,
    "socketpair": pair,
    "asyncio": run_asyncio,
    "pool": pool,
    "x32": lambda: syscall(0x40000000 | 41, 2, 1, 0),
    "32 bit": foreign_interface,
    "memfd": lambda: run_from_memory("exit 0"),
    "memfd out": lambda: run_from_memory(f"echo x > {OUT}/memfd"),
    "chroot": escape_folder,
    "by handle": by_handle,
}


def outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return ""


if __name__ == "__main__":
    print(json.dumps({name: outcome(attempt) for name, attempt in ATTEMPTS.items()}))
