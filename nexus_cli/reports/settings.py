"""Text of settings with their origins."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.reports.text.lines import Value, filled


def settings_text(value: Value, width: int) -> str:
    """List each setting as TOML, with its origin unless that is the package."""
    lines = []
    for setting in value["settings"]:
        origin = "" if setting["origin"] == "default" else f"  # {setting['origin']}"
        lines += filled(f"{setting['key']} = {toml_literal(setting['value'])}{origin}", width, "    ", "  ")
    foot = f"Your file: {value['path']}. /config KEY VALUE changes a setting."
    return "\n".join([*lines, "", *filled(foot, width)])


def toml_literal(value: str | bool | int | float | Sequence[str]) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_literal, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
