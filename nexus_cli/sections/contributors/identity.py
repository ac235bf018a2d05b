"""The agent's identity: SOUL.md, IDENTITY.md and AGENT.md, each a section of its own; and the person's preferences:
PREFERENCES.md of the personal config folder.

`nexus_cli.sections.identity_files` finds the files. A long one is shortened if the section budget is tight.
"""

from __future__ import annotations

from dataclasses import asdict

from nexus_cli.sections.contributor import Contributor, Sources, Value, View, notices
from nexus_cli.sections.identity_files import IDENTITY, LIMIT, PREFERENCES, IdentityFile, section_forms
from nexus_cli.sections.section import Layer, Phase, Section, Sections

PRIORITY = 100
SLOTS = {"personal": 0, "project": 10}
PREFERENCES_SLOT = 50
STYLES = "styles"
"""Folder of the person's styles, beside their settings."""


def read_identity(sources: Sources) -> Value:
    """Return one record per file: `name`, `text`, `path`, `origin`, `notice`, `beyond`."""
    return [asdict(identity_file) for identity_file in sources.persona(IDENTITY)]


def render_identity(value: Value, view: View) -> Sections:
    """Return one section per file with text."""
    return tuple(
        Section(
            _id(row),
            Phase.PERSONA + SLOTS[row["origin"]] + IDENTITY.index(row["name"]),
            section_forms(f"# Identity ({row['name']})", row["text"], view.count),
            Layer.SYSTEM,
            PRIORITY,
            sticky=True,
            source=row["path"],
            unread_bytes=row["beyond"],
        )
        for row in value
        if row["text"]
    )


def _id(row: Value) -> str:
    stem = row["name"].partition(".")[0].lower()
    return f"identity.{stem}" if row["origin"] == "personal" else f"identity.project.{stem}"


def read_preferences(sources: Sources) -> Value:
    """Return `text`, `path`, `notice` and `beyond` of the preferences, if the file exists, then those of the chosen
    style, with its `style`."""
    value = [asdict(identity_file) for identity_file in sources.persona((PREFERENCES,))]
    if sources.style:
        name = f"{STYLES}/{sources.style}.md"
        missing = IdentityFile(name, "", "", notice=f"ui.style: {name} beside config.toml is missing or empty")
        identity_file = next(iter(sources.persona((name,))), missing)
        value.append({**asdict(identity_file), "style": sources.style})
    return value


def render_preferences(value: Value, view: View) -> Sections:
    """Return a section of the preferences and one of the style, if they have text."""
    return tuple(
        Section(
            "preferences.style" if "style" in row else "preferences",
            Phase.PERSONA + PREFERENCES_SLOT + ("style" in row),
            section_forms(
                f"# Style of answers ({row['style']})" if "style" in row else f"# Preferences ({PREFERENCES})",
                row["text"],
                view.count,
            ),
            Layer.SYSTEM,
            priority=70,
            source=row["path"],
            unread_bytes=row["beyond"],
        )
        for number, row in enumerate(value)
        if row["text"] and (number == 0 or "style" in row)
    )


CONTRIBUTORS = (
    Contributor(
        "identity", Layer.SYSTEM, read_identity, render_identity, notices, most=16 * LIMIT, verbatim=True, required=True
    ),
    Contributor(
        "preferences", Layer.SYSTEM, read_preferences, render_preferences, notices, most=2 * LIMIT, verbatim=True
    ),
)
