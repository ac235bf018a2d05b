"""Let the model inspect its context: `Assembly` of `nexus_cli.core.services` over a running session.

Its figures and drops are those of the report on the same session (`reports.context`).
"""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.memo_kinds import PLAN
from nexus_cli.core.section_rows import scale_sections
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.ledger import LaneLog
from nexus_cli.sections.collect import SectionCollector


@dataclass
class ContextToolService:
    """Implements `Assembly`."""

    log: LaneLog
    engine: Engine
    collector: SectionCollector

    def contents(self) -> JsonObject:
        from nexus_cli.core.drop_list import window_drops  # noqa: PLC0415  (the model asks for it)

        engine, drops = self.engine, self.log.drops()
        conversation, request = engine.conversation, engine.next_request()
        listed = window_drops("", drops, conversation.items, conversation.memos, conversation.epoch.sections)["drops"]
        return {
            "budget": to_json_value(request.budget),
            "sections": [*request.sections, *self._event_sections(request.messages_scale)],
            "drops": [drop for drop in listed if not drop["back"]],
        }

    async def section(self, name: str, form: str) -> tuple[str, str] | None:
        """See `Assembly`. Shorter forms are rendered again; of a section that has changed the whole is returned."""
        row = next((section for section in self._sections() if section["id"] == name), None)
        if row is None:
            return None
        drop = str(row.get("drop") or "")
        if not drop:
            return "", ""
        original = self.log.original(drop)
        if not original:
            return None
        self.log.count_recall(drop)
        if form == "full":
            return original, drop
        now = await self.collector.render_again(row)
        if now is None or now.full != original:
            return original, drop
        return now.with_drop_id(drop).in_form(form), drop

    def _sections(self) -> list[JsonObject]:
        """Return the sections of the system text, and the event sections sent last in the epoch."""
        return [*self.engine.conversation.epoch.section_rows, *self._event_sections(1.0)]

    def _event_sections(self, scale: float) -> list[JsonObject]:
        """Return the event sections that the epoch sent last, with tokens by `scale` that sum to a common total."""
        conversation = self.engine.conversation
        sections: dict[str, JsonObject] = {}
        for memo in conversation.memos(PLAN):
            if memo.value["epoch"] == conversation.epoch.id:
                rows = memo.value["sections"]
                total = round(sum(int(row["tokens"]) for row in rows) * scale)
                sections.update({section["id"]: section for section in scale_sections(rows, total, scale)})
        return list(sections.values())
