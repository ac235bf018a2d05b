"""`/goal`: the goal of the session, in steps."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from nexus_cli.commands.command import Command, CommandContext, always, run_act, usage_error
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.goals import goals_report
from nexus_cli.session.acts.goal import goal_closing, goal_setting

VERBS = ("done", "drop")
LISTS = ("list", "show")
"""Verbs that list the goals if they are the only word."""
MEANT = {
    **dict.fromkeys(("finish", "finished", "complete", "completed", "close", "check"), "done"),
    **dict.fromkeys(("clear", "remove", "delete", "del", "rm", "cancel", "forget"), "drop"),
}
"""Synonyms of the verbs."""
NEAR = 0.7
ID = re.compile(r"g\d+", re.IGNORECASE)
SEPARATORS = re.compile(r"[\s,;]+")


async def set_goal(context: CommandContext, rest: str) -> None:
    """Set a goal, or list the goals.

    The model breaks a goal down into steps, in a separate request, and sees it as long as it is open. /goal done ID and
    /goal drop ID, with one or more ids, remove goals or steps; /goal alone lists them.
    """
    first, *names = list(filter(None, SEPARATORS.split(rest.casefold()))) or [rest or LISTS[0]]
    if names or first not in LISTS:
        if verb := _verb(rest, first, names):
            await run_act(context, "goals", goal_closing(names, verb))
        else:
            await _set(context, rest)
    context.show("goals", goals_report(context.session.state))


def _verb(rest: str, first: str, names: Sequence[str]) -> str:
    """Parse the verb that `rest` begins with, "" if it is the text of a goal. Raises `NexusError("usage", ...)` for a
    misspelt verb or id, because setting a goal costs a request."""
    ids = [name for name in names if ID.fullmatch(name)]
    if ID.fullmatch(first) and not names:
        raise usage_error("goal", rest, "the action is missing", f"/goal done {first} or /goal drop {first}")
    if first in VERBS:
        if not names:
            raise usage_error("goal", rest, f"the goal is missing: /goal {first} ID")
        if len(ids) < len(names):
            hint = f"/goal lists them; put another word before {first} if it begins the text of a goal"
            raise usage_error("goal", rest, f"{first} takes only ids, such as /goal {first} g1 g2", hint)
        return first
    near = MEANT.get(first) or next(iter(difflib.get_close_matches(first, VERBS, 1, NEAR)), "")
    if near and (ids or not names):
        right = f"/goal {near} {' '.join(ids) or 'ID'}"
        raise usage_error(
            "goal", rest, f"{first} is not an action, the nearest is {near}: {right}", "/goal lists the ids"
        )
    return ""


async def _set(context: CommandContext, text: str) -> None:
    """Set the goal. If this is stopped, the goal is kept without steps."""
    before = len(goals_report(context.session.state)["goals"])
    try:
        await run_act(context, "breaking the goal down", goal_setting(text))
    except NexusError as error:
        if error.kind != "aborted" or len(goals_report(context.session.state)["goals"]) == before:
            raise
        context.say("Stopped: the goal is saved without steps.")


def _complete_goal(context: CommandContext) -> Sequence[str]:
    goals = goals_report(context.session.state)["goals"]
    known = [one["id"] for goal in goals for one in (goal, *goal["steps"]) if not one["done"]]
    return [f"{verb} {name}" for verb in VERBS for name in known] or VERBS


COMMANDS = (
    Command(
        "goal", "work", set_goal, "[TEXT | done ID... | drop ID...]", idle=True, complete=_complete_goal, served=always
    ),
)
