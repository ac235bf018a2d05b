"""`nexus trust`: show the effects of a project's configuration, and put it into effect."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from nexus_cli.cli.print_report import print_for_consent, print_json, print_text, text_width
from nexus_cli.commands.trust import read_trust
from nexus_cli.commands.verb import Authority, Noun, Option, Source, Verb
from nexus_cli.config import trust as record
from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.paths import project_root, working_folder
from nexus_cli.config.project_items import project_folders
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.trust import trust_text


def trust(
    source: Source,
    directory: Annotated[str, Option("[DIR]", "A folder in the project.", is_argument=True)] = "",
    revoke: Annotated[bool, Option(None, "Revoke trust.")] = False,
) -> int:
    """Let the configuration of this project take effect.

    It can restrict your permissions, but not extend them. nexus first shows its effects and the changes since you last
    trusted it. Items that change later are inactive until you trust them again.
    """
    below = working_folder(directory, "trust")
    folder = project_root(below)
    if revoke:
        _revoke(source, folder, below)
        return 0
    _trust_folder(source, folder)
    for inner in project_folders(below)[1:]:  # of a large repository: what is there for agents counts only below it
        if not source.is_json and record.read_configuration(inner, KINDS).files:
            _trust_folder(source, inner)
    return 0


def _trust_folder(source: Source, folder: Path) -> None:
    json = source.is_json
    found, report = read_trust(folder)
    value = report.value
    is_removed = any(one["state"] == "removed" for one in value["items"])
    if (value["state"] == "nothing" and not is_removed) or found.problem:
        _show(value, json)
        if found.problem:
            raise NexusError("config", f"{folder} is not trusted", found.problem, "Fix or remove the file")
        return
    is_other = value["state"] != "trusted" or is_removed
    if is_other and not found.files:
        record.revoke_trust(folder)  # of what was trusted nothing is left
    elif is_other and _confirm(source, value):
        record.trust(folder, found)
        value["state"] = "trusted"
        if not json and source.confirm:
            source.say(f"{folder} is trusted. Active: {', '.join(value['active']) or 'nothing'}.")
            return
    elif is_other:
        source.say("nothing was changed.")
        if not json:
            return
    _show(value, json)


def _confirm(source: Source, value: Mapping[str, Any]) -> bool:
    """Ask in a terminal; without one return True, because the command itself is the consent."""
    if source.confirm is None:
        return True
    print_for_consent(partial(trust_text, value), is_json=source.is_json)
    return source.confirm("Trust it?")


def _revoke(source: Source, folder: Path, below: Path) -> None:
    gone = sum(record.revoke_trust(one) for one in project_folders(below)) > 0
    if source.is_json:
        print_json({"version": 1, "project": str(folder), "revoked": gone, "state": record.trust_state(folder)})
    else:
        source.say(f"{folder} is no longer trusted." if gone else f"{folder} was not trusted.")


def _show(value: Mapping[str, Any], json: bool) -> None:
    if json:
        print_json(value)
    else:
        print_text(trust_text(value, text_width()))


NOUN = Noun("trust", "setup", (Verb(trust, "", Authority.PERMITS, "nothing"),))
