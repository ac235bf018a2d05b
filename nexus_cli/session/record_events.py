"""Record the events of a turn or an act that no entry holds, for a replay (`reports/conversation.py`)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CacheResult, CompactionDone, Event, Notice, TurnEnd
from nexus_cli.core.memo_kinds import EVENT
from nexus_cli.session.event_json import event_value


def record_event(context: ContextManager, first: int, event: Event) -> None:
    """Record `event` if a person saw it and no entry holds it. `first` is the entry with which its turn begins, 0 for
    one that goes on. A ledger that fails says so by the next commit that matters."""
    match event:
        case Notice() | CompactionDone():
            pass
        case CacheResult() if event.why:
            pass
        case TurnEnd(outcome) if context.conversation.last >= first:  # its message was recorded
            event = TurnEnd(replace(outcome, text=""))  # the newest answer has it
        case _:
            return
    if line := event_value(event):
        with suppress(NexusError):
            context.conversation.memo(EVENT, {"type": line[0], **line[1]}, max(first, context.conversation.last))
