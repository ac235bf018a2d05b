"""Facts about the person that are relevant to the newest message (seed E's user memory)."""

from __future__ import annotations

from nexus_cli.context.sections.memory_sections import memory_contributor
from nexus_cli.context.sections.section import Phase
from nexus_cli.core.memory import MemorySlot

CONTRIBUTOR = memory_contributor(MemorySlot.USER, Phase.CONSTRAINT + 30, priority=88, room=240, sticky=True)
