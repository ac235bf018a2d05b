"""The one text form of each report: a JSON value in, lines for people out, at a width in columns.

What stands in the values is decided in `nexus_cli.session.reports`; texts are sanitized where they are printed. No
form has colours, and none is wider than asked from 20 columns on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nexus_cli.ui.reports.cache import cache_text, miss_text
from nexus_cli.ui.reports.compaction import compaction_text, pins_text
from nexus_cli.ui.reports.context import context_text
from nexus_cli.ui.reports.cost import cost_text
from nexus_cli.ui.reports.diff import diff_text
from nexus_cli.ui.reports.drops import drop_text, drops_text
from nexus_cli.ui.reports.help import help_text
from nexus_cli.ui.reports.lines import Value
from nexus_cli.ui.reports.memory import fact_text, goals_text, memory_text, reflection_text
from nexus_cli.ui.reports.plan import between_text
from nexus_cli.ui.reports.sessions import last_text, replay_text, search_text, session_text, sessions_text
from nexus_cli.ui.reports.status import (
    doctor_text,
    model_text,
    models_text,
    permissions_text,
    skills_text,
    status_text,
    tools_text,
    trust_text,
    why_text,
)

FORMS: Mapping[str, Callable[[Value, int], str]] = MappingProxyType(
    {
        "between": between_text,
        "cache": cache_text,
        "compaction": compaction_text,
        "context": context_text,
        "cost": cost_text,
        "diff": diff_text,
        "doctor": doctor_text,
        "drop": drop_text,
        "drops": drops_text,
        "fact": fact_text,
        "goals": goals_text,
        "help": help_text,
        "last": last_text,
        "memory": memory_text,
        "miss": miss_text,
        "model": model_text,
        "models": models_text,
        "permissions": permissions_text,
        "pins": pins_text,
        "reflection": reflection_text,
        "replay": replay_text,
        "search": search_text,
        "session": session_text,
        "sessions": sessions_text,
        "skills": skills_text,
        "status": status_text,
        "tools": tools_text,
        "trust": trust_text,
        "why": why_text,
    }
)
"""Every form by the name under which a command shows it."""
