"""The configuration of a project: what it would do, and the question whether to trust it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.config import trust as record
from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.load_settings import load_settings
from nexus_cli.config.paths import places, project_root, working_folder
from nexus_cli.config.project_items import project_folders
from nexus_cli.core.errors import NexusError
from nexus_cli.core.option import Argument, Option


def build_trust(source: Source) -> Report[Annotated[Any, "reports.trust.TrustReport"]]:
    """Show the effects of this project's configuration, active or not.

    Changes since you trusted it are marked.
    """
    return _read_trust(project_root(source.folder()))[1]


def trust_project(
    source: Source,
    directory: Annotated[str, Argument("[DIR]", "A folder in the project.")] = "",
    revoke: Annotated[bool, Option(None, "Revoke trust.")] = False,
) -> Report[Annotated[Any, "reports.trust.TrustReport"] | Annotated[Any, "reports.trust.RevokedTrust"]]:
    """Let the configuration of this project take effect.

    It can restrict your permissions. Only a command or skill that you call can extend them, for that turn
    (`allowed-tools`). nexus first shows its effects and the changes since you last trusted it. Items that change later
    are inactive until you trust them again.
    """
    root, *inner = project_folders(working_folder(directory, "trust") if directory else source.folder())
    if revoke:
        is_revoked = sum(map(record.revoke_trust, [root, *inner])) > 0
        value = {"version": 1, "project": str(root), "revoked": is_revoked, "state": record.trust_state(root)}
        return Report("", value, note=f"{root} is no longer trusted." if is_revoked else f"{root} was not trusted.")
    report = _trust_folder(source, root)
    for folder in inner:  # of a large repository: what is there for agents counts only below it
        if not (report.status or source.is_json) and record.read_configuration(folder, KINDS).files:
            source.show(report)
            report = _trust_folder(source, folder)
    return report


def _trust_folder(source: Source, folder: Path) -> Report[Any]:
    """Put a configuration into effect if the person agrees; return what is left to show."""
    configuration, report = _read_trust(folder)
    value = report.value
    is_removed = any(item["state"] == "removed" for item in value["items"])
    if configuration.problem:
        error = NexusError("config", f"{folder} is not trusted", configuration.problem, "Fix or remove the file")
        source.say(error.line.removeprefix("nexus: "))
        return report._replace(status=error.exit_status)
    if is_removed and not configuration.files:
        record.revoke_trust(folder)  # of what was trusted nothing is left
    if not configuration.files or (value["state"] == "trusted" and not is_removed):
        return report
    if source.confirm:
        source.show(report)
    # In a shell where nobody can be asked, the command itself is the consent.
    if not (source.confirm("Trust it?") if source.confirm else source.live is None):
        source.say("nothing was changed.")
        return report._replace(form="")
    record.trust(folder, configuration)
    value["state"] = "trusted"
    if source.confirm is None:
        return report
    after = "/reload applies the settings and lists skills and agents to the model"
    when = f" {after}; the rest applies from your next message on." if source.live else ""
    note = f"{folder} is trusted. Active: {', '.join(value['active']) or 'nothing'}.{when}"
    return report._replace(form="", note=note)


def _read_trust(folder: Path) -> tuple[record.Configuration, Report[Any]]:
    """Return the configuration of a project, and the report of its effects."""
    from nexus_cli.reports.trust import trust_report  # noqa: PLC0415  (rules, once somebody asks)

    configuration = record.read_configuration(folder, KINDS)
    return configuration, Report("trust", trust_report(folder, configuration, load_settings(places())))


NOUN = Noun(
    "trust",
    "setup",
    (
        Verb(trust_project, "", Authority.PERMITS, "nothing"),
        Verb(build_trust, "show", opens="nothing"),
    ),
    "Show the project's configuration, and trust it.",
)
