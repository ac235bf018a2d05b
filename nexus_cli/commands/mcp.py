"""Manage MCP servers, whose tools the model can call. `session/session_servers.py` runs them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from nexus_cli.commands.verb import Act, Authority, Noun, Report, Source, Verb, report_act
from nexus_cli.config.paths import places, project_root, with_tilde, working_folder
from nexus_cli.config.project_items import describe_waiting
from nexus_cli.config.settings_file import write_server
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.option import Argument, Directory, Option
from nexus_cli.core.services import ServerTools
from nexus_cli.core.shared_types import T
from nexus_cli.mcp.server_entries import SCHEMES, make_tool_name, parse_entry
from nexus_cli.mcp.server_tools import Catalogue, ServerRow
from nexus_cli.mcp.server_values import ServerEntry, ServerError, token_path
from nexus_cli.mcp.tool_cache import MAX_TOKENS, make_list, store_list
from nexus_cli.reports.text.blocks import Blocks, OneLine, Table
from nexus_cli.reports.text.lines import cut_line, plural
from nexus_cli.session.session_servers import open_host


class ServersReport(VersionedReport):
    """The active MCP servers."""

    servers: list[JsonOf[ServerRow]]
    sent: Literal["each", "one"]
    """`each`: requests contain every tool; `one`: requests contain `use_tool` in their place."""
    problems: list[str]
    """One line for each entry that is left out."""


class ServerToolsReport(VersionedReport):
    """The tools of a server."""

    server: str
    tools: list[dict[str, str]]
    """Name and description of each."""
    tokens: int
    """Tokens of their schemas."""
    seconds: float
    """Seconds until the server answered; 0 if it did not."""
    error: str
    """The reason that an added server did not answer; may be empty."""
    left_out: list[str]
    """One line for each tool that is not offered, with the reason."""


LONGEST = 120
"""Most characters of a line about a tool."""
NONE = "No MCP servers. Add a server with `nexus mcp add NAME COMMAND...` or `nexus mcp add NAME URL`"


def mcp_servers_text(value: JsonObject) -> Blocks:
    """List the servers, each on one line where there is room, then problems and the cost."""
    columns = {"name": "name", "tools": "tools", "tokens": "tokens", "from": "source", "server": "target"}
    notes = [server["why"] for server in value["servers"] if server["why"]] + list(value["problems"])
    notes += [f"MCP server {server['name']}: {line}" for server in value["servers"] for line in server["left_out"]]
    if not value["servers"]:
        notes.insert(0, NONE)
    if tokens := sum(server["tokens"] or 0 for server in value["servers"]):
        how = "requests contain every tool" if value["sent"] == "each" else "requests contain `use_tool` instead"
        notes.append(f"The schemas take {tokens:,} tokens, so {how}")
    return [Table(columns, value["servers"]), *notes]


def server_tools_text(value: JsonObject) -> Blocks:
    """List the tools of one server that was just asked, and what they cost."""
    tools = value["tools"]
    head = f"{plural(len(tools), 'tool')}, {value['tokens']:,} tokens, {value['seconds']:.1f} s"
    rows = (OneLine(cut_line(f"{tool['name']} {tool['description']}", LONGEST)) for tool in tools)
    return [head, *rows, *value["left_out"]]


FIRST_START = 60.0
"""Most seconds that a start by hand takes: `uvx` and `npx` download a server first."""
Name = Annotated[str, Argument("NAME", "The name of the server.")]


def build_list(source: Source, directory: Directory = "") -> Report[ServersReport]:
    """List the active servers with their tools and the tokens of their schemas. No server is started."""
    failed: dict[str, str] = {}
    catalogue = _read_catalogue(source, directory)
    if source.live and (running := source.live.services.get_existing(ServerTools)):
        why = {row["name"]: row["why"] for row in running.rows() if row["why"]}
        failed = {entry.sha256: why[name] for name, entry in catalogue.entries.items() if name in why}
    elif waiting := describe_waiting(project_root(working_folder(directory))):
        source.say(waiting)
    value: ServersReport = {
        "version": 1,
        "servers": to_json_value(catalogue.describe_servers(failed)),
        "sent": "each" if catalogue.tokens <= MAX_TOKENS else "one",
        "problems": list(catalogue.files.problems),
    }
    return Report("mcp_servers", value)


def add(
    source: Source,
    name: Name,
    target: Annotated[
        list[str],
        Argument(
            "URL | COMMAND...",
            "The server's URL, or its command with arguments.",
            takes_rest=True,
            least=0,
        ),
    ],
    env: Annotated[list[str] | None, Option("NAME[=VALUE]", "An environment variable; repeatable.")] = None,
    header: Annotated[
        list[str] | None, Option("'NAME: VALUE'", "A header for each request; ${NAME} inserts an environment variable.")
    ] = None,
) -> Report[ServerToolsReport]:
    """Add a server to the personal config.toml and list its tools. Put options before NAME.

    nexus mcp add git uvx mcp-server-git

    nexus mcp add --header 'Authorization: Bearer ${GITHUB_TOKEN}' github https://api.example.com/mcp/
    """
    before = target if target[0].startswith(SCHEMES) else target[:1]  # a command has options of its own
    if option := next((word for word in (name, *before) if word.startswith("-") and word != "--"), ""):
        url_or_command = next((word for word in target if word.startswith(SCHEMES)), "COMMAND")
        form = f"nexus mcp add [OPTIONS] NAME {url_or_command}"
        hint = f"The options are --env VAR=VALUE and --header 'NAME: VALUE', before NAME: {form}"
        raise UsageError(f"wrong usage: {one_line(option)}", "expected a server name, then a URL or command", hint)
    words = target[1:] if target[0] == "--" else target
    is_url = len(words) == 1 and "://" in words[0]
    entry: JsonDict = {"url": words[0]} if is_url else {"command": words}
    entry |= ({"env": env} if env else {}) | ({"headers": header} if header else {})
    try:
        parsed = parse_entry(name, entry, os.environ)
    except ValueError as error:
        raise UsageError(f"server {one_line(name)}", str(error), "See `nexus mcp add --help`") from None
    assert parsed is not None
    for known_entry in _read_catalogue(source, "").entries.values():
        if known_entry.source == "personal" and make_tool_name(known_entry.name) == make_tool_name(name):
            why = f"its tools would have the same names as those of {known_entry.name}"
            why = why if known_entry.name != name else "this name is already in use"
            raise UsageError(f"server {name}", why, f"Remove that server first: nexus mcp remove {known_entry.name}")
    write_server(name, entry)
    source.say(f"server {name} was added to {with_tilde(places().settings)}.")
    try:
        return list_tools(parsed)
    except NexusError as error:
        message = error.line.removeprefix("nexus: ")
        none = ServerToolsReport(
            version=1, server=name, tools=[], tokens=0, seconds=0.0, error=error.message, left_out=[]
        )
        return Report("", none, note=message)


def remove(source: Source, name: Name) -> Act:
    """Remove a server from the personal config.toml, with the tokens of its login."""
    known_entry = _read_catalogue(source, "").entries.get(name)
    if not write_server(name, None):
        entry = _find(source, name, "")
        raise UsageError(f"server {name}", f"this server is configured in {entry.file}", "Remove the server there")
    if known_entry and known_entry.source == "personal":
        token_path(places().data, name, known_entry.url).unlink(missing_ok=True)
    return report_act(f"server {name} was removed.", name)


def test_server(source: Source, name: Name, directory: Directory = "") -> Report[ServerToolsReport]:
    """Print the tools of a server and its response time. Exit status 1 if the server does not answer."""
    return list_tools(_find(source, name, directory))


def log_in(source: Source, name: Name, directory: Directory = "") -> Act:
    """Log in to a server with OAuth. Prints a URL to open in a browser."""
    entry = _find(source, name, directory)
    if not entry.url:
        raise UsageError(
            f"server {name}",
            "this server is a local program; only servers with a URL have a login",
        )
    _with_host(name, lambda host: host.login(entry, lambda url: source.say(f"open {url}")))
    return report_act(f"logged in to {name}.", name)


def list_tools(entry: ServerEntry) -> Report[ServerToolsReport]:
    """Ask a server for its tools, and store them."""
    began = time.monotonic()
    patient = replace(entry, start_seconds=max(entry.start_seconds, FIRST_START))
    tool_list = make_list(_with_host(entry.name, lambda host: host.list_offer(patient)))
    seconds = time.monotonic() - began
    store_list(entry, tool_list)
    tools = [{"name": tool.name, "description": tool.description} for tool in tool_list.tools]
    value = ServerToolsReport(
        version=1,
        server=entry.name,
        tools=tools,
        tokens=tool_list.tokens,
        seconds=seconds,
        error="",
        left_out=list(tool_list.left_out),
    )
    return Report("server_tools", value, uncut=True, changed=True)


def _with_host(name: str, work: Callable[[Any], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_host() as host:
            return await work(host)

    try:
        return asyncio.run(run())
    except ServerError as error:
        why = one_line(str(error)).removeprefix(f"{name}: ")
        raise NexusError("network", f"MCP server {name}", why, f"To test again: nexus mcp test {name}") from error


def _read_catalogue(source: Source, directory: str) -> Catalogue:
    folder = working_folder(directory) if directory else source.folder()
    return Catalogue.read(folder, source.live.options.servers if source.live else ())


def _find(source: Source, name: str, directory: str) -> ServerEntry:
    """Return a server; raise `UsageError` with the reason if it is not in effect."""
    catalogue = _read_catalogue(source, directory)
    if (entry := catalogue.entries.get(name)) is not None:
        return entry
    broken = next((line for line in catalogue.files.problems if line.startswith(f"MCP server {name} ")), "")
    waiting = describe_waiting(project_root(working_folder(directory)), own=["server"])
    hint = suggest_name(name, catalogue.entries, waiting or "`nexus mcp list` shows all servers")
    raise UsageError(f"server {one_line(name)[:64]}", broken or "there is no such server", hint)


def _complete_servers(source: Source) -> Sequence[str]:
    return list(_read_catalogue(source, "").entries)


NOUN = Noun(
    "mcp",
    "setup",
    (
        Verb(build_list, "list", opens="nothing"),
        Verb(remove, "remove", Authority.PERMITS, "nothing", complete=_complete_servers),
        Verb(test_server, "test", Authority.OPERATES, "nothing", complete=_complete_servers),
        Verb(log_in, "login", Authority.PERMITS, "nothing", complete=_complete_servers),
        Verb(add, "add", Authority.PERMITS, "nothing", only="shell"),
    ),
    "Manage MCP servers, whose tools the model may use.",
    "To add a server, use `nexus mcp add` in a shell. Changes apply from the next message on.",
    ("add",),
    aliases=("servers", "server"),
)
