"""What is remembered of this project, as far as it matters for what the person just said (seed E's project memory)."""

from __future__ import annotations

from nexus_cli.context.sections.memory_sections import memory_contributor
from nexus_cli.context.sections.section import Phase
from nexus_cli.core.memory import MemorySlot

CONTRIBUTOR = memory_contributor(MemorySlot.PROJECT, Phase.MEMORY + 20, priority=75, room=40)
