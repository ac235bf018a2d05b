"""Show the model, tools, skills, servers, and the names of credentials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Annotated, Any

from nexus_cli import __version__
from nexus_cli.commands.arguments import find_permission
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.ledger_place import ledger_exists, ledger_place
from nexus_cli.config.paths import working_folder
from nexus_cli.core.entry import AGENT_NAME
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.limits import level_fields
from nexus_cli.core.memory import FactMerger
from nexus_cli.core.option import Option
from nexus_cli.core.redact_secrets import redact
from nexus_cli.core.services import SkillGuides, Spaces
from nexus_cli.guides.skills import may_have_skills
from nexus_cli.ledger import Ledger
from nexus_cli.provider.available_models import unnamed_model
from nexus_cli.reports.hooks import hooks_report
from nexus_cli.sections.capability_snapshot import snapshot, status
from nexus_cli.tools.registry import discover_tools


def build_status(
    source: Source, brief: Annotated[bool, Option(None, "Print one line for the model and each category.")] = False
) -> Report[Annotated[Any, "reports.status.StatusReport"] | Annotated[Any, "reports.status.BriefStatus"]]:
    """Show the model, tools, skills, servers, names of credentials, recipes, trust and memory.

    `nexus doctor` finds problems.
    """
    live, folder, settings = source.live, source.folder(), source.settings()
    if brief:
        model = redact(live.model if live else unnamed_model(settings))
        capabilities = snapshot(folder, settings, model, list(_list_tools(source)))
        return Report("capabilities", {"version": 1, **capabilities}, whole=True)
    value = status(folder, settings, _list_tools(source))
    value["hooks"] = hooks_report(folder, settings.hook)
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
