"""Draft the epoch that the next request would begin, or the window after a compaction, without sending or recording
anything: by an assembly of its own, and a log in memory that continues the session's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.core.entry import SWITCH, Memo
from nexus_cli.core.shared_types import T, TakeText
from nexus_cli.engine.requests.prompt_assembly import PromptAssembly
from nexus_cli.engine.requests.readings import NextEpoch
from nexus_cli.ledger import SessionLog
from nexus_cli.sections.section_drops import SectionDrops
from nexus_cli.session.base_session import BaseSession


class _Unwritten(MemoryLog):
    """Continues the log of a session in memory, without changing it."""

    def __init__(self, log: SessionLog) -> None:
        super().__init__(log.last_id(), log.last_drop(), log.next_epoch())
        self._log = log

    def memos(self, kind: str) -> Sequence[Memo]:
        return [*self._log.memos(kind), *super().memos(kind)]


def drafting(session: BaseSession, notify: TakeText) -> tuple[PromptAssembly, MemoryLog]:
    """Return an assembly for the sections of a session, and the log in memory for the drops that it records."""
    prompt, log = session.engine.prompt, _Unwritten(session.record)
    assert isinstance(prompt, PromptAssembly), "a session of the factory has contributors"
    return prompt.drafting(notify, SectionDrops(log, session.conversation.clock, lambda drop: None)), log


def draft_epoch(session: BaseSession) -> NextEpoch:
    """Draft the next epoch: the first one of a session that has sent nothing, else the one that sends the present
    window with another effort or to another model. Blocks."""
    engine, notices = session.engine, list[str]()
    conversation, (prompt, log) = engine.conversation, drafting(session, notices.append)

    async def work() -> NextEpoch:
        planned = await prompt.draft_epoch(engine.context)
        drops = [replace(drop, text=None) for drop in planned.drops]
        if conversation.is_recorded:
            epoch = conversation.make_epoch(conversation.arranged, SWITCH, planned.frame)
            return NextEpoch(epoch, tuple(drops), tuple(notices))
        sections = await prompt.collector.changed_sections()
        drops += [replace(drop, text=None) for drop in log.drops()]
        epoch = conversation.epoch.with_header(planned.frame)
        return NextEpoch(epoch, tuple(drops), tuple(notices), sections.to_json(), sections.text)

    return run_to_end(work())


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return its result, even inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
