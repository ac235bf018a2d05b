"""`/compact`: older history becomes a summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import wrong
from nexus_cli.session.acts.compaction import preview

PREVIEW = "--preview"


async def run(desk: Desk, rest: str) -> None:
    """Sum up older history for smaller requests.

    INSTRUCTIONS tell the summary what to keep. Nothing is lost: what is summed up is a drop, and a summary that
    fails, loses what was agreed, or would not be smaller leaves everything as it was. /uncompact takes it back.
    --preview shows what would stay and go, and what it costs, and sends nothing.
    """
    option, _, instructions = rest.partition(" ")
    if option.startswith(("--", "\u2014")) and option != PREVIEW:
        raise wrong("compact", option, "there is no such option", f"the only one is {PREVIEW}: /compact {PREVIEW}")
    if option == PREVIEW:
        await _preview(desk, instructions.strip())
        return

    async def work() -> None:
        for event in await desk.session.compact(rest):
            desk.feed(event)

    await desk.busy("compacting", work())


async def _preview(desk: Desk, instructions: str) -> None:
    found: list[Mapping[str, Any]] = []

    async def work() -> None:
        async for event in desk.session.act(preview(instructions, found.append)):
            desk.feed(event)

    await desk.busy("looking", work())
    for value in found:
        desk.show("compaction", value)


COMMAND = Command("compact", "context", run, "[--preview] [INSTRUCTIONS]", idle=True, complete=lambda desk: (PREVIEW,))
