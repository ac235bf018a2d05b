"""The `instructions` that MCP servers give in the handshake, a section for each server."""

from __future__ import annotations

from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import section_forms
from nexus_cli.sections.section import Layer, Phase, Section, Sections


def read(sources: Sources) -> Value:
    """Return name and instructions of each server that has some."""
    return [{"name": name, "text": text} for name, text in sources.server_instructions().items()]


def render(value: Value, view: View) -> Sections:
    """Return the instructions below a header that names whose they are."""
    return tuple(
        Section(
            f"servers.{server['name']}",
            Phase.TOOLS + 30 + min(number, 99),
            section_forms(f"# MCP server {server['name']} (text from the server)", server["text"], view.count),
            Layer.SYSTEM,
            priority=70,
            source=f"MCP server {server['name']}",
        )
        for number, server in enumerate(value)
    )


CONTRIBUTORS = (Contributor("servers", Layer.SYSTEM, read, render),)
