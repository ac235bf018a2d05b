"""Report the permission decisions on a session's calls (the rule, level or limit, its origin, the sandbox profile) and
the limits of a session, with the layers that set them.

Reads the memos `DECISION` of the ledger. A call without one could not run, or was allowed by the level alone in an
earlier version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict, cast

from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import UsageError
from nexus_cli.core.event import ToolCallEvent
from nexus_cli.core.json_value import JsonDict, JsonObject, JsonOf, ReportOfSession, VersionedReport, to_json_value
from nexus_cli.core.limits import ASK, LEVEL_LAYER, Bound, Decision, Limits
from nexus_cli.core.memo_kinds import DECISION, LIMITS_IN_FORCE
from nexus_cli.core.message import UNKNOWN_OUTCOME
from nexus_cli.ledger import LaneLog
from nexus_cli.reports.acts import PastEvent
from nexus_cli.reports.conversation import Replay, results_by_call
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Table, paragraphs
from nexus_cli.reports.text.lines import CONFINED, cut_line, limit, plural, when
from nexus_cli.text.cells import one_line

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

NEWEST = 20
"""Number of decisions that are listed if no id is given."""
RECENT = 5
"""Number of the newest decisions that are listed whatever they are."""
VERDICTS = {"allow": "allowed", "ask": "asked", "deny": "refused", None: "not decided"}
ANSWERS = {
    "yes": "you said yes",
    "session": "you allowed it for the session",
    "always": "you allowed it permanently with a rule",
    "no": "you said no",
    "none": "nobody answered",
}
NO_DECISIONS = "No decisions yet."
NAMES = tuple(f.name for f in fields(Limits))
"""Names of the limits."""


DecisionObject = TypedDict(
    "DecisionObject",
    {
        "id": str,
        "tool": str,
        "subject": str,
        "ran": bool,
        "decision": Decision | None,
        "level": str,
        "profile": str | None,
        "rule": str | None,
        "from": str | None,
        "parts": list[Annotated[JsonDict, "rules.decide.CommandPart"]],
        "answer": str | None,
        "why": str,
        "at": str,
        "bound_by": NotRequired[str],
        "kind": NotRequired[str],
        "said": NotRequired[str],
        "more_parts": NotRequired[int],
    },
)


class SignalsObject(TypedDict):
    """The state of a run that may restrict its next step."""

    bind: bool
    """True if it restricts this session."""
    token_pressure: str
    recent_errors: int
    event_class: str


class LimitsReport(VersionedReport):
    """The limits in force, and the layers that set them."""

    recipe: str
    name: str
    """The name of the limit; "" for all."""
    limits: list[JsonOf[Bound]]
    signals: SignalsObject


class DecisionsReport(ReportOfSession):
    """The newest decisions on calls.

    For a decision, `decision` is null if the call could not run; `from` is file and line of the rule, `built in`,
    `level X`, `limit X`, `allowed for this session` or `changed definition of X`; `bound_by` is the layer of that level
    or limit; `answer` is `yes`, `session`, `always`, `no` or `none`, null if nobody was asked; `said` are the words of
    a no.
    """

    decisions: list[DecisionObject]
    """Newest last."""
    more: int
    in_force: NotRequired[LimitsReport]
    """Of an open session."""


class DecisionReport(DecisionObject, ReportOfSession):
    """With an ID: one decision."""


def decisions_report(log: LaneLog) -> DecisionsReport:
    """Return the newest decisions of a session, newest last; `more` counts the others. Of calls that a level allowed
    these are the newest `RECENT` ones, and more as far as asked, refused and ruled ones leave room."""
    memos = [*{memo.value["id"]: memo for memo in log.memos(DECISION)}.values()]
    limits = log.memos(LIMITS_IN_FORCE)
    recent = len(memos) - RECENT
    newest_last = sorted(range(len(memos)), key=lambda at: (at >= recent or not _was_allowed_by_level(memos[at]), at))
    rows = [_decision_value(memos[place], limits) for place in sorted(newest_last[-NEWEST:])]
    return {"version": 1, "session": log.session_id, "decisions": rows, "more": len(memos) - len(rows)}


def limits_report(session: Session, name: str = "") -> LimitsReport:
    """Return the limit `name`, or all."""
    engine, dispatcher = session.engine, session.dispatcher
    _, bounds = dispatcher.in_force(engine)
    bound_limits = [to_json_value(bound) for bound in bounds if name in ("", bound.name)]
    return {
        "version": 1,
        "recipe": dispatcher.recipe.name,
        "name": name,
        "limits": bound_limits,
        "signals": {
            "bind": dispatcher.signals,
            "token_pressure": engine.window_request().budget.pressure,
            "recent_errors": dispatcher.errors,
            "event_class": dispatcher.run_limits(engine).now.event_class,
        },
    }


def _was_allowed_by_level(memo: Memo) -> bool:
    return memo.value["decision"] == "allow" and not (memo.value.get("rule") or memo.value.get("answer"))


def decision_report(log: LaneLog, call_id: str) -> DecisionReport | None:
    """Return the decision on the call that `call_id` names, whole or by a prefix, None if there is none.

    Raises `UsageError` if the prefix matches several calls.
    """
    recorded = {memo.value["id"]: memo for memo in log.memos(DECISION)}
    past = [] if call_id in recorded else [event for event in Replay(log).events() if event.entry]
    calls = {
        past_event.event.call.id: past_event.event for past_event in past if isinstance(past_event.event, ToolCallEvent)
    }
    full_id = _find_id(call_id, [*calls, *(name for name in recorded if name not in calls)])
    if not full_id:
        return None
    if full_id in recorded:
        value = _decision_value(recorded[full_id], log.memos(LIMITS_IN_FORCE))
    else:
        value = _plain_value(calls[full_id], past, log)
    return {"version": 1, "session": log.session_id, **value}


def _find_id(call_id: str, known_ids: Sequence[str]) -> str:
    matches = (
        [call_id] if call_id in known_ids else [known_id for known_id in known_ids if known_id.startswith(call_id)]
    )
    if len(matches) > 1:
        some = ", ".join(matches[:5]) + (", ..." if len(matches) > 5 else "")
        raise UsageError(call_id, f"several call ids begin with this: {some}", "Use a longer id")
    return matches[0] if matches else ""


def _decision_value(memo: Memo, limits: Sequence[Memo]) -> DecisionObject:
    decision = {"profile": None, "rule": None, "parts": [], "answer": None, "ran": True, **memo.value}
    kind, _, name = decision["from"].partition(" ")
    if kind in ("level", "limit"):
        decision["bound_by"] = _find_layer("allow" if kind == "level" else name, decision["level"], memo.entry, limits)
    return cast("DecisionObject", {**decision, "at": memo.at})


def _plain_value(call_event: ToolCallEvent, past: Sequence[PastEvent], log: LaneLog) -> DecisionObject:
    """Describe a call without a memo: the level let it through, or it never came to a decision."""
    limits = log.memos(LIMITS_IN_FORCE)
    last, ended = results_by_call(past).get(call_event.call.id, (past[-1], None))
    result = ended.result if ended else None
    entry = last.entry.id if last.entry else 0
    bound = _find_limit("allow", entry, limits)
    level = str(bound["value"]) if bound else ASK
    value: JsonDict = {
        "id": call_event.call.id,
        "tool": call_event.call.name,
        "subject": call_event.subject,
        "ran": result is not None and result.ran,
        "decision": None,
        "level": level,
        **dict.fromkeys(("profile", "rule", "from")),
        "parts": [],
        "answer": None,
    }
    if result is None:
        value["why"] = "the call has no result"
    elif result.text.strip() == UNKNOWN_OUTCOME:
        value |= {"ran": True, "why": "the decision was not recorded: nexus ended while the call ran"}
    elif result.ran:
        layer = _find_layer("allow", level, entry, limits)
        value |= {"decision": "allow", "from": f"level {level}", "bound_by": layer, "why": ""}
    else:
        value["why"] = f"the call could not run: {result.text.strip()[:200]}"
    return cast("DecisionObject", {**value, "at": last.at})


def _find_limit(name: str, entry: int, limits: Sequence[Memo]) -> JsonObject | None:
    """Return a limit under which the request before `entry` was sent, None if there was none of this name."""
    earlier = [memo.value["limits"] for memo in limits if memo.entry < entry]
    return next((limit for limit in earlier[-1] if limit["name"] == name), None) if earlier else None


def _find_layer(name: str, value: str, entry: int, limits: Sequence[Memo]) -> str:
    """Return the layer that bound the limit `name`. A level other than the request's was chosen after it was sent."""
    bound = _find_limit(name, entry, limits)
    if name == "allow" and (bound["value"] if bound else ASK) != value:
        return LEVEL_LAYER
    return str(bound["bound_by"]) if bound else "defaults"


def decisions_text(value: JsonObject, width: int) -> Blocks:
    """Return a line for each decision, newest last; in a session also the limits that are in force."""
    rows = value["decisions"]
    if value["more"] and rows:
        yield f"{value['more']:,} decisions not shown (older, or allowed by the level)."
    if rows or not value.get("in_force"):
        columns = {
            "id": "id",
            "decision": describe_verdict,
            "call": lambda row: cut_line(f"{row['tool']} {row['subject']}", max(24, width // 3)),
            "by": _source,
        }
        yield Table(columns, rows, NO_DECISIONS)
    if value.get("in_force"):
        yield from [*([""] if rows else []), *why_text(value["in_force"])]


def decision_text(value: JsonObject) -> Blocks:
    """Show one decision in full: verdict, reason, origin, the parts of the call, and the person's answer."""
    yield Paragraph(f"{value['id']}  {value['tool']} {value['subject']}", "  ")
    why = f": {value['why']}" if value["why"] else ""
    rows = {
        "": f"{describe_verdict(value)}{why}",
        "words": value.get("said"),
        "by": _source(value),
        "sandbox": CONFINED.get(value["profile"], value["profile"]),
        "at": when(value["at"]),
    }
    for name, text in rows.items():
        if text:
            yield Paragraph(f"{name}: {text}" if name else text, "    ", "  ")
    if value["parts"]:
        yield Paragraph("parts:", "  ", "  ")
        yield from map(describe_part, value["parts"])
        if more := value.get("more_parts", 0):
            yield Paragraph(f"and {more:,} more", "    ")


def describe_part(part: JsonObject) -> Paragraph:
    """Describe the decision on one simple command of a line."""
    rule = f"{part['rule']}, " if part["rule"] else ""
    command = one_line(" ".join(part["command"])) or "(an assignment)"
    origin = part["from"]
    return Paragraph(f"{part['decision']:<5} {command} ({rule}{origin})", "          ", "    ")


def describe_verdict(row: JsonObject) -> str:
    """Describe the verdict, and the outcome of a question."""
    if row["decision"] is None and row["ran"]:
        return "unknown"
    verdict = VERDICTS[row["decision"]]
    if row["decision"] == "ask":
        if row["answer"] not in ANSWERS and row["ran"]:  # maybe after a question that its run waited for
            return "needs approval; no answer is recorded"
        verdict += f", {ANSWERS.get(row['answer'], 'nobody could be asked')}"
    return verdict


def _source(row: JsonObject) -> str:
    """Describe the origin of a decision: the rule with file and line, or a level or limit and its setter."""
    if row["rule"]:
        return f"{row['rule']} ({row['from']})"
    layer = row.get("bound_by")
    return (row["from"] or "") + (f" (from {layer})" if layer else "")


def why_text(value: JsonObject) -> Blocks:
    """List each limit with its value, the layer that bound it and the value of each layer; signals only if they may
    bind."""
    limits = value["limits"]
    if not limits:
        yield f"{value['name']} has no limit." if value["name"] else "No limits are set."
        return
    for bound in limits:
        name = bound["name"]
        yield Paragraph(f"{name} = {limit(bound['value'])} (from {bound['bound_by']})", "  ")
        layers = (f"{layer}: {limit(layer_value)}" for layer, layer_value in bound["said"].items())
        yield from paragraphs(layers, " " * 6, "    ")
    signals = value["signals"]
    if not signals["bind"]:
        return
    failed = plural(signals["recent_errors"], "consecutive call")
    state = f"Context window use: {signals['token_pressure']}. {failed} could not run"
    state += f". Kind of turn: {signals['event_class']}" if signals["event_class"] else ""
    ends = f"The recipe {value['recipe']} tightens its limits accordingly."
    yield from ["", f"{state}. {ends}"]
