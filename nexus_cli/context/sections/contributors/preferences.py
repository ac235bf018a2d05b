"""The preferences of the person: PREFERENCES.md of the personal config folder (seed E)."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.identity_files import LIMIT, PREFERENCES, section_forms
from nexus_cli.context.sections.section import Layer, Phase, Section

SLOT = 50
"""Behind the identity."""


def read(sources: Sources) -> Value:
    """Return its `text`, `path`, `notice` and `beyond`; nothing if there is no file."""
    texts = sources.persona((PREFERENCES,))
    return [{"text": one.text, "path": one.path, "notice": one.notice, "beyond": one.beyond} for one in texts]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return one section, where the file says something."""
    return tuple(
        Section(
            "preferences",
            Phase.PERSONA + SLOT,
            section_forms(f"# Preferences ({PREFERENCES})", one["text"], view.count),
            Layer.SYSTEM,
            priority=70,
            source=one["path"],
            unread_bytes=one["beyond"],
        )
        for one in value[:1]
        if one["text"]
    )


def notices(value: Value) -> Sequence[str]:
    """Return what is odd about the file."""
    return [one["notice"] for one in value if one["notice"]]


CONTRIBUTOR = Contributor("preferences", Layer.SYSTEM, read, render, notices, most=2 * LIMIT, verbatim=True)
