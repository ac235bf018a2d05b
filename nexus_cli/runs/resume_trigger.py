"""The trigger of a run that goes on: what it waited for, what came, how long that took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.duration import format_duration
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import Run, Signal, SpaceMessage, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.session.recap import quote_text, stamp
from nexus_cli.session.session import Session
from nexus_cli.tools.wait_conditions import describe_event

MOST_MESSAGES = 50
"""Messages of a space that came during a wait, of which the newest are shown."""
SHOWN = 20_000
"""Characters of such a message."""


async def resume_trigger(session: Session, run: Run, signals: Sequence[Signal]) -> Trigger:
    """Return the trigger of `run` after `signals`, the oldest first, have come; it begins a fresh invocation."""
    assert session.ledger is not None and run.waits is not None, "a run that waits is in a ledger"
    came = event_lines(session.ledger, run, signals)
    what = "; ".join(dict.fromkeys(describe_signal(run.waits, signal) for signal in signals))
    waited = _seconds_between(run.updated, signals[-1].at)
    facts: Mapping[str, Any] = {
        "type": "resume", "run": run.id, "waitedFor": run.waits.why, "came": what, "waited": format_duration(waited),
        "timestamp": format_utc(local_now()),
    }  # fmt: skip
    text = f"You waited for this: {run.waits.why}. After {format_duration(waited)}: {what}. Continue from here."
    return Trigger(text, source="resume", actor="nexus", facts=facts, fresh=True, came=tuple(came))


def describe_signal(wait: Wait, signal: Signal) -> str:
    """Return in a few words what has come."""
    match signal.kind:
        case "timeout":
            return f"the time-out has passed, and it has not come ({wait.why})"
        case "person":
            said = str(signal.value.get("text") or "").strip()
            return "somebody resumed this run without waiting on" + (f", and said: {said}" if said else "")
        case "reply":
            return "the reply has come"
        case "approval":
            return f"the person answered {signal.value.get('answer')}"
    return describe_event(signal.kind, signal.value)


def event_lines(ledger: Ledger, run: Run, signals: Sequence[Signal]) -> list[str]:
    """Return what came while `run` waited as lines of the timeline, oldest first: of a reply with the messages between
    the question and it."""
    assert run.waits is not None
    lines = [f"{stamp(one.at)} nexus: {describe_signal(run.waits, one)}" for one in signals if one.kind != "reply"]
    return [*_messages_since(ledger, run.waits), *lines] if run.waits.kind == "reply" else lines


def _messages_since(ledger: Ledger, wait: Wait) -> list[str]:
    """Return the messages of the space after the one that asked, the newest `MOST_MESSAGES` of them."""
    try:
        space = ledger.spaces.get(wait.value["space"])
    except NexusError:  # it is gone
        return []
    found = ledger.spaces.read(space, limit=MOST_MESSAGES)
    return [message_line(one) for one in found if one.key > wait.value["message"]]


def message_line(message: SpaceMessage) -> str:
    """Return a message as a line of SPACE HISTORY."""
    sender = message.sender
    name = f"{sender.name} ({sender.kind}, id:{sender.id})"
    return f"[msg:{message.key}] {stamp(message.at)} {name}: {quote_text(message.text[:SHOWN])}"


def _seconds_between(earlier: str, later: str) -> float:
    try:
        return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
    except ValueError:
        return 0.0
