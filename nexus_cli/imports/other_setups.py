"""Read the setups of codex, opencode, Gemini CLI and aider."""

from __future__ import annotations

import ast
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from nexus_cli.config.paths import with_tilde
from nexus_cli.core.effort import EFFORTS
from nexus_cli.core.wire import as_table
from nexus_cli.imports.claude_setup import read_claude
from nexus_cli.imports.foreign_setup import ForeignSetup, as_texts, is_key, server_entry
from nexus_cli.provider.model_names import provider_prefixes
from nexus_cli.rules.claude_rules import map_command, map_path
from nexus_cli.rules.rule_set import Decision

CODEX_DECISIONS: Mapping[str, Decision] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
TOOLS: Mapping[str, Mapping[str, str]] = {
    "gemini": {
        "run_shell_command": "bash",
        "ShellTool": "bash",
        "read_file": "read_file",
        "write_file": "write_file",
        "replace": "edit_file",
        "glob": "glob",
        "search_file_content": "grep",
        "web_fetch": "fetch",
    },
    "opencode": {
        "bash": "bash",
        "edit": "edit_file write_file",
        "read": "read_file",
        "glob": "glob",
        "grep": "grep",
        "webfetch": "fetch",
        "task": "agent",
        "skill": "skill",
    },
}
"""By program and name of a tool there: our tools, separated by blanks."""
_JSONC = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_ENV = re.compile(r"\{env:([A-Za-z_]\w*)\}")


def _set_model(setup: ForeignSetup, model: object, provider: str = "") -> None:
    """Take a model over if litellm knows its provider."""
    if not isinstance(model, str) or not model or is_key(model):
        return
    known = provider or model.partition("/")[0]
    if ("/" in model or provider) and known in provider_prefixes():
        setup.settings["model"] = model if model.startswith(f"{known}/") else f"{known}/{model}"
    else:
        setup.notes.append(f"model {model[:80]}: its provider is not known, nexus config set model PROVIDER/NAME")


def _read_texts(setup: ForeignSetup, instructions: Path, *folders: Path) -> None:
    """Read the instructions, and the commands in the Markdown files of folders."""
    if text := setup.read(instructions):
        setup.add_text("", text, instructions)
    for folder in folders:
        for path in sorted(folder.glob("*.md"))[:500]:
            if text := setup.read(path):
                setup.add_text(path.stem, text, path)


def read_codex(home: Path) -> ForeignSetup:
    """Return the setup in codex's folder: config.toml, rules, AGENTS.md, prompts."""
    setup = ForeignSetup("codex")
    path = home / "config.toml"
    settings, where = setup.read_table(path, parse=tomllib.loads), with_tilde(path)
    _set_model(setup, settings.get("model"), str(settings.get("model_provider") or "openai"))
    if settings.get("model_reasoning_effort") in EFFORTS:
        setup.settings["effort"] = settings["model_reasoning_effort"]
    approval, sandbox = settings.get("approval_policy"), settings.get("sandbox_mode")
    if sandbox == "workspace-write" and approval in ("on-request", "on-failure"):
        setup.settings["allow"] = "auto"
    elif sandbox or approval:
        setup.notes.append(f"approval_policy {approval}, sandbox_mode {sandbox}: choose a level, nexus docs rules")
    for name, value in as_table(settings.get("mcp_servers")).items():
        _add_codex_server(setup, name, as_table(value), where)
    used = ("model", "model_provider", "model_reasoning_effort", "approval_policy", "sandbox_mode", "mcp_servers")
    setup.note_unused(settings, (*used, "projects"), where)
    for file in sorted((home / "rules").glob("*.rules")):
        _read_codex_rules(setup, file)
    _read_texts(setup, home / "AGENTS.md", home / "prompts")
    if (home / "skills").is_dir():
        setup.notes.append(f"skills in {with_tilde(home / 'skills')}: copy or link them to ~/.agents/skills")
    return setup


def _add_codex_server(setup: ForeignSetup, name: str, table: dict[str, Any], where: str) -> None:
    entry = {"env": dict(as_table(table.get("env")))} | server_entry(table, "url", "cwd")
    entry["env"] |= {one: f"${{{one}}}" for one in as_texts(table.get("env_vars"))}
    headers = dict(as_table(table.get("http_headers")))
    headers |= {one: f"${{{name}}}" for one, name in as_table(table.get("env_http_headers")).items()}
    if variable := table.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    entry |= {"headers": headers} if headers else {}
    seconds = {"startup_timeout_sec": "start_seconds", "tool_timeout_sec": "call_seconds"}
    entry |= {seconds[key]: table[key] for key in seconds if key in table}
    used = "command args env env_vars url cwd http_headers env_http_headers bearer_token_env_var"
    _add_server(setup, name, table, entry, " ".join([used, *seconds]), where)


def _add_server(
    setup: ForeignSetup, name: str, table: dict[str, Any], entry: dict[str, Any], used: str, where: str
) -> None:
    """Add a server; `used` are the keys of its table that `entry` has."""
    setup.add_server(name, entry | ({"enabled": False} if table.get("enabled") is False else {}))
    for tool in as_texts(table.get("disabled_tools") or table.get("excludeTools")):
        setup.add_rules("deny", f"tool {tool} of server {name}", partial(list, [f"mcp__{name}__{tool}"]))
    if only := as_texts(table.get("enabled_tools") or table.get("includeTools")):
        setup.lose("deny", f"server {name}: offers only {', '.join(only)}; here all its tools are there")
    setup.note_unused(table, f"{used} enabled enabled_tools disabled_tools".split(), f"server {name} in {where}")


def _map_rule(program: str, tool: str, pattern: str | None, path: Callable[[str], str] | None = None) -> list[str]:
    """Return our rules for one of a program; `pattern` is None for every call, and with `path` may be one of paths."""
    names = TOOLS[program].get(tool, "").split()
    if not names:
        raise ValueError("nexus has no such tool")
    if pattern is None:
        return names
    if names == ["bash"]:
        return [map_command(pattern)]
    if path is None:
        raise ValueError("nexus has no such pattern")
    return [f"{names[0]}({path(pattern)})"]


def _read_codex_rules(setup: ForeignSetup, path: Path) -> None:
    """Read `prefix_rule(pattern=[...], decision="...")`, without running anything."""
    try:
        body = ast.parse(setup.read(path, guards=True)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        setup.skip_file(path, f"cannot be parsed ({error})", guards=True)
        return
    for line in body:
        try:
            call = line.value if isinstance(line, ast.Expr) else None
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "prefix_rule" or call.args:
                raise ValueError("it is no prefix_rule")
            given = {one.arg: one.value for one in call.keywords}
            choices = [one if isinstance(one, list) else [one] for one in ast.literal_eval(given["pattern"])]
            decision = CODEX_DECISIONS[ast.literal_eval(given["decision"]) if "decision" in given else "allow"]
            found = [f"bash({' '.join(map(_quote, words))} *)" for words in product(*choices)]
        except (ValueError, KeyError, TypeError, SyntaxError) as error:
            setup.lose_unknown(f"{with_tilde(path)} line {line.lineno}: {error}")
            continue
        for text in found:
            setup.add_rules(decision, text, partial(list, [text]))


def _quote(word: object) -> str:
    if not isinstance(word, str) or not re.fullmatch(r"[\w./:=@%+,-]+", word):
        raise ValueError(f"{word!r} is no plain word")
    return word


def read_opencode(home: Path) -> ForeignSetup:
    """Return the setup in opencode's folder: opencode.json, AGENTS.md, commands."""
    setup = ForeignSetup("opencode")
    for path in (home / "opencode.json", home / "opencode.jsonc", home / "config.json"):
        text = _JSONC.sub(lambda found: found[1] or " ", setup.read(path, guards=True))
        settings, where = setup.read_table(path, _ENV.sub(r"${\1}", text)), with_tilde(path)
        _set_model(setup, settings.get("model"))
        permission = settings.get("permission")
        _read_opencode_rules(setup, {"bash": permission, "edit": permission} if permission == "ask" else permission)
        for name, on in as_table(settings.get("tools")).items():
            if on is False:
                _add_opencode_rule(setup, str(name), "*", "deny")
        for name, value in as_table(settings.get("mcp")).items():
            _add_opencode_server(setup, name, as_table(value), where)
        for name, value in as_table(settings.get("provider")).items():
            if is_key(str(as_table(as_table(value).get("options")).get("apiKey") or "")):
                setup.note_key(name, where)
        used = ("$schema", "model", "permission", "tools", "mcp", "provider")
        setup.note_unused(settings, used, where)
    _read_texts(setup, home / "AGENTS.md", home / "command", home / "commands")
    for name in ("agent", "agents", "skill", "skills"):
        if (home / name).is_dir():
            setup.notes.append(f"{name} in {with_tilde(home / name)}: skills belong into ~/.agents/skills")
    return setup


def _read_opencode_rules(setup: ForeignSetup, permission: object) -> None:
    if permission == "allow":
        setup.lose("allow", "every tool: choose a level, nexus docs rules")
    elif permission is not None and not isinstance(permission, dict):
        setup.lose_unknown(f"permission {permission} for every tool: nexus has levels, nexus docs rules")
    for tool, value in as_table(permission).items():
        patterns = value if isinstance(value, dict) else {"*": value}
        for pattern, action in patterns.items():
            if pattern == "*" and action == "ask" and len(patterns) > 1:
                setup.lose("ask", f"{tool}(*): nexus asks for the rest at level ask, at higher ones not always")
            else:
                _add_opencode_rule(setup, tool, pattern, action)


def _add_opencode_rule(setup: ForeignSetup, tool: str, pattern: str, action: object) -> None:
    if action in ("allow", "ask", "deny"):
        decision: Decision = action
        wanted = None if pattern == "*" and tool != "bash" else pattern
        path = _map_opencode_path if tool in ("edit", "read") else None
        setup.add_rules(decision, f"{tool}({pattern})", partial(_map_rule, "opencode", tool, wanted, path))
    else:
        setup.lose_unknown(f"{tool}({pattern}): {action} is not known")


def _map_opencode_path(pattern: str) -> str:
    """Return a pattern for the whole path below the project, whose `*` crosses folders."""
    pattern = re.sub(r"\*+", "**", map_path(pattern))
    return pattern if pattern.startswith(("/", "~", "./")) else f"./{pattern}"


def _add_opencode_server(setup: ForeignSetup, name: str, table: dict[str, Any], where: str) -> None:
    entry = {"env": table.get("environment")} | server_entry(table, "url", "headers")
    _add_server(setup, name, table, entry, "type command environment url headers", where)


def read_gemini(home: Path) -> ForeignSetup:
    """Return the setup in Gemini's folder: settings.json, GEMINI.md, commands."""
    setup = ForeignSetup("gemini")
    path = home / "settings.json"
    settings, where = setup.read_table(path), with_tilde(path)
    tools, model = as_table(settings.get("tools")), settings.get("model")
    _set_model(setup, as_table(model).get("name") if isinstance(model, dict) else model, "gemini")
    listed: Mapping[Decision, list[str]] = {
        "allow": [*as_texts(tools.get("allowed")), *as_texts(settings.get("allowedTools"))],
        "deny": [*as_texts(tools.get("exclude")), *as_texts(settings.get("excludeTools"))],
    }
    for decision, texts in listed.items():
        for written in texts:
            setup.add_rules(decision, written, partial(_map_gemini_rule, written))
    if core := tools.get("core") or settings.get("coreTools"):
        setup.lose_unknown(f"deny every tool but {', '.join(as_texts(core))}: nexus has all its tools")
    for name, value in as_table(settings.get("mcpServers")).items():
        table = as_table(value)
        entry = server_entry(table, "env", "headers", "cwd")
        if address := table.get("httpUrl") or table.get("url"):
            entry |= {"url": address} | ({} if table.get("httpUrl") else {"type": "sse"})
        used = "command args env cwd url httpUrl headers includeTools excludeTools"
        _add_server(setup, name, table, entry, used, where)
    old = ("allowedTools", "excludeTools", "coreTools")
    setup.note_unused(settings, ("$schema", "model", "tools", "mcpServers", *old), where)
    setup.note_unused(tools, ("allowed", "exclude", "core"), f"tools in {where}")
    for path in sorted((home / "policies").glob("*.toml")):
        setup.lose_unknown(f"{with_tilde(path)}: policies are not read")
    _read_texts(setup, home / "GEMINI.md")
    for path in sorted((home / "commands").rglob("*.toml"))[:500]:
        _read_gemini_command(setup, path, home / "commands")
    return setup


def _map_gemini_rule(written: str) -> list[str]:
    tool, _, pattern = written.removesuffix(")").partition("(")
    return _map_rule("gemini", tool, f"{pattern}:*" if pattern else None)


def _read_gemini_command(setup: ForeignSetup, path: Path, folder: Path) -> None:
    table = setup.read_table(path, guards=False, parse=tomllib.loads)
    if "prompt" not in table:
        if table:
            setup.skip_file(path, "is no command (it has no prompt)", guards=False)
        return
    text = re.sub(r"!\{([^{}`\n]*)\}", r"!`\1`", str(table["prompt"]).replace("{{args}}", "$ARGUMENTS"))
    text = re.sub(r"@\{([^{}\n]*)\}", r"@\1", text)
    head = json.dumps(str(table.get("description", "")), ensure_ascii=False)
    name = path.relative_to(folder).with_suffix("").as_posix()
    setup.add_text(name, f"---\ndescription: {head}\n---\n{text}", path)


def read_aider(home: Path) -> ForeignSetup:
    """Return the setup in `.aider.conf.yml` of the home folder."""
    setup = ForeignSetup("aider")
    path = home / ".aider.conf.yml"
    settings, where = setup.read_table(path, guards=False, parse=yaml.safe_load), with_tilde(path)
    model = settings.get("model")
    bare = isinstance(model, str) and re.match(r"(gpt-|o\d)", model)
    _set_model(setup, model, "openai" if bare else "anthropic" if str(model).startswith("claude-") else "")
    if settings.get("reasoning-effort") in EFFORTS:
        setup.settings["effort"] = settings["reasoning-effort"]
    for name, value in settings.items():
        for one in value if isinstance(value, list) else [value]:
            if str(name).endswith("api-key") and one:
                variable, has_value, _ = str(one).partition("=")
                setup.note_key(variable if has_value and name == "api-key" else str(name).replace("-", "_"), where)
    for file in (settings["read"] if isinstance(settings.get("read"), list) else [settings.get("read")]) or ():
        if file:
            setup.notes.append(f"read: {file}: name such files in NEXUS.md, or attach them with @FILE")
    keys = [name for name in settings if str(name).endswith("api-key")]
    setup.note_unused(settings, ("model", "reasoning-effort", "read", *keys), where)
    return setup


def program_folder(program: str) -> Path:
    """Return the folder in which a program keeps its setup, from its variables or the home folder."""
    home = Path.home()
    if program == "claude":
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    if program == "codex":
        return Path(os.environ.get("CODEX_HOME") or home / ".codex")
    if program == "opencode":
        return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    return home / ".gemini" if program == "gemini" else home


def _read_claude(home: Path) -> ForeignSetup:
    return read_claude(home, (home if os.environ.get("CLAUDE_CONFIG_DIR") else Path.home()) / ".claude.json")


SETUPS: Mapping[str, Callable[[Path], ForeignSetup]] = {
    "claude": _read_claude,
    "codex": read_codex,
    "opencode": read_opencode,
    "gemini": read_gemini,
    "aider": read_aider,
}
