"""Read the setup of Claude Code: `settings.json`, `CLAUDE.md`, `~/.claude.json`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

from nexus_cli.config.paths import with_tilde
from nexus_cli.core.effort import EFFORTS
from nexus_cli.core.elide import one_line
from nexus_cli.core.limits import EDIT
from nexus_cli.core.wire import as_table
from nexus_cli.imports.foreign_setup import ForeignSetup, as_texts, is_key, server_entry
from nexus_cli.rules.claude_rules import map_claude_rule
from nexus_cli.rules.rule_set import DECISIONS
from nexus_cli.sections.instruction_files import find_imports

ALTERNATIVES = {
    "statusLine": "use `nexus config set ui.status_command COMMAND` (see `nexus docs personal`)",
    "outputStyle": "copy it to `styles/` and set `ui.style` (see `nexus docs personal`)",
    "theme": "use `nexus config set ui.theme NAME` (see `nexus docs personal`)",
    "editorMode": "use `nexus config set ui.keys vi` for vi keys (see `nexus docs personal`)",
    "preferredNotifChannel": "use `nexus config set ui.notify_command COMMAND` (see `nexus docs personal`)",
}
"""What to do instead of settings that are not taken over."""
SERVER_KEYS = ("type", "command", "args", "env", "url", "headers", "disabled")


def read_claude(home: Path, servers: Path) -> ForeignSetup:
    """Return the setup in Claude's folder and in the file with its servers."""
    setup = ForeignSetup("claude")
    settings = setup.read_table(path := home / "settings.json")
    location = with_tilde(path)
    _read_permissions(setup, settings.get("permissions"), location)
    model, effort = settings.get("model"), settings.get("effortLevel")
    if isinstance(model, str) and model.startswith("claude-") and not is_key(model):
        setup.settings["model"] = f"anthropic/{model.removesuffix('[1m]')}"
    elif model:
        setup.notes.append(f"model {str(model)[:60]} was not converted; use `nexus config set model NAME`")
    if effort in EFFORTS:
        setup.settings["effort"] = str(effort)
    for name, value in as_table(settings.get("env")).items():
        if is_key(str(value), name):
            setup.note_key(name, location)
        else:
            setup.notes.append(f"env {name[:80]} in {location}: export the variable in your shell instead")
    setup.note_hooks(settings.get("hooks"))
    if plugins := [one_line(name)[:60] for name, on in as_table(settings.get("enabledPlugins")).items() if on]:
        setup.notes.append(f"plugins ({', '.join(plugins[:10])}): use `nexus plugin add` (see `nexus docs plugins`)")
    used = "permissions model effortLevel env hooks enabledPlugins $schema".split()
    setup.note_unused(settings, used, location, ALTERNATIVES)
    if text := setup.read(home / "CLAUDE.md"):
        setup.add_text("", text, home / "CLAUDE.md")
        if beside := [name for _, name in find_imports(text) if (home / name).is_file() and name[0] not in "/~"]:
            names = ", ".join(f"@{name}" for name in beside[:5])
            setup.notes.append(f"CLAUDE.md imports {names}: in NEXUS.md, write @{with_tilde(home)}/NAME instead")
    setup.note_folders(home, "skills", "commands", "agents")
    _read_servers(setup, servers)
    return setup


def _read_permissions(setup: ForeignSetup, value: object, location: str) -> None:
    table = as_table(value)
    for decision in DECISIONS:
        listed = table.get(decision)
        for written in listed if isinstance(listed, list) else ():
            setup.add_rules(decision, str(written), partial(map_claude_rule, decision, str(written)))
        if listed is not None and not isinstance(listed, list):
            setup.report_lost_rule(decision, f"rules in {location}: not a list")
    mode = table.get("defaultMode")
    if mode == "acceptEdits":
        setup.settings["allow"] = EDIT
    elif mode not in (None, "default"):
        setup.notes.append(f"defaultMode {str(mode)[:40]}: choose a permission level yourself (see `nexus docs rules`)")
    if folders := as_texts(table.get("additionalDirectories")):
        setup.note(f"additionalDirectories {', '.join(folders)}: use `--add-dir FOLDER`")
    used = ("allow", "ask", "deny", "defaultMode", "additionalDirectories")
    setup.note_unused(table, used, f"permissions in {location}")


def _read_servers(setup: ForeignSetup, path: Path) -> None:
    settings = setup.read_table(path, guards=False)
    location = with_tilde(path)
    for name, value in as_table(settings.get("mcpServers")).items():
        table = as_table(value)
        entry = server_entry(table, "url", "env", "headers", "disabled")
        entry |= {"type": "sse"} if table.get("type") == "sse" else {}
        setup.add_server(name, entry)
        setup.note_unused(table, SERVER_KEYS, f"server {name} in {location}")
    projects = as_table(settings.get("projects"))
    for folder, value in projects.items():
        for name in as_table(as_table(value).get("mcpServers")):
            setup.notes.append(
                f"server {name} for {with_tilde(folder)} only: add it to .mcp.json there, or use `nexus mcp add`"
            )
        for rule in cast("list[Any]", as_table(value).get("allowedTools") or []):
            setup.notes.append(f"allow {rule} in {with_tilde(folder)} only: run `nexus rules add --here` there")
