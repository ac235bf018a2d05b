"""Assemble the text that we add to the requests of a conversation: system text for an epoch, preambles for messages."""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import dataclass, replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.entry import Memo
from nexus_cli.core.memo_kinds import PLAN, TOLD_FACTS
from nexus_cli.core.section_rows import UNREAD
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.typed_text import typed_text
from nexus_cli.core.wire import canonical
from nexus_cli.engine.requests.engine import PromptAssembler
from nexus_cli.engine.requests.readings import Preamble
from nexus_cli.engine.requests.tool_selection import ToolOffer
from nexus_cli.sections.collect import SectionCollector


@dataclass
class PromptAssembly(PromptAssembler):
    """Assembles the sections of the contributors for one conversation."""

    collector: SectionCollector
    offer: ToolOffer
    """Decides on the tools of each epoch."""
    rules: str
    _epoch: int = -1
    """The epoch whose sent sections are loaded."""
    _due: bool = False
    """True until all sections missing in the head of that epoch are attached: then the next message gets every change.
    """
    _last: int = -1
    """The newest entry of the last assembled request."""
    _noted: tuple[str, ...] = ()
    """The notices attached to that request, taken from the queue: they wait again if an epoch begins before it is sent.
    """

    def drafting(self, notify: TakeText, conversation: Conversation) -> PromptAssembly:
        """See `PromptAssembler`."""
        draft = copy(self)
        draft.collector = self.collector.drafting(notify, conversation)
        return draft

    async def draft_epoch(self, context: ContextManager, words: str = "") -> Rewrite:
        """Return the present system text and tools, planned for the budget of `context`. `words` is the first
        message of a session."""
        self.collector.set_budget(context.budget)
        if self.inherited is not None:
            return Rewrite(context.conversation.epoch.with_header(self.inherited))
        called = await asyncio.to_thread(self.offer.requested_tools)
        tools = tuple(self.offer.select(self.collector.view.window, context.conversation, typed_text(words), called))
        plan, pending, text = await self.collector.system_plan()
        header = replace(
            context.conversation.epoch,
            model=self.collector.view.model,
            system=text,
            tools=tools,
            rules=self.rules,
            effort=context.model.effort,
            system_tokens=context.system_cost(text),
            tools_tokens=context.tools_cost(tools),
            sections=canonical([section.to_json(cached=True) for section in plan.chosen]).decode(),
        )
        return Rewrite(header, [drop for drop, _ in pending], [note for _, note in pending])

    async def draft_preamble(self, context: ContextManager, notices: list[str]) -> Preamble:
        """Return the preamble of the next request: every event section that changed, for a user message and for the
        first request of an epoch; else, for a tool result, those of the contributors with `prompt` (notices, permission
        level, rules by path).

        If an epoch began while this request was assembled, the preamble is detached and planned again with the sections
        that the epoch lost. On a tool result each section is marked as ours.
        """
        conversation = context.conversation
        self.collector.set_budget(context.budget)
        if conversation.epoch.id != self._epoch:
            if conversation.last == self._last:
                notices[:0] = self._noted
            conversation.detach_preamble()
            # Sections in the new head are not sent again: a model switch keeps all, a compaction the newest.
            self.resume(conversation)
        self._last, self._noted = conversation.last, ()
        everything = conversation.is_preamble_due() or self._due or self.collector.has_sent_nothing
        arrived = self.collector.reader.arrived if everything else ()
        if not everything and not self.collector.has_prompt_sections:  # most steps
            return Preamble()
        noted, noted_at = tuple(notices), conversation.now()  # others may come while the sections are read
        changed = await self.collector.changed_sections(prompt=not everything)
        self._due, sections = self._due and bool(changed.text), changed.to_json()

        def settle() -> None:
            self._due = False
            self.collector.mark_sent(changed)
            if sections:
                plan, head = changed.plan, {"epoch": conversation.epoch.id, "told": changed.sent}
                rows = {"pool": plan.budget, "raised": plan.raised, "sections": list(sections)}
                conversation.log.record_memo(Memo(PLAN, noted_at, conversation.last, {**head, **rows}))
            if facts := changed.fact_ids():
                conversation.memo(TOLD_FACTS, {"ids": facts})
            if changed.has_notices:
                self._noted = noted
                notices[:] = (line for line in notices if line not in noted)

        text = changed.notes if conversation.adds_to_result else changed.text
        return Preamble(text, settle, sections, changed.facts(), arrived)

    def resume(self, conversation: Conversation) -> None:
        """Load the sections that the conversation's epoch has sent, and start reading those that were unread when it
        began."""
        self._epoch, self._due = conversation.epoch.id, conversation.last_sent < 0
        last: dict[str, str] = {}  # the hash of each event section as it was sent last, in any epoch
        for memo in conversation.memos(PLAN):
            last.update(memo.value["told"])
        self.collector.load_sent((item.preamble for item in conversation.items), last)
        unread = (row for row in conversation.epoch.section_rows if row.get("source") == UNREAD)
        self.collector.read_in_background(str(row["id"]) for row in unread)
