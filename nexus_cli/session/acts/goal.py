"""Set a goal: a side conversation with the recipe `goal_decompose` splits it into steps; memos store both."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.elide import clip_text, one_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.goals import list_goals, open_until
from nexus_cli.core.memo_kinds import GOAL, UNTIL
from nexus_cli.core.services import Goal
from nexus_cli.sections.find_recipe import own_recipe
from nexus_cli.session.acts.side_run import run_separately
from nexus_cli.session.base_session import Act, BaseSession

MOST_STEPS = 12
LONGEST = 300
"""Most characters of a goal or a step."""
LISTED = re.compile(r"^\s*(?:[-*+•]|\(?\d{1,3}[.):]|[Ss]tep \d{1,3}[.:)]|\[[ xX]?\])\s*(?:\[[ xX]?\]\s*)?")
EMPHASIS = re.compile(r"(?<![^\s(\[])(\*{1,3}|_{1,3})(?=[\w`\"'(\[])(.+?)(?<=[\w`\"')\].,:;!?*])\1(?![\w*/])")
"""Markdown emphasis around words, but not the characters of patterns (`*.py`) and names (`__init__`)."""
HEADING = re.compile(r"^\s*(?:#{1,6}\s|```|\*\*[^*]*:?\*\*:?\s*$)|:\s*$")
NAMES = ("step", "text", "title", "description", "goal", "task", "name")
"""Keys of a step's text in an object, in order of preference."""


def goal_setting(text: str, until: str = "") -> Act:
    """Store `text` as a goal of the session, with the steps that the model finds in it. With `until` the goal has no
    steps, and the session works on it until this command exits 0.

    If the model finds no steps or fails, the goal is stored without steps, with a notice; if the act is cancelled,
    without steps or a notice.
    """

    async def act(session: BaseSession) -> None:
        engine, words = session.engine, shorten(text)
        conversation = engine.conversation
        if until:
            set_until(conversation, session.id, until, set_goal(conversation, words, []).id)
            return
        goal_lines = [f"{goal.id}{' (done)' if goal.done else ''}: {goal.text}" for goal in list_goals(conversation)]
        listed = "\n".join(["Existing goals:", *goal_lines, ""]) if goal_lines else ""
        steps: list[str] = []
        problem = ""
        try:
            recipe = own_recipe("goal_decompose")
            answer = await run_separately(engine, session.dispatcher, recipe, f"{listed}Goal: {words}")
            steps = parse_steps(answer)
            problem = "" if steps else "the model proposed none"
        except NexusError as error:
            problem = error.message
        except asyncio.CancelledError:
            set_goal(conversation, words, [])
            raise
        set_goal(conversation, words, [] if steps == [words] else steps)
        if problem:
            engine.control.emit_notice(f"goal saved without steps: {problem}")

    return act


def end_until(conversation: Conversation, session: str) -> str:
    """Drop the goal that a session works for, and return its command, "" without one. A running round ends with its own
    reply."""
    if until := open_until(conversation, session):
        set_until(conversation, session, "")
        drop_goal(conversation, until["goal"])
    return until.get("command", "")


def goal_closing(names: Sequence[str], verb: str) -> Act:
    """Mark goals and steps as done, or drop them (`verb`); raise `NexusError` for an unknown id."""

    async def act(session: BaseSession) -> None:
        conversation = session.engine.conversation
        ids = {goal.id for goal in list_goals(conversation) if verb != "done" or not goal.done}
        for name in names:
            if name not in ids:
                why = "there is no such open goal or step" if verb == "done" else "there is no such goal or step"
                raise UsageError(f"/goal {verb} {one_line(name)}", why, "/goal lists the goals")
        for name in names:
            (finish_goal if verb == "done" else drop_goal)(conversation, name)

    return act


def set_goal(conversation: Conversation, text: str, steps: Sequence[str]) -> Goal:
    """Record a goal with its steps. Ids are never reused."""
    number = sum(len(memo.value.get("goals", ())) for memo in conversation.memos(GOAL)) + 1
    goal = Goal(f"g{number}", text)
    goals = [{"id": goal.id, "text": text}]
    goals += [{"id": f"g{number + place}", "text": step, "parent": goal.id} for place, step in enumerate(steps, 1)]
    conversation.memo(GOAL, {"goals": goals})
    return goal


def finish_goal(conversation: Conversation, name: str) -> tuple[Goal, ...]:
    """Mark an open goal with its steps, or one step, as done; the last open step also completes its goal. Returns the
    goals and steps marked, () if none with this id is open."""
    now = list_goals(conversation)
    these = {goal.id: goal for goal in now if not goal.done and name in (goal.id, goal.parent)}
    if these and name in {goal.id for goal in now}:
        parent = next((goal for goal in now if goal.id == next(g.parent for g in now if g.id == name)), None)
        steps = [goal for goal in now if parent and goal.parent == parent.id]
        if parent and not parent.done and all(step.done or step.id in these for step in steps):
            these[parent.id] = parent
        conversation.memo(GOAL, {"done": list(these)})
    return tuple(these.values())


def drop_goal(conversation: Conversation, name: str) -> tuple[Goal, ...]:
    """Drop a goal with its steps, or one step. Returns the dropped ones, () for an unknown id."""
    these = tuple(goal for goal in list_goals(conversation) if name in (goal.id, goal.parent))
    if these:
        conversation.memo(GOAL, {"dropped": [goal.id for goal in these]})
    return these


def set_until(conversation: Conversation, session: str, command: str, goal: str = "") -> None:
    """Record the command that a session works for from now on, "" for none."""
    conversation.memo(UNTIL, {"session": session, "command": command, "goal": goal})


def parse_steps(answer: str) -> list[str]:
    """Parse the steps in a model's answer: JSON (a list or an object), list items, or plain lines."""
    steps = list(_texts(_json(answer)))
    if not steps:
        lines = [strip_emphasis(line) for line in answer.splitlines() if line.strip() and not HEADING.search(line)]
        marked = [line for line in lines if LISTED.match(line)]
        steps = [LISTED.sub("", line) for line in marked or lines]
    unique = dict.fromkeys(filter(None, map(shorten, steps)))
    return list(unique)[:MOST_STEPS]


def shorten(text: str) -> str:
    """Return `text` as one line of at most `LONGEST` characters, without Markdown emphasis."""
    line = " ".join(strip_emphasis(one_line(text)).split())
    if line[:1] == line[-1:] == "`" and line.count("`") == 2:
        line = line[1:-1]
    return clip_text(line, LONGEST, "...")


def strip_emphasis(text: str) -> str:
    """Return the beginning of `text` without Markdown emphasis."""
    line, before = text[: 4 * LONGEST], ""
    while line != before:
        line, before = EMPHASIS.sub(_inside, line), line
    return line


def _inside(match: re.Match[str]) -> str:
    name = match[1][0] == "_" and " " not in match[2]
    return match[0] if name else match[2]


def _json(answer: str) -> Any:
    """Return the JSON value of an answer, whole or in a code fence; None if there is none."""
    fenced = re.search(r"```(?:json)?[^\S\n]*\n(.*?)```", answer, re.DOTALL)
    for text in filter(None, (fenced and fenced[1], answer)):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            continue
    return None


def _texts(value: Any) -> Iterator[str]:
    """Yield the steps in a JSON value: texts, objects with one of `NAMES`, or the list inside an object."""
    if isinstance(value, dict):
        value = next((part for part in value.values() if isinstance(part, list)), [])
    for element in value if isinstance(value, list) else ():
        text = next((element[name] for name in NAMES if name in element), "") if isinstance(element, dict) else element
        if isinstance(text, str):
            yield text
