"""Show the model, tools, skills, servers, and the names of credentials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from nexus_cli import __version__
from nexus_cli.commands.arguments import find_permission
from nexus_cli.commands.hooks import count_hooks
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.ledger_place import ledger_exists, ledger_place
from nexus_cli.config.paths import working_folder
from nexus_cli.config.unsupported import Unsupported, describe_unsupported
from nexus_cli.core.entry import AGENT_NAME
from nexus_cli.core.errors import NexusError
from nexus_cli.core.front_ends import FRONTS
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.limits import ALL, LevelFields, level_fields
from nexus_cli.core.memory import FactMerger
from nexus_cli.core.option import Option
from nexus_cli.core.redact_secrets import redact
from nexus_cli.core.services import SkillGuides, Spaces
from nexus_cli.guides.skills import may_have_skills
from nexus_cli.hooks.hook_list import Hook, list_hooks
from nexus_cli.ledger import Ledger
from nexus_cli.provider.available_models import unnamed_model
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Verbatim, paragraphs
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import join_names, plural, sandbox_line
from nexus_cli.sandbox.backend import BackendProbe
from nexus_cli.sections.capability_snapshot import snapshot, status
from nexus_cli.sections.contributors.capabilities import capability_forms
from nexus_cli.tools.registry import discover_tools

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


def build_status(
    source: Source, brief: Annotated[bool, Option(None, "Print one line for the model and each category.")] = False
) -> Report[Annotated[Any, StatusReport | BriefStatus]]:
    """Show the model, tools, skills, servers, names of credentials, recipes, trust and memory.

    `nexus doctor` finds problems.
    """
    live, folder, settings = source.live, source.folder(), source.settings()
    if brief:
        model = redact(live.model if live else unnamed_model(settings))
        capabilities = snapshot(folder, settings, model, list(_list_tools(source)))
        return Report("capabilities", {"version": 1, **capabilities}, uncut=True)
    value = status(folder, settings, _list_tools(source))
    value["hooks"] = to_json_value(list_hooks(folder, settings.hook))
    permission, level = find_permission(source), live.status().allow if live else settings.allow
    probe = permission.probe_backend()
    if probe is not None:
        value |= {"sandbox": to_json_value(probe), **level_fields(level)}
    if permission.added:
        value["added"] = list(map(str, permission.added))
    if live:
        value |= {"model": live.model, "session": live.id, "nexus": __version__}
    return Report("status", value)


def _list_tools(source: Source) -> Iterator[str]:
    yield from [tool.name for tool in source.live.tools()] if source.live else session_tools()


def session_tools() -> list[str]:
    """Return the names of the tools of a plain session."""
    absent, place = {FactMerger, Spaces}, ledger_place()
    if ledger_exists(place):
        with (
            suppress(NexusError),
            closing(Ledger.open_for_reading(place)) as ledger,
        ):  # an unreadable ledger is reported elsewhere
            absent -= {Spaces} if ledger.is_member(AGENT_NAME) else set()
    absent |= set() if may_have_skills(working_folder()) else {SkillGuides}
    return [name for name, tool in discover_tools().items() if not absent & set(tool.needs)]


def build_tools(source: Source) -> Report[Annotated[Any, "reports.tools.ToolsReport"]]:
    """List tools with their effect, the tokens of their schema, and the calls that need approval at this level.

    In a shell, these are the tools of a new session.
    """
    from nexus_cli.reports.tools import tools_report  # noqa: PLC0415  (imports the engine)

    if source.live:
        return Report("tools", tools_report(source.live))
    from nexus_cli.commands.context import prepare_options  # noqa: PLC0415  (as below)
    from nexus_cli.service_list import SERVICES  # noqa: PLC0415  (as below)
    from nexus_cli.session.draft import new_session  # noqa: PLC0415  (the factory; not for others)

    settings = source.settings()
    with new_session(prepare_options(source, settings, "", ""), settings, SERVICES) as session:
        return Report("tools", tools_report(session))


NOUN = Noun(
    "status",
    "setup",
    (Verb(build_status, opens="nothing"), Verb(build_tools, "tools", opens="nothing")),
    "Show model, tools, skills and MCP servers in use.",
)
