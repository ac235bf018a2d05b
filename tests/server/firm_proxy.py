"""The proxy of a firm on loopback: it wants a password, or it opens TLS with certificates of a CA of its own.

The CA is made by the program `openssl`. All connections end at one server on loopback, whatever they ask for.
"""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def make_ca(folder: Path, name: str = "ca") -> Path:
    """Return the certificate of a new CA in `folder`, its key beside it."""
    made = folder / f"{name}.pem"
    named = ("-subj", "/CN=Firm CA", "-addext", "keyUsage=critical,keyCertSign")
    _openssl("req", "-x509", *KEY, "-keyout", f"{made}.key", "-out", str(made), "-days", "2", *named)
    return made


def make_certificate(ca: Path, host: str, days: int = 2) -> Path:
    """Return a certificate for `host` with its key in one file, signed by `ca`. With `days` 0 it has expired."""
    made, request, names = (ca.with_name(f"{host}.{end}") for end in ("pem", "csr", "cnf"))
    kind = "IP" if host.replace(".", "").isdigit() else "DNS"
    names.write_text(f"subjectAltName={kind}:{host}\nauthorityKeyIdentifier=keyid\n")
    key = f"{made}.key"
    _openssl("req", *KEY, "-keyout", key, "-out", str(request), "-subj", f"/CN={host}")
    signed = ("-CA", str(ca), "-CAkey", f"{ca}.key", "-CAcreateserial", "-extfile", str(names), "-days", str(days))
    _openssl("x509", "-req", "-in", str(request), *signed, "-out", str(made))
    made.write_text(made.read_text() + Path(key).read_text())
    return made


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=120)


class FirmProxy:
    """Listens on 127.0.0.1; with a `ca` it inspects TLS. A context manager."""

    def __init__(self, target: int, ca: Path | None = None, login: str = "", host: str = "", days: int = 2) -> None:
        """Initialize; `target` is the port of the server behind it, `login` NAME:PASSWORD. With `host` it is no proxy
        but that server itself behind TLS."""
        self._target, self._ca, self._host, self._days = target, ca, host, days
        self._header = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.asked: list[str] = []
        """The first line of each connection; of a server behind TLS its name."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FirmProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if self._host:
                self.asked.append(self._host)
                self._relay(self._open_tls(client, self._host), b"")
                return
            head = b""
            while b"\r\n\r\n" not in head and (data := client.recv(65536)):
                head += data
            first, *lines = head.partition(b"\r\n\r\n")[0].decode().split("\r\n")
            self.asked.append(first)
            given = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines)}
            if self._header and given.get("proxy-authorization") != self._header:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n")
                client.sendall(b"Content-Length: 0\r\n\r\n")
                return
            method, place, _ = first.split()
            if method != "CONNECT":  # a request for http://HOST/PATH
                path = "/" + place.partition("://")[2].partition("/")[2]
                self._relay(client, head.replace(place.encode(), path.encode(), 1))
                return
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._relay(self._open_tls(client, place.rpartition(":")[0]) if self._ca else client, b"")

    def _open_tls(self, client: socket.socket, host: str) -> socket.socket:
        assert self._ca is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(make_certificate(self._ca, host, self._days))
        return context.wrap_socket(client, server_side=True)

    def _relay(self, client: socket.socket, first: bytes) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            server.sendall(first)
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()
            _copy(client, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
