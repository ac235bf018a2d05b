"""`nexus space open`: show a space in this terminal and run its agents."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import cache, partial
from pathlib import Path

from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.print_report import ENDLESS
from nexus_cli.cli.serve.serve_once import drive_runs, make_runner, print_interrupted_runs, run_line
from nexus_cli.cli.terminal_view import TerminalView
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.space import read_space
from nexus_cli.config.settings import Settings
from nexus_cli.core.daemon_task import DaemonTask
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import AGENT, DONE, Entity, Space
from nexus_cli.ledger import Ledger
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.spaces.post_message import post_message
from nexus_cli.ui.input.piped import Reader
from nexus_cli.ui.print.stream import Stream, write_stderr_line
from nexus_cli.ui.repl.space_view import LAST, SpaceChat


def open_space(ledger: Ledger, settings: Settings, space: Space, member: Entity) -> int:
    """Run the view until the person leaves; return the exit status. Without a terminal, post stdin instead."""
    try:
        if not _has_terminal():
            return _post_stdin(ledger, settings, space, member)
        return run_in_loop(_run(ledger, settings, space, member))
    finally:
        ledger.close()


def _has_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)


def _post_stdin(ledger: Ledger, settings: Settings, space: Space, member: Entity) -> int:
    """Post each line of stdin, execute the runs of the space, and print its newest messages; return the exit status.

    A line on stderr tells of each run that failed or waits, since no message does. Raises `NexusError` for a line that
    cannot be posted, after all that without the lines behind it.
    """

    @cache
    def warn(line: str) -> None:
        """Write a line to stderr, once."""
        write_stderr_line(f"nexus: {line}")

    piped = Reader(0, "stdin", tell=warn).read()
    if piped.notice:
        warn(piped.notice)
    refusal: NexusError | None = None
    try:
        for line in piped.text.split("\n"):  # not `splitlines`: a message may have other separators
            if line.strip():
                post_message(ledger, settings, space, member, line.rstrip("\r"), warn)
    except NexusError as error:
        refusal = error
    runs, _, status = drive_runs(ledger, partial(make_runner, ledger, settings, warn), space=space.key)
    for run in runs:
        if run.state != DONE:
            warn(run_line(run))
    out = Stream(1)
    width = out.width if os.environ.get("COLUMNS") else ENDLESS
    out.write(find_form("space_messages")(read_space(ledger, space, member, LAST), width) + "\n")
    if refusal is not None:
        raise refusal
    return status


async def _run(ledger: Ledger, settings: Settings, space: Space, member: Entity) -> int:
    names: list[SpaceChat] = []
    terminal_view = TerminalView(
        settings, Path.cwd(), save=False, names=lambda: names[0].member_names() if names else []
    )
    view = terminal_view.view
    warnings = set[str]()

    def warn(line: str) -> None:
        if line not in warnings:
            warnings.add(line)
            chat.show_note(f"nexus: {line}", "warn")

    # A connection gets no notice of its own writes: the agents use a second one.
    answering = ledger.reconnect()
    runner = make_runner(answering, settings, warn)

    async def answer_agents(stop: asyncio.Event) -> None:
        await runner.serve(stop, space=space.key)

    chat = SpaceChat(ledger, settings, space, member, view, terminal_view.theme, answer_agents)
    names.append(chat)
    if any(entity.kind == AGENT for entity in space.members):
        # This takes seconds of CPU, which would block the screen when the first agent answers.
        DaemonTask(LitellmBackend().prepare, 60.0).start()
    interrupt, work = Interrupt(), asyncio.ensure_future(chat.run())
    interrupt.install(chat.request_exit, stop=view.interrupt)
    try:
        await work
    except asyncio.CancelledError:
        if not interrupt.signal:
            raise
    except (OSError, EOFError, NexusError):
        if _has_terminal():
            raise
        return 128 + signal.SIGHUP  # the window was closed
    finally:
        interrupt.uninstall()
        await runner.aclose()
        answering.close()
        terminal_view.close()
        print_interrupted_runs(ledger, space=space.key)
    return interrupt.status
