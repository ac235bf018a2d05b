"""`/goal`: the goal of the session, in steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.arguments import SessionSource, read_log
from nexus_cli.commands.command import CommandContext, run_act, usage_error
from nexus_cli.commands.verb import Act, Noun, Report, Source, Verb, print_act
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, nearest_name
from nexus_cli.core.goals import list_goals, open_until
from nexus_cli.core.json_value import JsonObject, JsonOf, ReportOfSession, to_json_value
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.services import Goal
from nexus_cli.reports.text.blocks import Blocks, Paragraph
from nexus_cli.session.acts.goal import end_until, goal_closing, goal_setting


class GoalObject(JsonOf[Goal]):
    """A goal."""

    steps: list[JsonOf[Goal]]


class SessionGoals(ReportOfSession):
    """The goals of a session."""

    goals: list[GoalObject]
    until: str | None
    """The command of `--until` that the session works for; null without one."""


def goals_text(value: JsonObject) -> Blocks:
    """List each goal and its steps, with a mark for done ones."""
    if not value["goals"]:
        yield "No goals. /goal TEXT sets a goal."
        return
    for goal in value["goals"]:
        yield _line(goal, "")
        yield from (_line(step, "  ") for step in goal["steps"])
    if value.get("until"):
        yield f"The --until command is `{value['until']}`. To remove it: /goal clear"


def _line(goal: JsonObject, indent: str) -> Paragraph:
    mark = "x" if goal["done"] else " "
    return Paragraph(f"{goal['id']} {goal['text']}", f"{indent}    ", f"{indent}[{mark}] ")


DONE, DROP = "done", "drop"
NO_TEXT = {"add", "list", "set", "show"}
"""Words that are no goal of their own."""
SYNONYMS = {
    **dict.fromkeys(("finish", "finished", "complete", "completed", "close", "check"), DONE),
    **dict.fromkeys(("clear", "remove", "delete", "del", "rm", "cancel", "forget"), DROP),
}
"""Synonyms of the verbs."""
MIN_SIMILARITY = 0.7
ID = re.compile(r"g\d+", re.IGNORECASE)
SEPARATORS = re.compile(r"[\s,;]+")
Ids = Annotated[list[str], Argument("ID", "Ids of goals or steps, such as g1 g2.")]


def build_list(source: Source) -> Report[SessionGoals]:
    """List the goals of a session and their steps."""
    goals: dict[str, GoalObject] = {}
    log, session = read_log(source), source.session()
    for goal in list_goals(log):
        if goal.parent:
            goals[goal.parent]["steps"].append(to_json_value(goal))
        else:
            goals[goal.id] = GoalObject(**to_json_value(goal), steps=[])
    until = open_until(log, session).get("command")
    return Report("goals", {"version": 1, "session": session, "goals": [*goals.values()], "until": until})


async def set_goal(
    context: CommandContext,
    text: Annotated[str, Argument("TEXT", "The goal, in your own words.", is_text=True)] = "",
    until: Annotated[
        str, Option("COMMAND", "Continue until COMMAND exits with 0; quote it if TEXT follows.", is_text=True)
    ] = "",
) -> Report[SessionGoals]:
    """Set a goal, or list the goals.

    The model breaks the goal down into steps in a separate request, and sees the goal while it is open. /goal alone
    lists the goals.

    With --until, there are no steps: the model continues until the command exits with 0, within the limits of a turn.
    nexus stops the work if two rounds in a row bring nothing new.
    """
    if until:
        text = text or f"Make `{one_line(until)}` exit 0."
        await run_act(context, "goals", goal_setting(text, until))
        context.start(text, typed=True)
    elif text and text.casefold() not in NO_TEXT:
        _check_words(text)
        await _set(context, text)
    return build_list(SessionSource(context))


async def finish_goals(context: CommandContext, ids: Ids) -> Report[SessionGoals]:
    """Mark goals or steps as done."""
    return await _close(context, ids, DONE)


async def drop_goals(context: CommandContext, ids: Ids) -> Report[SessionGoals]:
    """Drop goals or steps."""
    return await _close(context, ids, DROP)


async def end_work(context: CommandContext) -> Act:
    """Stop working toward the --until command; the current round still completes."""
    if not (command := end_until(context.session.conversation, context.session.id)):
        raise usage_error("goal", "clear", "no goal has an --until command", "/goal drop ID drops a goal")
    running = " The current round will finish; Esc stops it." if context.session.busy else ""
    return print_act(f"Cleared the --until command `{one_line(command)}`.{running}", context.session.id)


async def _close(context: CommandContext, ids: Sequence[str], verb: str) -> Report[SessionGoals]:
    """Close goals, and list what is left."""
    names = [name for text in ids for name in SEPARATORS.split(text.casefold()) if name]
    if not all(map(ID.fullmatch, names)):
        hint = f"/goal lists the ids; to start a goal with the word `{verb}`, put another word first"
        raise usage_error(
            "goal", f"{verb} {' '.join(ids)}", f"`{verb}` takes only ids; example: /goal {verb} g1 g2", hint
        )
    await run_act(context, "goals", goal_closing(names, verb))
    return build_list(SessionSource(context))


def _check_words(text: str) -> None:
    """Raise `UsageError` for a misspelt verb or an id alone, because setting a goal costs a request."""
    first, *names = filter(None, SEPARATORS.split(text.casefold()))
    ids = [name for name in names if ID.fullmatch(name)]
    if ID.fullmatch(first) and not names:
        raise usage_error("goal", text, "the action is missing", f"Use /goal done {first} or /goal drop {first}")
    near = SYNONYMS.get(first) or nearest_name(first, (DONE, DROP), MIN_SIMILARITY)
    if near and (ids or not names):
        hint = f"Did you mean /goal {near} {' '.join(ids) or 'ID'}? /goal lists the ids"
        raise usage_error("goal", text, "unknown action", hint)


async def _set(context: CommandContext, text: str) -> None:
    """Set the goal. If this is stopped, the goal is kept without steps."""
    before = _count_goals(context)
    try:
        await run_act(context, "breaking the goal down", goal_setting(text))
    except NexusError as error:
        if error.kind != "aborted" or _count_goals(context) == before:
            raise
        context.say("Stopped: the goal is saved without steps.")


def _count_goals(context: CommandContext) -> int:
    return len(build_list(SessionSource(context)).value["goals"])


def _complete_ids(source: Source) -> Sequence[str]:
    goals = build_list(source).value["goals"]
    return [step["id"] for goal in goals for step in (goal, *goal["steps"]) if not step["done"]]


NOUN = Noun(
    "goal",
    "run",
    (
        Verb(set_goal),
        Verb(build_list, "list", of_session=True, is_alone=True),
        Verb(finish_goals, DONE, complete=_complete_ids),
        Verb(drop_goals, DROP, complete=_complete_ids),
        Verb(end_work, "clear", waits=False, is_alone=True),
    ),
    "Set a goal, or list the goals.",
    aliases=("goals",),
    is_idle=True,
)
