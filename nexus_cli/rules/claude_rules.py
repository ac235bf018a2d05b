"""Translate rules of Claude's settings to ours: exactly, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from nexus_cli.config.foreign_items import PARENT_PREFIX

if TYPE_CHECKING:
    from nexus_cli.config.trust_items import TrustItem

TOOLS: Mapping[str, tuple[str, ...]] = {
    "Read": ("read_file",),
    "Edit": ("edit_file", "write_file"),
    "MultiEdit": ("edit_file",),
    "Write": ("write_file",),
    "Grep": ("grep",),
    "Glob": ("glob",),
    "WebFetch": ("fetch",),
    "Task": ("agent",),
    "Agent": ("agent",),
    "Skill": ("skill",),
    "TodoWrite": ("todo",),
}
GENERAL = "general-purpose"
"""Claude's name of an agent without a role: a worker here."""
PATHS = ("Read", "Edit", "MultiEdit", "Write")
"""The tools whose patterns are paths."""
_RULE = re.compile(r"([\w.*-]+)(?:\((.*)\))?", re.DOTALL)
_NAME = re.compile(r"/?([^\s*]+?)(?:[: ](\*))?")
"""The name of an agent or skill; of a skill also its beginning."""
_ROOT = re.compile(rf"^(\s*(?:{'|'.join(PATHS)})\()/(?!/)")
_UNTRANSLATABLE = re.compile(r"[\[\]{}\\]|^!")


def claude_rules(items: Iterable[TrustItem]) -> Iterator[tuple[Literal["deny", "ask"], str, str]]:
    """Yield decision, our text and file of the deny and ask rules of Claude's and codex's among `items` that have a
    counterpart."""
    for item in items:
        if item.kind == "rule" and item.file.startswith(PARENT_PREFIX):
            decision, _, written = item.definition.removesuffix("\n").partition(" ")
            kind: Literal["deny", "ask"] = "deny" if decision == "deny" else "ask"
            with suppress(ValueError):  # `reports/foreign_gaps` names it
                yield from (
                    (kind, text, item.file.removeprefix(PARENT_PREFIX)) for text in map_project_rule(kind, written)
                )


def map_project_rule(decision: str, written: str) -> list[str]:
    """Return our rules for one of a project's settings, in whose paths `/` begins at the project; raise as
    `map_claude_rule` does."""
    return map_claude_rule(decision, _ROOT.sub(r"\1./", written))


def map_claude_rule(decision: str, written: str) -> list[str]:
    """Return our rules for one of Claude's; raise `ValueError` with the reason if there are none."""
    match = _RULE.fullmatch(written.strip())
    if match is None:
        raise ValueError("expected TOOL or TOOL(PATTERN)")
    name, pattern = match[1], match[2]
    if name.startswith("mcp__"):
        if pattern is not None:
            raise ValueError("nexus rules for MCP tools cannot have a pattern")
        return [name if "__" in name[5:] else f"{name}__*"]
    if name == "Bash":
        return [map_command("*" if pattern is None else pattern)]
    if pattern is None or pattern.strip() in ("", "*", "**"):
        if name not in TOOLS:
            raise ValueError("nexus has no such tool")
        return list(TOOLS[name])
    if name in PATHS:
        tools = TOOLS[name][:1]
        if decision != "allow" and name != "Read":  # whatever writes the path, not one tool
            tools = TOOLS["Edit"]
        elif decision == "deny":  # what must not be read must not be written either
            tools += TOOLS["Edit"]
        return [f"{tool}({_map_claude_path(pattern)})" for tool in tools]
    name_match = _NAME.fullmatch(pattern) if name in ("Agent", "Task", "Skill") else None
    if name_match and (name == "Skill" or not name_match[2]):
        ours = "worker" if TOOLS[name] == ("agent",) and pattern.casefold() == GENERAL else name_match[1]
        return [f"{TOOLS[name][0]}({ours}{name_match[2] or ''})"]
    if name == "WebFetch" and pattern.startswith("domain:"):
        host = pattern.removeprefix("domain:").strip()
        if "*" in host and decision == "allow":
            raise ValueError("in nexus, an allow rule must name exactly one host")
        return [f"fetch({host})"]
    raise ValueError("nexus does not support this pattern" if name in TOOLS else "nexus has no such tool")


def _map_claude_path(pattern: str) -> str:
    if pattern.startswith("//"):
        return map_path(pattern[1:])
    if pattern.startswith("/"):
        raise ValueError("the path is relative to Claude's settings; write the absolute path, or ./ for the project")
    return map_path(pattern)


def map_path(pattern: str) -> str:
    """Return a path pattern in our form; raise `ValueError` for signs that mean something else here."""
    if _UNTRANSLATABLE.search(pattern):
        raise ValueError("path patterns in nexus support only `*`, `**` and `?`")
    return pattern


def map_command(pattern: str) -> str:
    """Return the rule for a command pattern: exact words, a prefix with `:*` or ` *`, or every command."""
    pattern = pattern.strip()
    pattern = f"{pattern[:-2]} *" if pattern.endswith(":*") else pattern
    return "bash" if pattern.strip() in ("*", "") else f"bash({pattern})"
