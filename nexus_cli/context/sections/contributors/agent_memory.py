"""Lessons from earlier work that are relevant to the newest message (seed E's agent memory)."""

from __future__ import annotations

from nexus_cli.context.sections.memory_sections import memory_contributor
from nexus_cli.context.sections.section import Phase
from nexus_cli.core.memory import MemorySlot

CONTRIBUTOR = memory_contributor(MemorySlot.AGENT, Phase.MEMORY + 30, priority=70, room=40)
