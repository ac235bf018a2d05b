"""The settings in tables: those that are no field of a settings class, and the list of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from nexus_cli.config.setting_rules import (
    ACTION,
    CONDITIONS,
    COUNT,
    DOLLARS,
    FOLDER,
    HEADER,
    KEY_NAME,
    KEY_OF_FOLDER,
    LEVEL,
    NAME,
    PRICE,
    SECONDS,
    TEXT,
    TEXTS,
    YES_OR_NO,
    NamedTable,
    Rule,
    ServersRule,
    Setting,
    SettingValue,
    is_database_url,
    one_of,
    whole_number,
)
from nexus_cli.config.settings import STEPS, Settings
from nexus_cli.core.limits import ASK, EDIT, MAX_INT, MODES

LEDGER_URL = "ledger.url"
"""Not part of `Settings`, which are shown and logged: the URL may contain a password."""


def _limit(default: int | float | None, rule: Rule, text: str, example: Any = None) -> Setting:
    return Setting(default, rule, text, example, "stricter")


_TABLES: Mapping[str, Mapping[str, Setting]] = {
    "rules": {
        "allow": Setting(None, TEXTS, "Calls that run without asking.", ["bash(npm test *)", "bash(make lint)"]),
        "ask": Setting(
            None, TEXTS, 'Calls that need approval, except at the level "all".', ["bash(git commit *)"], "adds"
        ),
        "deny": Setting(
            None, TEXTS, "Calls that are always refused.", ["bash(git push *)", "read_file(secrets/**)"], "adds"
        ),
    },
    "limits": {
        "max_steps": _limit(STEPS.max_steps, COUNT, "Maximum number of model requests in one turn."),
        "max_total_tokens": _limit(None, COUNT, "Maximum input and output tokens of one turn.", 2_000_000),
        "max_cost": _limit(
            None, DOLLARS, "Maximum cost of one turn in US dollars. Needs a known price, see [models].", 5.0
        ),
        "warn_cost": Setting(
            Settings().warn_cost,
            DOLLARS,
            "Warn before sending a request that misses the provider's cache and costs at least this many US dollars.",
        ),
        "timeout": _limit(None, SECONDS, "Time limit of one turn in seconds.", 1800.0),
        "mode": _limit(
            None,
            one_of(*MODES),
            'How a turn works: "single_action" (one step of calls, then the answer), "react_loop", "plan_execute".',
            "react_loop",
        ),
        "max_iterations": _limit(
            None, COUNT, "Maximum steps with tool calls per turn; then the model must answer.", 50
        ),
        "confirm": _limit(None, YES_OR_NO, "Ask about edits and commands even where `allow` covers them.", True),
        "multi_tool": _limit(None, YES_OR_NO, "false: only one step of tool calls per turn.", False),
        "sub_agents": _limit(None, YES_OR_NO, "false: no workers.", False),
        "sub_agent_budget": _limit(None, whole_number(1, 8), "Maximum number of workers at the same time.", 3),
    },
    "ledger": {
        "url": Setting(
            "",
            Rule(str, 'an address such as "postgresql://USER@HOST/NAME", or ""', is_database_url),
            'A PostgreSQL database for your sessions, "postgresql://USER@HOST/NAME" (needs the extra `team`). Keep the '
            'password in ~/.pgpass. "": a local file. A project cannot set it.',
        ),
    },
}
"""Settings of these tables that are no field of a class of their own."""
MCP = Setting(
    None,
    ServersRule(tuple, "[mcp.NAME] tables, each with `command` or `url` (nexus docs mcp)"),
    "Servers of the Model Context Protocol (`nexus docs mcp`). `nexus mcp add` writes such a table.",
    ("[mcp.files]", {"command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."], "env": ["NPM_TOKEN"]}),
)


def _plain(rule: Rule, example: Any) -> Setting:
    return Setting(None, rule, "", example)


NAMED_TABLES: Mapping[str, NamedTable] = {
    "models": NamedTable(
        "Model data that is missing or wrong in the packaged table. Prices are in US dollars per million tokens.",
        '"openai/my-model"',
        {
            "window": _plain(whole_number(1000, MAX_INT, " of tokens"), 128_000),
            "max_output": _plain(COUNT, 8192),
            "input_price": _plain(PRICE, 0.5),
            "output_price": _plain(PRICE, 1.5),
            "cache_read_price": _plain(PRICE, 0.05),
            "cache_write_price": _plain(PRICE, 0.5),
            "images": _plain(YES_OR_NO, False),
            "tools": _plain(YES_OR_NO, True),
        },
    ),
    "agents": NamedTable(
        "Agents that take part in spaces, with options for their runs and topics for the router.",
        "Ana",
        {
            "model": _plain(TEXT, "openai/gpt-5.4-mini"),
            "recipe": _plain(TEXT, "tick_event"),
            "allow": _plain(LEVEL, ASK),
            "max_cost": _plain(DOLLARS, 0.5),
            "folder": _plain(FOLDER, "~/src/app"),
            "topics": _plain(TEXTS, ["deploy", "release notes"]),
            "goals": Setting(
                None,
                TEXTS,
                "Initial goals of the agent; `nexus space goal Ana` lists and changes them later.",
                ["Keep the daily report going"],
            ),
        },
    ),
    "services": NamedTable(
        "Services, which start a run when `nexus serve` gets `POST /trigger/NAME`. The request body is the payload.",
        "ci-failed",
        {
            "instruction": _plain(
                Rule(str, TEXT.expected, NAME.test),
                "Find out why this build failed and write the cause to notes/ci.md.",
            ),
            "folder": _plain(FOLDER, "~/src/app"),
            "model": _plain(TEXT, "openai/gpt-5.4-mini"),
            "recipe": _plain(TEXT, "tick_event"),
            "allow": _plain(LEVEL, EDIT),
            "max_cost": _plain(DOLLARS, 0.5),
            "max_cost_day": _plain(DOLLARS, 2.0),
            "max_steps": _plain(COUNT, 50),
            "agent": Setting(None, TEXT, "The agent that does the work, using its name, spaces and messages.", "Ana"),
            "ask": Setting(
                None,
                YES_OR_NO,
                "true: the run waits for approval of a call that `allow` does not cover. Otherwise the call is "
                "refused, and the report says so.",
                True,
            ),
            "rules": Setting(
                None,
                TEXTS,
                "Rules that allow more calls than the level `allow`, and let commands use the network or run outside "
                "the sandbox if the model requests it.",
                ["bash(git push origin nightly)"],
            ),
            "sender": Setting(
                None,
                one_of("github", "gitlab", "slack"),
                'Sender of the events: "github", "gitlab" or "slack". nexus checks signatures (for GitLab, the token) '
                "and delivery ids.",
                "github",
            ),
            "token_header": Setting(
                None, HEADER, "The HTTP header with the secret, for any other sender.", "X-Api-Key"
            ),
            "secret": Setting(
                None,
                KEY_NAME,
                "The environment variable or stored key (`nexus login HOOK_SECRET`) with the secret. Without it nexus "
                "creates a token.",
                "HOOK_SECRET",
            ),
            "filter": Setting(
                None,
                CONDITIONS,
                "Conditions for an event to start a run: the kind of `event`, or fields of its body. `|` means or, `*` "
                "anything, `!=` not.",
                ["event=check_run", "action=completed", "check_run.conclusion=failure|timed_out"],
            ),
            "key": Setting(
                None,
                TEXT,
                "Events with the same key join one open run. Name a field of the body, or write a template with fields "
                "in braces. Default: for GitHub and GitLab the repository and the commit or pull request, otherwise "
                'one run per event. "" starts one run per event.',
                "{repository.full_name} {check_run.head_sha}",
            ),
            "debounce": Setting(
                None,
                Rule(float, "a number of seconds, 0 or more", PRICE.test),
                "Seconds to wait for more events with the same key before starting a run.",
                30,
            ),
        },
    ),
    "hosts": NamedTable(
        "Keys that `wait_for` sends to a host (to other machines, only over TLS): an environment variable, or a key "
        "stored by `nexus login GITHUB_TOKEN`.",
        '"api.github.com"',
        {
            "key": _plain(KEY_NAME, "GITHUB_TOKEN"),
            "header": _plain(HEADER, "Authorization"),
            "prefix": _plain(TEXT, "Bearer "),
        },
    ),
}
"""Tables of tables with names that the person chooses."""
OPEN_TABLES: Mapping[str, Setting] = {
    "rule_examples": Setting(
        {},
        TEXTS,
        "Commands that a rule must match, or not match (`!`). nexus checks them when it reads the rules: "
        '"bash(npm test *)" = ["npm test -- -u", "! npm run build"]',
    ),
    "alias": Setting({}, NAME, 'Short names for models: `nexus ask -m fast` with fast = "openai/gpt-5.4-mini".'),
    "bindings": Setting({}, ACTION, 'Your own keys: "c-y" = "level", "c-x m" = "/compact" (`nexus docs personal`).'),
    "folder_keys": Setting(
        {}, KEY_OF_FOLDER, 'The name of the keys for the projects in a folder (`nexus login --as`): "~/work" = "work"'
    ),
    "default_models": Setting(
        {
            "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-5-5",
            "OPENAI_API_KEY": "openai/gpt-5.6",
            "GEMINI_API_KEY": "gemini/gemini-3.8-flash",
            "MISTRAL_API_KEY": "mistral/mistral-medium-latest",
            "DEEPSEEK_API_KEY": "deepseek/deepseek-v4-pro",
            "XAI_API_KEY": "xai/grok-4.7",
            "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-4.6",
            "GITHUB_COPILOT_LOGIN": "github_copilot/gpt-5",
            "CHATGPT_LOGIN": "chatgpt/gpt-5.4",
        },
        NAME,
        "The model for each provider, used if no model is set and the provider's key is the only one in the "
        "environment or, if there is none, the only stored key. *_LOGIN stands for `nexus login github-copilot` and "
        "`nexus login chatgpt`.",
    ),
}
"""Tables with keys that the person chooses; the value is of that rule."""
REMOVED_TABLES: Mapping[str, str] = {"keys": "rename it to [default_models]", "warm": "remove it"}
"""Tables of earlier versions, which are accepted and have no effect, and what to do with each."""

TABLE_HELP: Mapping[str, str] = {
    "rules": (
        "Rules that allow, ask about or refuse calls. Deny takes precedence over ask, ask over allow, and every rule "
        'over the level `allow`; at the level "all", only deny rules apply. A rule is TOOL or TOOL(PATTERN). PATTERN '
        "is the beginning of a command for bash, with `*` for further arguments, or a path for files. "
        '`nexus rules` lists, tests, adds and removes rules; a table such as [rules."~/src/app"] holds rules for the '
        "projects in a folder."
    ),
}


def _declared(owner: Any) -> dict[str, Setting]:
    return {field_.name: field_.metadata["setting"] for field_ in fields(owner) if field_.metadata}


def _collect_tables() -> dict[str, dict[str, Setting]]:
    """Return the settings of each table with fixed keys; "" is the top of the file."""
    tables = {"": {**_declared(Settings), "mcp": MCP}, "rules": {}}
    tables |= {field_.name: _declared(field_.default) for field_ in fields(Settings) if is_dataclass(field_.default)}
    return {name: table for name, own in tables.items() if (table := {**_TABLES.get(name, {}), **own})}


FIXED_TABLES: Mapping[str, Mapping[str, Setting]] = _collect_tables()
TABLES = (*(name for name in FIXED_TABLES if name), *OPEN_TABLES, *NAMED_TABLES)
SETTINGS: Mapping[str, Setting] = {
    f"{table}.{name}".lstrip("."): setting
    for table, settings in FIXED_TABLES.items()
    for name, setting in settings.items()
}
"""Every fixed key, dotted."""
DEFAULTS: Mapping[str, SettingValue] = {
    **{key: setting.default for key, setting in SETTINGS.items() if setting.default is not None and key != "hook"},
    **{
        f"{table}.{name}": value
        for table, open_table in OPEN_TABLES.items()
        for name, value in open_table.default.items()
    },
}
"""The value of every key that has one unless a person sets it."""
