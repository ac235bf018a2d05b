"""The settings: their values, and how files and environment are merged into them.

Precedence, lowest first: package defaults (`defaults/config.toml`), the personal `config.toml`, `NEXUS_MODEL`
(`nexus docs settings`). Options of the command line are applied in `nexus_cli.cli`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nexus_cli.config.paths import Places, defaults_dir, places
from nexus_cli.config.setting_rules import (
    LEDGER_URL,
    NAMED_TABLES,
    OPEN_TABLES,
    REMOVED_TABLES,
    RULES,
    TABLES,
    Rule,
    SettingValue,
)
from nexus_cli.core.errors import NexusError, nearest_name
from nexus_cli.core.limits import ASK, AUTO, Limits

if TYPE_CHECKING:
    from nexus_cli.config.checks import EditCheck
    from nexus_cli.config.hook_tables import HookTable

STEPS = Limits(max_steps=200)
UNLIMITED = Limits()
LONGEST_SHOWN = 24
"""Most characters of an invalid value in an error; a longer one may be a key, and is not shown."""


@dataclass(frozen=True, slots=True)
class CompactSettings:
    """Thresholds and caps of a compaction, in shares of the budget."""

    at: float = 0.85
    to: float = 0.35
    overflow_to: float = 0.25
    model: str = ""
    """The model that writes the summary; "" for the session's own."""
    seconds: float = 300.0
    """Time limit of a summary."""
    prune: bool = True
    """Remove stale tool results from the window if that pays off."""
    extract: bool = False
    """Store facts for other sessions in memory before a compaction."""


@dataclass(frozen=True, slots=True)
class SectionSettings:
    """`[sections]`."""

    learn: bool = True
    """Learn from recalls how much the sections of a project count."""


@dataclass(frozen=True, slots=True)
class TruncationSettings:
    """Truncation of a window that does not fit."""

    strategy: str = "oldest_first"
    low_water: float = 0.5
    """Share of the budget to which one truncation cuts the window."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Timeouts, in seconds, and number of retries of a provider request."""

    stall_seconds: float = 120.0
    retries: int = 5
    retry_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class UiSettings:
    """Appearance and keys of the terminal."""

    theme: str = "auto"
    keys: str = "emacs"
    notify: bool = True
    """Notify a person who is away when a turn ends or a question is open."""
    notify_command: str = ""
    """A command that also runs then."""
    status_command: str = ""
    """A command whose first line of output stands in the status line."""
    style: str = ""
    """Name of the file with the style of answers, see `nexus docs personal`."""
    title_model: str = ""
    """The model that writes a session's title after its first turn; "" for the first words of the session."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The sandbox of commands, see `nexus_cli/sandbox`."""

    backend: str = "auto"
    env_pass: tuple[str, ...] = ()
    """Variables that commands get although they look like secrets."""
    write: tuple[str, ...] = ()
    """Further paths that sandboxed commands may write."""
    unix_sockets: bool = False
    """Let sandboxed commands use Unix sockets: Docker, agents, the desktop."""


@dataclass(frozen=True, slots=True)
class AssessSettings:
    """`[assess]`."""

    model: str = ""
    """The model that assesses each task before its turn; "" for no assessment."""


@dataclass(frozen=True, slots=True)
class SpaceSettings:
    """`[spaces]`: conversations of several people and agents."""

    name: str = ""
    """The person's name in spaces; "" for the name in git's settings, else the login name."""
    router: str = "rule"
    """Chooses the agents for a message without a mention: `off`, `rule` (names and topics), or a model's name."""
    max_runs: int = 12
    """Runs of agents that one message of a person starts, with all messages that agents send for it."""
    max_cost: float = 2.0
    """US dollars that these runs cost."""


@dataclass(frozen=True, slots=True)
class WorktreeSettings:
    """`[worktree]`: ignored files that come along, and the preparation of a new worktree."""

    include: tuple[str, ...] = ()
    """Patterns of ignored files, as in `.gitignore`, besides dependencies and `.env` files."""
    include_mb: int = 1024
    """Most megabytes copied into one worktree; 0 for none."""
    setup: str = ""
    """A command that runs in each new worktree, in the sandbox."""


@dataclass(frozen=True, slots=True)
class UndoSettings:
    """`[undo]`: the copies of files that take back what calls changed."""

    max_mb: int = 2000
    """Most megabytes of all copies; those of the oldest steps are removed first."""
    max_file_mb: int = 200
    """Most megabytes of a file that is copied before a command; a larger one is linked."""
    require: bool = False
    """True to ask before a command that may change what undo does not cover."""


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """`[ledger]`, without `ledger.url`, which `config.ledger_place` reads."""

    wait: float = 600.0
    """Most seconds to wait for a ledger's server that is away."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`[jobs]`: background commands."""

    forward: str = "ask"
    """Whether the ports of jobs are forwarded to the person's loopback: `off`, `auto`, or `ask` where commands ask."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`[runs]`: caps of unattended runs: plans, services, agents of spaces."""

    allow: str = AUTO
    """Highest permission level."""
    max_cost: float = 0.5
    """Cap in US dollars of a run without its own."""
    max_cost_day: float = 5.0
    """Cap in US dollars of all unattended runs of one day."""
    max_wait: float = 604_800.0
    """Seconds after which a run ends a wait that has no other limit."""
    wait_provider: float = 43_200.0
    """Seconds after which a run whose provider is away has failed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings in force, without the options of the command line."""

    model: str = ""
    effort: str = ""
    allow: str = ASK
    limits: Limits = STEPS
    warn_cost: float = 0.5
    """US dollars from which a request that misses the cache is announced in words (`limits.warn_cost`)."""
    compact: CompactSettings = CompactSettings()
    sections: SectionSettings = SectionSettings()
    truncation: TruncationSettings = TruncationSettings()
    provider: ProviderSettings = ProviderSettings()
    ui: UiSettings = UiSettings()
    sandbox: SandboxSettings = SandboxSettings()
    assess: AssessSettings = AssessSettings()
    spaces: SpaceSettings = SpaceSettings()
    runs: RunSettings = RunSettings()
    worktree: WorktreeSettings = WorktreeSettings()
    undo: UndoSettings = UndoSettings()
    jobs: JobSettings = JobSettings()
    ledger: LedgerSettings = LedgerSettings()
    check: tuple[EditCheck, ...] | None = None
    """The tables `[[check]]`; () for no checks at all, None for those found in the project alone."""
    hook: tuple[HookTable, ...] = ()
    """The tables `[[hook]]` of the person's own file."""
    alias: Mapping[str, str] = field(default_factory=dict)
    bindings: Mapping[str, str] = field(default_factory=dict)
    """By key, as prompt-toolkit names it: an action of `KEYS_OF_ACTIONS`, or a slash command."""
    folder_keys: Mapping[str, str] = field(default_factory=dict)
    """By folder: the name of the stored keys that projects in it use (`nexus login PROVIDER --as NAME`)."""
    key_name: str = ""
    """The name in `folder_keys` for this project, "" for the usual keys; not a setting of its own."""
    models: Mapping[str, Mapping[str, float | int | bool]] = field(default_factory=dict)
    """By model name: window, caps and prices (US dollars per million tokens), see `MODEL_RULES`."""
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name of an agent in spaces: the options of its runs, and its `topics`."""
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name of a service: its `instruction`, the options of its runs, and how its events are checked."""
    hosts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By host, or HOST:PORT: the name of the `key` that `wait_for` sends there, its `header` and `prefix`."""
    default_models: Mapping[str, str] = field(default_factory=dict)
    """By environment variable of a key: the model to use with it."""
    project: Limits = UNLIMITED
    """Limits of a trusted project, see `nexus_cli.config.project_settings`."""
    notices: tuple[str, ...] = ()
    """Notices for the person: removed tables in the personal file, project files without effect."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings, and the origin of every key that has a value."""

    settings: Settings
    origins: Mapping[str, str]
    """`default`, the path of the personal file, or `environment NEXUS_MODEL`."""
    values: Mapping[str, SettingValue]
    """The same settings by dotted key, with parts quoted by `quote_part`."""


def quote_part(part: str) -> str:
    """Quote `part` of a dotted key unless it is a plain word."""
    plain = part and part.isascii() and part.replace("_", "").replace("-", "").isalnum()
    return part if plain else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'


def split_key(key: str) -> list[str]:
    """Split a dotted key into unquoted parts. Names that the person chose may contain dots."""
    table, _, rest = key.partition(".")
    of_folder = table == "rules" and rest.startswith('"')
    if not rest or not (of_folder or table in (*NAMED_TABLES, *OPEN_TABLES)):
        return [table, *key.split(".")[1:]]
    if of_folder or table in NAMED_TABLES:
        name, dot, last = rest.rpartition(".")
        parts = [table, name, last] if dot else [table, rest]
    else:
        parts = [table, rest]
    return [_unquote_part(part) for part in parts]


def _unquote_part(part: str) -> str:
    if len(part) < 2 or not part[0] == part[-1] == '"':
        return part
    return part[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def rule_for(parts: list[str]) -> Rule | None:
    """Return the rule of a key, None for an unknown key."""
    if len(parts) == 2 and parts[0] in OPEN_TABLES:
        return OPEN_TABLES[parts[0]]
    if len(parts) == 3 and parts[0] in NAMED_TABLES:
        return NAMED_TABLES[parts[0]].get(parts[2])
    if len(parts) == 3 and is_rule_folder(parts[:2]):
        return RULES.get(f"rules.{parts[2]}")
    return RULES.get(".".join(parts))


def is_rule_folder(parts: Sequence[str]) -> bool:
    """Return True for a table `[rules."/FOLDER"]` or `[rules."~/FOLDER"]`, with rules for projects in that folder."""
    return len(parts) == 2 and parts[0] == "rules" and parts[1].startswith(("/", "~/"))


def unknown_key_error(key: str, where: str = "") -> NexusError:
    """Return the error for an unknown key, with the most similar known one."""
    parts = split_key(key)
    if parts[0] in REMOVED_TABLES:
        return NexusError("config", where or "the settings", f"{key} is no longer supported", "Remove it")
    stem = f"{parts[0]}.{quote_part(parts[1])}." if len(parts) == 3 and parts[0] in NAMED_TABLES else ""
    known = [stem + name for name in NAMED_TABLES[parts[0]]] if stem else [*RULES, *TABLES]
    near = nearest_name(key, known, 0.6)
    hint = f"The nearest is {near}" if near else "`nexus config show` lists the settings"
    return NexusError("config", where or "the settings", f"there is no setting {key}", hint)


def check_value(key: str, value: Any, where: str = "") -> SettingValue:
    """Validate and convert `value` for `key`; raise `NexusError("config", ...)` if either is invalid."""
    rule = rule_for(split_key(key))
    if rule is None and key not in TABLES:
        raise unknown_key_error(key, where)
    folder = split_key(key)[-1] if key.startswith("folder_keys.") else "/"
    if not folder.startswith(("/", "~/")):  # it would name another one in each folder that nexus is started in
        raise NexusError("config", where or "the settings", f"{key} is not an absolute path", "Correct the path")
    fit = rule.read(value) if rule else None
    if fit is None:
        shown = f'"{value}"' if isinstance(value, str) else str(value)
        if len(shown) > LONGEST_SHOWN:
            shown = f"a value of {len(shown)} characters"
        expected = rule.expected if rule else f"a table [{key}]"
        raise NexusError(
            "config", where or "the settings", f"{key} is {shown}, expected {expected}", "Correct the value"
        )
    return fit


def find_line(text: str, parts: list[str]) -> int:
    """Return the line number of a dotted key in a TOML text, 0 if not found. A heuristic without a parser."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("["):
            table = [p.strip().strip("\"'") for p in _split_dotted(line.strip("[]").partition("#")[0].rstrip("] "))]
            found = table
        elif "=" in line:
            found = table + [p.strip().strip("\"'") for p in _split_dotted(line.partition("=")[0])]
        else:
            continue
        if found[: len(parts)] == parts:
            return number
    return 0


def _split_dotted(text: str) -> list[str]:
    parts = [""]
    quote = ""
    for char in text:
        if quote or char in "\"'":
            quote = "" if char == quote else quote or char
            parts[-1] += char
        elif char == ".":
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _flatten(table: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[list[str], Any]]:
    flat: list[tuple[list[str], Any]] = []
    for key, value in table.items():
        parts = (*prefix, key)
        named = (parts[0] in NAMED_TABLES and len(parts) < 3) or is_rule_folder(parts)
        if isinstance(value, Mapping) and (named or ".".join(parts) in TABLES):
            flat += _flatten(value, parts)
        else:
            flat.append((list(parts), value))
    return flat


def read_values(path: Path, notices: list[str] | None = None) -> dict[str, SettingValue]:
    """Return the settings of one file by dotted key, {} if the file does not exist.

    Removed tables are accepted, with a line in `notices`. Raises `NexusError("config", ...)` with file and
    line if the file is unreadable or no TOML, or a key or value is invalid.
    """
    try:
        if not path.is_file() and path.exists():
            raise NexusError(
                "config", str(path), "is not a file", "Move it away; `nexus config set` creates a new file"
            )
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except UnicodeDecodeError as error:
        _raise_broken(path, error.object[: error.start].count(b"\n") + 1, "is not UTF-8")
    except OSError as error:
        raise NexusError("config", str(path), f"cannot be read ({error.strerror})", "Check its permissions") from error
    return parse_values(text, path, notices)


def parse_values(text: str, path: Path, notices: list[str] | None = None) -> dict[str, SettingValue]:
    """Return the settings in `text` by dotted key; raise `NexusError("config", ...)` with `path` and line."""
    import tomllib  # noqa: PLC0415  (a command that reads no settings does not pay for it)

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why, _, place = str(error).partition(" (at ")
        line = "".join(c for c in place.partition(",")[0] if c.isdigit())
        _raise_broken(
            path, int(line) if line else text.count("\n") + 1, f"is not valid TOML: {why[:1].lower()}{why[1:]}"
        )
    for removed in REMOVED_TABLES.keys() & table.keys():
        del table[removed]
        if notices is not None:
            where = f"{path}, line {find_line(text, [removed])}"
            notices.append(f"{where}: [{removed}] is no longer supported; {REMOVED_TABLES[removed]}")
    values: dict[str, SettingValue] = {}
    for parts, value in _flatten(table):
        key = ".".join(quote_part(part) for part in parts)
        try:
            values[key] = check_value(key, value)
        except NexusError:
            line_number = find_line(text, parts)
            check_value(key, value, f"{path}, line {line_number}" if line_number else str(path))
            raise
    return values


def _raise_broken(path: Path, line: int, why: str) -> NoReturn:
    raise NexusError("config", f"{path}, line {line}", why, "Correct that line, or move the file away") from None


def build_settings(values: Mapping[str, SettingValue]) -> Settings:
    """Build the settings from validated dotted keys; missing ones get the defaults of their class."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        if key == LEDGER_URL:
            continue  # of `config.ledger_place` alone: it may have a password
        *tables, last = split_key(key)
        level = tree
        for name in tables:
            level = level.setdefault(name, {})
        level[last] = value
    made: dict[str, Any] = {}
    if "warn_cost" in tree.get("limits", {}):  # bounds nothing, unlike the other keys of its table
        made["warn_cost"] = tree["limits"].pop("warn_cost")
    for f in fields(Settings):
        if f.name in tree:
            maker: Any = type(f.default)
            made[f.name] = maker(**tree[f.name]) if is_dataclass(f.default) else tree[f.name]
    if "check" in made:
        from nexus_cli.config.checks import decode_checks  # noqa: PLC0415  (few settings have checks)

        made["check"] = decode_checks(made["check"])
    if "hook" in made:
        from nexus_cli.config.hook_tables import decode_hooks  # noqa: PLC0415  (few settings have hooks)

        made["hook"] = decode_hooks(made["hook"])
    return Settings(**made)


def own_settings() -> Settings:
    """Return the person's settings, without those of a project; raises as `load_settings` does."""
    return load_settings(places(), defaults_dir(), os.environ).settings


def load_settings(places: Places, defaults_dir: Path, environ: Mapping[str, str]) -> LoadedSettings:
    """Merge defaults, the personal file, then `NEXUS_MODEL`; raise as `read_values` for an invalid file."""
    values: dict[str, SettingValue] = read_values(defaults_dir / "config.toml")
    origins = dict.fromkeys(values, "default")
    notices: list[str] = []
    personal = read_values(places.settings, notices)
    if url := str(personal.get(LEDGER_URL, "")):
        from nexus_cli.config.database_url import hide_password  # noqa: PLC0415  (few settings name a server)

        personal[LEDGER_URL] = hide_password(url)
    values |= personal
    origins |= dict.fromkeys(personal, str(places.settings))
    if environ.get("NEXUS_MODEL", "").strip():
        values["model"] = environ["NEXUS_MODEL"].strip()
        origins["model"] = "environment NEXUS_MODEL"
    settings = check_consistency(build_settings(values), places.settings)
    return LoadedSettings(replace(settings, notices=tuple(notices)), origins, values)


def check_consistency(settings: Settings, path: Path) -> Settings:
    """Return `settings`; raise `NexusError("config", ...)` if two of them contradict each other."""
    low = max(settings.compact.to, settings.compact.overflow_to)
    if settings.compact.at <= low:
        why = f"compact.at ({settings.compact.at:g}) must be above compact.to and compact.overflow_to ({low:g})"
        raise NexusError("config", str(path), why, "Change one of them")
    return settings
