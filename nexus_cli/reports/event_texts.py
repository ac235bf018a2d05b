"""The words of events for a person: those of the screen, of `nexus ask`, of transcripts and of editors."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import assert_never

from nexus_cli.core import event as e
from nexus_cli.core.elide import clip_text, cut_at_word, last_states, name_first
from nexus_cli.core.entry import SECTION, Drop
from nexus_cli.core.event import NOTHING_TO_SUMMARIZE, CacheResult, CompactionDone, Event, Outcome, Retry, TurnEnd
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.limits import ALL, AUTO, LEVELS, PLAN
from nexus_cli.core.message import UNKNOWN_OUTCOME, ToolResult
from nexus_cli.core.running_workers import ACTIVE_STATES, UNKNOWN, describe_state
from nexus_cli.reports.text.command_names import NameCommands
from nexus_cli.reports.text.lines import (
    describe_tokens,
    dollars,
    name_cause,
    plural,
    short,
    short_thousands,
    worker_title,
)
from nexus_cli.text.cells import one_line
from nexus_cli.text.terminal_sanitizer import sanitize_output

_UNDO = " \N{MIDDLE DOT} undo: "
MAX_NAMED, SUBJECT = 2, 40
"""Most calls, rules and reasons that the line about refused calls names, and most characters of a call."""
NO_NETWORK = ", without network"


def describe_event(event: Event) -> str:
    """Return the line of an event; "" if it has none: texts and calls are shown as such."""
    match event:
        case e.Notice():
            return describe_notice(event)
        case e.Retry(cut=True):
            return f"cut off: {event.why.rstrip('.')}; retrying"
        case e.Retry():
            return f"retry {event.attempt} in {event.wait:.0f} s: {event.why}"
        case e.SessionAct():
            return describe_act(event)
        case e.ContextDrop():
            return describe_drop(event.drop) if event.drop.is_missed else ""
        case e.ContextRecall():
            return f"recalled {event.drop_id}, {plural(event.tokens, 'token')}"
        case e.ContextPlan():
            return describe_told_facts(event.plan)
        case e.CompactionStart():
            return f"compacting {event.tokens:,} tokens"
        case e.CompactionDone():
            return describe_compaction_end(event)
        case e.CacheResult():
            return describe_cache_miss(event)
        case e.TurnEnd():
            return describe_failure(event.outcome)
        case e.WorkerState():
            return describe_worker(event.worker)
        case e.AgentEvent(event=e.WorkerState() as inner):
            return describe_event(inner)
        case e.AgentEvent(event=e.Notice() as inner):
            return f"{event.agent}: {describe_notice(inner)}"
        case (
            e.SessionStart()
            | e.TurnStart()
            | e.SteeringMessage()
            | e.StepStart()
            | e.StepEnd()
            | e.CacheExpectation()
            | e.Text()
            | e.Thinking()
            | e.ToolQueue()
            | e.ToolCallEvent()
            | e.ToolOutput()
            | e.ToolResultEvent()
            | e.ApprovalRequest()
            | e.ApprovalAnswer()
            | e.PersonAsked()
            | e.PersonAnswered()
            | e.AgentEvent()
        ):
            return ""
        case _:
            assert_never(event)
    return ""


def describe_notice(notice: e.Notice, *, at_terminal: bool = False) -> str:
    """Return a notice with the commands that undo what it reports, as far as the person can run them: slash commands
    for permissions only in a session `at_terminal`."""
    can_undo = notice.undo and (at_terminal or not notice.undo.startswith("/"))
    return f"{notice.text}{_UNDO}{notice.undo}" if can_undo else notice.text


def read_notice_text(value: JsonObject) -> str:
    """Return the text of a recorded notice. Before 0.3 the commands that undo it were part of its text."""
    return str(value["text"]).partition(_UNDO)[0]


def describe_figures(event: Event) -> str:
    """Return the line of an event for a person who wants every figure; "" if it has none."""
    match event:
        case e.SessionStart():
            return f"session {event.session}, model {event.model}, recipe {event.recipe}"
        case e.StepEnd():
            return f"step {event.step}: {event.finish}, {describe_tokens(to_json_value(event.usage))}"
        case e.CacheResult():
            return describe_cache_miss(event, shows_all=True)
    return ""


def describe_thought(text: str) -> str:
    """Return the title of thinking that is folded or whole."""
    return f"thought ({plural(len(text.split()), 'word')})"


def first_line(text: str) -> str:
    """Return the first non-blank line of `text`, at most `LONGEST` characters; of a line that was overwritten, its last
    state."""
    line = next((line for line in last_states(text.rstrip("\r"))[0].splitlines() if line.strip()), "")
    return clip_text(line[: 4 * LONGEST].strip(), LONGEST)


SHELL_LINES, SHELL_CHARACTERS = 50, 100_000
"""Most lines and characters of the output of a `!` command that are shown."""


def end_of_output(text: str) -> str:
    """Return the shown part of the output of a `!` command: the end of a long one, ready for a terminal."""
    tail = text[-SHELL_CHARACTERS:]
    lines = sanitize_output(tail).rstrip("\n").split("\n")
    if len(tail) < len(text) or len(lines) > SHELL_LINES:
        last_lines = lines[-SHELL_LINES:]
        lines = [f"[showing the end of {text.count(chr(10)) + 1:,} lines; all: /transcript]", *last_lines]
    return "\n".join(lines)


def describe_act(act: e.SessionAct) -> str:
    """Return the line of an act that a conversation shows, with the output of a command; "" for any other."""
    return "\n".join(filter(None, (act.line, act.output and end_of_output(act.output))))


def describe_outcome(result: ToolResult) -> str:
    """Return the outcome of a call in a word or two, with what it left undone."""
    if result.waits:
        return "waiting"
    if result.denied:
        return "refused"
    if not result.ran and result.text.strip() == UNKNOWN_OUTCOME:
        return "outcome unknown"
    if result.stopped or not result.ran:
        return "stopped" if result.ran else "not run"
    if result.status or result.error:
        return f"exit {result.status}" if result.status else "failed"
    return f"ok, but {one_line(result.warning)}" if result.warning else "ok"


def describe_shown_result(result: ToolResult, name: NameCommands = str) -> str:
    """Return the result of a tool that tells the person (`Tool.tells`), with the commands as `name` names them."""
    return name(result.output.replace("the person", "you").replace("/memory", "nexus memory"))


def describe_drop(drop: Drop, how: str = "") -> str:
    """Return the line about one drop: what was left out, why, and `how` to see it."""
    beyond = f" and {drop.uncounted:,} bytes that were not kept" if drop.uncounted else ""
    subject = SECTION.sub(lambda section: section[1] + (section[3] or section[2]), drop.what)
    why = "" if subject.endswith(cause := name_cause(drop.cause)) else f" ({cause})"
    line = f"left out as {drop.id}: {subject}, {plural(drop.tokens, 'token')}{beyond}{why}"
    return f"{line}; {how}" if how else line


def describe_retries(last: Retry, waited: float, then: Event) -> str:
    """Return the number of retries and the seconds `waited` before them, with the reason unless the turn ended `then`
    with the same one."""
    error = then.outcome.error if isinstance(then, TurnEnd) else None
    why = "" if error and last.why in error.get("message", "") else f": {last.why}"
    return f"{plural(last.attempt, 'retry', 'retries')} after {format_elapsed(waited)}{why}"


def describe_kept(counts: JsonObject) -> list[str]:
    """Return the parts that the window keeps after a compaction, and those left out with their drops."""
    drops = list(counts.get("drops") or ())
    omitted = _describe_omitted(counts["words_left"], drops[:1], counts["words_part"])
    parts = [f"your {plural(counts['words'], 'message')} verbatim{omitted}"]
    record = [plural(counts["files"], "file")] if counts["files"] else []
    failing = f" ({counts['failing']:,} failing)" if counts["failing"] else ""
    if counts["commands"]:
        record.append(plural(counts["commands"], "command") + failing)
    if record or counts["record_left"]:
        parts.append(f"record: {', '.join(record) or 'empty'}" + _describe_omitted(counts["record_left"], drops[1:2]))
    return [*parts, f"summary {counts['summary']:,}"]


def _describe_omitted(number: int, drop: Sequence[str], part: int = 0) -> str:
    """Describe a drop and the way to read it; `part` of it is still in the window."""
    parts = [f"{number - part:,} earlier"] if number > part else []
    if part:
        parts.append(f"{part:,} in part")
    return f", {', '.join(parts)}: recall({', '.join(drop)})" if parts else ""


def describe_compaction_end(event: CompactionDone) -> str:
    """Describe the result of a compaction: the figures, or the reason that it was not accepted; "" if there was nothing
    to summarize: the drop of what is left out instead has its own line."""
    if event.cut and event.why == NOTHING_TO_SUMMARIZE:
        return ""
    if not event.ok:
        paid = f"; the summary cost {dollars(event.cost_usd)}" if event.cost_usd else ""
        after = "nexus removed older messages instead" if event.cut else "Nothing was changed"
        return f"not compacted: {event.why.rstrip('.')}{paid}. {after}"
    text = f"compacted: {event.before:,} -> {event.after:,} tokens"
    text += f" for {dollars(event.cost_usd)}" if event.cost_usd else ""
    return " · ".join([text, *describe_kept(event.kept)] if event.kept else [text])


def describe_told_facts(plan: JsonObject) -> str:
    """Return the remembered facts that a request adds, on one line; "" for none."""
    fact_texts = [f'{fact["id"]} "{fact["text"]}"' for fact in plan.get("facts") or ()]
    return f"remembered facts sent: {', '.join(fact_texts)}" if fact_texts else ""


INTENDED = ("person", PLAN)
"""Sources of a refusal that the person meant: their answer to a question, whose own line has just shown it, and
plan mode."""


def describe_denials(denied: Sequence[JsonObject], switch: str, name: NameCommands = str) -> str:
    """Return the line about refused calls, "" if there are none; those in `INTENDED` are left out. In this front end
    `switch` is the way to change the permission level, and `name` names commands in a sentence of ours."""
    denied = [call for call in denied if call.get("by") not in INTENDED]
    if not denied:
        return ""
    calls = [_name_call(call) for call in denied]
    count = plural(len(denied), "call was", "calls were")
    return " ".join(
        [f"{count} refused: {name_first(calls, MAX_NAMED, '; ')}.", *map(name, _list_permissions(denied, switch))]
    )


def _name_call(call: JsonObject) -> str:
    return cut_at_word(f"{call.get('tool', '')} {call.get('subject', '')}".strip(), SUBJECT)


def _list_permissions(denied: Sequence[JsonObject], switch: str) -> Iterator[str]:
    """Return the ways to allow them, the narrowest first, or the reason that there is none, each as a sentence."""
    by_way = [call for call in denied if not call.get("hint") and any(map(call.get, ("level", "rule", "option")))]
    options = _list_first(by_way, "option", 2 * MAX_NAMED)
    rules = _list_first(by_way, "rule", 1 if options else MAX_NAMED)
    confined = [call for call in by_way if call.get("level") not in (None, ALL)]
    alone = [call for call in by_way if call.get("level") == ALL and not call.get("option")]
    reasons = [call.get("hint") or call.get("why", "") for call in denied if call not in by_way]

    def which(calls: Sequence[JsonObject]) -> str:
        if len(calls) == len(denied):
            return "it" if len(denied) == 1 else "them"
        return f"`{_name_call(calls[0])}`" if len(calls) == 1 else f"{len(calls)} of them"

    if options:
        allowed = [call for call in by_way if call.get("option") in options]
        walls = NO_NETWORK if all(call["level"] == AUTO for call in allowed) else ""
        yield f"{' '.join(options)} lets {which(allowed)} run{walls}."
    if rules:
        added = [f"nexus rules add --here {shlex.quote(f'allow {rule}')}" for rule in rules]
        always = "always allow" if options else "allow"
        allowed = [call for call in by_way if call.get("rule") in rules]
        yield f"To {always} {which(allowed)} here: {'; '.join(added)}."
    if confined:
        level = max((call["level"] for call in confined), key=LEVELS.index)
        walls = NO_NETWORK if level == AUTO else ""
        yield f"{switch} {level} lets {which(confined)} run{' too' if rules or options else ''}{walls}."
    if alone:
        pronoun = "it" if len(alone) == 1 else "them"
        yield (
            f"No rule can allow {which(alone)}: approve {pronoun} in a terminal, or use {switch} {ALL}, which allows "
            "everything that no rule denies."
        )
    if text := name_first([reason.rstrip(".") for reason in dict.fromkeys(reasons) if reason], MAX_NAMED, "; "):
        yield f"{text[0].upper()}{text[1:]}."


def _list_first(calls: Sequence[JsonObject], key: str, most: int) -> list[str]:
    """Return the first `most` ways that `calls` have at `key`: what a person pastes is whole."""
    return list(dict.fromkeys(call[key] for call in calls if call.get(key)))[:most]


LONGEST = 400
"""Most characters of a worker's error, or of a first line."""


def worker_figures(row: JsonObject) -> list[str]:
    """Return the steps, tokens and dollars of a worker that are not zero."""
    steps, tokens, cost = row["steps"], row["tokens"], row["cost_usd"]
    figures = [plural(steps, "step")] if steps else []
    if tokens:
        figures.append(f"{short_thousands(tokens)} tokens")
    return figures + ([dollars(cost)] if cost else [])


def describe_worker(row: JsonObject) -> str:
    """Return the line for a worker that has begun or ended, for output without redrawing; "" for a waiting one."""
    if row["state"] == "waiting":
        return ""
    if row["state"] in ACTIVE_STATES:
        return f"{row['id']} started: {worker_title(row['task'])}"
    facts = [f"{row['id']} {describe_state(row['state'])}", *worker_figures(row)]
    facts += [format_elapsed(row["seconds"])] if row["state"] != UNKNOWN else []
    return " · ".join(facts) + (f": {for_person(one_line(row['error'][:LONGEST]))}" if row["error"] else "")


def for_person(error: str) -> str:
    """Return the reason that a worker ended, as the person reads it."""
    return error.replace("the person declined", "you declined", 1)


MISSED_LEAST = 4096
"""Least tokens of a miss that deserves a line."""
CACHED_LEAST = 1024
"""Tokens below which providers cache nothing."""


def describe_cache_miss(event: CacheResult, *, shows_all: bool = False) -> str:
    """Return the line for a cache miss; "" if the cache worked as expected. Unless it `shows_all`, also "" for a small
    miss, and for a request that we changed: the cause has its own line."""
    if event.why:
        is_shown = event.missed >= MISSED_LEAST and not event.ours
        return f"cache missed: {event.missed:,} tokens, {event.why}" if is_shown or (shows_all and event.missed) else ""
    if event.expected < CACHED_LEAST or event.read * 2 >= event.expected:
        return ""
    return f"cache missed: {event.expected - event.read:,} tokens"


def describe_failure(outcome: Outcome, name: NameCommands = str) -> str:
    """Return the reason that a turn failed and the person's next step, "" if it finished. `name` as in
    `describe_denials`."""
    if not outcome.error:
        return ""
    if outcome.error.get("kind") == "aborted":
        return "Interrupted. Completed steps are kept."
    if outcome.was_declined:
        return "Stopped. Type what to do instead, or /continue without that call."
    if not outcome.has_failed:
        return (
            f"{outcome.error['message'].rstrip('.')}. "
            "The session continues automatically after the wait; you can type in the meantime."
        )
    hint = name(outcome.error.get("hint", "")).rstrip(".").removesuffix("; ask the model to continue")
    return describe_error(outcome.error.get("message", ""), hint)  # see `Repl.feed`


def describe_error(message: str, hint: str) -> str:
    """Return an error and the next step of the person as sentences."""
    return " ".join(f"{part.rstrip('.')}." for part in (message, hint) if part)


def describe_totals(outcome: Outcome, dot: str, *, with_workers: bool, priced: bool) -> str:
    """Return the totals of a turn; "" if they do not deserve a line. Tokens and dollars include those of its workers,
    the steps are its own. Without `priced` the dollars are left to `describe_changed`."""
    used = outcome.usage
    if not (outcome.steps > 1 or outcome.seconds > 10 or used.cost_usd):
        return ""
    steps = plural(outcome.steps, "step")
    used_by = "with workers " if with_workers else ""
    facts = [steps, format_elapsed(outcome.seconds), f"{used_by}{short(used.input)} in", f"{short(used.output)} out"]
    if used.cost_usd and priced:
        facts.append(dollars(used.cost_usd))
    return f" {dot} ".join(facts)


def describe_changed(outcome: Outcome, dot: str, counted: str, commands: int, *, resumed: bool) -> str:
    """Return the last line of a turn that changed files, "" for any other. `counted` are the files and lines that
    /undo would take back, with the command if that needs arguments, "" if they are not known; `commands` is the number
    of commands that ran. Of a `resumed` turn these, and the dollars, are of the part since then: they are left out."""
    if not (outcome.changed or counted):
        return ""
    facts = [f"{'whole turn: ' * resumed}{counted}" if counted else plural(len(outcome.changed), "file")]
    if commands and not resumed:
        facts.append(plural(commands, "command"))
    if outcome.usage.cost_usd and not resumed:
        facts.append(dollars(outcome.usage.cost_usd))
    return f" {dot} ".join([*facts, *(["/undo to revert"] if counted and "/undo" not in counted else [])])


def format_elapsed(seconds: float) -> str:
    """Format the seconds that a call or turn took: `2.5 s`, `40 s`, `2 min 5 s`, `1 h 3 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {remainder} s"
