"""`nexus trust`: show the effects of a project's configuration, and put it into effect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from nexus_cli.cli.command_options import Json, refuse_empty
from nexus_cli.cli.confirm import can_confirm, confirm
from nexus_cli.cli.print_report import print_json, print_report, print_text, text_width
from nexus_cli.commands.trust import read_trust
from nexus_cli.config import trust as record
from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.paths import project_root, working_folder
from nexus_cli.config.project_items import project_folders
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.trust import trust_text
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import QuietStream, Stream, write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("trust")
def trust(
    directory: Annotated[
        str, typer.Argument(metavar="[DIR]", show_default=False, help="A folder in the project.", callback=refuse_empty)
    ] = "",
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke trust.")] = False,
    json: Json = False,
) -> int:
    """Let the configuration of this project take effect.

    It can restrict your permissions, but not extend them. nexus first shows its effects and the changes since you last
    trusted it. Items that change later are inactive until you trust them again.
    """
    below = working_folder(directory, "trust")
    folder = project_root(below)
    if revoke:
        return _revoke(folder, below, json)
    _trust_folder(folder, json)
    for inner in project_folders(below)[1:]:  # of a large repository: what is there for agents counts only below it
        if not json and record.read_configuration(inner, KINDS).files:
            _trust_folder(inner, json)
    return 0


def _trust_folder(folder: Path, json: bool) -> None:
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
    elif is_other and _confirm(value, json):
        record.trust(folder, found)
        value["state"] = "trusted"
        if not json and can_confirm():
            write_stderr_line(f"nexus: {folder} is trusted. Active: {', '.join(value['active']) or 'nothing'}.")
            return
    elif is_other:
        write_stderr_line("nexus: nothing was changed.")
        if not json:
            return
    _show(value, json)


def _confirm(value: Mapping[str, Any], json: bool) -> bool:
    """Ask in a terminal; without one return True, because the command itself is the consent."""
    if not can_confirm():
        return True
    asking = QuietStream(Stream(2))
    if json:  # stdout gets only the object
        asking.write(sanitize(trust_text(value, asking.width).rstrip("\n") + "\n"))
    else:
        print_text(trust_text(value, text_width()))
    return confirm("Trust it?")


def _revoke(folder: Path, below: Path, json: bool) -> int:
    gone = sum(record.revoke_trust(one) for one in project_folders(below)) > 0
    if json:
        print_json({"version": 1, "project": str(folder), "revoked": gone, "state": record.trust_state(folder)})
    else:
        write_stderr_line(f"nexus: {folder} is no longer trusted." if gone else f"nexus: {folder} was not trusted.")
    return 0


def _show(value: Mapping[str, Any], json: bool) -> None:
    print_report(value, trust_text, json=json)
