"""Make the environment of sandboxed commands: without the person's keys, with the private temporary folder.

Commands of the person (`!`) have all keys; their output is masked before the model gets it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from nexus_cli.config.paths import is_below
from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.core.environ import copy_environ
from nexus_cli.core.redact_secrets import protected_secrets, redact
from nexus_cli.core.shared_types import Environ
from nexus_cli.sandbox.git_settings import read_git_settings
from nexus_cli.sandbox.profile import SandboxProfile

_SECRET = re.compile(
    r"(?:.*_)?(?:(?:ACCESS|AUTH|SECRET)?(?:TOKENS?|KEYS?)|SECRETS?|CREDENTIALS?|CREDS|PASS|PASSPHRASE|PAT|AUTH|JWT|BEARER"
    r"|COOKIES?|PEM|SALT|MNEMONIC|SEED_PHRASE|DSN)|SSHPASS|.+_PWD|.*(?:PASSWORD|PASSWD).*|(?:.*_)?SECRET_.*"
    r"|.*(?:API|ACCESS|PRIVATE|SIGNING|ENCRYPTION|MASTER|ACCOUNT)_?KEY.*|.*CONN(?:ECTION)?_?STR(?:ING)?.*|.*WEBHOOK.*"
    r"|(?:BW|OP)_SESSION.*",
    re.IGNORECASE,
)
"""Names of variables with a secret: `*_TOKEN`, `*_KEY`, `*_SECRET`, `*PASSWORD*` and the like."""
_KEY_IN_URL = re.compile(r"://(?=[^/\s@]{0,200}\d)[^/\s:@]{16,200}@")
"""A key as the user name of a URL."""
_GIT_SETTING = re.compile(r"GIT_CONFIG_(?:COUNT|(?:KEY|VALUE)_\d+)")

SHORTEST_SECRET = 8
"""Least characters of a masked value: shorter ones may be ordinary words."""

_NO_FILE = "/nonexistent/npmrc"
"""A file that nobody makes; pnpm complains of one below `/dev/null`."""
_PATHS = ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "NODE_PATH")
"""Variables with paths that may lead into a project."""

_OFFLINE = {
    "npm_config_offline": "true",
    "CARGO_NET_OFFLINE": "true",
    "UV_OFFLINE": "1",
    "PIP_RETRIES": "0",
}
"""Without network: use caches, and fail at once instead of retrying for a minute."""


def sandbox_environment(
    profile: SandboxProfile, environ: Environ, passed: Collection[str] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment of a command in `profile`, and the names of the variables removed from `environ`.

    Secrets are removed in every profile, `none` too, except those in `passed` (`sandbox.env_pass`).
    """
    environ = copy_environ(environ)
    removed = _secret_names(environ, passed)
    env = _move_paths({name: value for name, value in environ.items() if name not in removed}, profile.project)
    if profile.temp is not None:
        env |= {"TMPDIR": str(profile.temp), "TMP": str(profile.temp), "TEMP": str(profile.temp)}
        # Java reads no TMPDIR: gradle and each test with a temporary file would fail.
        options = env.get("JAVA_TOOL_OPTIONS", "")
        env["JAVA_TOOL_OPTIONS"] = f"{options} -Djava.io.tmpdir={profile.temp}".strip()
        # npm fails if it cannot read its settings, which are hidden because they have registry tokens.
        env.pop("npm_config_userconfig", None)
        env["NPM_CONFIG_USERCONFIG"] = "/dev/null"
        env.setdefault("NPM_CONFIG_GLOBALCONFIG", _NO_FILE)  # npm refuses one file for both
        # go fails if it cannot create its cache.
        caches = {"GOCACHE": str(profile.temp / "go-build")} | dict(profile.caches)
        moved = {name.lower() for name in caches}  # npm reads its variables case-insensitively
        env = {name: value for name, value in env.items() if name.lower() not in moved} | caches
        shared = os.path.join(env.get("HOME", ""), ".gradle", "caches")
        if "GRADLE_USER_HOME" in caches and os.path.isdir(shared):
            env["GRADLE_RO_DEP_CACHE"] = shared
    if profile.name != "none" and not profile.network:
        env = _OFFLINE | env
    if profile.name == "read":
        env["PATH"] = _path_outside(env.get("PATH", os.defpath), profile)
        env["NPM_CONFIG_GLOBALCONFIG"] = _NO_FILE
        env = {name: value for name, value in env.items() if not _GIT_SETTING.fullmatch(name)}
        env |= read_git_settings(environ).variables
    return env, removed


def _move_paths(env: dict[str, str], project: Path) -> dict[str, str]:
    """Return `env` for commands in `project`: if that is a worktree, an activated environment of its source project is
    replaced by the copy in the worktree. An environment without a copy is given the worktree's modules first: those of
    an editable install would be the original's."""
    record = find_worktree(project)
    if record is None:
        return env
    root = f"{record.source}{os.sep}"
    active = env.get("VIRTUAL_ENV", "") or env.get("CONDA_PREFIX", "")
    if active and not (active.startswith(root) and (record.folder / active[len(root) :]).is_dir()):
        modules = [str(path) for path in (record.folder / "src", record.folder) if path.is_dir()]
        env["PYTHONPATH"] = os.pathsep.join([*modules, *filter(None, [env.get("PYTHONPATH", "")])])
    for name in _PATHS:
        entries = env.get(name, "").split(os.pathsep)
        copies = ((entry, record.folder / entry[len(root) :]) for entry in entries)
        moved = [
            str(copy) if moved_path.startswith(root) and copy.is_dir() else moved_path for moved_path, copy in copies
        ]
        if moved != entries:
            env[name] = os.pathsep.join(moved)
    return env


def _path_outside(path: str, profile: SandboxProfile) -> str:
    """Remove relative entries from a `PATH`, and those in the project or the source project of a worktree: read-only
    commands must run the system's git."""
    # If the project is `/`, it contains the system's programs, which stay.
    record = find_worktree(profile.project)
    folders = (profile.project, profile.cwd, *([record.source] if record else []))
    within = [folder for folder in folders if folder.parent != folder]
    entries = (entry for entry in path.split(os.pathsep) if os.path.isabs(entry))
    kept_entries = [entry for entry in entries if not is_below(os.path.realpath(entry), *within)]
    return os.pathsep.join(kept_entries) or os.defpath


def mask_secrets(text: str, environ: Environ, passed: Collection[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Replace the values of secrets in `text` by `[NAME]`; return the text and the names found in it.

    Secrets are the secret variables of `environ`, except those in `passed` (`sandbox.env_pass`), and the keys that were
    typed or stored in this process.
    """
    names = {value: name for value, name in protected_secrets().items() if value in text}
    environ = copy_environ(environ)
    for name in _secret_names(environ, passed):
        value = environ[name].strip()
        if len(value) >= SHORTEST_SECRET and value in text:
            names.setdefault(value, name)
    if not names:
        return text, ()
    longest = sorted(names, key=len, reverse=True)
    masked = re.sub("|".join(map(re.escape, longest)), lambda match: f"[{names[match[0]]}]", text)
    return masked, tuple(sorted(names.values()))


def _secret_names(environ: Environ, passed: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, value in environ.items() if name not in passed and is_secret(name, value)))


def is_secret(name: str, value: str) -> bool:
    """Return True if a variable has a secret, by its name or by its value: a password in a URL, a key, a token."""
    return bool(value) and (_SECRET.fullmatch(name) is not None or _holds_secret(value))


@lru_cache(512)
def _holds_secret(value: str) -> bool:
    return redact(value, environ={}) != value or _KEY_IN_URL.search(value) is not None
