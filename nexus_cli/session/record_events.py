"""Record the events of a turn or an act that no entry holds, for a replay (`reports/conversation.py`)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CacheResult, RecordedEvent, TurnEnd
from nexus_cli.core.memo_kinds import EVENT
from nexus_cli.session.event_json import event_value


def record_event(context: ContextManager, first: int, event: RecordedEvent) -> None:
    """Record `event` if a person saw it. `first` is the entry with which its turn begins, 0 for one that goes on. A
    ledger that fails says so by the next commit that matters."""
    if isinstance(event, CacheResult) and not event.why:
        return
    if isinstance(event, TurnEnd):
        if context.conversation.last < first:  # its message was not recorded
            return
        event = TurnEnd(replace(event.outcome, text=""))  # the newest answer has it
    if line := event_value(event):
        with suppress(NexusError):
            context.conversation.memo(EVENT, {"type": line[0], **line[1]}, max(first, context.conversation.last))
