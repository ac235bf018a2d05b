"""`nexus space open`: show a space in this terminal and run its agents."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.serve.serve_once import make_runner, tell_interrupted
from nexus_cli.cli.terminal_view import TerminalView
from nexus_cli.config.settings import Settings
from nexus_cli.core.daemon_task import DaemonTask
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import AGENT, Entity, Space
from nexus_cli.ledger import Ledger
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.ui.repl.space_view import LEAVE_SECONDS, SpaceChat
from nexus_cli.ui.screen.pipe_view import PipeView


def open_space(ledger: Ledger, settings: Settings, space: Space, member: Entity) -> int:
    """Run the view until the person leaves or stdin ends; return the exit status."""
    try:
        return run_in_loop(_run(ledger, settings, space, member))
    finally:
        ledger.close()


async def _run(ledger: Ledger, settings: Settings, space: Space, member: Entity) -> int:
    piped = not (os.isatty(0) and os.isatty(1))
    names: list[SpaceChat] = []
    terminal_view = TerminalView(
        settings, Path.cwd(), save=False, names=lambda: names[0].member_names() if names else [], piped=piped
    )
    view = terminal_view.view
    warnings = set[str]()

    def warn(line: str) -> None:
        if line not in warnings:
            warnings.add(line)
            chat.show_note(f"nexus: {line}", "warn")

    # A connection gets no notice of its own writes: the agents use a second one.
    answering = ledger.connect_again()
    runner = make_runner(answering, settings, warn)

    async def answer_agents(stop: asyncio.Event) -> None:
        await runner.serve(stop, space=space.key)
        if piped:  # answer the last messages before the end
            await runner.run_due(space=space.key)

    patience = None if piped else LEAVE_SECONDS
    chat = SpaceChat(ledger, settings, space, member, view, terminal_view.theme, answer_agents, patience)
    names.append(chat)
    if isinstance(view, PipeView):
        view.settle = chat.settle
    if not piped and any(entity.kind == AGENT for entity in space.members):
        # This takes seconds of CPU, which would block the screen when the first agent answers.
        DaemonTask(LitellmBackend().prepare, 60.0).start()
    interrupt, work = Interrupt(), asyncio.ensure_future(chat.run())
    if piped:
        interrupt.install(work.cancel)
    else:
        interrupt.install(chat.request_exit, stop=view.interrupt)
    try:
        await work
    except asyncio.CancelledError:
        if not interrupt.signal:
            raise
    except (OSError, EOFError, NexusError):
        if piped or (os.isatty(0) and os.isatty(1)):
            raise
        return 128 + signal.SIGHUP  # the window was closed
    finally:
        interrupt.uninstall()
        await runner.aclose()
        answering.close()
        terminal_view.close()
        tell_interrupted(ledger, space=space.key)
    return interrupt.status
