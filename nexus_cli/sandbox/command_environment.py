"""The environment of commands: without the person's keys, with the private temporary folder.

What the person's own commands print with all of their keys is masked before the model gets it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from nexus_cli.core.redact_secrets import protected_secrets, redact
from nexus_cli.sandbox.git_settings import read_git_settings
from nexus_cli.sandbox.profile import Profile, is_below

_SECRET = re.compile(
    r"(?:.*_)?(?:(?:ACCESS|AUTH|SECRET)?(?:TOKENS?|KEYS?)|SECRETS?|CREDENTIALS?|CREDS|PASS|PASSPHRASE|PAT|AUTH|JWT|BEARER"
    r"|COOKIES?|PEM|SALT|MNEMONIC|SEED_PHRASE|DSN)|SSHPASS|.+_PWD|.*(?:PASSWORD|PASSWD).*|(?:.*_)?SECRET_.*"
    r"|.*(?:API|ACCESS|PRIVATE|SIGNING|ENCRYPTION|MASTER|ACCOUNT)_?KEY.*|.*CONN(?:ECTION)?_?STR(?:ING)?.*|.*WEBHOOK.*"
    r"|(?:BW|OP)_SESSION.*",
    re.IGNORECASE,
)
"""Names of variables that hold a secret: `*_TOKEN`, `*_KEY`, `*_SECRET`, `*PASSWORD*` and their kind."""
_KEY_IN_URL = re.compile(r"://(?=[^/\s@]{0,200}\d)[^/\s:@]{16,200}@")
"""A key as the user of an address."""
_GIT_SETTING = re.compile(r"GIT_CONFIG_(?:COUNT|(?:KEY|VALUE)_\d+)")

SHORTEST_SECRET = 8
"""Characters of a value that is masked: shorter ones are words of any text."""

_OFFLINE = {
    "npm_config_offline": "true",
    "CARGO_NET_OFFLINE": "true",
    "UV_OFFLINE": "1",
    "PIP_RETRIES": "0",
}
"""Where there is no network: use what is cached, and fail at once instead of trying for a minute."""


def child_environment_for(
    profile: Profile, environ: Mapping[str, str], passed: Collection[str] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment for a command in `profile`, and the names that were taken out of `environ`.

    Secrets are taken out in every profile, also without walls; those in `passed` (`sandbox.env_pass`) stay.
    """
    taken = _secret_names(environ, passed)
    env = {name: value for name, value in environ.items() if name not in taken}
    if profile.temp is not None:
        env |= {"TMPDIR": str(profile.temp), "TMP": str(profile.temp), "TEMP": str(profile.temp)}
        # npm gives up when it may not read its settings, which hold the tokens of registries.
        env.pop("npm_config_userconfig", None)
        env["NPM_CONFIG_USERCONFIG"] = "/dev/null"
        # go gives up where it can make no cache.
        caches = {"GOCACHE": str(profile.temp / "go-build")} | dict(profile.caches)
        moved = {name.lower() for name in caches}  # npm reads its own in any case
        env = {name: value for name, value in env.items() if name.lower() not in moved} | caches
        shared = os.path.join(env.get("HOME", ""), ".gradle", "caches")
        if "GRADLE_USER_HOME" in caches and os.path.isdir(shared):
            env["GRADLE_RO_DEP_CACHE"] = shared
    if profile.name != "none" and not profile.network:
        env = _OFFLINE | env
    if profile.name == "read":
        env["PATH"] = _path_outside(env.get("PATH", os.defpath), profile)
        env["NPM_CONFIG_GLOBALCONFIG"] = os.devnull
        env = {name: value for name, value in env.items() if not _GIT_SETTING.fullmatch(name)}
        settings = read_git_settings(environ, profile.project)
        if settings.is_hidden:
            env["GIT_CONFIG_GLOBAL"] = os.devnull  # git gives up on settings that it may not read
            env["GIT_CONFIG_COUNT"] = str(len(settings.safe_directories))
            for place, folder in enumerate(settings.safe_directories):
                env |= {f"GIT_CONFIG_KEY_{place}": "safe.directory", f"GIT_CONFIG_VALUE_{place}": folder}
    return env, taken


def _path_outside(path: str, profile: Profile) -> str:
    """Return `PATH` without what is relative or in the project: `git` of a read-only command is that of the system."""
    # A project that is `/` holds the system; those programs are not its own.
    within = [str(folder) for folder in (profile.project, profile.cwd) if folder.parent != folder]
    entries = (entry for entry in path.split(os.pathsep) if os.path.isabs(entry))
    kept = [entry for entry in entries if not is_below(os.path.realpath(entry), within)]
    return os.pathsep.join(kept) or os.defpath


def mask_secrets(text: str, environ: Mapping[str, str], passed: Collection[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Return `text` with `[NAME]` for the values of secrets of `environ` that it holds, and their names; likewise for
    keys that were typed or stored in this process.

    Values of variables in `passed` (`sandbox.env_pass`) stay.
    """
    names = {value: name for value, name in protected_secrets().items() if value in text}
    for name in _secret_names(environ, passed):
        value = environ[name].strip()
        if len(value) >= SHORTEST_SECRET and value in text:
            names.setdefault(value, name)
    if not names:
        return text, ()
    longest = sorted(names, key=len, reverse=True)
    masked = re.sub("|".join(map(re.escape, longest)), lambda found: f"[{names[found[0]]}]", text)
    return masked, tuple(sorted(names.values()))


def _secret_names(environ: Mapping[str, str], passed: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, value in environ.items() if name not in passed and is_secret(name, value)))


def is_secret(name: str, value: str) -> bool:
    """True if a variable holds a secret, by its name or by its value: a password in an address, a key, a token."""
    return bool(value) and (_SECRET.fullmatch(name) is not None or _holds_secret(value))


@lru_cache(512)
def _holds_secret(value: str) -> bool:
    return redact(value, environ={}) != value or _KEY_IN_URL.search(value) is not None
