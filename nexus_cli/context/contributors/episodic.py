"""Past sessions of this project that matter for what the person just said, a line for each (seed E's episodic)."""

from __future__ import annotations

import asyncio

from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.section import Layer, Phase, Section
from nexus_cli.context.sysinfo import one_line

MOST = 2
LONGEST = 100
"""Characters of a title."""


async def read(sources: Sources) -> Value:
    """One record per session, the best first: `session`, `title`, `date`."""
    found = await asyncio.to_thread(sources.episodes, sources.about())
    return [{"session": one.session, "title": _short(one.title), "date": one.at[:10]} for one in found[:MOST]]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """`- Earlier session 2026-11-03: fix the login test (01J...)`."""
    return tuple(
        Section(
            f"episodic.{one['session']}",
            Phase.MEMORY + 60,
            (f"- Earlier session {one['date']}: {one['title']} ({one['session']})",),
            Layer.EVENT,
            priority=40,
            source=f"session {one['session']}",
        )
        for one in value
    )


def _short(title: str) -> str:
    line = " ".join(one_line(title).split())
    return line if len(line) <= LONGEST else line[:LONGEST].rstrip() + "..."


CONTRIBUTOR = Contributor("episodic", Layer.EVENT, read, render)
