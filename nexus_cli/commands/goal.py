"""`/goal`: the goal of the session, in steps."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from nexus_cli.commands.command import Command, CommandContext, run_act, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.goals import goals_report
from nexus_cli.session.acts.goal import end_until, goal_closing, goal_setting, goal_until

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
UNTIL = re.compile(r"(?:^|\s)--until(?:=|\s|$)")
QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")
CLEAR = "clear"


async def set_goal(context: CommandContext, rest: str) -> None:
    """Set a goal, or list the goals.

    In a separate request the model breaks the goal down into steps. Open goals are part of each request. /goal done ID
    and /goal drop ID, with one or more ids, remove goals or steps; /goal alone lists them.

    With --until the model continues until the command exits 0, within the limits of a turn; it stops after two rounds
    without progress. /goal clear cancels --until.
    """
    if parts := _split_until(rest):
        text, command = parts
        await run_act(context, "goals", goal_until(text, command))
        context.show("goals", goals_report(context.session.state))
        context.start(text, typed=True)
        return
    if rest == CLEAR:
        if not (command := end_until(context.session.state)):
            raise usage_error("goal", rest, "no goal has an --until command", "/goal drop ID drops a goal")
        running = " The current round continues to its end; Esc stops it." if context.session.busy else ""
        context.say(f"Stopped working until `{one_line(command)}` exits 0.{running}")
        return
    first, *names = list(filter(None, SEPARATORS.split(rest.casefold()))) or [rest or LISTS[0]]
    if names or first not in LISTS:
        if verb := _verb(rest, first, names):
            await run_act(context, "goals", goal_closing(names, verb))
        else:
            await _set(context, rest)
    context.show("goals", goals_report(context.session.state))


def _split_until(rest: str) -> tuple[str, str] | None:
    """Split `TEXT --until COMMAND`, or `--until 'COMMAND' TEXT`; None without the option. The command may be quoted.

    Raises `NexusError("usage", ...)` without a command, or with half a quote.
    """
    found = UNTIL.search(rest)
    if found is None:
        return None
    text, command = rest[: found.start()].strip(), rest[found.end() :].strip()
    quoted = QUOTED.match(command)
    if quoted and not (text and command[quoted.end() :].strip()):
        text = text or command[quoted.end() :].strip()
        command = quoted[1] if quoted[2] is None else re.sub(r"\\(.)", r"\1", quoted[2])
    if quoted is None and command[:1] in ("'", '"'):
        raise usage_error("goal", rest, f"the quote {command[0]} is not closed", "/goal TEXT --until 'COMMAND'")
    if not command.strip():
        raise usage_error("goal", rest, "the command is missing", "/goal TEXT --until 'COMMAND'")
    return text or f"Make `{one_line(command)}` exit 0.", command.strip()


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
            hint = f"/goal lists them; to begin a goal with the word {first}, put another word before it"
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
        "goal",
        "run",
        set_goal,
        "[TEXT [--until COMMAND] | done ID... | drop ID... | clear]",
        idle=True,
        at_once=lambda rest: rest == CLEAR,
        complete=_complete_goal,
        authority=Authority.ACTS,
    ),
)
