"""The identity of the agent: SOUL.md, IDENTITY.md and AGENT.md (seeds B and E), each a section of its own.

Which of them count is said in `nexus_cli.context.sections.identity_files`. A long one is sent shorter where the section
budget is tight: seed E had nothing between whole and gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.identity_files import IDENTITY, LIMIT, section_forms
from nexus_cli.context.sections.section import Layer, Phase, Section

PRIORITY = 100
SLOTS = {"personal": 0, "project": 10}


def read(sources: Sources) -> Value:
    """Return one record per file: `name`, `text`, `path`, `origin`, `notice`, `beyond`."""
    texts = sources.persona(IDENTITY)
    return [asdict(one) for one in texts]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return one section per file that says something."""
    return tuple(
        Section(
            _id(one),
            Phase.PERSONA + SLOTS[one["origin"]] + IDENTITY.index(one["name"]),
            section_forms(f"# Identity ({one['name']})", one["text"], view.count),
            Layer.SYSTEM,
            PRIORITY,
            sticky=True,
            source=one["path"],
            unread_bytes=one["beyond"],
        )
        for one in value
        if one["text"]
    )


def _id(one: Value) -> str:
    stem = one["name"].partition(".")[0].lower()
    return f"identity.{stem}" if one["origin"] == "personal" else f"identity.project.{stem}"


def notices(value: Value) -> Sequence[str]:
    """Return what is odd about the files."""
    return [one["notice"] for one in value if one["notice"]]


CONTRIBUTOR = Contributor(
    "identity", Layer.SYSTEM, read, render, notices, most=16 * LIMIT, verbatim=True, required=True
)
