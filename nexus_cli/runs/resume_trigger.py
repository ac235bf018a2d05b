"""Build the trigger of a resumed run: the wait, its signal, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import format_stamp, recorded_seconds, utc_now
from nexus_cli.core.duration import format_duration
from nexus_cli.core.elide import plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import CLAIMED_RUN, WAIT
from nexus_cli.core.run import MISSED, Run, Signal, Wait, resume_lines
from nexus_cli.runs.service_triggers import payload_block
from nexus_cli.session.session import Session
from nexus_cli.spaces.space_history import load_replies
from nexus_cli.tools.wait_conditions import describe_event

WARM_SECONDS = 240.0
"""Longest wait after which the provider is taken to have the conversation in its cache still."""
MAX_REASONS = 3
"""Most reasons why events did not match that are told."""


async def resume_trigger(session: Session, run: Run, signals: Sequence[Signal]) -> Trigger:
    """Return the trigger of `run` after `signals`, oldest first; it begins a new invocation."""
    assert run.waits is not None, "a run that waits is in a ledger"
    came = event_lines(run, signals)
    if run.waits.kind == "reply":
        await _load_replies(session, run.waits, signals, marked=not came)
    events = "; ".join(dict.fromkeys(describe_signal(run.waits, signal) for signal in signals))
    if any(signal.kind == "timeout" for signal in signals):
        events += _describe_missed(run, session.ledger.runs.signals(run.key, is_taken=True))
    waited = recorded_seconds(_wait_began(session, run), signals[-1].at) or 0.0
    facts: JsonObject = {
        "type": "resume",
        "run": run.id,
        "waitedFor": run.waits.why,
        "came": events,
        "waited": format_duration(waited),
        "timestamp": utc_now(),
    }
    text = f"You waited for this: {run.waits.why}. After {format_duration(waited)}: {events}. Continue from here."
    payloads = tuple(payload_block(signal.value["payload"]) for signal in signals if signal.kind == "service")
    text = "\n\n".join((text, *payloads))
    trigger = Trigger(text, "resume", pasted=payloads, actor="nexus", facts=facts, fresh=True, came=tuple(came))
    is_warm = waited <= WARM_SECONDS and run.waits.kind != "reply"  # a space is read as one timeline
    return keep_conversation(trigger) if is_warm else trigger


def keep_conversation(trigger: Trigger) -> Trigger:
    """Return the trigger of a resumed run that begins no new epoch: the lines of its recap are in the text."""
    text = "\n".join([trigger.text, *resume_lines(trigger.came)])
    return replace(trigger, text=text, fresh=False, came=())


def claim_signals(trigger: Trigger, run: Run, signals: Sequence[Signal] = ()) -> Trigger:
    """Return the trigger of a turn of `run` that takes `signals` as it is recorded."""
    claimed = {"run": run.key, "signals": [signal.key for signal in signals]}
    return replace(trigger, notes={**trigger.notes, CLAIMED_RUN: claimed})


def describe_signal(wait: Wait, signal: Signal) -> str:
    """Describe a signal in a few words."""
    match signal.kind:
        case "timeout":
            return f"the wait timed out ({wait.why})"
        case "person":
            text = str(signal.value.get("text") or "").strip()
            return "somebody resumed this run before the wait was over" + (f", and said: {text}" if text else "")
        case "reply":
            return "the reply has arrived"
        case "unanswered" if "run" not in signal.value:
            return f"{signal.value['name']} left the space without an answer"
        case "unanswered":
            return f"run-{signal.value['run']} of {signal.value['name']} ended without an answer"
    return describe_event(signal.kind, signal.value)


def _describe_missed(run: Run, signals: Sequence[Signal]) -> str:
    """Describe the events of the service that came during the wait of `run` and did not match, "" if none came."""
    missed = [signal.value for signal in signals if signal.kind == MISSED and signal.value["wait"] == run.resumes]
    if not missed or run.waits is None:
        return ""
    reasons = ", ".join(list(dict.fromkeys(miss["why"] for miss in missed))[-MAX_REASONS:])
    count = plural(len(missed), "event")
    return f"; {count} of {run.waits.value['service']} arrived, none matched: {reasons}"


def event_lines(run: Run, signals: Sequence[Signal]) -> list[str]:
    """Return the signals that came while `run` waited as lines of the timeline, oldest first, without replies."""
    assert run.waits is not None
    return [
        f"{format_stamp(signal.at)} nexus: {describe_signal(run.waits, signal)}"
        for signal in signals
        if signal.kind != "reply"
    ]


async def _load_replies(session: Session, wait: Wait, signals: Sequence[Signal], *, marked: bool) -> None:
    """Record the messages in the space of a wait. The reply is marked unless another entry has the mark."""
    ledger, value = session.ledger, wait.value
    replies = [signal.value["message"] for signal in signals if signal.kind == "reply"] if marked else []
    space, agent = ledger.spaces.get(value["space"]), ledger.spaces.get_entity(value["sender"])

    async def load(session: Session) -> None:
        if calls := session.engine.conversation.next_step().calls:
            session.dispatcher.settle_open(session.engine.context, session.engine.control, calls)
        reply = replies[-1] if replies else None
        await load_replies(session.engine, ledger, space, agent, value["message"], reply)

    async for _ in session.act(load):
        pass


def _wait_began(session: Session, run: Run) -> str:
    """Return the time when the run began to wait; its row has only the time of its claim."""
    memos = session.record.memos(WAIT)
    return memos[-1].at if memos else run.created
