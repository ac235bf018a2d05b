"""`nexus --connect URL`: the REPL in front of an agent of `nexus serve`, from its start to its end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nexus_cli import __version__
from nexus_cli.cli.command_options import SharedOptions
from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.client import CallError, Client
from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.server_token import read_token, refuse_bad_url
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.print.stream import Stream, write_stderr_line
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme, choose_theme
from nexus_cli.ui.repl.remote_repl import RemoteRepl
from nexus_cli.ui.repl.view import ReplView
from nexus_cli.ui.screen.line_view import LineView
from nexus_cli.ui.screen.screen import Screen

TAKEN = {"--model", "--resume", "--cd", "--recipe", "--allow", "--quiet", "--verbose"}
"""Options that mean something for an agent elsewhere."""


def run_remote(url: str, token_file: str, shared: SharedOptions) -> int:
    """Run the REPL in front of a new agent, or of the one that --resume names; return the exit status."""
    shared.check()
    if others := [option for option in shared.given if option not in TAKEN]:
        raise NexusError("usage", f"{others[0]} and --connect", "the session runs on the server", f"Omit {others[0]}")
    if not (os.isatty(0) and os.isatty(1)):
        raise NexusError("usage", "no terminal", "--connect needs one", "`nexus_cli.client` is for programs")
    refuse_bad_url(url)
    token = read_token(url, Path(token_file) if token_file else None)
    folder = Path.cwd()
    settings = load_settings_in(project_root(folder), places(), defaults_dir(), os.environ).settings
    try:
        return run_in_loop(_Remote(url, token, shared, settings, folder).run())
    except CallError as error:
        raise NexusError("usage", url, str(error), "See nexus serve --help") from error
    except ConnectionError as error:
        raise NexusError("network", url, str(error), "`nexus serve` starts a server") from error


class _Remote:
    """One run."""

    def __init__(self, url: str, token: str, shared: SharedOptions, settings: Settings, folder: Path) -> None:
        self._url, self._token, self._shared, self._settings, self._folder = url, token, shared, settings, folder

    async def run(self) -> int:
        """Run until the person leaves; return the exit status."""
        async with Client(self._url, self._token) as client:
            agent = await self._find_agent(client)
            dumb = os.environ.get("TERM", "") in ("", "dumb")
            theme = choose_theme(self._settings.ui.theme, os.environ, Stream(1).colour, screen=not dumb)
            box = None if dumb else self._make_box()
            view: ReplView = LineView(environ=os.environ) if box is None else self._make_screen(box, theme)
            renderer = RichRenderer(view.put, lambda: view.width, theme, drawn=box is not None, commands=False)
            repl = RemoteRepl(client, agent, self._url, view, renderer, theme)
            interrupt = Interrupt()
            interrupt.install(repl.request_exit, stop=view.interrupt)
            if not self._shared.quiet:
                repl.show_note(
                    f"nexus {__version__}  {agent['agent_id']} at {self._url}\n/help commands, Ctrl+D leaves"
                )
            try:
                await repl.run()
            finally:
                interrupt.uninstall()
                if box is not None:
                    box.close()
            await self._leave(client, repl)
            return interrupt.status if interrupt.signal else repl.status_code

    async def _find_agent(self, client: Client) -> Mapping[str, Any]:
        """Return the row of the agent that --resume names, or of a new one."""
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
        return dict(rows[wanted])

    def _make_box(self) -> InputBox:
        return InputBox(
            folder=self._folder,
            project=project_root(self._folder),
            commands=dict,
            desk=lambda: None,
            history=places().data / "history",
            vi=self._settings.ui.keys == "vi",
            save=True,
        )

    def _make_screen(self, box: InputBox, theme: Theme) -> Screen:
        screen = Screen(box, theme, environ=os.environ, notify=self._settings.ui.notify)
        box.outside = screen.outside
        return screen

    async def _leave(self, client: Client, repl: RemoteRepl) -> None:
        """Destroy an agent that was never used; say how to come back to any other."""
        if repl.status_code:
            return
        try:
            used = (await client.get_messages(repl.agent_id, limit=1))["total"]
            if not used and not self._shared.resume:
                await client.destroy_agent(repl.agent_id)
                return
        except (CallError, ConnectionError):
            return
        write_stderr_line(f"The agent stays. Come back with: nexus --connect {self._url} -r {repl.agent_id}")
