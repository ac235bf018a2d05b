"""The certificates that connections to servers trust: those of the environment, else the system's own.

On macOS and Windows `truststore` asks the system. Elsewhere the system's store is one file, which takes the place of
the list that comes with Python packages; `truststore` would read the file anew for each connection, in 25 ms.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

FILE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables that name a file of trusted certificates, in order of precedence."""
SYSTEM_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep all certificates in one file: Debian, Fedora, older Fedora, SUSE, Alpine and the BSDs."""
HAS_NATIVE_STORE = sys.platform in ("darwin", "win32")
"""True if the system verifies certificates by itself."""
_NOT_VALID = frozenset({9, 10, 62, 64})
"""OpenSSL's codes of certificates that no CA mends: not valid yet, expired, another name, another address."""


def named_file() -> tuple[str, str]:
    """Return the first variable of `FILE_VARIABLES` that is set, and its value; two empty texts if none is."""
    return next(((name, value) for name in FILE_VARIABLES if (value := os.environ.get(name, ""))), ("", ""))


def certificate_file() -> str:
    """Return the file of trusted certificates: the environment's, else the system's; "" if there is none."""
    if os.path.isfile(path := named_file()[1]):
        return path
    return next(filter(os.path.isfile, () if HAS_NATIVE_STORE else SYSTEM_FILES), "")


def trust_system() -> None:
    """Let contexts that are made from now on use the system's own verification, where it has one, unless a variable
    names a file. To be called before a library is imported that makes contexts."""
    if HAS_NATIVE_STORE and not os.path.isfile(named_file()[1]):
        import truststore  # noqa: PLC0415  (only there)

        truststore.inject_into_ssl()


def client_context(*, checks: bool = True) -> SSLContext:
    """Return a context for a connection to a server; one that does not check takes any certificate."""
    import ssl  # noqa: PLC0415  (few processes make such a connection themselves)

    trust_system()
    context = ssl.create_default_context(cafile=certificate_file() or None)
    if not checks:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def find_certificate_error(errors: Iterable[BaseException]) -> BaseException | None:
    """Return the first error that says that a server's certificate was not accepted."""
    return next((error for error in errors if hasattr(error, "verify_code")), None)


def describe_certificate_error(error: BaseException, host: str) -> tuple[str, str]:
    """Return the reason for which the certificate of `host` was refused, and the advice."""
    reason = str(getattr(error, "verify_message", "")) or "verification failed"
    if getattr(error, "verify_code", 0) in _NOT_VALID:
        return f"the certificate of {host} is not valid: {reason}", "Check the address and the system clock"
    name, value = named_file()
    used = f"; {name}={value} {'lacks the CA' if os.path.isfile(value) else 'is not a file'}" if name else ""
    why = f"the certificate of {host} is not trusted: {reason}"
    return why, f"If a proxy inspects TLS, point to its CA file: SSL_CERT_FILE=/path/to/ca.pem{used}"
