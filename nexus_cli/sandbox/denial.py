"""Say of a command that failed which wall it may have met, and how to ask for more.

The output is all there is to judge by: a hint, never a reason to run anything again.
"""

from __future__ import annotations

import os
import re

from nexus_cli.sandbox.profile import Profile, is_below

NO_NETWORK = "[sandbox: no network; `network: true` asks the person for it]"
_NETWORK = re.compile(
    r"could not resolve|temporary failure in name resolution|name or service not known|network is unreachable"
    r"|nodename nor servname|no such host|failed to lookup address|EAI_AGAIN|ENOTFOUND|ENETUNREACH|getaddrinfo"
    r"|failed to establish a new connection|could not connect to server|unable to connect|connection refused"
    r"|network is down|(?:socket|connect\w*|dial tcp|bind|listen)\b[^\n]{0,80}(?:operation not permitted"
    r"|permission denied|EPERM|EACCES)|(?:EPERM|EACCES)[^\n]{0,80}(?:connect|listen|socket)|no address associated",
    re.IGNORECASE,
)
_REFUSED = r"(?:permission denied|read-only file system|operation not permitted)"
_WRITE = re.compile(
    rf"(?<![\w.~-])(?P<before>/[^\s\"'`\u2019:]+)[\"'`\u2019)]?:? *{_REFUSED}"
    rf"|{_REFUSED}[^\n]{{0,60}}?[\"'`: ](?P<after>/[^\s\"'`:]+)"
    r"|(?:EACCES|EROFS|EPERM)[^\n]{0,60}?[\"'](?P<node>/[^\"'\n]+)[\"']",
    re.IGNORECASE,
)
_TAIL = 20_000
"""Characters at the end of the output that are looked at."""


def describe_denial(profile: Profile, output: str) -> str:
    """Return the line for a failed command, "" where its output names no wall of `profile`."""
    if profile.name == "none":
        return ""
    tail = output[-_TAIL:]
    for found in _WRITE.finditer(tail):
        path = os.path.normpath(found["before"] or found["after"] or found["node"])
        if is_below(path, map(str, profile.hidden)):
            return f"[sandbox: {path} is hidden; `outside` asks the person to run it without walls]"
        if not is_below(os.path.realpath(path), map(str, profile.roots)):
            return f"[sandbox: write to {path} refused; `outside` asks the person to run it without walls]"
    return NO_NETWORK if not profile.network and _NETWORK.search(tail) else ""
