"""Get a page of the public web, and convert it to Markdown.

Connects only to addresses of the public internet: the name is resolved once, all its addresses are checked, and the
connection goes to one of them, so that a second lookup cannot lead elsewhere. Behind a proxy of the environment it is
the proxy that connects; a name with a private address here is refused, a name that is unknown here is left to the
proxy. Bytes, seconds and redirects are bounded; redirects are returned, not followed.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from nexus_cli.core.certificates import describe_certificate_error, find_certificate_error
from nexus_cli.core.proxy import Proxy, ProxyError, open_connection, send_request
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.own_worker import find_library, run_worker

MAX_BYTES = 5 << 20
"""Most bytes of a body that are read, and most after decompression; the rest is left out."""
MAX_HTML = 2 << 20
"""Most bytes of HTML that are converted, which takes seconds per megabyte."""
CONVERSION_SECONDS = 30.0
MARKDOWN_SHARE = 0.6
"""Share of that time after which a page becomes plain text."""
SECONDS = 30.0
"""Time limit of one request."""
REDIRECTS = (301, 302, 303, 307, 308)
_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = (
    *map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24")),
    ipaddress.IPv6Network("3fff::/20"),
)
"""Protocol assignments, the former 6to4 relays, documentation: `is_global` depends on the version of Python."""
_AZURE = ipaddress.IPv4Address("168.63.129.16")
"""The metadata of machines at Azure, at a public address."""
_HTML = ("text/html", "application/xhtml+xml")
_HTML_WORKER = Path(__file__).with_name("html_worker.py").read_text(encoding="utf-8")
"""Read once: if nexus is installed in the project, a command may change the file."""
_TEXT = ("application/json", "application/xml", "application/javascript", "application/x-yaml", "application/toml")


class PageError(Exception):
    """The page cannot be read; the text is for the model."""


class UnknownHostError(PageError):
    """The host has no address here."""


@dataclass(frozen=True, slots=True)
class WebPage:
    """The answer to one request."""

    status: int
    body: bytes
    """After decompression; at most `MAX_BYTES`."""
    kind: str
    """The media type, such as `text/html`; "" if the answer names none."""
    charset: str = ""
    target: str = ""
    """The absolute URL of a redirect, else ""."""
    is_cut: bool = False
    """True if the body is longer."""


def is_public(address: str) -> bool:
    """Return True for an IP address of the public internet, also where an IPv6 address embeds an IPv4 one."""
    try:
        network_address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner: list[ipaddress.IPv4Address | None] = []
    if isinstance(network_address, ipaddress.IPv6Address):
        if not (network_address in _UNICAST or network_address in _NAT64 or network_address.ipv4_mapped):
            return False
        inner = [network_address.ipv4_mapped, network_address.sixtofour, *(network_address.teredo or ())]
        inner += [ipaddress.IPv4Address(int(network_address) & 0xFFFFFFFF)] if network_address in _NAT64 else []
    every = (network_address, *filter(None, inner))
    special = any(resolved in network for resolved in every for network in _SPECIAL)
    return not special and all(
        resolved.is_global and resolved != _AZURE and not resolved.is_multicast for resolved in every
    )


def is_private_name(host: str) -> bool:
    """Return True for `localhost` and for an IP address that is not public, in any notation. Looks no name up."""
    name = host.lower().rstrip(".")
    if f".{name}".endswith(".localhost"):
        return True
    try:
        return not is_public(name if ":" in name else socket.inet_ntoa(socket.inet_aton(name)))
    except (OSError, ValueError):  # a name to be looked up
        return False


def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of `host`; raise `PageError` if there is none, or if any is not public."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnknownHostError(f"{host} cannot be resolved: {error}") from None
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    if private := [address for address in addresses if not is_public(address)]:
        subject = private[0] if private[0] == host else f"{host} is {private[0]}, which"
        raise PageError(f"{subject} is not an address of the public internet")
    return addresses


def request_page(url: str) -> WebPage:
    """Request `url` (http or https) once; raise `PageError` on failure. Blocks for at most `SECONDS` and the lookup."""
    host = urlsplit(url).hostname or ""
    headers = {
        "User-Agent": "nexus",
        "Accept": "text/markdown, text/html, text/*;q=0.9, */*;q=0.5",
        "Accept-Encoding": "gzip",
        "Connection": "close",
    }
    ends = time.monotonic() + SECONDS
    try:
        opened = open_connection(url, SECONDS, lambda host, port, proxy: _reach(host, port, proxy, ends))
        with send_request(opened, ends, headers) as answer:
            response_headers: Message = answer.headers
            location = response_headers.get("Location", "") if answer.status in REDIRECTS else ""
            data = b"" if location else answer.read(MAX_BYTES + 1)
            body, is_cut = _decompress(data[:MAX_BYTES], response_headers.get("Content-Encoding", "").strip().lower())
            goes = urljoin(url, location) if location else ""
            # A connection that ends early ends the read without an error.
            is_short = bool(answer.length) or (not location and time.monotonic() >= ends)
            cut = is_cut or is_short or len(data) > MAX_BYTES
            kind = response_headers.get_content_type() if "Content-Type" in response_headers else ""
            return WebPage(answer.status, body, kind, response_headers.get_content_charset() or "", goes, cut)
    except ProxyError as error:
        raise PageError(str(error)) from None
    except (OSError, HTTPException, ValueError) as error:
        if refused := find_certificate_error((error,)):
            raise PageError(". ".join(describe_certificate_error(refused, host))) from None
        late = time.monotonic() >= ends
        raise PageError(f"no answer within {SECONDS:.0f} s" if late else f"{type(error).__name__}: {error}") from None


def convert_page(page: WebPage, stop: StopFlag, project: Path) -> str:
    """Return the text of a page, HTML as Markdown; raise `PageError` for a page without text. Blocks for at most
    `CONVERSION_SECONDS`."""
    if page.kind in _HTML or (not page.kind and page.body[:512].lstrip().lower().startswith((b"<!doctype", b"<html"))):
        return _to_markdown(page, stop, project)
    is_text = (
        not page.kind or page.kind.startswith("text/") or page.kind in _TEXT or page.kind.endswith(("+json", "+xml"))
    )
    if not is_text or b"\0" in page.body[:8192]:
        raise PageError(f"it cannot be read as text ({page.kind or 'binary'}, {len(page.body):,} bytes)")
    try:
        return page.body.decode(page.charset or "utf-8", "replace")
    except (LookupError, ValueError):  # an unknown or unfit charset
        return page.body.decode("utf-8", "replace")


def _to_markdown(page: WebPage, stop: StopFlag, project: Path) -> str:
    try:
        libraries = find_library("bs4", project)
        options = {"charset": page.charset, "libraries": libraries, "seconds": CONVERSION_SECONDS * MARKDOWN_SHARE}
        job = json.dumps(options).encode() + b"\n" + page.body[:MAX_HTML]
        outcome = run_worker(
            _HTML_WORKER, job, project=project, stop=stop, seconds=CONVERSION_SECONDS, libraries=libraries
        )
    except (ToolError, OSError) as error:
        raise PageError(f"its HTML cannot be converted: {error}") from None
    if outcome.timed_out:
        raise PageError(f"its HTML was not converted within {CONVERSION_SECONDS:.0f} s")
    if outcome.status:
        raise PageError("its HTML cannot be converted")
    cut = "\n[The HTML after this point was not converted.]" if len(page.body) > MAX_HTML else ""
    return outcome.output.decode("utf-8", "replace") + cut


def _reach(host: str, port: int, proxy: Proxy | None, ends: float) -> socket.socket:
    """Connect to the host, or to the proxy on the way to it."""
    if proxy is None:
        return _connect(resolve_host(host, port), port, ends)
    with suppress(UnknownHostError):
        resolve_host(host, port)
    try:
        return _connect([proxy.host], proxy.port, ends)
    except OSError as error:
        raise PageError(f"the proxy {proxy.name} cannot be reached: {error}") from None


def _connect(addresses: list[str], port: int, ends: float) -> socket.socket:
    """Connect to the first address that accepts."""
    failed: OSError = OSError("no address")
    for address in addresses:
        try:
            return socket.create_connection((address, port), max(0.1, min(10.0, ends - time.monotonic())))
        except OSError as error:
            failed = error
    raise failed


def _decompress(data: bytes, encoding: str) -> tuple[bytes, bool]:
    """Return at most `MAX_BYTES` of the decompressed data, and True if there is more, or its end is missing."""
    if encoding in ("", "identity"):
        return data, False
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise PageError(f"its content encoding {encoding[:40]!r} is not supported")
    reader = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        decompressed = reader.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise PageError(f"its compressed content is damaged: {error}") from None
    return decompressed, bool(data) and not reader.eof
