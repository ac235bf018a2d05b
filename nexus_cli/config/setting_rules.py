"""The type and range of each setting, as data. `settings` merges the values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.limits import LEVELS, MAX_INT, MODES, parse_level

SettingValue = str | int | float | bool | tuple[str, ...]
BACKENDS = ("auto", "bwrap", "landlock", "seatbelt", "off", "required")
THEMES = ("auto", "dark", "light")
KEYS = ("emacs", "vi")
SENDERS = ("github", "gitlab", "slack")


@dataclass(frozen=True, slots=True)
class Rule:
    """The type and range of one key."""

    kind: type[str | int | float | bool | tuple[str, ...]]
    expected: str
    """Completes `expected ...`."""
    test: Callable[[Any], bool] = lambda value: True
    stored: Callable[[str], str] = str
    """Converts text as typed to the value that it names."""

    def read(self, value: Any) -> SettingValue | None:
        """Validate and convert `value`: a list to a tuple, an integer to a float if needed; None if it is invalid."""
        if self.kind is float and type(value) is int:
            value = float(value)
        if self.kind is str and isinstance(value, str):
            value = self.stored(value)
        if self.kind is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = tuple(map(str, value))
        fits = type(value) is self.kind and self.test(value)
        fit: SettingValue | None = value if fits else None
        return fit


@dataclass(frozen=True, slots=True)
class ChecksRule(Rule):
    """The rule of `[[check]]`: a list of tables, held as one line each."""

    def read(self, value: Any) -> SettingValue | None:
        from nexus_cli.config.checks import encode_check, parse_check  # noqa: PLC0415  (few settings have checks)

        checks = [parse_check(one) for one in value] if isinstance(value, list) else [None]
        return None if None in checks else tuple(encode_check(one) for one in checks if one)


@dataclass(frozen=True, slots=True)
class ServersRule(Rule):
    """The rule of `[mcp.NAME]`: the names of the tables. `nexus_cli.mcp.server_entries` reads what is in them."""

    def read(self, value: Any) -> SettingValue | None:
        is_table = isinstance(value, Mapping) and all(isinstance(server, Mapping) for server in value.values())
        return tuple(sorted(map(str, value))) if is_table else None


@dataclass(frozen=True, slots=True)
class HooksRule(Rule):
    """The rule of `[[hook]]`: a list of tables, held as one line each."""

    def read(self, value: Any) -> SettingValue | None:
        from nexus_cli.config.hook_tables import encode_hook, parse_hook  # noqa: PLC0415  (few settings have hooks)

        hooks = [parse_hook(one) for one in value] if isinstance(value, list) else [None]
        return None if None in hooks else tuple(encode_hook(one) for one in hooks if one)


def _limit_number(least: float, most: float) -> Rule:
    return Rule(float, f"a number from {least:g} to {most:g}", lambda value: least <= value <= most)


def _one_of(words: tuple[str, ...]) -> Rule:
    return Rule(str, "one of " + ", ".join(f'"{word}"' for word in words), lambda value: value in words)


def is_key_name(text: str) -> bool:
    """Return True for the name of a variable, such as `HOOK_SECRET`, in the form that no secret has."""
    return len(text) <= 64 and re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", text) is not None


LEVEL = replace(_one_of(LEVELS), stored=parse_level)
TEXT = Rule(str, "a text in quotes")
NAME = Rule(str, "a model's name in quotes", lambda value: bool(value.strip()))
KEY_OF_FOLDER = Rule(
    str, 'the name of a stored key, such as "work"', lambda value: bool(re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", value))
)
COUNT = Rule(int, f"a whole number from 1 to {MAX_INT}", lambda value: 1 <= value <= MAX_INT)
SECONDS = Rule(float, "a number of seconds above 0", lambda value: 0 < value < float("inf"))
NAMES = Rule(tuple, 'a list of names of variables, such as ["NPM_TOKEN"]', lambda value: all(map(str.strip, value)))
PATHS = Rule(
    tuple,
    'a list of absolute paths, or of paths that begin with "~/"',
    lambda value: all(path.startswith(("/", "~/")) for path in value),
)
TEXTS = Rule(tuple, "a list of texts in quotes")
YES_OR_NO = Rule(bool, "true or false")
PRICE = Rule(float, "a price per million tokens, from 0", lambda value: 0 <= value < float("inf"))
MEGABYTES = Rule(int, "megabytes, a whole number from 0 to 1000000", lambda value: 0 <= value <= 10**6)
DOLLARS = Rule(float, "dollars, above 0", lambda value: 0 < value < float("inf"))
FOLDER = Rule(str, 'an absolute path, or one that begins with "~/"', lambda value: value.startswith(("/", "~/")))
KEY_NAME = Rule(
    str,
    'the name of a variable or stored key, capitals with a "_", such as "HOOK_SECRET"; never the secret itself',
    is_key_name,
)
HEADER = Rule(
    str, 'the name of a header, such as "X-Api-Key"', lambda value: bool(re.fullmatch(r"[A-Za-z0-9-]{1,64}", value))
)
CONDITIONS = Rule(
    tuple,
    'a list of conditions FIELD=VALUE, such as ["action=completed"]',
    lambda value: all("=" in one.lstrip("!=") for one in value),
)


KEYS_OF_ACTIONS: Mapping[str, str] = {
    "newline": "c-j",
    "queue": "escape enter",
    "back": "escape",
    "stop": "c-c",
    "leave": "c-d",
    "level": "s-tab",
    "search": "c-r",
    "editor": "c-g",
    "image": "c-v",
    "background": "c-b",
    "thinking": "c-t",
    "output": "c-o",
    "clear": "c-l",
    "suspend": "c-z",
}
"""What a key of `[bindings]` can do, and the key that does it without such a table."""
ACTION = Rule(
    str,
    f'a command such as "/compact", or one of {", ".join(KEYS_OF_ACTIONS)}',
    lambda value: value in KEYS_OF_ACTIONS or (value.startswith("/") and len(value) > 1),
)

LEDGER_URL = "ledger.url"
"""Not part of `Settings`, which are shown and logged: the URL may contain a password."""


def is_database_url(value: str) -> bool:
    """Return True for a PostgreSQL URL or an empty value."""
    return not value or value.startswith(("postgresql://", "postgres://"))


RULES: Mapping[str, Rule] = {
    "model": TEXT,
    "effort": _one_of(("", DEFAULT_EFFORT, *EFFORTS)),
    "allow": LEVEL,
    "limits.max_steps": COUNT,
    "limits.max_total_tokens": COUNT,
    "limits.max_cost": DOLLARS,
    "limits.warn_cost": DOLLARS,
    "limits.timeout": SECONDS,
    "limits.mode": _one_of(MODES),
    "limits.max_iterations": COUNT,
    "limits.confirm": YES_OR_NO,
    "limits.multi_tool": YES_OR_NO,
    "limits.sub_agents": YES_OR_NO,
    "limits.sub_agent_budget": Rule(int, "a whole number from 1 to 8", lambda value: 1 <= value <= 8),
    "compact.at": _limit_number(0.3, 0.95),
    "compact.to": _limit_number(0.1, 0.6),
    "compact.overflow_to": _limit_number(0.1, 0.4),
    "compact.model": TEXT,
    "compact.extract": YES_OR_NO,
    "compact.seconds": SECONDS,
    "compact.prune": Rule(bool, "true or false"),
    "sections.learn": YES_OR_NO,
    "truncation.strategy": _one_of(("oldest_first", "middle_out")),
    "truncation.low_water": _limit_number(0.1, 1.0),
    "provider.stall_seconds": SECONDS,
    "provider.retries": Rule(int, "a whole number from 0 to 100", lambda value: 0 <= value <= 100),
    "provider.retry_seconds": SECONDS,
    "ui.theme": _one_of(THEMES),
    "ui.keys": _one_of(KEYS),
    "ui.notify": YES_OR_NO,
    "ui.notify_command": TEXT,
    "ui.status_command": TEXT,
    "ui.style": TEXT,
    "ui.title_model": TEXT,
    "sandbox.backend": _one_of(BACKENDS),
    "sandbox.env_pass": NAMES,
    "sandbox.write": PATHS,
    "sandbox.unix_sockets": YES_OR_NO,
    "assess.model": TEXT,
    LEDGER_URL: Rule(str, 'an address such as "postgresql://USER@HOST/NAME", or ""', is_database_url),
    "ledger.wait": SECONDS,
    "spaces.name": TEXT,
    "spaces.router": TEXT,
    "spaces.max_runs": COUNT,
    "spaces.max_cost": DOLLARS,
    "runs.allow": LEVEL,
    "runs.max_cost": DOLLARS,
    "runs.max_cost_day": DOLLARS,
    "runs.max_wait": SECONDS,
    "runs.wait_provider": SECONDS,
    "worktree.include": TEXTS,
    "worktree.include_mb": MEGABYTES,
    "worktree.setup": TEXT,
    "jobs.forward": _one_of(("ask", "auto", "off")),
    "undo.max_file_mb": MEGABYTES,
    "undo.max_mb": MEGABYTES,
    "undo.require": YES_OR_NO,
    "check": ChecksRule(
        tuple, "tables [[check]], each with `glob`, `command` ({files} not between quotes) and perhaps `seconds`"
    ),
    "mcp": ServersRule(tuple, "tables [mcp.NAME], each with `command` or `url` (nexus docs mcp)"),
    "hook": HooksRule(
        tuple, "tables [[hook]], each with `event`, `command` and perhaps `matcher`, `timeout`, `on_timeout`"
    ),
    "rules.allow": TEXTS,
    "rules.ask": TEXTS,
    "rules.deny": TEXTS,
}
"""Every fixed key."""

MODEL_RULES: Mapping[str, Rule] = {
    "window": Rule(int, f"tokens, a whole number from 1000 to {MAX_INT}", lambda value: 1000 <= value <= MAX_INT),
    "max_output": COUNT,
    "input_price": PRICE,
    "output_price": PRICE,
    "cache_read_price": PRICE,
    "cache_write_price": PRICE,
    "images": Rule(bool, "true or false"),
    "tools": Rule(bool, "true or false"),
}
"""Keys of `[models.NAME]`."""

AGENT_RULES: Mapping[str, Rule] = {
    "model": TEXT,
    "recipe": TEXT,
    "allow": LEVEL,
    "max_cost": DOLLARS,
    "folder": FOLDER,
    "topics": TEXTS,
    "goals": TEXTS,
}
"""Keys of `[agents.NAME]`."""

SERVICE_RULES: Mapping[str, Rule] = {
    "agent": TEXT,
    "instruction": Rule(str, "a text in quotes", lambda value: bool(value.strip())),
    "folder": FOLDER,
    "model": TEXT,
    "recipe": TEXT,
    "allow": LEVEL,
    "max_cost": DOLLARS,
    "max_cost_day": DOLLARS,
    "max_steps": COUNT,
    "ask": Rule(bool, "true or false"),
    "rules": TEXTS,
    "sender": _one_of(SENDERS),
    "token_header": HEADER,
    "secret": KEY_NAME,
    "filter": CONDITIONS,
    "key": TEXT,
    "debounce": Rule(float, "a number of seconds from 0", lambda value: 0 <= value < float("inf")),
}
"""Keys of `[services.NAME]`."""

HOST_RULES: Mapping[str, Rule] = {"key": KEY_NAME, "header": HEADER, "prefix": TEXT}
"""Keys of `[hosts."HOST"]`."""

NAMED_TABLES: Mapping[str, Mapping[str, Rule]] = {
    "models": MODEL_RULES,
    "agents": AGENT_RULES,
    "services": SERVICE_RULES,
    "hosts": HOST_RULES,
}
"""Tables of tables with names that the person chooses."""
OPEN_TABLES: Mapping[str, Rule] = {
    "bindings": ACTION,
    "alias": NAME,
    "default_models": NAME,
    "folder_keys": KEY_OF_FOLDER,
    "rule_examples": TEXTS,
}
"""Tables with keys that the person chooses."""
REMOVED_TABLES: Mapping[str, str] = {"keys": "rename it to [default_models]", "warm": "remove it"}
"""Tables of earlier versions, which are accepted and have no effect, and what to do with each."""

TABLES = tuple(
    """
    limits compact sections truncation provider ui sandbox assess ledger spaces runs worktree undo jobs rules alias
    bindings models agents services hosts default_models folder_keys rule_examples
    """.split()
)
