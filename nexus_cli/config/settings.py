"""The settings: each is declared once, with its default, its range and its meaning.

A field here, or an entry of a table in `nexus_cli.config.setting_tables`, is all that a new setting needs: the check of
its value, the commented file (`nexus docs settings`, `nexus config edit`), `nexus config set` and what a project may do
follow from it. `nexus_cli.config.load_settings` reads and merges the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nexus_cli.config.setting_rules import (
    COUNT,
    DOLLARS,
    LEVEL,
    MEGABYTES,
    NAMES,
    PATHS,
    SECONDS,
    TEXT,
    TEXTS,
    YES_OR_NO,
    TablesRule,
    declare,
    number,
    one_of,
    whole_number,
)
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.limits import ASK, AUTO, Limits

if TYPE_CHECKING:
    from nexus_cli.config.checks import EditCheck
    from nexus_cli.config.hook_tables import HookTable

STEPS = Limits(max_steps=200)
UNLIMITED = Limits()


@dataclass(frozen=True, slots=True)
class CompactSettings:
    """`[compact]`: compaction."""

    at: float = declare(
        0.85, number(0.3, 0.95), "Share of the budget at which older history is summarized.", in_projects="replaces"
    )
    to: float = declare(
        0.35, number(0.1, 0.6), "Maximum share of the budget in use after a summary.", in_projects="replaces"
    )
    overflow_to: float = declare(
        0.25,
        number(0.1, 0.4),
        "Maximum share in use after a summary that was made because the provider rejected a request as too long.",
        in_projects="replaces",
    )
    model: str = declare(
        "",
        TEXT,
        'The model that writes summaries. "": the session model, which can reuse its warm cache.',
    )
    seconds: float = declare(
        300.0,
        SECONDS,
        "Time limit of a summary in seconds. A summary that exceeds the limit changes nothing.",
        in_projects="replaces",
    )
    prune: bool = declare(
        True,
        YES_OR_NO,
        "Remove old or stale tool results (a file read again or changed since, a repeated search) when that pays off.",
        in_projects="replaces",
    )
    extract: bool = declare(
        False,
        YES_OR_NO,
        "Before a summary, store facts for other sessions in memory, which costs at least one request.",
        in_projects="both",
    )


@dataclass(frozen=True, slots=True)
class SectionSettings:
    """`[sections]`: the parts of a request."""

    learn: bool = declare(
        True,
        YES_OR_NO,
        "Learn from recalls: in later sessions, a project section that the model recalled after it was left out weighs "
        "up to twice as much, a section that it never recalled as little as half. `nexus context` shows the weights.",
    )


@dataclass(frozen=True, slots=True)
class TruncationSettings:
    """`[truncation]`: what is left out of a request that does not fit."""

    strategy: str = declare(
        "oldest_first",
        one_of("oldest_first", "middle_out"),
        'Messages to leave out first: "oldest_first", or "middle_out", which also keeps the beginning.',
        in_projects="replaces",
    )
    low_water: float = declare(
        0.5,
        number(0.1, 1.0),
        "Share of the budget to keep when truncating, so that the next requests still hit the cache.",
        in_projects="replaces",
    )


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """`[provider]`: requests to the model's provider."""

    stall_seconds: float = declare(120.0, SECONDS, "Seconds without data after which a stream counts as stalled.")
    retries: int = declare(
        5,
        whole_number(0, 100),
        "Retries after a lost connection or an overloaded provider; none after the first token. After a rate "
        "limit, retries continue for 65 seconds, unless this is 0.",
    )
    retry_seconds: float = declare(
        120.0, SECONDS, "Maximum seconds between the first attempt of a request and the start of its last retry."
    )


@dataclass(frozen=True, slots=True)
class UiSettings:
    """`[ui]`: the terminal."""

    theme: str = declare(
        "auto",
        one_of("auto", "dark", "light"),
        'Colors for a "dark" or a "light" background. "auto" reads COLORFGBG and defaults to dark.',
    )
    keys: str = declare("emacs", one_of("emacs", "vi"), 'Key bindings of the prompt: "emacs" or "vi".')
    notify: bool = declare(
        True,
        YES_OR_NO,
        "Ring the bell, set the window title and notify the desktop when a turn ends or needs an answer, if you have "
        "pressed no key for 10 seconds.",
    )
    notify_command: str = declare("", TEXT, "A command that also runs at each notification (`nexus docs personal`).")
    status_command: str = declare(
        "", TEXT, "A command whose first line of output is shown in the status line (`nexus docs personal`)."
    )
    style: str = declare(
        "", TEXT, 'The style of answers: the name of a file in `styles` beside your config.toml, without ".md".'
    )
    title_model: str = declare(
        "", TEXT, 'The model, or alias, that titles a session after its first turn. "": the first words of the session.'
    )


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """`[sandbox]`: the confinement of commands, see `nexus_cli/sandbox`."""

    backend: str = declare(
        "auto",
        one_of("auto", "bwrap", "landlock", "seatbelt", "off", "required"),
        'Sandbox for commands: "bwrap" (bubblewrap), "landlock" (in the Linux kernel), "seatbelt" (macOS), or "auto" '
        'for the one that works here; "required" is like "auto", but nexus does not start without a sandbox; '
        '"off" disables it.',
    )
    env_pass: tuple[str, ...] = declare(
        (),
        NAMES,
        "Variables to pass to commands even if their names look secret (*_TOKEN, *_KEY, *_SECRET, *PASSWORD*).",
    )
    write: tuple[str, ...] = declare(
        (), PATHS, "Additional folders and files that commands may write to, besides the project and build tool caches."
    )
    unix_sockets: bool = declare(
        False,
        YES_OR_NO,
        "Let commands use Unix sockets (Docker, key agents, the desktop). Some of them give access to everything.",
    )


@dataclass(frozen=True, slots=True)
class AssessSettings:
    """`[assess]`: the assessment of a task before its turn."""

    model: str = declare(
        "",
        TEXT,
        "The model, or alias, that checks each task first and may restrict its turn: fewer steps, approval of changes. "
        '"": no assessment.',
    )


@dataclass(frozen=True, slots=True)
class SpaceSettings:
    """`[spaces]`: conversations of several people and agents."""

    name: str = declare("", TEXT, 'Your name in spaces. "": user.name from git, else your login name.')
    router: str = declare(
        "rule",
        TEXT,
        "Which agents get a message that mentions nobody, in a space of three or more members: "
        '"rule" (if it contains their name or topic), "off" (none), or the name of a small model that chooses.',
    )
    max_runs: int = declare(
        12,
        COUNT,
        "Maximum number of agent runs that one message from a person can cause, including runs started by agents' "
        "messages. The space then says so and pauses until a person writes again.",
    )
    max_cost: float = declare(
        2.0,
        DOLLARS,
        "Maximum cost, in US dollars, of all agent runs that one message from a person can cause. The space then "
        "pauses, as with max_runs.",
    )


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`[runs]`: unattended runs of schedules, services and agents of spaces."""

    allow: str = declare(
        AUTO,
        LEVEL,
        'The highest permission level of unattended runs: "ask", "edit", "auto" (commands in the sandbox, without '
        'network) or "all" (everything, without a sandbox).',
    )
    max_cost: float = declare(0.5, DOLLARS, "Maximum cost in US dollars of a run without its own limit.")
    max_cost_day: float = declare(
        5.0, DOLLARS, "Maximum cost per day in US dollars of all unattended runs; then they wait until midnight."
    )
    max_wait: float = declare(
        604_800.0,
        SECONDS,
        "Default time limit, in seconds, for waiting for a file, process, address, event or message. 604800 is a week.",
    )
    wait_provider: float = declare(
        43_200.0,
        SECONDS,
        "Maximum seconds to wait for a provider that is overloaded, rate-limited or unreachable. nexus retries "
        "after 1, 2, 5, 15 and 30 minutes, then every hour, or later if the provider says so.",
    )


@dataclass(frozen=True, slots=True)
class WorktreeSettings:
    """`[worktree]`: what a new worktree contains besides the commit."""

    include: tuple[str, ...] = declare(
        (),
        TEXTS,
        "Patterns (as in .gitignore) of further ignored files to copy into a worktree. Python environments, "
        "node_modules, *.egg-info, .env files and the hooks of agents are always copied, unless a pattern such as "
        '"!node_modules/" excludes them. A project can list further patterns in .worktreeinclude.',
        in_projects="adds",
    )
    include_mb: int = declare(1024, MEGABYTES, "Maximum megabytes to copy into a worktree. 0: copy no ignored files.")
    setup: str = declare(
        "",
        TEXT,
        "A command to run once in each new worktree, in the sandbox without network, such as `make generate`.",
        in_projects="either",
    )


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`[jobs]`: background commands."""

    forward: str = declare(
        "ask",
        one_of("ask", "auto", "off"),
        "Forward the ports of background commands to 127.0.0.1, for your browser: "
        '"ask" (where commands need approval), "auto" (always), "off" (`nexus docs jobs`).',
    )


@dataclass(frozen=True, slots=True)
class UndoSettings:
    """`[undo]`: the copies of files that take back what calls changed."""

    max_mb: int = declare(
        2000,
        MEGABYTES,
        "Maximum total size of the copies in megabytes. Copies of the oldest changes are removed first.",
    )
    max_file_mb: int = declare(
        200,
        MEGABYTES,
        "Maximum size in megabytes of a file to copy before a command. For larger files, only a removal can be undone.",
    )
    require: bool = declare(
        False,
        YES_OR_NO,
        "Require approval for commands that may change files not covered by undo, such as large files.",
        in_projects="either",
    )


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """`[ledger]`, without `ledger.url`, which `config.ledger_place` reads."""

    wait: float = declare(600.0, SECONDS, "Seconds to wait for a database server that cannot be reached.")


def _parse_check(table: object) -> EditCheck:
    from nexus_cli.config.checks import parse_check  # noqa: PLC0415  (few settings have checks)

    return parse_check(table)


def _parse_hook(table: object) -> HookTable:
    from nexus_cli.config.hook_tables import parse_hook  # noqa: PLC0415  (few settings have hooks)

    return parse_hook(table)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings in force, without the options of the command line."""

    model: str = declare(
        "",
        TEXT,
        "The model if neither --model nor NEXUS_MODEL is set: a litellm model name or an alias. "
        '"": the [default_models] entry of the only provider with a key in the environment, or else of the only stored '
        "key. If the provider's server lists other models, nexus uses the only one, or one with a similar name.",
    )
    effort: str = declare(
        "",
        one_of("", DEFAULT_EFFORT, *EFFORTS),
        'Reasoning effort that the model supports, such as "low", "medium" or "high". "": the default of the model.',
    )
    allow: str = declare(
        ASK,
        LEVEL,
        'What runs without approval: "ask": reading in the project and read-only commands; "edit": also edits in the '
        'project; "auto": also commands sandboxed to the project, without network; "all": everything, without a '
        "sandbox.",
        in_projects="stricter",
    )
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
    ledger: LedgerSettings = LedgerSettings()
    spaces: SpaceSettings = SpaceSettings()
    runs: RunSettings = RunSettings()
    worktree: WorktreeSettings = WorktreeSettings()
    jobs: JobSettings = JobSettings()
    undo: UndoSettings = UndoSettings()
    check: tuple[EditCheck, ...] | None = declare(
        None,
        TablesRule(
            tuple,
            "[[check]] tables, each with `glob`, `command` ({files} unquoted) and optionally `seconds`",
            parse=_parse_check,
        ),
        "A command that checks the files edited in a step; the model gets the new findings (`nexus docs "
        "checks`). Without such a table, ruff, tsc, go vet and cargo check run if a project uses them; `check = []` "
        "at the top of the file turns all checks off.",
        example=("[[check]]", {"glob": "*.py", "command": "ruff check --quiet {files}", "seconds": 20}),
        in_projects="adds unless off",
    )
    """() for no checks at all, None for those found in the project alone."""
    hook: tuple[HookTable, ...] = declare(
        (),
        TablesRule(
            tuple,
            "[[hook]] tables, each with `event`, `command` and optionally `matcher`, `timeout`, `on_timeout`",
            parse=_parse_hook,
        ),
        "A command that runs at a session event and can refuse, ask or add text (`nexus docs hooks`).",
        example=(
            "[[hook]]",
            {
                "event": "PreToolUse",
                "matcher": "Edit|Write",
                "command": "python3 ~/bin/guard.py",
                "timeout": 60,
                "on_timeout": "deny",
            },
        ),
    )
    """Those of the person's own file."""
    alias: Mapping[str, str] = field(default_factory=dict)
    bindings: Mapping[str, str] = field(default_factory=dict)
    """By key, as prompt-toolkit names it: an action of `KEYS_OF_ACTIONS`, or a slash command."""
    folder_keys: Mapping[str, str] = field(default_factory=dict)
    """By folder: the name of the stored keys that projects in it use (`nexus login PROVIDER --as NAME`)."""
    key_name: str = ""
    """The name in `folder_keys` for this project, "" for the usual keys; not a setting of its own."""
    models: Mapping[str, Mapping[str, float | int | bool]] = field(default_factory=dict)
    """By model name: window, caps and prices (US dollars per million tokens)."""
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
