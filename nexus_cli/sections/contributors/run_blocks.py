"""The blocks of a structured run: the agent, the cause of the run, its space, and its surroundings.

`Sources.run` returns the facts as plain JSON: `trigger` (the TRIGGER block by its keys), `time` (of its record), and
from the driver of the run `about` (the words of its cause), `identity`, `goals` (the agent's own), `space`, `spaces`,
`plans`, `runs`, and for a plan's run `previous` and `lessons`. The session's goals and memories have their own seams. A
session that was not opened for a run has at most a TRIGGER. SPACE HISTORY is entries, not a section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from nexus_cli.config.prompts import load_prompt
from nexus_cli.core.elide import Count, clip_text, cut_at_word, one_line, plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memory import Fact, MemorySlot
from nexus_cli.core.message import replace_surrogates
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.contributors.rules import guide
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections
from nexus_cli.text.untrusted_text import neutralize_message

ID = "run"
BLOCKS = ("identity", "trigger", "space", "spaces", "goals", "memories", "plans", "runs", "previous")
"""In the order of the blocks of a run."""
PRIORITY = {
    "identity": 95.0,
    "trigger": 97.0,
    "space": 93.0,
    "spaces": 75.0,
    "goals": 80.0,
    "memories": 70.0,
    "plans": 60.0,
    "runs": 65.0,
    "previous": 78.0,
}
BARE = ("type", "triggerSource", "messageId")
"""Keys of a trigger whose values have no quotes."""
FIRST = tuple(
    """
    type triggerSource space sender plan service message messageId instruction payload scheduledAt timestamp
    senderExpectsReply
    """.split()
)
"""Keys of a trigger in the order in which they are sent; others follow."""
BELOW = ("instruction", "payload")
"""Keys of a service's trigger whose values are the message below it, where the payload is marked as data."""
INSTRUCTION = 60
"""Most characters of an instruction in the block: the message below it is the whole."""
LONG, SHORT = 400, 80
"""Most characters of one value of a trigger, and in its short form."""
MOST, FEW = 12, 3
"""Most lines of a block, and of its short form."""
GOAL_TOKENS = 400
"""Most tokens of the lines of goals."""
LONGEST = 200
"""Most characters of a line of other people's words."""
MEMORIES = 6
"""Most facts of each slot."""
DEEPEST = 8
"""Most levels of a payload that are shown."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def read(sources: Sources) -> Value:
    """Return the lines of each block by name, for `trigger` long and short ones; nothing in a plain session."""
    run = sources.run()
    trigger = run.get("trigger")
    if not trigger:
        return {}
    lines = {"trigger": _trigger_lines(trigger, LONG), "short": _trigger_lines(trigger, SHORT)}
    if "identity" not in run:
        return lines
    from nexus_cli.core.run import name_goal  # noqa: PLC0415  (the records of runs, which a plain session has not)

    now = _moment(run.get("time"))
    now = now and now.replace(microsecond=0)
    facts = _relevant_facts(sources, str(run.get("about", "")), run.get("lessons", ()))
    return lines | {
        "identity": _identity_lines(run["identity"], now),
        "space": _space_lines(run),
        "spaces": [_space_line(space) for space in run.get("spaces", ())],
        "goals": [
            *(name_goal({**goal, "text": _plain(goal["text"])}) for goal in run.get("goals", ())),
            *_goal_lines(sources),
        ],
        "memories": [f"[{fact.slot}] {_plain(fact.statement)}" for fact in facts],
        "facts": [fact.id for fact in facts],
        "plans": [_plan_line(plan, now) for plan in run.get("plans", ())],
        "runs": [_run_line(past_run) for past_run in run.get("runs", ())],
        "previous": _previous_lines(run["previous"]) if run.get("previous") else [],
    }


def render(value: Value, view: View) -> Sections:
    """Return a section for each block that has a line, in the order of `BLOCKS`."""
    blocks = ((name, *_forms(name, value, view.count)) for name in BLOCKS if value.get(name))
    return tuple(
        Section(
            f"{ID}.{name}",
            Phase.EVENT + 100 + BLOCKS.index(name),
            forms,
            Layer.EVENT,
            PRIORITY[name],
            sticky=name in ("identity", "trigger"),
            source="the plan's previous run" if name == "previous" else "the run",
            least=least,
            fact_ids=tuple(value["facts"]) if name == "memories" else (),
        )
        for name, forms, least in blocks
    )


def _forms(name: str, value: Value, count: Count) -> tuple[tuple[str, ...], int]:
    """Return the forms of a block, and the index of the fullest one that may be sent."""
    lines = value[name]
    match name:
        case "identity":
            return (_block("IDENTITY:", lines),), 0
        case "space":
            return ("\n".join([f"ACTIVE SPACE: {lines[0]}", *lines[1:]]),), 0
        case "trigger":
            line = f"TRIGGER: {', '.join(lines[:2])}".replace("  ", "")
            forms = (_block("TRIGGER:", lines), _block("TRIGGER:", value["short"]), line)
            return shrink_forms(tuple(dict.fromkeys(forms)), count), 0
        case "previous":
            short = f'PREVIOUS RUN: {lines[0]} [its report: recall("{DROP}")]'
            return shrink_forms((_block(f"PREVIOUS RUN: {lines[0]}", lines[1:]), short), count), 0
    heading = {"spaces": "YOUR SPACES", "runs": "ACTIVE RUNS"}.get(name, name.upper())
    lines = [f"  - {line}" for line in lines]
    full, pointer = _block(f"{heading}:", lines), f'{heading}: [{len(lines)}: recall("{DROP}")]'
    sizes = accumulate(count(line) + 1 for line in lines) if name == "goals" else ()
    longest = max(1, min(MOST, len(lines) - sum(size > GOAL_TOKENS for size in sizes)))
    shorter = [_cut(heading, lines, most) for most in (longest, FEW) if len(lines) > most]
    if len(lines) > longest:
        return (full, *shrink_forms((*shorter, pointer), count)), 1
    return shrink_forms((full, *shorter, pointer), count), 0


def _block(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([heading, *lines])


def _cut(heading: str, lines: Sequence[str], most: int) -> str:
    return _block(f"{heading}:", [*lines[:most], f'  - [{len(lines) - most} more: recall("{DROP}")]'])


def _identity_lines(identity: JsonObject, now: datetime | None) -> list[str]:
    values = {key: identity[key] for key in ("name", "entityId") if identity.get(key)}
    values |= {"currentTime": _utc(now)} if now else {}
    return [f"  {key}: {_quote(value)}" for key, value in values.items()]


def _trigger_lines(trigger: JsonObject, most: int) -> list[str]:
    keys = [*(key for key in FIRST if key in trigger), *(key for key in trigger if key not in FIRST)]
    if {*BELOW} <= trigger.keys():
        shown_keys = [key for key in keys if key not in BELOW]
        return [
            *_trigger_lines({key: trigger[key] for key in shown_keys}, most),
            "  payload: [below, with the instruction]",
        ]
    pointer = f" {trigger['messageId']} in SPACE HISTORY" if "messageId" in trigger else " below"
    return [f"  {_plain(key)}: {_value(key, trigger[key], most, pointer)}" for key in keys]


def _value(key: str, value: Any, most: int, pointer: str) -> str:
    """Return one value of a trigger as a line of the block; a long text has a pointer to the whole."""
    if isinstance(value, Mapping) and "name" in value and "id" in value and len(value) <= 3:
        name, identity = value["name"], _plain(value["id"])
        if "type" in value:
            return f"{_plain(name)} ({_plain(value['type'])}, id: {identity})"
        return f"{_quote(name)} (id: {identity})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and _TIME.fullmatch(value):
        return f'"{value[:19]}Z"'
    if key == "instruction" and isinstance(value, str) and len(value) > INSTRUCTION:
        return f"{_quote(cut_at_word(value, INSTRUCTION))} [whole:{pointer}]"
    if isinstance(value, str) and key not in BARE:
        cut_note = f" [{len(value) - most:,} more characters:{pointer}]" if len(value) > most else ""
        return _quote(value[:most], most) + cut_note
    text = _plain(value) if isinstance(value, str) else neutralize_message(_json(value))
    return text if len(text) <= most else f"{text[:most]} [{len(text) - most:,} more characters:{pointer}]"


def _json(value: Any, level: int = 0) -> str:
    """Return JSON with a space inside of its braces."""
    if level > DEEPEST:
        return '"..."'
    if isinstance(value, Mapping):
        inner = ", ".join(
            f"{json.dumps(str(key), ensure_ascii=False)}: {_json(element, level + 1)}" for key, element in value.items()
        )
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_json(element, level + 1) for element in value)}]"
    return json.dumps(value, ensure_ascii=False)


def _space_lines(run: JsonObject) -> list[str]:
    """Return the active space; none if nobody could enter one."""
    space = run.get("space")
    if space:
        how = "  [auto-set from trigger]" if space.get("auto") else ""
        line = f"{_quote(space['name'])} (id: {_plain(space['id'])}){how}"
        newer = space.get("newer", 0)
        hint = f"  {plural(newer, 'newer message')} behind SPACE HISTORY: read_messages"
        return [line, *([hint] if newer else [])]
    none = "none (call enter_space to enter a space first)  [send_message also takes the name of a space]"
    return [none] if run["identity"].get("entityId") else []


def _space_line(space: JsonObject) -> str:
    members = [
        "You" if member.get("you") else f"{_plain(member['name'])} ({_plain(member['type'])})"
        for member in space.get("members", ())
    ]
    members += [f"{space['more']:,} more"] if space.get("more") else []
    active = " [ACTIVE]" if space.get("active") else ""
    return f"{_quote(space['name'])} (id: {_plain(space['id'])}){active} — {', '.join(members)}"


def _goal_lines(sources: Sources) -> list[str]:
    """Return the open goals of the session with their open steps; they have no priority, unlike the agent's."""
    goals, lines = sources.goals(), []
    for goal in goals:
        if not goal.parent and not goal.done:
            steps = [_plain(step.text) for step in goals if step.parent == goal.id and not step.done]
            lines.append(_plain(goal.text) + (f" (open: {'; '.join(steps)})" if steps else ""))
    return lines


def _relevant_facts(sources: Sources, cause: str, lessons: Sequence[str]) -> list[Fact]:
    """Return the facts that earlier runs of the plan learned (the ids `lessons`, newest first), and those that are
    relevant to the cause of the run and to what resumed it."""
    if sources.facts is None:
        return []
    try:
        topic, relevant = f"{cause}\n{sources.about()}", sources.facts.relevant
        facts = [fact for lesson in lessons[:MEMORIES] for fact in sources.facts.search(lesson)]
        facts += [fact for slot in MemorySlot for fact in relevant(slot, topic, MEMORIES)]
        return list({fact.id: fact for fact in facts}.values())
    except NexusError:
        return []


def _previous_lines(run: JsonObject) -> list[str]:
    """Return the end of the plan's previous run, and the lines of its report."""
    ended_at, error = _moment(run["at"]), run.get("error")
    ended = f"{_plain(run['id'])} {_plain(run['state'])}" + (f" at {_utc(ended_at)}" if ended_at else "")
    quote = [f"  > {neutralize_message(' '.join(line.split()))}" for line in run["report"].splitlines() if line.strip()]
    return [f"{ended}{f': {_plain(error)}' if error else ''} (nexus runs show {_plain(run['id'])})", *quote]


def _plan_line(plan: JsonObject, now: datetime | None) -> str:
    due = _moment(plan.get("next"))
    due_times = [] if due is None else [_utc(due)]
    countdown = [f"in {_span((due - now).total_seconds())}"] if due and now else []
    if plan.get("cron"):
        zone = [f"zone: {_plain(plan['zone'])}"] if plan.get("zone") not in (None, "", "UTC") else []
        parts = [
            "recurring",
            f"cron: {_plain(plan['cron'])}",
            *zone,
            *(f"next: {moment}" for moment in due_times),
            *countdown,
        ]
    else:
        parts = ["one-time", *(f"scheduledAt: {moment}" for moment in due_times), *countdown]
    parts += ["paused"] if plan.get("paused") else []
    after = f"  [created via runAfter: {_quote(plan['runAfter'])}]" if plan.get("runAfter") else ""
    return f"{_quote(plan['name'])} ({', '.join(parts)}){after}"


def _run_line(run: JsonObject) -> str:
    space_text = f" in {_quote(run['space'])}" if run.get("space") else ""
    if run.get("this"):
        return f"Run {_plain(run['id'])} (this run)" + (
            f" — triggered by {_plain(run['by'])}{space_text}" if run.get("by") else ""
        )
    waits = f" (waiting for {_plain(run['for'])})" if run.get("for") else ""
    return f"Run {_plain(run['id'])} — {_plain(run['state'])}{space_text}{waits}"


def _plain(text: Any) -> str:
    return clip_text(one_line(neutralize_message(" ".join(str(text).split()))), LONGEST, "...")


def _quote(text: Any, most: int = LONGEST) -> str:
    """Return a text as a JSON string, so that its end is clear."""
    full_text = "\n".join(replace_surrogates(str(text)).splitlines())
    return json.dumps(neutralize_message(clip_text(full_text, most, "...")), ensure_ascii=False)


def _moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value)) if value else None
    except ValueError:
        return None


def _utc(moment: datetime) -> str:
    """Format a time to the second."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _span(seconds: float) -> str:
    """Format a duration as `17h 53m`; from two days on as days and hours; `0h 00m` for the past."""
    minutes = max(0, int(seconds // 60))
    if minutes >= 48 * 60:
        return f"{minutes // 1440}d {minutes // 60 % 24:02}h"
    return f"{minutes // 60}h {minutes % 60:02}m"


def read_instructions(sources: Sources) -> Value:
    """Return the rules of a structured run for the available tools."""
    return guide(load_prompt("run"), set(sources.tools()))


def render_instructions(value: Value, view: View) -> Sections:
    """Return one section, a line for each rule."""
    text = _block("INSTRUCTIONS:", [f"  - {rule}" for rule in value])
    source, order = "defaults/prompts/run.md", Phase.CONSTRAINT + 5
    return (Section("run_instructions", order, (text,), Layer.SYSTEM, priority=98, sticky=True, source=source),)


CONTRIBUTORS = (
    Contributor(ID, Layer.EVENT, read, render, parts=BLOCKS),
    Contributor("run_instructions", Layer.SYSTEM, read_instructions, render_instructions, verbatim=True, required=True),
)
