"""Record drops of sections, one for each section text of a session, also across resumes.

A drop of the system text is recorded with the epoch that first omits it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nexus_cli.core.clock import Clock, format_utc
from nexus_cli.core.entry import Cause, Drop, Memo, PendingDrop
from nexus_cli.core.memo_kinds import LEFT_OUT_SECTION
from nexus_cli.core.services import Log
from nexus_cli.sections.planner import SectionChoice
from nexus_cli.sections.section import Layer, Section


@dataclass
class SectionDrops:
    """Records omitted parts of sections in the log of a conversation, once for each text."""

    log: Log
    clock: Clock
    show_drop: Callable[[Drop], None]
    """Receives each new drop."""
    _names: dict[tuple[str, str], str] | None = field(default=None)

    def record(self, chosen: SectionChoice, later: list[PendingDrop] | None = None) -> str:
        """Return the id of the drop with the whole text of `chosen`; a new one is recorded, or added to `later`. Its
        size is that of the first omission."""
        section = chosen.section
        key = (section.id, section.digest)
        names = self._load_names()
        if key in names:
            return names[key]
        name, now = self.log.next_drop(), format_utc(self.clock())
        cause = Cause.INSTRUCTION_CAP if chosen.is_capped and section.layer is Layer.SYSTEM else Cause.SECTION_BUDGET
        what = f"section {section.id}" if chosen.form is None else f"part of section {section.id}"
        if chosen.is_unread:
            what, cause = section.full, Cause.LIMIT
        elif section.source:
            what += f" ({section.source})"
        if chosen.form == 0:  # the missing part was never read
            cause = Cause.LIMIT
        missing = max(1, chosen.full_tokens - chosen.tokens)
        drop = Drop(name, what, missing, cause, now, text=section.full, uncounted=section.unread_bytes)
        note = LEFT_OUT_SECTION, {"section": section.id, "sha256": section.digest, "drop": name}
        if later is not None:
            later.append((drop, note))
            self._names = None  # recorded when that epoch begins
            return name
        self.log.record_drop(drop)
        self.log.record_memo(Memo(LEFT_OUT_SECTION, now, self.log.last_id(), note[1]))
        names[key] = name
        self.show_drop(drop)
        return name

    def drop_id_of(self, section: Section) -> str:
        """Return the id of the recorded drop, "" if nothing of this text was left out so far."""
        names = self._load_names()
        return names.get((section.id, section.digest), "") if names else ""

    def _load_names(self) -> dict[tuple[str, str], str]:
        """Load the drop ids of the conversation by section id and text hash, once."""
        if self._names is None:
            values = [memo.value for memo in self.log.memos(LEFT_OUT_SECTION)]
            self._names = {(str(v["section"]), str(v["sha256"])): str(v["drop"]) for v in values}
        return self._names
