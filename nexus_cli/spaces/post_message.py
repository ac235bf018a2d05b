"""Post a person's message, and choose the agents that it is offered to.

A message that mentions nobody, in a space of three or more members, may be offered to agents: by a rule (name and
topics), or by a small model if the settings name one. Messages of agents are not offered.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from nexus_cli.config.settings import Settings
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import AGENT, HUMAN, Brake, Entity, Space, find_mentions
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.spaces import Posted
from nexus_cli.spaces.people import topics_of

OFF, RULE = "off", "rule"


def post_message(
    ledger: Ledger,
    settings: Settings,
    space: Space,
    sender: Entity,
    text: str,
    warn: TakeText,
) -> Posted:
    """Post `text` in a space and return the message with its consequences; blocks. `warn` gets a line if the router's
    model failed, or the message begins with `@` and no name of a member."""
    hops, root = 0, 0
    if sender.kind == AGENT:  # posted by a program, which might answer what it started itself
        newest = ledger.spaces.read(space, limit=1)
        hops, root = (newest[0].hops + 1, newest[0].root or newest[0].key) if newest else (1, 0)
    current = ledger.spaces.get(space.key)
    offered = choose_agents(settings, current, sender, text, warn)
    posted = ledger.spaces.post(
        space,
        sender,
        text,
        utc_now(),
        hops=hops,
        root=root,
        brake=Brake(settings.spaces.max_runs, settings.spaces.max_cost),
        offered=offered,
    )
    members = [member.name for member in current.members]
    is_ignored = not (posted.triggered or posted.resumed or find_mentions(text, members))
    if is_ignored and (address := re.match(r"@\w\S*", text)):
        warn(f"{space.name} has no member {address[0]}: the message triggered nobody")
    return posted


def choose_agents(settings: Settings, space: Space, sender: Entity, text: str, warn: TakeText) -> Sequence[int]:
    """Return the keys of the agents that a message is offered to; blocks while a model chooses."""
    other_members = [member for member in space.members if member.key != sender.key]
    agents = [member for member in other_members if member.kind == AGENT]
    router = settings.spaces.router.strip()
    if sender.kind != HUMAN or len(space.members) < 3 or not agents or router in ("", OFF):
        return ()
    if find_mentions(text, [entity.name for entity in other_members]):
        return ()
    if router == RULE:
        return [agent.key for agent in agents if _has_word(text, [agent.name, *topics_of(settings, agent.name)])]
    from nexus_cli.spaces.model_router import choose_by_model  # noqa: PLC0415  (only where the settings name a model)

    topics = {agent.name: topics_of(settings, agent.name) for agent in agents}
    try:
        chosen = asyncio.run(choose_by_model(settings, router, topics, text))
    except (NexusError, TimeoutError) as error:
        why = error.sentences if isinstance(error, NexusError) else f"{router} did not answer in time."
        warn(f"no agent received the message: {why}")
        return ()
    return [agent.key for agent in agents if agent.name in chosen]


def _has_word(text: str, words: Sequence[str]) -> bool:
    pattern = "|".join(re.escape(word.strip()) for word in words if word.strip())
    return bool(pattern) and re.search(rf"(?<!\w)(?:{pattern})(?!\w)", text, re.IGNORECASE) is not None
