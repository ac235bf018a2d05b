"""Facts about this project that are relevant to the newest message (seed E's project memory)."""

from __future__ import annotations

from nexus_cli.context.sections.memory_sections import memory_contributor
from nexus_cli.context.sections.section import Phase
from nexus_cli.core.memory import MemorySlot

CONTRIBUTOR = memory_contributor(MemorySlot.PROJECT, Phase.MEMORY + 20, priority=75, room=40)
