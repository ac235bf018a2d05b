"""`nexus space`: conversations of several people and agents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from nexus_cli.cli.command_options import (
    Allow,
    Directory,
    Json,
    Model,
    RecipeName,
    refuse_empty,
    whole_number,
)
from nexus_cli.cli.print_report import print_json, print_report, print_value
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.paths import working_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.settings import Settings
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import AGENT, PRIORITY, Entity, Space, check_name
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.spaces import Posted
from nexus_cli.provider.available_models import resolve_alias
from nexus_cli.reports.spaces import agent_goals_text, space_messages_text, spaces_text
from nexus_cli.session.recipes import recipe_for
from nexus_cli.spaces import agent_goals
from nexus_cli.spaces import space_reports as reports
from nexus_cli.spaces.people import find_agent, find_reader, is_agent_name, make_member, own_entity, own_name
from nexus_cli.spaces.post_message import post_message
from nexus_cli.ui.input.piped import Reader
from nexus_cli.ui.print.stream import write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Conversations of several people and agents.")
SpaceName = Annotated[str, typer.Argument(metavar="SPACE", help="A name or an id, such as space-3.")]
As = Annotated[
    str, typer.Option("--as", metavar="NAME", help="Act as this member; default: you.", callback=refuse_empty)
]
MOST_SHOWN = 10_000
"""Most messages that `read` prints."""


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the space.")],
    member: Annotated[
        list[str] | None, typer.Option("--member", metavar="NAME", help="Somebody who takes part; repeatable.")
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option("--agent", metavar="NAME", help="An agent that takes part; repeatable.")
    ] = None,
    model: Model = "",
    recipe: RecipeName = "",
    allow: Allow = "",
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="USD", help="Dollars of one run of these agents.")
    ] = None,
    directory: Directory = "",
    json: Json = False,
) -> int:
    """Create a space with you in it. The options are those of the agents' runs: by default they only read."""
    settings, folder = _settings(), working_folder(directory)
    given = _run_options(settings, folder, model, recipe, allow, max_cost, directory)
    ledger = Ledger.open(ledger_place())
    agents = [*(agent or ()), *(one for one in member or () if is_agent_name(ledger, settings, one))]
    if given and not agents:
        raise NexusError("usage", f"--{next(iter(given))}", "it is an option of agents", "Name one: --agent NAME")
    for one in (*(member or ()), *agents):
        check_name(one, "the name")
    ledger.spaces.check_free(name)
    people = [own_entity(ledger, settings)]
    people += [make_member(ledger, settings, one, folder, {}) for one in member or () if one not in agents]
    people += [make_member(ledger, settings, one, folder, given, agent=True) for one in agents]
    made = ledger.spaces.create(name, format_utc(local_now()), project=ledger.project_of(folder), members=people)
    if json:
        print_json({"version": 1, "space": reports.space_json(made)})
    else:
        print_value(made.id)
    return 0


def _run_options(
    settings: Settings, folder: Path, model: str, recipe: str, allow: str, max_cost: float | None, directory: str
) -> dict[str, Any]:
    """Return the options of agents that were given. Raises `NexusError` for an invalid one."""
    if max_cost is not None and not 0 < max_cost < float("inf"):
        raise NexusError("usage", f"wrong value for --max-cost: {max_cost:g}", "it has to be above 0")
    if recipe:
        recipe_for(recipe, folder)
    name = resolve_alias(model, settings) if model else ""
    said = {"model": name, "recipe": recipe, "allow": allow, "max_cost": max_cost}
    said["folder"] = str(folder) if directory else ""
    return {key: value for key, value in said.items() if value}


@app.command("list")
def list_command(json: Json = False) -> int:
    """List the spaces, who is in them, and how many messages are new to you."""
    ledger, settings = open_ledger(), _settings()
    value = reports.list_spaces(ledger, ledger.spaces.find_entity(own_name(ledger, settings)))
    return print_report(value, spaces_text, json=json, whole=True)


@app.command("join")
def join(
    space: SpaceName,
    name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Who joins; default: you.", callback=refuse_empty)
    ] = "",
    agent: Annotated[bool, typer.Option("--agent", help="It is an agent.")] = False,
) -> int:
    """Join a space, or let somebody join. All that was said there is new to them."""
    ledger, settings = open_ledger(writes=True), _settings()
    found = ledger.spaces.find(space)
    if agent and not name:
        raise NexusError("usage", "--agent", "it says that NAME is an agent", "Name it: --as NAME")
    if name:
        who = make_member(ledger, settings, name, working_folder(), {}, agent=agent)
    else:
        who = own_entity(ledger, settings)
    joined = ledger.spaces.join(found, who)
    kind = " (agent)" if who.kind == AGENT else ""
    write_stderr_line(f"nexus: {who.name}{kind} {'is' if joined else 'was already'} in {found.name}.")
    return 0


@app.command("leave")
def leave(space: SpaceName, name: As = "") -> int:
    """Leave a space; what was said there stays."""
    ledger, _, found, who = _find(space, name)
    ledger.spaces.leave(found, who)
    write_stderr_line(f"nexus: {who.name} has left {found.name}.")
    return 0


@app.command("mute")
def mute(
    space: SpaceName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="An agent.", callback=refuse_empty)],
    off: Annotated[bool, typer.Option("--off", help="Let messages start it again.")] = False,
) -> int:
    """Let the messages of a space start an agent no more. It stays a member and what it does goes on."""
    ledger, _, found, who = _find(space, name)
    if who.kind != AGENT:
        raise NexusError(
            "usage", f"mute {who.name}", "it is no agent", f"nexus space list shows who is in {found.name}"
        )
    ledger.spaces.mute(found, who, muted=not off)
    write_stderr_line(f"nexus: {who.name} is {'no longer muted' if off else 'muted'} in {found.name}.")
    return 0


@app.command("goal")
def goal(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="An agent of yours.", callback=refuse_empty)],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[add TEXT|list|done ID...]", help="What to do; default: list.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", min=1, max=9, help="Of a new goal: 1 is the highest.")
    ] = None,
    long_term: Annotated[bool, typer.Option("--long-term", help="A new goal that has no end.")] = False,
    json: Json = False,
) -> int:
    """Set what an agent works for beyond one run: all of its runs are told, the most important goals first."""
    act, *rest = words or ["list"]
    ledger, settings = open_ledger(writes=True), _settings()
    who, done = find_agent(ledger, settings, agent, working_folder()), ""
    if act == "add":
        who, done = (
            agent_goals.add_goal(ledger, who, " ".join(rest), priority or PRIORITY, long_term=long_term),
            "added",
        )
    elif act == "done" and rest:
        who, done = agent_goals.finish_goals(ledger, who, rest), "finished"
    elif act != "list" or rest:
        raise NexusError("usage", f"goal {' '.join([act, *rest])[:80]}", "expected add TEXT, list or done ID")
    return print_report(agent_goals.goals_report(who, done), agent_goals_text, json=json, whole=True)


@app.command("post")
def post(
    space: SpaceName,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="What you say; - or a pipe: what stdin says.")
    ] = None,
    name: As = "",
    json: Json = False,
) -> int:
    """Post a message and print its id. `@Name` starts an agent; in a space of two it starts by itself."""
    ledger, settings, found, sender = _find(space, name)
    posted = post_message(
        ledger, settings, found, sender, _message_text(text or []), lambda line: write_stderr_line(f"nexus: {line}")
    )
    if json:
        print_json(reports.posted_json(posted))
        return 0
    print_value(posted.message.id)
    for line in _consequences(posted):
        write_stderr_line(f"nexus: {line}")
    return 0


def _message_text(words: list[str]) -> str:
    if words and words != ["-"]:
        return " ".join(words)
    if os.isatty(0):
        raise NexusError("usage", "there is no message", "TEXT and stdin are empty", "Give a TEXT")
    return Reader(0, "stdin").read().text.rstrip("\n")


def _consequences(posted: Posted) -> list[str]:
    """Return a line for each run that a message started or resumed."""
    lines = [f"{agent.name} was triggered: run-{run}" for agent, run in posted.triggered]
    lines += [f"run-{run} goes on" for run in posted.resumed]
    if posted.message.notice:
        return [*lines, posted.message.notice]
    hint = "; nexus serve, or nexus space open, lets it work"
    return [*lines[:-1], lines[-1] + hint] if lines else []


@app.command("read")
def read(
    space: SpaceName,
    last: Annotated[
        int, typer.Option("--last", metavar="N", callback=whole_number(1, MOST_SHOWN), help="So many messages.")
    ] = 50,
    name: As = "",
    json: Json = False,
) -> int:
    """Print the newest messages of a space, and mark them as read."""
    ledger, _, found, reader = _find(space, name, writes=False)
    value = reports.read_space(ledger, found, reader, last)
    return print_report(value, space_messages_text, json=json, whole=True)


@app.command("open")
def open_command(space: SpaceName, name: As = "") -> int:
    """Take part in a space from this terminal: messages of all sides as they come. Ctrl-D leaves."""
    from nexus_cli.cli.open_space import open_space  # noqa: PLC0415  (loads the screen)

    return open_space(*_find(space, name))


def _find(space: str, name: str, *, writes: bool = True) -> tuple[Ledger, Settings, Space, Entity]:
    """Open the ledger and find a space, and its member `name` or the person."""
    ledger, settings = open_ledger(writes=writes), _settings()
    found = ledger.spaces.find(space)
    return ledger, settings, found, find_reader(ledger, settings, found, name)


def _settings() -> Settings:
    settings = settings_in(working_folder())
    for notice in settings.notices:
        write_stderr_line(f"nexus: {notice}")
    return settings
