"""`/goal`: what the session is for, in steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import wrong
from nexus_cli.core.errors import NexusError
from nexus_cli.session.acts import Act
from nexus_cli.session.acts.goal import closing, setting
from nexus_cli.session.reports.goals import listing

VERBS = ("done", "drop")
ID = re.compile(r"g\d+")
"""What an id looks like: several words behind a verb that are none are a goal that begins with this word."""


async def run(desk: Desk, rest: str) -> None:
    """Set a goal, or list the goals.

    A goal is broken down into steps by the model, in a lane of its own, and told to it as long as it is open. /goal
    done ID and /goal drop ID, with one id or several, take goals or steps off the list; /goal alone shows it.
    """
    verb, _, behind = rest.partition(" ")
    names = behind.replace(",", " ").split()
    if verb in VERBS and (len(names) < 2 or all(map(ID.fullmatch, names))):
        if not names:
            raise wrong("goal", rest, f"it does not say which: /goal {verb} ID")
        await _act(desk, "goals", closing(names, verb))
    elif rest:
        await _set(desk, rest)
    desk.show("goals", desk.session.look(listing))


async def _set(desk: Desk, text: str) -> None:
    """Set the goal; one that is stopped meanwhile is kept without steps."""
    before = len(desk.session.look(listing)["goals"])
    try:
        await _act(desk, "breaking the goal down", setting(text))
    except NexusError as error:
        if error.kind != "aborted" or len(desk.session.look(listing)["goals"]) == before:
            raise
        desk.say("Breaking the goal down was stopped: it is kept without steps.")


async def _act(desk: Desk, what: str, act: Act) -> None:
    async def work() -> None:
        async for event in desk.session.act(act):
            desk.feed(event)

    await desk.busy(what, work())


def _complete(desk: Desk) -> Sequence[str]:
    goals = desk.session.look(listing)["goals"]
    known = [one["id"] for goal in goals for one in (goal, *goal["steps"]) if not one["done"]]
    return [f"{verb} {name}" for verb in VERBS for name in known] or VERBS


COMMAND = Command("goal", "work", run, "[TEXT | done ID... | drop ID...]", idle=True, complete=_complete)
