"""`/space`: conversations of which you or the agent of this session are a member."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nexus_cli.commands.arguments import require_ledger
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.core.errors import NexusError
from nexus_cli.core.services import Spaces
from nexus_cli.ledger import Ledger

if TYPE_CHECKING:
    from nexus_cli.core.run import Space

READ, POST, ENTER = "read", "post", "enter"
LAST = 50
"""Most messages that are shown."""


async def use_spaces(context: CommandContext, rest: str) -> None:
    """List the spaces; read one, post, or enter one.

    `read SPACE` shows its newest messages and marks them as read, `post SPACE TEXT` posts a message in your name.
    `enter SPACE` makes it the default space for messages of this session's agent; nexus must be a member, see nexus
    space.
    """
    word, _, more = rest.partition(" ")
    if rest and word not in (READ, POST, ENTER):
        raise usage_error("space", rest, f"expected {READ}, {POST} or {ENTER}")
    ledger = require_ledger(context)
    if not rest:
        _list(context, ledger)
        return
    space, text = _split(ledger, rest, more.strip())
    if word == POST:
        await _post(context, ledger, space, text)
    elif text:
        raise usage_error("space", rest, "unexpected text after the name of the space")
    elif word == READ:
        _read(context, ledger, space)
    else:
        _enter(context, space)


def _list(context: CommandContext, ledger: Ledger) -> None:
    from nexus_cli.spaces.people import own_name  # noqa: PLC0415
    from nexus_cli.spaces.space_reports import list_spaces  # noqa: PLC0415

    context.show("spaces", list_spaces(ledger, ledger.spaces.find_entity(own_name(ledger, context.settings))))


def _read(context: CommandContext, ledger: Ledger, space: Space) -> None:
    from nexus_cli.spaces.people import find_reader  # noqa: PLC0415
    from nexus_cli.spaces.space_reports import read_space  # noqa: PLC0415

    reader = find_reader(ledger, context.settings, space)
    context.show("space_messages", read_space(ledger, space, reader, LAST))


async def _post(context: CommandContext, ledger: Ledger, space: Space, text: str) -> None:
    from nexus_cli.spaces.people import find_reader  # noqa: PLC0415
    from nexus_cli.spaces.post_message import post_message  # noqa: PLC0415

    sender, warned = find_reader(ledger, context.settings, space), list[str]()
    posted = await asyncio.to_thread(post_message, ledger, context.settings, space, sender, text, warned.append)
    for line in warned:
        context.say(line)
    started = [f"run-{run} of {agent.name}" for agent, run in posted.triggered]
    begun = f"; it started {', '.join(started)}" if started else ""
    context.say(f"{posted.message.id} is posted in {space.name}{begun}.")


def _enter(context: CommandContext, space: Space) -> None:
    service = context.session.dispatcher.services.find(Spaces)
    if service is None:
        why = "the agent of this session is a member of no space, or was not when the session began"
        hint = f"nexus space join {shlex.quote(space.name)} --as nexus, then /resume this session"
        raise NexusError("usage", f"/space enter {space.name}", why, hint)
    result = service.enter(space.name)
    if result.error:
        raise NexusError("usage", "/space enter", result.error.rstrip("."), "nexus space join SPACE --as nexus")
    context.say(result.output)


def _split(ledger: Ledger, rest: str, text: str) -> tuple[Space, str]:
    """Split `text` into the space whose name or id it begins with, the longest match, and the rest."""
    if not text:
        raise usage_error("space", rest, "the name of the space is missing")
    if text.startswith('"') and '"' in text[1:]:
        name, _, more = text[1:].partition('"')
        return ledger.spaces.find(name), more.strip()
    folded = text.casefold() + " "
    named = [one for one in ledger.spaces.list_spaces() if folded.startswith(f"{one.name.casefold()} ")]
    if named:
        longest = max(named, key=lambda one: len(one.name))
        return longest, text[len(longest.name) :].strip()
    name, _, more = text.partition(" ")
    return ledger.spaces.find(name), more.strip()


def _complete_spaces(context: CommandContext) -> Sequence[str]:
    try:
        names = [one.name for one in require_ledger(context).spaces.list_spaces()]
    except NexusError:
        return ()
    return [f"{word} {name}" for word in (READ, POST, ENTER) for name in names]


COMMANDS = (
    Command(
        "space",
        "work",
        use_spaces,
        "[read SPACE | post SPACE TEXT | enter SPACE]",
        complete=_complete_spaces,
        aliases=("spaces",),
    ),
)
