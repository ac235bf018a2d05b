"""Text of `nexus status` and `/status`: what there is to work with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NotRequired, TypedDict

from nexus_cli.config.unsupported import Unsupported, describe_unsupported
from nexus_cli.core.front_ends import FRONTS
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport
from nexus_cli.core.limits import ALL, LevelFields
from nexus_cli.hooks.hook_list import Hook
from nexus_cli.reports.hooks import count_hooks
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Verbatim, paragraphs
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import join_names, plural
from nexus_cli.sandbox.backend import BackendProbe
from nexus_cli.sections.contributors.capabilities import capability_forms

WIDE = 50
"""Least width at which names have a column of their own."""
TRUST = {
    "trusted": "trusted",
    "changed": "partly trusted: some files are new or have changed (`nexus trust`)",
    "untrusted": "not trusted: its configuration has no effect (`nexus trust`)",
    "nothing": "has no configuration of its own",
}


class CapabilityItem(TypedDict):
    """A tool, skill, server or credential."""

    name: str
    state: str
    why: str


class CapabilityObject(TypedDict):
    """All items of one kind."""

    category: str
    counts: dict[str, int]
    items: list[CapabilityItem]


class SkillName(TypedDict):
    name: str
    description: str
    origin: str


class ServerState(TypedDict):
    """A configured MCP server."""

    name: str
    state: Literal["listed", "not listed"]
    """Whether its tools are known. No report starts a server."""


class ProjectState(TypedDict):
    folder: str
    trust: str
    skills_not_trusted: int
    unsupported: list[JsonOf[Unsupported]]


class KnownCapabilities(VersionedReport):
    """The capabilities of a session."""

    tools: list[str]
    skills: list[SkillName]
    credentials: list[str]
    """Names, never values."""
    environment: str
    """The project's environments that sandboxed commands use: `python 3.12 from .venv`."""
    capabilities: list[CapabilityObject]


class BriefStatus(KnownCapabilities):
    """With `--brief`."""

    model: str
    servers: list[str]


class StatusReport(KnownCapabilities, LevelFields):
    """The capabilities of a session in this folder."""

    model: str | None
    servers: list[ServerState]
    plugins: list[str]
    """Plugin folders and Python plugins, by name."""
    hooks: list[JsonOf[Hook]]
    host: str
    model_why: str
    recipes: list[str]
    project: ProjectState
    memory: dict[str, int] | None
    notices: list[str]
    sandbox: JsonOf[BackendProbe]
    session: NotRequired[str]
    """Of an open session: its id."""
    nexus: NotRequired[str]
    """Of an open session: the version of nexus that runs it."""


def capabilities_text(value: JsonObject) -> Blocks:
    """Return a line for the model and each category."""
    return [Verbatim(capability_forms(value)[0])]


def status_text(value: JsonObject, width: int) -> Blocks:
    """Return a line for each kind of information; each skill has its own line."""
    for name, fact in _status_rows(value):
        text = name_commands(fact)
        yield Paragraph(text, "    ", f"{name:<13}") if width >= WIDE else Paragraph(f"{name}: {text}", "    ", "")
    skills = (f"{skill['name']}: {skill['description']}" for skill in value["skills"])
    yield from [*paragraphs(skills, "      ", "  - "), *paragraphs(value["notices"], "  ", "note: ")]


def _status_rows(value: JsonObject) -> Iterator[tuple[str, str]]:
    if "session" in value:
        yield "version", f"nexus {value['nexus']}"
        yield "session", value["session"]
    if "level" in value:
        yield "level", value["level"]
    yield "model", value["model"] or f"{value['model_why']}; `nexus doctor` has details"
    yield "host", value["host"]
    yield "tools", join_names(value["tools"])
    if value["servers"]:
        yield "MCP servers", join_names([server["name"] for server in value["servers"]])
    if value.get("plugins"):
        yield "plugins", f"{join_names(value['plugins'])} (`nexus plugin list`)"
    if value.get("hooks"):
        yield "hooks", count_hooks(value["hooks"])
    yield "keys set", join_names(value["credentials"])
    if own_recipes := [name for name in value["recipes"] if name not in FRONTS]:
        yield "recipes", join_names(own_recipes)
    yield "project", f"{value['project']['folder']}, {TRUST[value['project']['trust']]}"
    if value.get("added"):
        yield "added", ", ".join(value["added"])
    if value["project"]["unsupported"]:
        yield "not read", describe_unsupported(tuple(Unsupported(**row) for row in value["project"]["unsupported"]))
    if value["memory"] is not None:
        yield (
            "memory",
            ", ".join(f"{count} {kind}" for kind, count in value["memory"].items() if count) or "nothing yet",
        )
    if "sandbox" in value and value["sandbox"]["backend"] == "none" and value["level"] != ALL:
        yield "sandbox", f"{sandbox_line(value['sandbox'])}; `nexus doctor` has details"
    hidden = value["project"]["skills_not_trusted"]
    suffix = f"; {hidden:,} more in this project after `nexus trust`" if hidden else ""
    if broken := list(_broken(value)):
        yield "broken", "; ".join(broken)
    yield "skills", (plural(len(value["skills"]), "skill") if value["skills"] else "none") + suffix


def _broken(value: JsonObject) -> Iterator[str]:
    """Yield the configured features that cannot be used, with the reason."""
    for category in value.get("capabilities", ()):
        for item in category["items"]:
            if item["state"] == "broken":
                yield f"{item['name']} ({item['why'] or category['category']})"


def sandbox_line(value: JsonObject) -> str:
    """Describe the sandbox backend, or the reason that there is none, in one line without a full stop."""
    if value["backend"] == "none":
        return f"none; every command needs approval below level all ({value['why']})"
    return str(value["backend"])
