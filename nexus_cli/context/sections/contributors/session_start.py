"""Seed A's stamp of when the session began. It never changes, so an epoch sends it once, with its first user entry."""

from __future__ import annotations

from datetime import datetime

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.section import Layer, Phase, Section
from nexus_cli.core.clock import format_local_time


def read(sources: Sources) -> Value:
    """Return the moment, ISO 8601 with its zone."""
    return sources.started.isoformat()


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return `[Session started: 2026-01-13 14:30 (local)]`."""
    text = f"[Session started: {format_local_time(datetime.fromisoformat(value))}]"
    return (Section("session_start", Phase.EVENT, (text,), Layer.EVENT, priority=95, sticky=True, source="session"),)


CONTRIBUTOR = Contributor("session_start", Layer.EVENT, read, render)
