"""A call as it travels from the caller to the child: who calls, the streams, and all that a process inherits.

The warm process answers the connection with HERE and forks. The caller sends the call with four descriptors, the fork
answers READY or a reason in words, the caller sends GO.
Until GO is sent nothing has been run, and the caller may run cold instead. After it the caller sends signal numbers,
one byte each; the other end sends the status that `os.waitpid` gave, and closes. Imports nothing heavy.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; `signal` would import enum
import _socket  # built in; `socket` would import enum and selectors
import marshal
import os
import resource
import struct
import sys

from nexus_cli.warm import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEAD = struct.Struct("!4sII")
"""Magic, length of the identity, length of the call."""
MAGIC = b"nxw1"
STATUS = struct.Struct("!i")
HERE, READY, KNOWN, REFUSED, GO = b"H", b"R", b"K", b"N", b"G"
"""The sign that the warm process lives; the first byte of an answer: READY, KNOWN with the answer, REFUSED with the
reason; and the go-ahead."""
OUTDATED = "something was installed since the warm process started"
"""The reason with which a warm process refuses and ends."""
START_PREFIXES = ("PYTHON", "LC_", "LD_", "MALLOC_", "OPENSSL_", "SSL_", "LITELLM_", "TIKTOKEN_", "CUSTOM_TIKTOKEN_")
START_NAMES = frozenset(
    {
        "LANG",
        "LANGUAGE",
        "TZ",
        "TZDIR",
        "GLIBC_TUNABLES",
        "NO_COLOR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "OPENAI_API_TYPE",
        "OPENAI_API_VERSION",
        "OPENAI_LOG",
    }
)
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "AUTH")
MOST = 64 * 1024 * 1024
"""Bytes of one call: far above what an environment and arguments can hold."""
LIMITS = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))


def own_call(kind: str, arguments: list[str]) -> dict[str, Any]:
    """Return the state by which a child takes the place of this process; `kind` is `run`, `status` or `stop`."""
    ignored = [n for n in range(1, _signal.NSIG) if n not in (_signal.SIGPIPE, _signal.SIGXFSZ) and _is_ignored(n)]
    umask = os.umask(0o077)
    os.umask(umask)
    return {
        "kind": kind,
        "arguments": [os.fsencode(word) for word in (sys.argv[0], *arguments)],
        "environment": dict(os.environb),
        "path": [os.fsencode(entry) for entry in sys.path],
        "options": place.interpreter_options(),
        "umask": umask,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS},
        "scheduling": own_scheduling(),
        "ignored": ignored,
        "blocked": [int(n) for n in _signal.pthread_sigmask(_signal.SIG_BLOCK, [])],
    }


def own_scheduling() -> tuple[list[int], int, int]:
    """Return the processors that this process may run on, its scheduling policy and real-time priority."""
    if sys.platform != "linux":
        return [], 0, 0
    return sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0), os.sched_getparam(0).sched_priority


def _is_ignored(number: int) -> bool:
    try:
        return bool(_signal.getsignal(number) == _signal.SIG_IGN)
    except ValueError:  # a number without a signal
        return False


def encode_call(call: dict[str, Any], identity: bytes) -> bytes:
    body = marshal.dumps(call)
    return HEAD.pack(MAGIC, len(identity), len(body)) + identity + body


def is_read_at_start(name: str) -> bool:
    """Return True for a variable that the interpreter or a library may have read before a run begins.

    The warm process is started with these and no others, and never with a key. Which others the imports read it notes
    itself.
    """
    hidden = any(word in name.replace("TIKTOKEN", "") for word in SECRET)
    return (name in START_NAMES or name.startswith(START_PREFIXES)) and not hidden


def peer_credentials(connection: Any) -> tuple[int, int]:
    """Return pid (0 where the system does not tell) and user id of the process at the other end."""
    if hasattr(_socket, "SO_PEERCRED"):
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))
        return pid, uid
    peer = connection.getsockopt(0, 1, 76)  # macOS: SOL_LOCAL, LOCAL_PEERCRED, struct xucred
    return 0, struct.unpack_from("2I", peer)[1]


def receive_exactly(connection: Any, size: int) -> bytes:
    """Return `size` bytes; `EOFError` if the other end closes before."""
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
