"""Spaces: conversations of several people and agents, of which you or the agent of this session are a member."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from nexus_cli.commands.arguments import level_of, read_settings
from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import Act, Authority, Noun, Report, Source, Verb, print_act, report_act
from nexus_cli.config.paths import working_folder
from nexus_cli.core.clock import format_local_minute, utc_now
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.limits import ASK, require_level
from nexus_cli.core.option import Allow, Argument, Directory, Model, Option, Recipe
from nexus_cli.core.run import AGENT, PRIORITY, Entity, Run, Space, SpaceMessage, check_name
from nexus_cli.core.services import Spaces
from nexus_cli.reports.text.blocks import Blocks, OneLine, Table, Wrapped, paragraphs
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import MAX_MEMBERS, cut_line, plural, when
from nexus_cli.text.cells import cells, one_line
from nexus_cli.text.terminal_sanitizer import sanitize

if TYPE_CHECKING:
    from nexus_cli.config.settings import Settings
    from nexus_cli.ledger import Ledger

MAX_SHOWN, MAX_PRIORITY = 10_000, 9
COUNTED = 10_000
"""Most new messages that are counted."""
LONGEST = 60
"""Most columns of the name of a space in a list."""
NO_SPACES = "No spaces. `nexus space create NAME` creates a space."
NO_MESSAGES = "No messages yet."
SpaceName = Annotated[str, Argument("SPACE", "A name or an id, such as space-3.")]
As = Annotated[str, Option("NAME", "Act as this member; default: you.", "--as")]


class ListedSpace(JsonOf[Space]):
    """A space with its new messages."""

    member: bool
    new: int | None
    newest: str | None


class SpacesReport(VersionedReport):
    """All spaces."""

    spaces: list[ListedSpace]


class SpaceMessageObject(JsonOf[SpaceMessage]):
    """A message in a space."""

    seen: bool
    reply_to: str | None
    quiet: str | None
    """The reason why the message started no more agents."""
    run: str | None
    """With the last message that a run posted: the run."""
    facts: list[str]
    """The result of the run once it has ended, such as `1 commit`, `1 command failed`."""


class SpaceReport(VersionedReport):
    """The newest messages of a space."""

    space: JsonOf[Space]
    reader: JsonOf[Entity]
    unread_before: int
    messages: list[SpaceMessageObject]


class TriggeredRun(TypedDict):
    """A run that a message started."""

    name: str
    run: str


class PostReport(VersionedReport):
    """A posted message, and the runs that it started."""

    message: SpaceMessageObject
    triggered: list[TriggeredRun]
    resumed: list[str]


class NewSpaceReport(VersionedReport):
    """A created space."""

    space: JsonOf[Space]


def build_list(source: Source) -> Report[SpacesReport]:
    """List spaces with their members and your unread messages."""
    from nexus_cli.spaces.people import own_name  # noqa: PLC0415

    reader = source.ledger.spaces.find_entity(own_name(source.ledger, read_settings(source)))
    listed = [_listed(source.ledger, space, reader) for space in source.ledger.spaces.list_spaces()]
    return Report("spaces", {"version": 1, "spaces": listed}, uncut=True)


def create(
    source: Source,
    name: Annotated[str, Argument("NAME", "The name of the space.", least=0)],
    member: Annotated[list[str] | None, Option("NAME", "A person to add; repeatable.")] = None,
    agent: Annotated[list[str] | None, Option("NAME", "An agent to add; repeatable.")] = None,
    model: Model = "",
    recipe: Recipe = "",
    allow: Allow = "",
    max_cost: Annotated[
        float | None, Option("USD", "Maximum cost of one run of an agent in this space, in dollars.")
    ] = None,
    directory: Directory = "",
) -> Report[NewSpaceReport]:
    """Create a space and join it. The options apply to the agents' runs, which only read by default."""
    from nexus_cli.provider.available_models import resolve_alias  # noqa: PLC0415
    from nexus_cli.sections.find_recipe import recipe_for  # noqa: PLC0415
    from nexus_cli.spaces.people import is_agent_name, make_member, own_entity  # noqa: PLC0415

    ledger, settings = source.ledger, read_settings(source)
    folder = working_folder(directory) if directory else source.folder()
    if recipe:
        recipe_for(recipe, folder)
    level = require_level(allow, "--allow") if allow else ""
    source.require_level(level or ASK, f"--allow {level}")
    options: JsonDict = {"model": resolve_alias(model, settings) if model else "", "recipe": recipe, "allow": level}
    options |= {"max_cost": max_cost, "folder": str(folder) if directory else ""}
    chosen_options = {key: value for key, value in options.items() if value}
    agents = [*(agent or ()), *(person for person in member or () if is_agent_name(ledger, settings, person))]
    if chosen_options and not agents:
        option = {"folder": "cd", "max_cost": "max-cost"}.get(first := next(iter(chosen_options)), first)
        raise UsageError(f"--{option}", "applies only to agents", "Name an agent: --agent NAME")
    for entity_name in (*(member or ()), *agents):
        check_name(entity_name, "the name")
    ledger.spaces.check_free(name)
    people = [own_entity(ledger, settings)]
    people += [make_member(ledger, settings, person, folder, {}) for person in member or () if person not in agents]
    entities = {participant: ledger.spaces.find_entity(participant) for participant in agents}
    made_agents = {
        participant: make_member(ledger, settings, participant, folder, chosen_options, agent=True)
        for participant in agents
    }
    people += made_agents.values()
    created = ledger.spaces.create(name, utc_now(), project=ledger.project_of(folder), members=people)
    for agent_name, who in made_agents.items():
        other_spaces = [space.name for space in ledger.spaces.list_spaces(who) if space.id != created.id]
        if other_spaces and (before := entities[agent_name]) and before.options != who.options:
            source.say(f"The options also apply to {who.name} in {name_first(other_spaces, 3)}.")
    return Report("", {"version": 1, "space": to_json_value(created)}, line=created.id, changed=True)


def join(
    source: Source,
    space: SpaceName,
    name: Annotated[str, Option("NAME", "The new member; default: you.", "--as")] = "",
    agent: Annotated[bool, Option(None, "The new member is an agent.")] = False,
) -> Act:
    """Join a space, or add a member. All existing messages are unread for the new member."""
    from nexus_cli.spaces.people import make_member, own_entity  # noqa: PLC0415

    ledger, settings = source.ledger, read_settings(source)
    target_space = ledger.spaces.find(space)
    if agent and not name:
        raise UsageError("--agent", "requires the name of the agent", "Add --as NAME")
    if name:
        who = make_member(ledger, settings, name, source.folder(), {}, agent=agent)
    else:
        who = own_entity(ledger, settings)
    joined = ledger.spaces.join(target_space, who)
    kind = " (agent)" if who.kind == AGENT else ""
    state = "joined" if joined else "was already in"
    return report_act(f"member {who.name}{kind} {state} {target_space.name}.", *([who.name] if joined else []))


def leave(source: Source, space: SpaceName, name: As = "") -> Act:
    """Leave a space; its messages are kept."""
    member, who = find_member(source, read_settings(source), space, name)
    source.ledger.spaces.leave(member, who)
    return report_act(f"member {who.name} left {member.name}.", who.name)


def mute(
    source: Source,
    space: SpaceName,
    name: Annotated[str, Argument("NAME", "An agent.")],
    off: Annotated[bool, Option(None, "Let messages start the agent again.")] = False,
) -> Act:
    """Stop a space's messages from starting an agent. The agent remains a member, and its current run continues."""
    member, who = find_member(source, read_settings(source), space, name)
    if who.kind != AGENT:
        raise UsageError(f"mute {who.name}", "not an agent", f"`nexus space list` shows the members of {member.name}")
    source.ledger.spaces.mute(member, who, muted=not off)
    return report_act(f"agent {who.name} is {'no longer muted' if off else 'muted'} in {member.name}.", who.name)


def set_goals(
    source: Source,
    agent: Annotated[str, Argument("AGENT", "Name of your agent.")],
    words: Annotated[list[str] | None, Argument("[add TEXT|list|done ID...]", "The action; default: list.")] = None,
    priority: Annotated[int | None, Option("N", "Priority of a new goal, 1 (highest) to 9.")] = None,
    long_term: Annotated[bool, Option(None, "Add an ongoing goal.")] = False,
) -> Report[Annotated[Any, "spaces.agent_goals.GoalsReport"]]:
    """List, add or finish goals of an agent. Every run of the agent gets the goals, in order of priority."""
    from nexus_cli.spaces import agent_goals  # noqa: PLC0415
    from nexus_cli.spaces.people import find_agent  # noqa: PLC0415

    act, _, argument = " ".join(words or ["list"]).partition(" ")
    if priority and priority > MAX_PRIORITY:
        raise UsageError(f"--priority {priority}", f"must be at most {MAX_PRIORITY}", "1 is the highest")
    ledger, outcome = source.ledger, ""
    who = find_agent(ledger, read_settings(source), agent, source.folder())
    if act == "add":
        who, outcome = agent_goals.add_goal(ledger, who, argument, priority or PRIORITY, long_term=long_term), "added"
    elif act == "done" and argument:
        who, outcome = agent_goals.finish_goals(ledger, who, argument.split()), "finished"
    elif act != "list" or argument:
        raise UsageError(f"goal {act} {argument}".rstrip()[:80], "must be add TEXT, list or done ID")
    return Report("agent_goals", agent_goals.goals_report(who, outcome), uncut=True, changed=bool(outcome))


def post(
    source: Source,
    words: Annotated[
        list[str],
        Argument(
            "SPACE [TEXT]",
            "The space, then the message; in a shell use - or a pipe to read it from stdin.",
            is_text=True,
            least=0,
        ),
    ],
    name: Annotated[str, Option("NAME", "Post as this member; default: you.", "--as", permits=True)] = "",
) -> Report[PostReport]:
    """Post a message and print its id. `@Name` starts an agent; in a space of two members no mention is needed."""
    from nexus_cli.spaces.post_message import post_message  # noqa: PLC0415

    space, *text = words if source.live is None else _split_name(source, words[0])
    settings = read_settings(source)
    member, sender = find_member(source, settings, space, name)
    for agent in (entity for entity in member.members if entity.kind == AGENT and entity.key != sender.key):
        source.require_level(level_of(agent.options), f"agent {agent.name}")  # the message may start it
    message = " ".join(text) if source.live or text not in ([], ["-"]) else source.read_stdin()
    posted = post_message(source.ledger, settings, member, sender, message, source.say)
    lines = [f"agent {agent.name} was triggered: run-{run}" for agent, run in posted.triggered]
    lines += [f"resumed run-{run}" for run in posted.resumed]
    if posted.message.notice:
        lines.append(posted.message.notice)
    elif lines:
        lines[-1] += "; `nexus serve` or `nexus space open` executes runs"
    for line in lines:
        source.say(line)
    value: PostReport = {
        "version": 1,
        "message": message_json(posted.message, is_seen=True),
        "triggered": [{"name": agent.name, "run": f"run-{run}"} for agent, run in posted.triggered],
        "resumed": [f"run-{run}" for run in posted.resumed],
    }
    return Report("", value, line=posted.message.id, changed=True)


def _split_name(source: Source, words: str) -> tuple[str, str]:
    """Split `words` into the name or id of a space that they begin with, the longest match, and the rest."""
    if words.startswith('"') and '"' in words[1:]:
        name, _, more = words[1:].partition('"')
        return name, more.strip()
    folded = words.casefold() + " "
    names = [
        space.name for space in source.ledger.spaces.list_spaces() if folded.startswith(f"{space.name.casefold()} ")
    ]
    name = max(names, key=len, default=words.partition(" ")[0])
    return name, words[len(name) :].strip()


def read(
    source: Source,
    space: SpaceName,
    last: Annotated[int, Option("N", "Number of messages to print.")] = 50,
    name: As = "",
) -> Report[SpaceReport]:
    """Print the newest messages of a space, and mark them as read."""
    member, reader = find_member(source, read_settings(source), space, name)
    value = read_space(source.ledger, member, reader, min(last, MAX_SHOWN))
    is_news = any(not message["seen"] for message in value["messages"])
    return Report("space_messages", value, uncut=True, changed=is_news)


async def enter(context: CommandContext, space: SpaceName) -> Act:
    """Make a space the default for this session's messages; nexus must be a member."""
    service = context.session.dispatcher.services.find(Spaces)
    if service is None:
        why = "nexus was not a member of a space when this session started"
        hint = f"Run `nexus space join {shlex.quote(space)} --as nexus`, then exit and resume this session"
        raise usage_error("space", f"enter {space}", why, hint)
    result = service.enter(space)
    if result.error:
        raise usage_error(
            "space", "enter", result.error.rstrip("."), "To join a space: nexus space join SPACE --as nexus"
        )
    return print_act(result.output, space)


def find_member(source: Source, settings: Settings, space: str, name: str) -> tuple[Space, Entity]:
    """Return a space, and its member `name` or the person."""
    from nexus_cli.spaces.people import find_reader  # noqa: PLC0415

    target_space = source.ledger.spaces.find(space)
    return target_space, find_reader(source.ledger, settings, target_space, name)


def _listed(ledger: Ledger, space: Space, reader: Entity | None) -> ListedSpace:
    takes_part = reader is not None and reader.key in {member.key for member in space.members}
    new = None
    if reader is not None and takes_part:
        new = ledger.spaces.count(space, after=ledger.spaces.seen(space, reader), most=COUNTED)
    newest = ledger.spaces.read(space, limit=1)
    return ListedSpace(**to_json_value(space), member=takes_part, new=new, newest=newest[0].at if newest else None)


def read_space(ledger: Ledger, space: Space, reader: Entity, last: int) -> SpaceReport:
    """Return the newest messages of a space, and mark them as read by `reader`, unless the ledger is read-only."""
    last_seen = ledger.spaces.seen(space, reader)
    messages = ledger.spaces.read(space, limit=last)
    first = messages[0].key if messages else 0
    posts = ledger.runs.of_posts(space.key, first) if first else {}
    earlier = ledger.spaces.count(space, after=last_seen, before=first, most=COUNTED) if first > last_seen else 0
    if messages and ledger.writes:
        ledger.spaces.mark_seen(space.key, reader.key, messages[-1].key)
    return {
        "version": 1,
        "space": to_json_value(space),
        "reader": to_json_value(reader),
        "unread_before": earlier,
        "messages": [
            message_json(message, is_seen=message.key <= last_seen, run=posts.get(message.key)) for message in messages
        ],
    }


def message_json(message: SpaceMessage, *, is_seen: bool, run: Run | None = None) -> SpaceMessageObject:
    """Return a message; `run`: the run whose last message it is, if a run posted it."""
    return SpaceMessageObject(
        **to_json_value(message),
        seen=is_seen,
        reply_to=f"msg-{message.reply_to}" if message.reply_to else None,
        quiet=message.notice or None,
        run=run.id if run else None,
        facts=run.facts if run else [],
    )


def spaces_text(value: JsonObject) -> Blocks:
    """Return a line for each space."""
    columns = {
        "id": "id",
        "name": lambda space: cut_line(space["name"], LONGEST),
        "new": "new",
        "newest": lambda space: when(space["newest"]) or "-",
        "members": _name_members,
    }
    return [Table(columns, value["spaces"], NO_SPACES)]


def space_messages_text(value: JsonObject, width: int) -> Blocks:
    """List the messages of a space below its name, with a line where the new ones begin."""
    space, messages = value["space"], value["messages"]
    yield f"{space['name']}: {_name_members(space)}"
    if not messages:
        yield from ["", NO_MESSAGES]
        return
    if before := value["unread_before"]:
        yield f"{plural(before, 'earlier message')} unread: --last {before + len(messages)}"
    day, parted = "", not any(message["seen"] for message in messages)
    for message in messages:
        if (today := format_local_minute(message["at"], "%Y-%m-%d")) != day:
            day = today
            yield from ["", day]
        if not parted and not message["seen"]:
            parted = True
            yield new_line(width)
        yield from message_lines(message, width)


def agent_goals_text(value: JsonObject) -> Blocks:
    """Return a line for each goal of an agent."""
    columns = {
        "id": "id",
        "priority": lambda goal: str(goal["priority"]),
        "": lambda goal: f"done {when(goal['done'])}" if goal["done"] else "long-term" if goal["long_term"] else "",
        "goal": "text",
    }
    name = value["agent"]["name"]
    how = name_commands(f"nexus space goal {shlex.quote(name)} add TEXT")
    return [Table(columns, value["goals"])] if value["goals"] else [f"{name} has no goals. To add a goal: {how}"]


def new_line(width: int) -> str:
    """Return the line between read and new messages."""
    side = "-" * max(2, min(width, 60) // 2 - 3)
    return f"{side} new {side}"[:width]


def message_lines(message: JsonObject, width: int) -> Blocks:
    """Return a message: time and name, then its text, on the same line if it fits."""
    sender = message["sender"]
    kind = " (agent)" if sender["type"] == "agent" else ""
    head = f"{format_local_minute(message['at'], '%H:%M')} {one_line(sender['name'])}{kind}"
    text = sanitize(message["text"].strip("\n"))
    notes = [message["quiet"]] if message["quiet"] else []
    if message["facts"]:
        notes.append(f"{message['run']}: {', '.join(message['facts'])}")
    below = paragraphs((f"[{one_line(note)}]" for note in notes), "  ")
    single_row = f"{head}: {text.strip()}"
    if text.strip() and "\n" not in text and cells(single_row) <= width:
        return [Wrapped(single_row), *below]
    return [OneLine(f"{head}:"), Wrapped(text, "  "), *below]


def _name_members(space: JsonObject) -> str:
    names = [member["name"] + (" (agent)" if member["type"] == "agent" else "") for member in space["members"]]
    return name_first(names, MAX_MEMBERS)


def _complete_spaces(source: Source) -> Sequence[str]:
    return [space.name for space in source.ledger.spaces.list_spaces()]


NOUN = Noun(
    "space",
    "run",
    (
        Verb(build_list, "list"),
        Verb(create, "create", Authority.KEEPS, "create"),
        Verb(join, "join", Authority.KEEPS, "write", complete=_complete_spaces),
        Verb(leave, "leave", Authority.KEEPS, "write", complete=_complete_spaces),
        Verb(mute, "mute", Authority.KEEPS, "write", complete=_complete_spaces),
        Verb(set_goals, "goal", Authority.KEEPS, "write"),
        Verb(post, "post", Authority.KEEPS, "write", complete=_complete_spaces),
        Verb(read, "read", Authority.KEEPS, complete=_complete_spaces),
        Verb(enter, "enter", Authority.KEEPS, complete=_complete_spaces),
    ),
    "Talk with several people and agents in a space.",
    in_shell=("open",),
    aliases=("spaces",),
)
