"""`nexus mcp add`: its arguments are a command line; the other verbs are those of the noun."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.shell_command import add_verbs
from nexus_cli.commands.mcp import list_tools
from nexus_cli.config.paths import defaults_dir, places, with_tilde, working_folder
from nexus_cli.config.settings_file import write_server
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.mcp.server_entries import parse_entry
from nexus_cli.mcp.server_tools import Catalogue
from nexus_cli.reports.mcp_servers import server_tools_text
from nexus_cli.ui.print.stream import write_stderr_line

HELP = "Manage MCP servers, whose tools the model can call."
app = add_verbs(typer.Typer(add_completion=False, rich_markup_mode=None, help=HELP), "mcp")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the server.", show_default=False)]


@app.command("add", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def add(
    name: Name,
    target: Annotated[
        list[str], typer.Argument(metavar="URL | COMMAND...", help="The server's URL, or its command with arguments.")
    ],
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME[=VALUE]", help="An environment variable for the server; repeatable."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="'NAME: VALUE'",
            help="A header for each request; ${NAME} inserts an environment variable.",
        ),
    ] = None,
) -> int:
    """Add a server to the personal config.toml and list its tools. Put options before NAME.

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
    known = Catalogue.read(working_folder()).entries.get(name)
    if known is not None and known.source == "personal":
        raise NexusError(
            "usage", f"server {name}", "a server with this name already exists", f"nexus mcp remove {name}"
        )
    write_server(places(), defaults_dir(), name, entry)
    write_stderr_line(f"nexus: {name} was added to {with_tilde(places().settings)}.")
    try:
        print_report(list_tools(parsed).value, server_tools_text, json=False, whole=True)
    except NexusError as error:
        write_stderr_line(error.line)
    return 0
