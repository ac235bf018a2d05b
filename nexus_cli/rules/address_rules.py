"""Match network addresses with the patterns of rules: `SCHEME://HOST[:PORT][/PATH]`, `*` for any text.

An allow rule names an address exactly. deny and ask rules name it however it is written: each form of its host and its
path that leads to the same place counts, and without a port each port. Names are not resolved.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import posixpath
import socket
from contextlib import suppress
from urllib.parse import SplitResult, unquote, urlsplit

PORTS = {"http": 80, "https": 443}
"""By scheme: the port of an address that names none."""
ANY_PORT = ":*"


def refuse_bad_pattern(decision: str, pattern: str) -> None:
    """Raise `ValueError` for an address pattern that can name no address."""
    try:
        parsed, host, _ = _split_pattern(pattern)
        has_port = parsed.port or parsed.scheme in PORTS or _names_any_port(pattern) or decision != "allow"
        if has_port and parsed.scheme and parsed.hostname and parsed.netloc == host:  # `?` would end the host
            return
    except ValueError:
        pass
    raise ValueError(
        "expected an address such as https://HOST[:PORT][/PATH] (`*` matches any text); only http and https have a "
        "default port"
    )


def address_matches(decision: str, pattern: str, address: str) -> bool:
    """Return True if the pattern of a rule names a network address.

    A pattern without a path names all of them. An allow rule names no address whose path leads up (`..`), however that
    is written. The pattern of a deny or ask rule may have no scheme: it names all.
    """
    try:
        requested = urlsplit(address)
        parsed, _, path = _split_pattern(pattern)
        ports = [url.port or PORTS.get(url.scheme) for url in (requested, parsed)]
        is_any_port = _names_any_port(pattern) or (decision != "allow" and not parsed.port)
    except ValueError:
        return False
    if parsed.scheme != requested.scheme and (parsed.scheme or decision == "allow"):
        return False
    names = zip(_host_forms(requested.hostname or ""), _host_forms(parsed.hostname or ""), strict=True)
    fits = [fnmatch.fnmatchcase(*forms) for forms in names]
    if not (is_any_port or ports[0] == ports[1]) or not (all(fits) if decision == "allow" else any(fits)):
        return False
    target = (requested.path or "/") + (f"?{requested.query}" if requested.query else "")
    if decision == "allow":
        return ".." not in _decode(target) and (not path or fnmatch.fnmatchcase(target, path.replace("[", "[[]")))
    patterns = [path_form.casefold().replace("[", "[[]") for path_form in (path, unquote(path))]
    return not path or any(
        fnmatch.fnmatchcase(form, path_pattern) for form in _target_forms(requested) for path_pattern in patterns
    )


def _split_pattern(pattern: str) -> tuple[SplitResult, str, str]:
    """Return the address up to the host or its port, that host and port, and the path with its `/`, "" for none.

    Raises `ValueError` for an invalid IPv6 address.
    """
    scheme, mark, remainder = pattern.partition("://")
    host, slash, path = (remainder if mark else pattern).partition("/")
    host = host.removesuffix(ANY_PORT)
    return urlsplit(f"{scheme}://{host}" if mark else f"//{host}"), host, f"{slash}{path}"


def _names_any_port(pattern: str) -> bool:
    return pattern.rpartition("://")[2].partition("/")[0].endswith(ANY_PORT)


def _host_forms(host: str) -> tuple[str, str]:
    """Return a host as it is written, and as the resolver reads it: in ASCII, a number as an IP address."""
    plain = host.rstrip(".")
    read = plain
    with suppress(UnicodeError):  # an empty or too long label
        read = plain.encode("idna").decode("ascii").lower().rstrip(".")
    with suppress(OSError, ValueError):  # `2130706433`, `0x7f.1`, `127.1`
        return plain, socket.inet_ntoa(socket.inet_aton(read))
    with suppress(ValueError):
        ip_address = ipaddress.IPv6Address(read.partition("%")[0])
        return plain, str(ip_address.ipv4_mapped or ip_address)
    return plain, read


def _target_forms(requested: SplitResult) -> set[str]:
    """Return path and query as they are written and decoded, without `//`, `.` and `..`, and each without its query."""
    paths = {requested.path or "/", _decode(requested.path) or "/"}
    for path in list(paths):
        end = "/" if path.endswith(("/", "/.", "/..")) else ""
        paths.add("/" + (posixpath.normpath(f"/{path}").strip("/") + end).lstrip("/"))
    queries = {"", f"?{requested.query}", f"?{_decode(requested.query)}"} if requested.query else {""}
    return {f"{path}{query}".casefold() for path in paths for query in queries}


def _decode(text: str) -> str:
    """Decode a text twice: a proxy may, and the server behind it."""
    return unquote(unquote(text))
