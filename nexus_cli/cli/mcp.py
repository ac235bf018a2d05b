"""`nexus mcp list | add | remove | login | test`: the MCP servers whose tools the model may use."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import typer

from nexus_cli.cli.command_options import Directory, Json
from nexus_cli.cli.print_report import print_report, print_text
from nexus_cli.config.paths import defaults_dir, places, project_root, with_tilde, working_folder
from nexus_cli.config.project_items import describe_waiting
from nexus_cli.config.settings_file import write_server
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, nearest_name
from nexus_cli.mcp.server_entries import parse_entry
from nexus_cli.mcp.server_tools import Catalogue
from nexus_cli.mcp.server_values import ServerEntry, ServerError
from nexus_cli.mcp.tool_cache import ToolList, make_list, store_list
from nexus_cli.reports.mcp_servers import mcp_servers_text
from nexus_cli.session.session_servers import close_host, describe_error, describe_servers, open_host, servers_report
from nexus_cli.ui.print.stream import write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="MCP servers, whose tools the model may use.")
T = TypeVar("T")
FIRST_START = 60.0
"""Most seconds that a start by hand takes: `uvx` and `npx` download a server first."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the server.", show_default=False)]


@app.command("list")
def list_servers(directory: Directory = "", json: Json = False) -> int:
    """List the servers in effect here, with their tools and what the schemas cost. Starts none."""
    folder = working_folder(directory)
    catalogue = Catalogue.read(folder)
    if waiting := describe_waiting(project_root(folder)):
        write_stderr_line(f"nexus: {waiting}")
    return print_report(servers_report(catalogue, describe_servers(catalogue, {})), mcp_servers_text, json=json)


@app.command("add", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def add(
    name: Name,
    target: Annotated[
        list[str], typer.Argument(metavar="URL | COMMAND...", help="Its address, or its program with arguments.")
    ],
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME[=VALUE]", help="A variable that the server gets; repeatable."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="'NAME: VALUE'", help="Sent with each request; ${NAME} is a variable."),
    ] = None,
) -> int:
    """Add a server to the personal config.toml, and ask it for its tools. Options stand before NAME.

    nexus mcp add git uvx mcp-server-git

    nexus mcp add --header 'Authorization: Bearer ${GITHUB_TOKEN}' github https://api.example.com/mcp/
    """
    words = target[1:] if target[0] == "--" else target
    is_url = len(words) == 1 and words[0].startswith(("https://", "http://"))
    entry: dict[str, Any] = {"url": words[0]} if is_url else {"command": words}
    entry |= ({"env": env} if env else {}) | ({"headers": header} if header else {})
    try:
        parsed = parse_entry(name, entry, os.environ)
    except ValueError as error:
        raise NexusError("usage", f"server {one_line(name)}", str(error), "nexus mcp add --help") from None
    assert parsed is not None
    if name in _read_personal():
        raise NexusError("usage", f"server {name}", "there is one of this name", f"nexus mcp remove {name}")
    write_server(places(), defaults_dir(), name, entry)
    write_stderr_line(f"nexus: {name} was added to {with_tilde(places().settings)}.")
    try:
        print_text(_describe_list(*_ask(parsed)))
    except ServerError as error:
        write_stderr_line(f"nexus: {describe_error(name, error)}. Try again with: nexus mcp test {name}")
    return 0


@app.command("remove")
def remove(name: Name) -> int:
    """Remove a server from the personal config.toml."""
    if write_server(places(), defaults_dir(), name, None):
        write_stderr_line(f"nexus: {name} was removed.")
        return 0
    entry = _find(name, "")
    raise NexusError("usage", f"server {name}", f"it is named in {entry.file}", "Remove it there")


@app.command("test")
def test(name: Name, directory: Directory = "") -> int:
    """Start a server, print its tools and how long that took, and end it. Exit status 1 if it does not answer."""
    entry = _find(name, directory)
    try:
        print_text(_describe_list(*_ask(entry)))
    except ServerError as error:
        write_stderr_line(f"nexus: {describe_error(name, error)}")
        return 1
    return 0


@app.command("login")
def login(name: Name, directory: Directory = "") -> int:
    """Log in to a server that asks for it (OAuth): prints an address to open in a browser."""
    entry = _find(name, directory)

    async def work(host: Any) -> None:
        await host.login(entry, lambda url: write_stderr_line(f"Open {url}"))

    try:
        _with_host(work)
    except ServerError as error:
        write_stderr_line(f"nexus: {describe_error(name, error)}")
        return 1
    write_stderr_line(f"nexus: logged in to {name}.")
    return 0


def _read_personal() -> dict[str, ServerEntry]:
    found = Catalogue.read(working_folder()).entries
    return {name: entry for name, entry in found.items() if entry.source == "personal"}


def _find(name: str, directory: str) -> ServerEntry:
    """Return a server; raise `NexusError("usage", ...)` with the reason if it is not in effect."""
    catalogue = Catalogue.read(working_folder(directory))
    if (entry := catalogue.entries.get(name)) is not None:
        return entry
    broken = next((line for line in catalogue.files.problems if line.startswith(f"MCP server {name} ")), "")
    near = nearest_name(name, catalogue.entries)
    hint = f"The nearest is {near}" if near else "`nexus mcp list` lists them"
    raise NexusError("usage", f"server {one_line(name)[:64]}", broken or "there is none of this name", hint)


def _with_host(work: Callable[[Any], Awaitable[T]]) -> T:
    async def run() -> T:
        user = _User()
        try:
            return await work(open_host(user))
        finally:
            await close_host(user)

    return asyncio.run(run())


class _User:
    """The user of a host for one command."""


def _ask(entry: ServerEntry) -> tuple[ToolList, float]:
    """Ask a server for its tools and store them; return them with the seconds that it took."""
    began = time.monotonic()
    patient = replace(entry, start_seconds=max(entry.start_seconds, FIRST_START))
    offer = _with_host(lambda host: _list_offer(host, patient))
    took = time.monotonic() - began
    found = make_list(offer)
    store_list(entry, found)
    return found, took


async def _list_offer(host: Any, entry: ServerEntry) -> Any:
    return await host.list_offer(entry)


def _describe_list(found: ToolList, seconds: float) -> str:
    count = len(found.tools)
    head = f"{count} tool{'s' * (count != 1)}, {found.tokens:,} tokens, {seconds:.1f} s"
    lines = [f"  {tool.name}  {' '.join(tool.description.split())[:90]}".rstrip() for tool in found.tools]
    return "\n".join([head, *lines])
