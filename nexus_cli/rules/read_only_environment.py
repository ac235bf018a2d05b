"""The environment of commands in the profile `read`: git neither writes its index nor runs what a repository names."""

from __future__ import annotations

from collections.abc import Mapping

from nexus_cli.core.shared_types import Environ
from nexus_cli.rules.bash_syntax import PLAIN_PAGERS

ENVIRONMENT: Mapping[str, str] = {
    "GIT_CONFIG_COUNT": "12",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "core.hooksPath",
    "GIT_CONFIG_VALUE_1": "/dev/null",
    "GIT_CONFIG_KEY_2": "core.pager",
    "GIT_CONFIG_VALUE_2": "cat",
    "GIT_CONFIG_KEY_3": "log.showSignature",
    "GIT_CONFIG_VALUE_3": "false",
    "GIT_CONFIG_KEY_4": "core.untrackedCache",
    "GIT_CONFIG_VALUE_4": "false",
    "GIT_CONFIG_KEY_5": "diff.submodule",
    "GIT_CONFIG_VALUE_5": "short",
    "GIT_CONFIG_KEY_6": "status.submoduleSummary",
    "GIT_CONFIG_VALUE_6": "false",
    "GIT_CONFIG_KEY_7": "safe.bareRepository",
    "GIT_CONFIG_VALUE_7": "explicit",
    "GIT_CONFIG_KEY_8": "gpg.program",
    "GIT_CONFIG_VALUE_8": "false",
    "GIT_CONFIG_KEY_9": "gpg.openpgp.program",
    "GIT_CONFIG_VALUE_9": "false",
    "GIT_CONFIG_KEY_10": "gpg.x509.program",
    "GIT_CONFIG_VALUE_10": "false",
    "GIT_CONFIG_KEY_11": "gpg.ssh.program",
    "GIT_CONFIG_VALUE_11": "false",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
"""Variables of a read-only command: git neither writes its index nor runs what a repository names. The walls hold
what they cannot switch off (`diff.external`, filters)."""
_COUNT = "GIT_CONFIG_COUNT"
UNSET = tuple(
    """
    RIPGREP_CONFIG_PATH CDPATH BASH_ENV ENV GIT_EXTERNAL_DIFF GIT_PAGER GREP_OPTIONS TREE_COLORS LESSOPEN
    JQ_COLORS SHELLOPTS BASHOPTS GLOBIGNORE GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE
    GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG_PARAMETERS TAR_OPTIONS AWKPATH AWKLIBPATH IFS
    """.split()
)
"""Variables that a read-only command does not get: they change what it does."""


def read_only_environment(environ: Environ) -> dict[str, str]:
    """Return the environment of a read-only command: git's settings in `environ` follow those of `ENVIRONMENT`."""
    env = {name: value for name, value in environ.items() if name not in UNSET} | {**ENVIRONMENT}
    first, raw_count = int(ENVIRONMENT[_COUNT]), environ.get(_COUNT, "")
    count = int(raw_count) if raw_count.isdecimal() else 0
    for place in range(count):
        for part in ("KEY", "VALUE"):
            env[f"GIT_CONFIG_{part}_{first + place}"] = environ.get(f"GIT_CONFIG_{part}_{place}", "")
    return env | {_COUNT: str(first + count)}


HARMLESS_VARIABLES = PLAIN_PAGERS | {"LC_ALL", "LANG", "LC_CTYPE", "TZ", "NO_COLOR", "COLUMNS", "TERM"}
"""Variables that a line may set for a read-only command."""
