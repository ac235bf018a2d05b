"""The pages of `nexus docs`: written ones from `nexus_cli/docs`, and generated ones.

Settings are generated from their declarations, commands, slash commands and keys from their tables, JSON from its
types (`json_page`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from nexus_cli.config.paths import PACKAGE
from nexus_cli.config.settings_text import settings_text

TOPICS: Mapping[str, str] = {
    "start": "ten minutes with nexus",
    "settings": "every setting with its default and meaning",
    "personal": "your own status line, notifications and keys",
    "subscriptions": "use GitHub Copilot or ChatGPT instead of an API key",
    "commands": "commands, options, slash commands and keys",
    "json": "JSON objects of --json, --stream-json and the server",
    "events": "an agent's event stream, for client programs",
    "exit-status": "exit status and error kinds",
    "editors": "Zed, JetBrains, Neovim and Emacs",
    "rules": "permission levels and rules",
    "sandbox": "what commands can access, and limits of the sandbox",
    "sessions": "list, watch, stop and export sessions; costs",
    "context": "content of a request, and compaction",
    "instructions": "NEXUS.md and similar files: imports, rules by path, costs",
    "recipes": "context sections and limits of a run",
    "tools": "the model's tools, and how to add a tool",
    "jobs": "background commands, and opening their servers in a browser",
    "hooks": "commands that run at session events",
    "mcp": "MCP servers: configuration, costs, permissions",
    "checks": "checks on edited files, and working until a command passes",
    "network": "proxies, certificates, your own model servers, gateways",
    "moving": "import from other coding agents, and export",
    "plugins": "extend nexus without changing its source",
    "python-plugins": "packages that add tools, commands, sections, checks",
    "runs": "scheduled and waiting work, spaces, the server",
    "services": "webhooks that start work, and runs that wait for events",
    "shell": "examples: commit messages, reviews, logs, JSON, many files, make, cron",
    "map": "one turn per file, line or batch of a stream",
    "ci": "reviews of pull requests on GitHub, and benchmarks",
    "team": "share a ledger and projects in a team",
    "glossary": "the terms that nexus uses",
}
"""Every page and its line in the list."""

MAX_FOUND = 12
"""Most sections that a search shows."""
_SETTING = re.compile(r'#? ?(\[\[?[\w."~/-]+\]\]?|[\w."*() -]+ = .+)')
"""A line of config.toml with a setting or an example of one; all other comments are text."""


@cache
def page_text(topic: str) -> str:
    """Return the Markdown of one of `TOPICS`."""
    return _GENERATED[topic]() if topic in _GENERATED else _read_page(topic)


def search_pages(words: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return page, heading and a line of each section that has all `words` at the beginning of words, whatever their
    case; the best first, at most `MAX_FOUND`."""
    patterns = [re.compile(rf"(?<![^\W_]){re.escape(word)}", re.IGNORECASE) for word in words]
    ranked: list[tuple[int, str, str, str]] = []
    for topic in TOPICS:
        for section in re.split(r"\n(?=# [A-Z]|##+ )", page_text(topic)):
            if all(word.search(section) for word in patterns):
                heading, *lines = (line.strip("#| ") for line in section.splitlines() if line.strip())
                hits = {line: sum(bool(word.search(line)) for word in patterns) for line in (heading, *lines)}
                best = max(lines, key=hits.__getitem__, default=heading)
                ranked.append((2 * hits[heading] + hits[best], topic, heading, best))
    ranked.sort(key=lambda row: -row[0])
    return [(topic, heading, line) for _, topic, heading, line in ranked[:MAX_FOUND]]


def _read_page(topic: str) -> str:
    return (PACKAGE / "docs" / f"{topic}.md").read_text(encoding="utf-8")


def settings_page() -> str:
    """Return the written page, then every setting: its comment as text, its value as a block of TOML."""
    page = [_read_page("settings")]
    for block in settings_text().split("\n\n"):
        for is_setting, lines in groupby(block.splitlines(), lambda line: bool(_SETTING.fullmatch(line))):
            if is_setting:
                page += ["```toml", *lines, "```", ""]
            else:
                page += [*(line.removeprefix("# ") for line in lines), ""]
    return "\n".join(page)


def commands_page() -> str:
    """Return the written page, all commands with their options, then the slash commands and the keys of the REPL."""
    from nexus_cli.cli import app  # noqa: PLC0415  (for this page only)
    from nexus_cli.commands import discover  # noqa: PLC0415
    from nexus_cli.commands.command import GROUPS  # noqa: PLC0415
    from nexus_cli.commands.help import KEYS  # noqa: PLC0415

    page = [_read_page("commands"), *_describe_command(app.build(completion=False), "nexus")]
    for title, names in app.list_help_lines().items():
        page += [f"## {title}", ""]
        for name in names:
            page += _describe_command(app.load_command(name), f"nexus {name}")
    page += ["## At the prompt", ""]
    commands = list(discover().values())
    for command in sorted(commands, key=lambda entry: GROUPS.index(entry.group)):
        usage = f"/{command.name} {command.usage}".rstrip()
        page += [f"- `{usage}`: {' '.join(command.help.split())}"]
    page += ["", "## Keys", "", "| key | action |", "|---|---|"]
    page += [f"| `{keys}` | {action} |" for keys, action in KEYS]
    return "\n".join(page)


def _describe_command(command: Any, path: str) -> Iterator[str]:
    """Yield the Markdown lines of a command and its subcommands."""
    context = command.context_class(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"### {path} {usage}", "", (command.help or "").strip(), "")
    records = (param.get_help_record(context) for param in command.get_params(context) if param.name != "help")
    options = [
        f"- `{names}`: {' '.join(description.split())}" for names, description in filter(None, records) if description
    ]
    if options:
        yield from (*options, "")
    for name, part in getattr(command, "commands", {}).items():
        yield from _describe_command(part, f"{path} {name}")


def _json_page() -> str:
    from nexus_cli.cli.json_page import json_page  # noqa: PLC0415  (the types, and the table of the server's methods)

    return json_page()


def _events_page() -> str:
    from nexus_cli.cli.json_page import event_tables  # noqa: PLC0415  (as above)

    return f"{_read_page('events')}\n{event_tables()}"


_GENERATED: Mapping[str, Callable[[], str]] = {
    "settings": settings_page,
    "commands": commands_page,
    "json": _json_page,
    "events": _events_page,
}
