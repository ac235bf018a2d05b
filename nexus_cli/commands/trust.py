"""`/trust`: what the configuration of this project would do. `nexus trust` in a shell puts it into effect."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.load_settings import load_settings
from nexus_cli.config.paths import places, project_root
from nexus_cli.config.trust import Configuration, read_configuration


def build_trust(source: Source) -> Report[Any]:
    """Show the effects of this project's configuration, active or not.

    Changes since you trusted it are marked. To trust it, run `nexus trust` in a shell.
    """
    return read_trust(project_root(source.folder()))[1]


def read_trust(folder: Path) -> tuple[Configuration, Report[Any]]:
    """Return the configuration of a project, and the report of its effects."""
    from nexus_cli.reports.trust import trust_report  # noqa: PLC0415  (rules, once somebody asks)

    found = read_configuration(folder, KINDS)
    return found, Report("trust", trust_report(folder, found, load_settings(places(), os.environ)))


NOUNS = (Noun("trust", "setup", (Verb(build_trust),), "Show the effects of the project's configuration."),)
