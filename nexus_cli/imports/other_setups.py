"""Read the setups of codex, opencode, Gemini CLI and aider."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml

from nexus_cli.config.codex_rules import read_codex_rules
from nexus_cli.config.paths import home_folder, with_tilde
from nexus_cli.core.effort import EFFORTS
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.limits import AUTO
from nexus_cli.core.wire import as_table
from nexus_cli.imports.claude_setup import read_claude
from nexus_cli.imports.foreign_setup import ForeignSetup, as_texts, describe_key_setup, is_key, server_entry
from nexus_cli.provider.model_names import provider_prefixes

FOLDER_VARIABLES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}
"""The variable with the folder of a program."""
CODEX_ALTERNATIVES = {
    "notify": "use `nexus config set ui.notify_command COMMAND` (see `nexus docs personal`)",
    "tui": "set theme, keys and notifications under `ui` (see `nexus docs personal`)",
    "sandbox_workspace_write": "add its folders to `sandbox.write` (see `nexus docs sandbox`, also for network)",
    "shell_environment_policy": "list variables for commands in `sandbox.env_pass` (see `nexus docs sandbox`)",
}
"""What to do instead of codex's settings that are not taken over."""
_JSONC = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")
_ENV = re.compile(r"\{env:([A-Za-z_]\w*)\}")


def _set_model(setup: ForeignSetup, model: object, provider: str) -> None:
    """Take a model over if litellm knows its provider."""
    if not isinstance(model, str) or not model or is_key(model):
        return
    prefix = provider or model.partition("/")[0]
    if ("/" in model or provider) and prefix in provider_prefixes():
        setup.settings["model"] = model if model.startswith(f"{prefix}/") else f"{prefix}/{model}"
    else:
        setup.notes.append(f"model {model[:80]}: unknown provider; use `nexus config set model PROVIDER/NAME`")


def _read_texts(setup: ForeignSetup, instructions: Iterable[Path], *folders: Path) -> None:
    """Read the instructions, the first of the files that has any, and the commands in the Markdown files of folders."""
    for path in instructions:
        if (text := setup.read(path)).strip():
            setup.add_text("", text, path)
            break
    for folder in folders:
        for path in sorted(folder.glob("*.md"))[:500]:
            if text := setup.read(path):
                setup.add_text(path.stem, text, path)


def read_codex(home: Path) -> ForeignSetup:
    """Return the setup in codex's folder: config.toml, rules, instructions, prompts."""
    setup = ForeignSetup("codex")
    path = home / "config.toml"
    settings, location = setup.read_table(path, parse=tomllib.loads), with_tilde(path)
    _set_model(setup, settings.get("model"), str(settings.get("model_provider") or "openai"))
    if settings.get("model_reasoning_effort") in EFFORTS:
        setup.settings["effort"] = settings["model_reasoning_effort"]
    approval, sandbox = settings.get("approval_policy"), settings.get("sandbox_mode")
    if sandbox == "workspace-write" and approval in ("on-request", "on-failure"):
        setup.settings["allow"] = AUTO
    elif sandbox or approval:
        setup.notes.append("approval_policy and sandbox_mode: choose a permission level (see `nexus docs rules`)")
    for name, value in as_table(settings.get("mcp_servers")).items():
        _add_codex_server(setup, name, as_table(value), location)
    if names := as_texts(settings.get("project_doc_fallback_filenames")):
        imports = ", ".join(f"@{name}" for name in names)
        setup.note(f"project_doc_fallback_filenames: nexus reads these files if AGENTS.md contains {imports}")
    used = "model model_provider model_reasoning_effort approval_policy sandbox_mode mcp_servers projects".split()
    setup.note_unused(settings, (*used, "project_doc_fallback_filenames"), location, CODEX_ALTERNATIVES)
    for file in sorted((home / "rules").glob("*.rules")):
        rules, problems = read_codex_rules(setup.read(file, guards=True))
        for problem in problems:
            setup.report_unknown_rules(f"{with_tilde(file)} {problem}")
        for decision, command in rules:
            text = f"bash({command})"
            setup.add_rules(decision, text, partial(list, [text]))
    _read_texts(setup, (home / "AGENTS.override.md", home / "AGENTS.md"), home / "prompts")
    setup.note_hooks(setup.read_table(home / "hooks.json", guards=False).get("hooks"))
    setup.note_folders(home, "skills", "agents")
    return setup


def _add_codex_server(setup: ForeignSetup, name: str, table: JsonDict, location: str) -> None:
    entry = {"env": dict(as_table(table.get("env")))} | server_entry(table, "url", "cwd")
    entry["env"] |= {text: f"${{{text}}}" for text in as_texts(table.get("env_vars"))}
    headers = dict(as_table(table.get("http_headers")))
    headers |= {header: f"${{{name}}}" for header, name in as_table(table.get("env_http_headers")).items()}
    if variable := table.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    entry |= {"headers": headers} if headers else {}
    seconds = {"startup_timeout_sec": "start_seconds", "tool_timeout_sec": "call_seconds"}
    entry |= {seconds[key]: table[key] for key in seconds if key in table}
    used = "command args env env_vars url cwd http_headers env_http_headers bearer_token_env_var"
    _add_server(setup, name, table, entry, " ".join([used, *seconds]), location)


def _add_server(setup: ForeignSetup, name: str, table: JsonDict, entry: JsonDict, used: str, location: str) -> None:
    """Add a server; `used` are the keys of its table that `entry` has."""
    setup.add_server(name, entry | ({"enabled": False} if table.get("enabled") is False else {}))
    for tool in as_texts(table.get("disabled_tools") or table.get("excludeTools")):
        setup.add_rules("deny", f"tool {tool} of server {name}", partial(list, [f"mcp__{name}__{tool}"]))
    if only := as_texts(table.get("enabled_tools") or table.get("includeTools")):
        setup.report_lost_rule("deny", f"all tools of server {name} except {', '.join(only)}; nexus allows all of them")
    setup.note_unused(table, f"{used} enabled enabled_tools disabled_tools".split(), f"server {name} in {location}")


@dataclass(frozen=True, slots=True)
class PlainProgram:
    """The places where a program keeps the few things that nexus takes over. Its rules are named, and not
    translated."""

    folder: str
    """Below the home folder."""
    files: tuple[str, ...]
    provider: str = ""
    """Of a model without one in its name."""
    servers: str = ""
    rules: tuple[str, ...] = ()
    """Keys of tables and lists that may deny something."""
    texts: str = ""
    """The file with instructions."""
    providers: str = ""
    """The key of providers that the person described."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """What to do instead of settings that are not taken over, by key."""


PLAIN: Mapping[str, PlainProgram] = {
    "opencode": PlainProgram(
        ".config/opencode",
        ("opencode.json", "opencode.jsonc", "config.json"),
        servers="mcp",
        providers="provider",
        rules=("permission", "tools"),
        texts="AGENTS.md",
    ),
    "gemini": PlainProgram(
        ".gemini",
        ("settings.json",),
        provider="gemini",
        servers="mcpServers",
        rules=("tools", "allowedTools", "excludeTools", "coreTools"),
        texts="GEMINI.md",
    ),
    "aider": PlainProgram(
        "",
        (".aider.conf.yml",),
        ways={
            "lint-cmd": "write it as a [[check]] (see `nexus docs checks`)",
            "test-cmd": "write it as a [[check]], or pass it to --until (see `nexus docs checks`)",
        },
    ),
}


def read_plain(program: str, home: Path) -> ForeignSetup:
    """Return the model, servers, instructions and Markdown commands of a program of `PLAIN`."""
    setup, plain = ForeignSetup(program), PLAIN[program]
    for path in (home / name for name in plain.files):
        text, location = setup.read(path, guards=bool(plain.rules)), with_tilde(path)
        if path.suffix == ".yml":
            settings = setup.read_table(path, text, guards=False, parse=yaml.safe_load)
        else:
            text = _JSONC.sub(lambda match: match[1] or " ", text)
            settings = setup.read_table(path, _ENV.sub(r"${\1}", text))
        model = settings.get("model")
        _set_model(setup, as_table(model).get("name") or model, plain.provider)
        for key in plain.rules:
            if key in settings:
                setup.report_unknown_rules(
                    f"{key} in {location}: nexus does not convert these rules; use `nexus rules add`"
                )
        for name, value in as_table(settings.pop(plain.providers, None)).items():
            address = as_table(as_table(value).get("options")).get("baseURL")
            own = (
                f" ({address}): set OPENAI_API_BASE to this address, and the model to openai/NAME "
                "(see `nexus docs settings`)"
            )
            setup.note(f"provider {name} in {location}{own if address else f': {describe_key_setup(name)}'}")
        for name, value in as_table(settings.get(plain.servers)).items():
            table = as_table(value)
            if program == "gemini":
                table = json.loads(_VARIABLE.sub(r"${\1}", json.dumps(table)))
            env = table.get("env") or table.get("environment")
            entry = {"env": env} | server_entry(table, "url", "headers", "cwd")
            if address := table.get("httpUrl"):
                entry["url"] = address
            elif program == "gemini" and "url" in entry:
                entry["type"] = "sse"
            used = "type command args env environment cwd url httpUrl headers includeTools excludeTools"
            _add_server(setup, name, table, entry, used, location)
        setup.note_unused(settings, ("$schema", "model", plain.servers, *plain.rules), location, plain.ways)
    if plain.texts:
        _read_texts(setup, [home / plain.texts], home / "command", home / "commands")
    return setup


def program_folder(program: str) -> Path:
    """Return the folder with the setup of a program, from its variables or the home folder; raise
    `NexusError("config", ...)` if one that is there cannot be read."""
    folder = Path(home_folder(), PLAIN[program].folder if program in PLAIN else f".{program}")
    if configured := os.environ.get(FOLDER_VARIABLES.get(program, "")):
        folder = Path(configured)
    if program == "opencode" and (config := os.environ.get("XDG_CONFIG_HOME")):
        folder = Path(config) / program
    try:
        os.stat(f"{folder}/.")  # the folder has to be entered for that
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "Change its owner or its permissions"
        raise NexusError("config", with_tilde(folder), f"cannot be read ({error.strerror})", hint) from error
    return folder


def _read_claude(home: Path) -> ForeignSetup:
    folder = home if os.environ.get("CLAUDE_CONFIG_DIR") else home_folder()
    return read_claude(home, Path(folder, ".claude.json"))


SETUPS: Mapping[str, Callable[[Path], ForeignSetup]] = {
    "claude": _read_claude,
    "codex": read_codex,
    **{program: partial(read_plain, program) for program in PLAIN},
}
