"""`nexus --connect URL`: the REPL as a client of an agent of `nexus serve`."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexus_cli import __version__
from nexus_cli.cli.command_options import PICK_SESSION, SharedOptions
from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.terminal_view import TerminalView
from nexus_cli.client import CallError, Client
from nexus_cli.commands import IS_CLIENT
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.server_token import read_token, refuse_bad_url
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.rpc.jsonrpc import IN_USE, INVALID_PARAMS
from nexus_cli.ui.print.stream import QuietStream, write_stderr_line
from nexus_cli.ui.repl.remote_agent import RemoteAgent

if TYPE_CHECKING:
    from nexus_cli.core.server_results import CreatedAgent

NEW_AGENT_OPTIONS = {"--model", "--cd", "--recipe", "--allow"}
"""Options of an agent that is not open yet."""
ACCEPTED = {*NEW_AGENT_OPTIONS, "--resume", "--quiet", "--verbose"}
"""Options that apply to an agent on a server."""

WITHOUT_SERVER = (
    "On the server's machine, `nexus sessions list --all` lists its sessions, and `nexus --resume ID` resumes a session"
)


def run_remote(url: str, token_file: str, shared: SharedOptions, first: str) -> int:
    """Run the REPL with a new agent, or with the agent or session that --resume names; return the exit status. `first`
    is sent at the start."""
    shared.check()
    if refused_flags := [option for option in shared.given_flags if option not in ACCEPTED]:
        raise UsageError(
            f"{refused_flags[0]} and --connect", "the session runs on the server", f"Omit {refused_flags[0]}"
        )
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("no terminal", "--connect requires a terminal", "Programs can use `nexus_cli.client`")
    refuse_bad_url(url)
    other_way = f". {WITHOUT_SERVER}" if shared.resume else ""
    try:
        token = read_token(url, Path(token_file) if token_file else None)
    except NexusError as error:
        error.hint += other_way
        raise
    try:
        reconnect = shlex.join(["nexus", "--connect", url, *(["--token-file", token_file] if token_file else [])])
        return run_in_loop(_run(url, token, reconnect, shared, first))
    except CallError as error:
        raise UsageError(url, str(error), "See `nexus serve --help`") from error
    except ConnectionError as error:
        raise NexusError("network", url, str(error), f"`nexus serve` starts a server{other_way}") from error
    except (OSError, EOFError) as error:
        if isinstance(error, OSError) and os.isatty(0) and os.isatty(1):
            raise
        return 128 + signal.SIGHUP  # the window was closed


async def _run(url: str, token: str, reconnect: str, shared: SharedOptions, first: str) -> int:
    """Run until the person leaves; return the exit status. `reconnect` is the command to connect again."""
    folder = Path.cwd()
    IS_CLIENT.set(True)
    async with Client(url, token) as client:
        agent = await _find_agent(client, shared)
        status = await client.get_status(agent)
        terminal_view = TerminalView(settings_in(folder), folder, lambda: backend.commands)
        approver, raw = terminal_view.make_approver(), QuietStream(1).write
        backend = RemoteAgent(client, agent, status, url, reconnect, folder, approver, raw)
        repl, interrupt = terminal_view.make_repl(backend), Interrupt()
        terminal_view.remember(first)
        interrupt.install(repl.request_exit, stop=terminal_view.view.interrupt)
        try:
            if not shared.quiet:
                repl.show_note(f"nexus {__version__}  {agent} at {url}\n/help commands, Ctrl+D exits")
            if shared.resume:
                await backend.show_conversation()
            backend.watch()
            backend.read_own_commands()
            reading = asyncio.create_task(backend.read_events())
            try:
                await repl.run([first])
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        finally:
            interrupt.uninstall()
            terminal_view.close()
        if not backend.status_code and await _destroy_if_unused(client, agent, is_new=not shared.resume):
            write_stderr_line("The agent keeps running. Without a client it refuses calls that need approval.")
            write_stderr_line(f"Reconnect with: {reconnect} -r {agent}")
            write_stderr_line(
                f"Or on the server's machine, after the server has stopped: nexus --resume {backend.status.session}"
            )
        return interrupt.status or backend.status_code


async def _find_agent(client: Client, shared: SharedOptions) -> str:
    """Return the id of the agent that --resume names, or of a new one, which continues the session that it names.
    Raises `NexusError` if it names neither, or a session that is in use."""
    resumed_name = shared.resume
    own = [option for option in shared.given_flags if option in NEW_AGENT_OPTIONS]
    agents = [row["agent_id"] for row in await client.list_agents()] if resumed_name else []
    named_agents = f"Agents: {', '.join(agents) or 'none'}"
    if resumed_name == PICK_SESSION:
        hint = f"{named_agents}. /resume lists sessions after `nexus --connect URL`"
        raise UsageError("--resume", "--connect requires the id of an agent or session", hint)
    if resumed_name in agents and own:
        raise UsageError(f"{own[0]} and --resume {resumed_name}", "this agent is open", f"Omit {own[0]}")
    if resumed_name in agents:
        return resumed_name
    options = {
        "model": shared.model or None,
        "allow": shared.allow or None,
        "cwd": shared.directory or None,
        "recipe": shared.recipe or None,
        "session": resumed_name or None,
    }
    try:
        agent = await _create_agent(client, options, joins=bool(resumed_name and not own))
    except CallError as error:
        if not (resumed_name and error.data):
            raise
        refusal = NexusError.of(error.data)
        if error.code == IN_USE and own:
            refusal.hint = f"Omit {own[0]} to join the agent"
        elif refusal.kind == "usage":
            refusal.hint = ". ".join(filter(None, (refusal.hint, named_agents)))
        raise refusal from error
    return agent["agent_id"]


async def _create_agent(client: Client, options: Mapping[str, Any], *, joins: bool) -> CreatedAgent:
    """Create an agent, or with `joins` return the one that has the session; a server before 0.3 joins none."""
    try:
        return await client.create_agent(**options, joins=joins or None)
    except CallError as error:
        if not joins or error.code != INVALID_PARAMS or error.data:
            raise
        return await client.create_agent(**options)


async def _destroy_if_unused(client: Client, agent: str, *, is_new: bool) -> bool:
    """Destroy an agent that is new and was never used; return True if it is there after that."""
    try:
        used = (await client.get_messages(agent, limit=1))["total"] or not is_new
        if not used:
            await client.destroy_agent(agent)
    except (CallError, ConnectionError):
        return False
    return bool(used)
