"""The members of spaces: the person at this machine, and the agents with the options of their runs."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from nexus_cli.config.git_configuration import read_personal_settings
from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import AGENT_NAME
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import ASK
from nexus_cli.core.run import AGENT, HUMAN, LONGEST_NAME, SELF, Entity, Space, check_name, fold_name
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.spaces import not_a_member

DEFAULTS: JsonObject = {"allow": ASK, "recipe": "tick_event"}
"""Default options of an agent's runs."""
_HINT = "Run `nexus config set spaces.name NAME`"


def own_name(ledger: Ledger, settings: Settings) -> str:
    """Return the name of the person: on a server that of their role, else from the setting, from git or the login."""
    if role := ledger.spaces.own_role():
        return check_name(role, "the name of your role on the server")
    if settings.spaces.name.strip():
        return check_name(settings.spaces.name, "the setting spaces.name")
    for source in (_git_name, _login_name):
        if name := _as_name(source()):
            return name
    raise NexusError("config", "your name in spaces", "neither git nor the login provides a name", _HINT)


def _git_name() -> str:
    """Return git's `user.name` of the person, whatever a project says, so that they have one name in all folders."""
    return dict(read_personal_settings(os.environ)).get("user.name", "")


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no user of this number
        return ""


def _as_name(text: str) -> str:
    """Return `text` without characters that a name cannot have; "" if nothing is left."""
    cleaned = "".join(char if char.isprintable() and char not in '"()[]@:\\' else " " for char in text)
    return " ".join(cleaned.split())[:LONGEST_NAME].strip()


def own_entity(ledger: Ledger, settings: Settings) -> Entity:
    """Return the entity of the person, created at their first use of spaces."""
    name = own_name(ledger, settings)
    entity = ledger.spaces.find_entity(name)
    if fold_name(name) in (AGENT_NAME, fold_name(SELF)) or (entity and entity.kind == AGENT):
        raise NexusError("config", f"your name in spaces, {name}", "the name is reserved or belongs to an agent", _HINT)
    return entity or ledger.spaces.entity(name, HUMAN)


def find_reader(ledger: Ledger, settings: Settings, space: Space, requested_name: str = "") -> Entity:
    """Return the member with the requested name, else the person; raise `UsageError` if that is not a member."""
    name = requested_name or own_name(ledger, settings)
    reader = ledger.spaces.find_entity(name)
    if reader is None and requested_name:
        otherwise = f"`nexus space list` shows the members of {space.name}"
        hint = suggest_name(name, [entity.name for entity in space.members], otherwise)
        raise UsageError(f"--as {name[:LONGEST_NAME]!r}", "there is no such member in this space", hint)
    if reader is None or reader.key not in {member.key for member in space.members}:
        raise not_a_member(space, reader or Entity(0, name, HUMAN))
    if not ledger.spaces.is_own(reader):
        owner_problem = (
            "agent belongs to another user" if reader.kind == AGENT else "person has another role on the server"
        )
        raise UsageError(f"--as {reader.name}", f"this {owner_problem}", "Act as yourself, or as your own agent")
    return reader


def is_agent_name(ledger: Ledger, settings: Settings, name: str) -> bool:
    """True if `name` is an agent: `nexus`, one in the ledger, or one of the settings."""
    entity = ledger.spaces.find_entity(name)
    if entity is not None and entity.kind == AGENT:
        return True
    return fold_name(name) == AGENT_NAME or _find_settings(settings, name) is not None


def find_agent(ledger: Ledger, settings: Settings, name: str, folder: Path) -> Entity:
    """Return the agent `name`, created if only the settings have it; raise `UsageError` if it does not
    exist, or is somebody else's."""
    if not is_agent_name(ledger, settings, name):
        hint = f"To create it: nexus space create SPACE --agent {name[:LONGEST_NAME]}"
        raise UsageError(f"agent {name[:LONGEST_NAME]!r}", "there is no such agent", hint)
    agent = make_member(ledger, settings, name, folder, {}, agent=True)
    if not ledger.spaces.is_own(agent):
        raise UsageError(f"agent {agent.name}", "this agent belongs to another user", "Name your own agent")
    return agent


def make_member(
    ledger: Ledger, settings: Settings, name: str, folder: Path, options: JsonObject, *, agent: bool = False
) -> Entity:
    """Return the entity of this name, created if it does not exist; `agent` makes it an agent.

    `options` are options of an agent's runs. They override the settings for a new agent, and its stored options for a
    known one.
    """
    name = check_name(name, "the name")
    if not agent and not is_agent_name(ledger, settings, name):
        return ledger.spaces.entity(name, HUMAN)
    entity = ledger.spaces.find_entity(name)
    if entity is not None and not options:
        return ledger.spaces.entity(name, AGENT)
    defaults = dict(entity.options) if entity else {"folder": str(folder), **DEFAULTS, **_settings_of(settings, name)}
    return ledger.spaces.entity(name, AGENT, {**defaults, **options})


def _find_settings(settings: Settings, name: str) -> JsonObject | None:
    folded = fold_name(name)
    return next((table for agent_name, table in settings.agents.items() if fold_name(agent_name) == folded), None)


def _settings_of(settings: Settings, name: str) -> JsonObject:
    """Return the run options of `[agents.NAME]`."""
    table = dict(_find_settings(settings, name) or {})
    table.pop("topics", None)
    if folder := table.get("folder"):
        table["folder"] = os.path.realpath(os.path.expanduser(folder))
    return table


def topics_of(settings: Settings, name: str) -> tuple[str, ...]:
    return tuple((_find_settings(settings, name) or {}).get("topics", ()))
