"""Find the TCP ports on which the processes of a child listen, and in which network (Linux: /proc)."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

_LISTENING = "0A"
_TABLES = ("tcp", "tcp6")
_TRIES = 20


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """A port on which a process listens."""

    port: int
    address: str
    """The address on which its own machine reaches it: `127.0.0.1`, `::1`."""
    network: str
    """The name of its network, see `network_of`."""


def network_of(pid: int | str = "self") -> str:
    """Return the name of the network of a process, "" if it cannot be read."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/net")
    return ""


def list_listening(pid: int) -> frozenset[str]:
    """Return the inodes of all listening sockets in the network of a process. Cheap: a change shows whether
    `find_listeners` has to look again."""
    return frozenset(inode for _, inode in _read_tables(pid))


def find_listeners(pids: Iterable[int]) -> list[ListeningPort]:
    """Return the ports on which these processes listen, each once, ascending."""
    tables: dict[str, list[tuple[ListeningPort, str]]] = {}
    listeners: dict[tuple[str, int], ListeningPort] = {}
    for pid in pids:
        network = network_of(pid)
        if not network:
            continue
        if network not in tables:
            tables[network] = [
                (ListeningPort(port, address, network), inode) for (address, port), inode in _read_tables(pid)
            ]
        if tables[network]:
            inodes = _held_sockets(pid)
            listeners |= {
                (network, listener.port): listener for listener, inode in reversed(tables[network]) if inode in inodes
            }
    return [listeners[key] for key in sorted(listeners, key=lambda key: key[1])]


def _read_tables(pid: int) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield address, port and inode of each listening socket in the network of a process."""
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING:
                    host, _, port = fields[1].partition(":")
                    yield (_own_address(host), int(port, 16)), fields[9]


def _own_address(text: str) -> str:
    """Return the address on which the machine itself reaches a socket that is bound to an address of the table."""
    data = b"".join(int(text[offset : offset + 8], 16).to_bytes(4, "little") for offset in range(0, len(text), 8))
    bound = ip_address(data)
    if bound.is_unspecified:
        return "127.0.0.1" if bound.version == 4 else "::1"
    return str(getattr(bound, "ipv4_mapped", None) or bound)


def _held_sockets(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process holds."""
    inodes = set()
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                inodes.add(os.readlink(f"/proc/{pid}/fd/{name}").removeprefix("socket:[").removesuffix("]"))
    return inodes


def is_own_address(url_host: str) -> bool:
    """Return True for a host name or address that means the machine itself."""
    try:
        address = ip_address(url_host)
    except ValueError:
        return url_host == "localhost" or url_host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def free_port(preferred: int, used_ports: Iterable[int]) -> socket.socket:
    """Return a socket that is bound on 127.0.0.1: to `preferred`, else to one of the next `_TRIES` ports that is not in
    `used_ports`, else to any. Raises `OSError`."""
    refused = set(used_ports)
    for port in (
        *(candidate for candidate in range(preferred, min(preferred + _TRIES, 65_536)) if candidate not in refused),
        0,
    ):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what a closed connection keeps for a minute
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
            return listener
        except OSError:
            listener.close()
    raise OSError("no port is free")
