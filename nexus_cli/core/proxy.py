"""Requests of our own, through the proxy for HTTP that the environment names."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from nexus_cli.core.bounded_call import shut_down_at
from nexus_cli.core.certificates import client_context

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse


class ProxyError(OSError):
    """A proxy cannot be used, or refused a connection."""


_SAFE = "/%:@!$&'()*+,;=~-._?[]"


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy for HTTP of the environment."""

    host: str
    port: int
    variable: str
    """The variable that names it."""
    headers: Mapping[str, str] = field(repr=False)
    """The header with its login, if it has one."""

    @property
    def name(self) -> str:
        return format_place(self.host, self.port)


Dial = Callable[[str, int, "Proxy | None"], socket.socket]


def find_proxy(scheme: str, host: str, port: int) -> Proxy | None:
    """Return the proxy that the environment sets for an address, in the usual variables; None for a direct connection.
    Raises `ProxyError` for a proxy that cannot be used."""
    import urllib.request as library  # noqa: PLC0415  (see `open_connection`)

    set_here = library.getproxies_environment()
    name = f"{scheme}_proxy".upper() if set_here.get(scheme) else "ALL_PROXY"
    address = set_here.get(scheme) or set_here.get("all", "")
    without = set_here.get("no", "").replace("*.", ".")
    is_direct = library.proxy_bypass_environment(f"{host}:{port}", {"no": without})  # type: ignore[attr-defined]
    if not address or is_direct:
        return None
    try:
        parts = urlsplit(address if "//" in address else f"http://{address}")
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError
        coded = base64.b64encode(f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()).decode()
        headers = {"Proxy-Authorization": f"Basic {coded}"} if parts.username else {}
        return Proxy(parts.hostname, parts.port or 80, name, headers)
    except ValueError:
        raise ProxyError(f"the proxy in {name} is not of the form http://HOST:PORT") from None


def _open_tunnel(plain: socket.socket, place: str, proxy: Proxy) -> None:
    """Let the proxy connect to `place`; raise `ProxyError` if it refuses."""
    lines = [
        f"CONNECT {place} HTTP/1.1",
        f"Host: {place}",
        *(f"{name}: {text}" for name, text in proxy.headers.items()),
    ]
    from http import HTTPStatus  # noqa: PLC0415  (few connections go through a proxy)
    from http.client import HTTPResponse  # noqa: PLC0415  (as above)

    plain.sendall("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
    answer = HTTPResponse(plain, method="CONNECT")
    answer.begin()
    if answer.status != HTTPStatus.OK:
        status = f"HTTP status {answer.status} {answer.reason}"
        raise ProxyError(f"the proxy {proxy.name} did not connect to {place}: {status}")


def open_connection(
    url: str, seconds: float, dial: Dial | None = None, *, proxies: bool = True, checks: bool = True
) -> tuple[HTTPConnection, str, dict[str, str]]:
    """Connect to the server of `url`, through the proxy of the environment; return the connection, and the target and
    the headers that a request on it needs. Blocks, `seconds` for each of them; raises `OSError`.

    `dial` makes the connection to host and port, or to the proxy. Without `proxies` the connection is direct; without
    `checks` any certificate is good enough.
    """
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415  (few processes ask a server themselves)

    parts = urlsplit(url)
    secure, host = parts.scheme == "https", parts.hostname or ""
    port = parts.port or (443 if secure else 80)
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    proxy = find_proxy(parts.scheme, host, port) if proxies else None
    if dial is not None:
        plain = dial(host, port, proxy)
    else:
        plain = socket.create_connection((proxy.host, proxy.port) if proxy else (host, port), seconds)
    if secure:
        try:
            with shut_down_at(plain, time.monotonic() + seconds):
                if proxy:
                    _open_tunnel(plain, format_place(host, port), proxy)
                plain = client_context(checks=checks).wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
    connection = (HTTPSConnection if secure else HTTPConnection)(host, parts.port)
    connection.sock = plain
    if proxy is None or secure:
        return connection, target, {}
    return connection, f"http://{format_place(host, parts.port)}{target}", dict(proxy.headers)


@contextmanager
def send_request(
    opened: tuple[HTTPConnection, str, Mapping[str, str]],
    ends: float,
    headers: Mapping[str, str],
    body: str | None = None,
) -> Iterator[HTTPResponse]:
    """Send a GET, or a POST with `body`, on what `open_connection` returned; yield the answer, then close it.

    The connection is shut down at the time `ends` (monotonic). Raises `OSError`, `ValueError` and `HTTPException`.
    """
    connection, target, extra_headers = opened
    with closing(connection), shut_down_at(connection.sock, ends):
        connection.request("GET" if body is None else "POST", target, body, {**headers, **extra_headers})
        yield connection.getresponse()


def format_place(host: str, port: int | None) -> str:
    """Return `HOST:PORT` as URLs have it, `HOST` without a port."""
    url_host = f"[{host}]" if ":" in host else host
    return f"{url_host}:{port}" if port else url_host
