"""Explain a failed command: the sandbox restriction that it may have hit, and how to ask for more rights.

Guessed from the output and from the programs that the command names, because some fail without a word (`curl -s`): a
hint for the model, never a reason to run anything again.
"""

from __future__ import annotations

import os
import re

from nexus_cli.config.paths import is_below
from nexus_cli.config.protected_places import GIT_FOLDER, protected_name
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.profile import SandboxProfile

ASK_NETWORK = "ask for network access with network=true"
ASK_OUTSIDE = "ask to run it outside the sandbox with outside=REASON"
ASK_WRITE = "write=true asks the person for write access"
NOBODY_WRITE = "write=true needs permission level auto, because nobody can be asked"
AUTO_WRITE = "with write=true the command may write to the project"
NOBODY = "nobody can be asked to allow it"
IN_PLACE = "change existing files in place, with edit_file or > FILE"
VIEW = "[nexus: in the sandbox: processes and network outside it may be hidden]"
"""The line in results of programs that look at the machine: they see less than there is, and do not say so."""
NETWORK_ERRORS = (
    r"could not resolve|temporary failure in name resolution|name or service not known|network is unreachable"
    r"|nodename nor servname|no such host|failed to lookup address|getaddrinfo"
    r"|\b(?:EAI_AGAIN|ENOTFOUND|ENETUNREACH|ECONNREFUSED|ENOTCACHED)\b"
    r"|failed to establish a new connection|(?:could not|couldn't) connect to server|unable to connect|network is down"
    r"|connection (?:to \S+ was )?refused|no address associated|(?:in|using) offline mode"
    r"|network was disabled|\bif-cached\b|could not determine a usable (?:local|wildcard) ip"
)
"""What programs say without a network; a regular expression for any case."""
_NETWORK = re.compile(NETWORK_ERRORS, re.IGNORECASE)
_PROGRAM = re.compile(
    r"(?:^|[;&|({\n`]|\b(?:do|then|else|sudo|time|exec|env|xargs|timeout +\S+)\b) *(?:\w+=\S* +)*(?:[\w./~-]*/)?(?:"
    r"(?:curl|wget|https?|xh|ssh|scp|sftp|rsync|ftp|telnet|ping|dig|nslookup|npx|uvx|pipx|gh|aws|gcloud)(?= )"
    r"|(?:python[\d.]* +-m +)?(?:uv +)?pip[\d.]* +(?:-\S+ +)*(?:install|download|index|wheel)\b"
    r"|uv +(?:-\S+ +)*(?:sync|add|lock|tool|run|python)\b|poetry +(?:install|add|update|lock)\b"
    r"|(?:npm|pnpm|yarn|bun) +(?:-\S+ +)*(?:i|install|ci|add|update|upgrade|view|info|create|audit|publish|login)\b"
    r"|git +(?:-[Cc] +\S+ +|-\S+ +)*(?:clone|fetch|pull|push|ls-remote|submodule +update|remote +update)\b"
    r"|cargo +(?:-\S+ +)*(?:fetch|install|update|add|search|publish)\b|go +(?:get|install|mod +(?:download|tidy))\b"
    r"|(?:apt|apt-get|apk|dnf|yum|brew|gem|bundle|composer) +(?:-\S+ +)*(?:update|install|add|upgrade|require)\b"
    r"|(?:docker|podman) +(?:pull|push|login)\b)"
)
"""A program that needs the network, where a command begins."""
_END = re.compile(r"[;|\n]|&&")
"""Where a command ends."""
_LOOPBACK = re.compile(r"\blocalhost\b|\b127\.\d+\.\d+\.\d+|\[?::1\b")
_SOCKET = re.compile(
    r"(?:socket(?:exception)?|connect\w*|dial tcp|bind|listen)\b[^\n]{0,80}"
    r"(?:operation not permitted|permission denied|EPERM|EACCES)"
    r"|(?:EPERM|EACCES)[^\n]{0,80}(?:connect|listen|socket)"
    r"|socket\.py(?:\", line[^\n]*\n(?:  [^\n]*\n){1,3}|:\d+: )PermissionError",
    re.IGNORECASE,
)
"""Errors of a refused socket. In a network namespace of its own a command is refused only Unix sockets."""
_UNIX = re.compile(r"dial unix|unix://|\.sock\b|d-?bus", re.IGNORECASE)
_REFUSED = (
    r"(?:permission denied|read-only file system|operation not permitted|device or resource busy"
    r"|is(?:n't| not) writable|no such file or directory)"
)
_WRITE = re.compile(
    rf"(?<![\w./~-])(?P<before>(?=/[^\s\"'`\u2019:]|[\w-]*+[./])[^\s\"'`\u2019:]++)[\"'`\u2019]?:? {{0,9}}{_REFUSED}"
    rf"|{_REFUSED}[^\n]{{0,60}}?(?:[\"'`](?P<quoted>[^\"'`\n]+)[\"'`]|[: ](?P<after>/[^\s\"'`:]+))"
    r"|(?:EACCES|EROFS|EPERM|EBUSY)[^\n]{0,60}?[\"'](?P<node>/[^\"'\n]+)[\"']"
    r"|unpack failed: unable to create temporary object directory\s+To (?P<remote>[^\s:]+)$",
    re.IGNORECASE | re.MULTILINE,
)
_TEMPORARY = ("/tmp", "/var/tmp")
"""Folders for which a command has its own, which is kept until the session ends."""
_BASH_SOCKETS = ("/dev/tcp/", "/dev/udp/")
"""Paths that bash opens as sockets; no such files exist."""
_REFUSAL = re.compile(r"read-only file system|permission denied|operation not permitted", re.IGNORECASE)
"""A write that the profile `read` refused, or another refusal."""
_UNREAD = re.compile(r"^(?: ?[MTD]{1,2}[ \t]+|\t(?:modified|typechange|deleted): +)(\S.*)", re.MULTILINE)
"""A file that git lists as changed, as it does with what it cannot read."""
_VIEWS = re.compile(
    r"(?:^|[;&|(\n`]|\b(?:if|do|then|sudo|time|watch|xargs)\b) *(?:[\w./-]*/)?"
    r"(?:ps|pgrep|pidof|top|ss|netstat|lsof|systemctl|who|mount|docker +(?:container +)?(?:ps|ls))(?![\w./-])"
)
"""A program that looks at the machine."""
_NOT_FOUND = 127
"""Exit status of a shell that did not find the program: the network would not help."""
_REACHED = "remote unpack failed"
"""What git says when it has reached a remote, which must then be a folder of this machine."""
_TAIL = 20_000
"""Characters at the end of the output that are searched."""


def describe_denial(
    profile: SandboxProfile,
    command: str,
    output: str,
    backend: Backend,
    *,
    asks: bool = True,
    status: int | None = 2,
    is_told: bool = False,
    is_auto: bool = False,
    has_loopback: bool = False,
) -> str:
    """Return lines with the restrictions of `profile` that a command hit, "" if neither its output nor its programs
    show one. They name the way to ask for more rights only if the session `asks`; at level auto (`is_auto`) writing
    needs no question; `has_loopback`: the command had a network of its own. With the `status` 0 only a path of the
    command in the output of several programs counts.

    In the profile `read` a refusal in the output counts whatever the status, but for None, which says that another
    program may have written it. A status over 1 may be a refusal too,
    unless the model `is_told`; 1 is what `grep` without a match and `diff` exit with.
    """
    if profile.name == "none":
        return ""
    lines = [VIEW] if _VIEWS.search(command) else []
    is_own = profile.name == "read" and status is not None
    if is_own and ((status not in (0, 1) and not is_told) or _REFUSAL.search(output[-_TAIL:])):
        how = AUTO_WRITE if is_auto else ASK_WRITE if asks else NOBODY_WRITE
        lines.append(f"[nexus: ran read-only: no writes, no network; {how}]")
    failure = _describe_failure(profile, command, output, backend, asks, status, has_loopback)
    return "\n".join([*lines, *filter(None, [failure])])


def _describe_failure(
    profile: SandboxProfile,
    command: str,
    output: str,
    backend: Backend,
    asks: bool,
    status: int | None,
    has_loopback: bool,
) -> str:
    """Return lines with the restrictions that a failed command hit by its output or its programs."""
    outside, network = (ASK_OUTSIDE, ASK_NETWORK) if asks else (NOBODY, NOBODY)
    has_loopback |= backend is Backend.BWRAP
    tail = output[-_TAIL:]
    if not status:
        path_line = _describe_path(profile, tail, outside, backend, command) if _END.search(command) else ""
        return path_line or (_describe_unread(profile, tail) if "git" in command else "")
    may_lack_network = status != _NOT_FOUND and _REACHED not in tail
    needs_network = may_lack_network and any(
        not _LOOPBACK.search(_END.split(command[match.end() :])[0]) for match in _PROGRAM.finditer(command)
    )
    lines = [line] if (line := _describe_path(profile, tail, outside, backend)) else []
    refused = _SOCKET.search(tail)
    if lines and (profile.network or not needs_network):
        return lines[0]
    if refused and not profile.unix_sockets and (has_loopback or profile.network or _UNIX.search(tail)):
        return f"[sandbox: no Unix or raw sockets, no ports below 1024; {outside}]"
    if not profile.network and (needs_network or refused or _NETWORK.search(tail)):
        lacks = backend is Backend.LANDLOCK and not has_loopback
        loopback = ", not even loopback (bubblewrap is not available)" if lacks else ""
        lines.append(f"[sandbox: no network{loopback}; {network}]")
    return "\n".join(lines)


def _describe_unread(profile: SandboxProfile, tail: str) -> str:
    """Return the line about a hidden file that git lists as changed, "" if it lists none."""
    listed = (f"{folder}/{name}" for name in _UNREAD.findall(tail) for folder in (profile.cwd, profile.project))
    path = next((path for path in listed if is_below(path, *profile.denied)), "")
    return f"[sandbox: a deny rule hides {path}: git cannot compare it]" if path else ""


def _describe_path(profile: SandboxProfile, tail: str, outside: str, backend: Backend, command: str = "") -> str:
    """Return the line about the first path in the output (and in `command`) that the sandbox refused, "" if it refused
    none."""
    for match in _WRITE.finditer(tail):
        printed_path = next(filter(None, match.groups()))
        path = os.path.normpath(os.path.join(profile.cwd, printed_path))
        if path.startswith(_BASH_SOCKETS) or (command and printed_path not in command):
            continue
        if is_below(path, *profile.denied):
            return f"[sandbox: a deny rule hides {path}]"
        if rule := profile.find_rule(path):
            return f"[sandbox: deny {rule} makes {path} read-only]"
        if is_below(path, *profile.hidden) and not is_below(path, *profile.revealed):
            return f"[sandbox: {path} is hidden; {outside}]"
        if profile.name == "read" or "no such file" in match[0].lower():
            continue
        if not is_below(os.path.realpath(path), *profile.roots):
            advice = "write to $TMPDIR instead" if os.path.dirname(path) in _TEMPORARY else outside
            access = "access" if is_below(path, "/proc") else "write"  # there reading is refused too
            return f"[sandbox: {access} to {path} refused; {advice}]"
        if _is_protected(profile, path):
            return f"[sandbox: {os.path.relpath(path, profile.project)} is protected; {outside}]"
        folder = os.path.dirname(path)
        if (
            backend is Backend.LANDLOCK
            and not os.path.lexists(path)
            and any(is_below(denied_path, folder) for denied_path in profile.denied)
        ):
            return f"[sandbox: a deny rule hides a file in {folder}: new files there cannot be read; {IN_PLACE}]"
    return ""


def _is_protected(profile: SandboxProfile, path: str) -> bool:
    """Return True for a protected place of the project; in a git folder only configuration, hooks and info are."""
    if not profile.guarded or not is_below(path, profile.project):
        return False
    names = os.path.relpath(path, profile.project).split(os.sep)
    if GIT_FOLDER in names:
        return names[names.index(GIT_FOLDER) + 1 :][:1] in (["config"], ["hooks"], ["info"])
    return bool(protected_name(names))
