"""`nexus status`: what there is to work with here."""

from __future__ import annotations

from collections.abc import Iterator

from nexus_cli.ui.reports.lines import Value, filled, plural

WIDE = 50
"""From so many columns on the names stand in a column of their own."""
TRUST = {
    "trusted": "trusted",
    "changed": "not trusted any more: its configuration has changed (`nexus trust`)",
    "untrusted": "not trusted: its configuration does not count (`nexus trust`)",
    "nothing": "has no configuration of its own",
}


def status_text(value: Value, width: int) -> str:
    """A line for each kind of thing, skills with one line each."""
    lines = [line for name, said in _said(value) for line in _line(name, said, width)]
    for skill in value["skills"]:
        lines += filled(f"{skill['name']}: {skill['description']}", width, "      ", "  - ")
    notes = [line for notice in value["notices"] for line in filled(notice, width, "  ", "note: ")]
    return "\n".join([*lines, *notes])


def _line(name: str, said: str, width: int) -> list[str]:
    wide = width >= WIDE
    return filled(said if wide else f"{name}: {said}", width, "    ", f"{name:<13}" if wide else "")


def _said(value: Value) -> Iterator[tuple[str, str]]:
    yield "model", value["model"] or f"{value['model_why']}; `nexus doctor` says what helps"
    yield "host", value["host"]
    yield "tools", _names(value["tools"])
    servers = [f"{one['name']} ({one['state']})" for one in value["servers"]]
    yield "MCP servers", _names(servers)
    yield "keys set", _names(value["credentials"])
    yield "recipes", _names(value["recipes"])
    yield "project", f"{value['project']['folder']}, {TRUST[value['project']['trust']]}"
    if value["memory"] is not None:
        yield "memory", ", ".join(f"{count} {kind}" for kind, count in value["memory"].items())
    hidden = value["project"]["skills_not_trusted"]
    more = f"; {hidden:,} more in this project after `nexus trust`" if hidden else ""
    yield "skills", (plural(len(value["skills"]), "skill") if value["skills"] else "none") + more


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"
