"""`/compact`: older history becomes a summary."""

from __future__ import annotations

from nexus_cli.commands.command import Command, Desk


async def run(desk: Desk, rest: str) -> None:
    """Sum up older history for smaller requests.

    INSTRUCTIONS tell the summary what to keep. Nothing is lost: what is summed up is a drop, and a summary that
    fails or would not be smaller leaves everything as it was.
    """

    async def work() -> None:
        for event in await desk.session.compact(rest):
            desk.feed(event)

    await desk.busy("compacting", work())


COMMAND = Command("compact", "context", run, "[INSTRUCTIONS]", idle=True)
