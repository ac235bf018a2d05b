"""`nexus --connect URL`: the REPL as a client of an agent of `nexus serve`."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli import __version__
from nexus_cli.cli.command_options import SharedOptions
from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.terminal_view import TerminalView
from nexus_cli.client import CallError, Client
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.server_token import read_token, refuse_bad_url
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.help import KEYS
from nexus_cli.ui.print.stream import QuietStream, Stream, write_stderr_line
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.repl.remote_agent import RemoteAgent, RemoteDesk, keys_here, served_commands
from nexus_cli.ui.repl.repl import Repl

if TYPE_CHECKING:
    from nexus_cli.core.json_types.server_results import ListedAgent

TAKEN = {"--model", "--resume", "--cd", "--recipe", "--allow", "--quiet", "--verbose"}
"""Options that apply to an agent on a server."""

WITHOUT_SERVER = "Its sessions are kept where it ran: nexus sessions list --all; nexus --resume ID continues one"


def run_remote(url: str, token_file: str, shared: SharedOptions) -> int:
    """Run the REPL with a new agent, or with the one that --resume names; return the exit status."""
    shared.check()
    if others := [option for option in shared.given if option not in TAKEN]:
        raise NexusError("usage", f"{others[0]} and --connect", "the session runs on the server", f"Omit {others[0]}")
    if not (os.isatty(0) and os.isatty(1)):
        raise NexusError("usage", "no terminal", "--connect needs one", "`nexus_cli.client` is for programs")
    refuse_bad_url(url)
    kept = f". {WITHOUT_SERVER}" if shared.resume else ""
    try:
        token = read_token(url, Path(token_file) if token_file else None)
    except NexusError as error:
        error.hint += kept
        raise
    folder = Path.cwd()
    settings = settings_in(folder)
    try:
        return run_in_loop(_Remote(url, token, shared, settings, folder).run())
    except CallError as error:
        raise NexusError("usage", url, str(error), "See nexus serve --help") from error
    except ConnectionError as error:
        raise NexusError("network", url, str(error), f"`nexus serve` starts a server{kept}") from error
    except (OSError, EOFError) as error:
        if isinstance(error, OSError) and os.isatty(0) and os.isatty(1):
            raise
        return 128 + signal.SIGHUP  # the window was closed


class _Remote:
    """One run of the REPL with a remote agent."""

    def __init__(self, url: str, token: str, shared: SharedOptions, settings: Settings, folder: Path) -> None:
        self._url, self._token, self._shared, self._settings, self._folder = url, token, shared, settings, folder

    async def run(self) -> int:
        """Run until the person leaves; return the exit status."""
        async with Client(self._url, self._token) as client:
            agent = await self._find_agent(client)
            made = TerminalView(self._settings, self._folder, served_commands)
            view, theme = made.view, made.theme
            renderer = RichRenderer(view.put, lambda: view.width, theme, drawn=not made.is_dumb)
            backend = RemoteAgent(client, agent, self._url, self._folder, made.make_approver())
            repl = Repl(backend, view, renderer, theme)
            repl.keys = keys_here(KEYS)
            backend.desk = RemoteDesk(repl, os.environ, QuietStream(Stream(1)).write)
            backend.connect(repl)
            made.connect(repl)
            interrupt = Interrupt()
            interrupt.install(repl.request_exit, stop=view.interrupt)
            try:
                await self._run(backend, repl)
            finally:
                interrupt.uninstall()
                made.close()
            await self._leave(client, backend)
            return interrupt.status if interrupt.signal else backend.status_code

    async def _run(self, backend: RemoteAgent, repl: Repl) -> None:
        """Greet the person, show an earlier conversation, and run until they leave."""
        if not self._shared.quiet:
            repl.show_note(f"nexus {__version__}  {backend.agent_id} at {self._url}\n/help commands, Ctrl+D leaves")
        if self._shared.resume:
            await backend.show_conversation()
        backend.watch()
        reading = asyncio.create_task(backend.read_events())
        try:
            await repl.run()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _find_agent(self, client: Client) -> ListedAgent:
        """Return the row of the agent that --resume names, or of a new one. Raises `NexusError("usage", ...)`."""
        shared, wanted = self._shared, self._shared.resume
        if not wanted:
            made = await client.create_agent(
                model=shared.model or None,
                allow=shared.allow or None,
                cwd=shared.directory or None,
                recipe=shared.recipe or None,
            )
            wanted = made["agent_id"]
        rows = {row["agent_id"]: row for row in await client.list_agents()}
        if wanted not in rows:
            there = ", ".join(rows) or "none"
            raise NexusError("usage", f"agent {wanted}", "there is no such agent", f"There are: {there}")
        if "next" not in rows[wanted]:
            raise NexusError("usage", self._url, "the server is of another version", "Start it again with this one")
        return rows[wanted]

    async def _leave(self, client: Client, backend: RemoteAgent) -> None:
        """Destroy a new agent that was never used; print how to return to any other."""
        if backend.status_code:
            return
        try:
            used = (await client.get_messages(backend.agent_id, limit=1))["total"]
            if not used and not self._shared.resume:
                await client.destroy_agent(backend.agent_id)
                return
        except (CallError, ConnectionError):
            return
        write_stderr_line(f"The agent stays. Come back with: nexus --connect {self._url} -r {backend.agent_id}")
        write_stderr_line(f"Without the server, on its machine: nexus --resume {backend.session_id}")
