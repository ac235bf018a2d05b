"""Text of settings with their origins."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from nexus_cli.config.settings_text import toml_literal
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.reports.text.blocks import Blocks, Drawn, Paragraph
from nexus_cli.reports.text.door import name_commands
from nexus_cli.text.cells import cells
from nexus_cli.text.terminal_sanitizer import sanitize


class SettingObject(TypedDict):
    value: Any
    origin: str


class ConfigReport(VersionedReport):
    """Settings that have a value."""

    settings: dict[str, SettingObject]
    path: NotRequired[str]
    """Of an open session: the personal file."""
    shows_origin: NotRequired[bool]
    """True if the text names the origin of every setting."""


def settings_text(value: JsonObject, width: int) -> Blocks:
    """List each setting as TOML, with its origin if that is asked for; in a session unless it is the package."""
    path = value["path"]
    for key, setting in value["settings"].items():
        is_named = value["shows_origin"] or (path and setting["origin"] != "default")
        text = sanitize(f"{key} = {toml_literal(setting['value'])}")
        line = f"{text:<58}  # {sanitize(setting['origin'])}" if is_named else text
        yield Drawn(line) if cells(line) <= width else Paragraph(line, "    ", "")
    if path:
        yield from ["", name_commands(f"Your file: {path}. nexus config set KEY VALUE changes a setting.")]
