"""The kinds of runs that nexus has itself: of plans, of services, of messages in spaces."""

from __future__ import annotations

from collections.abc import Mapping

from nexus_cli.runs.run_kind import RunKind
from nexus_cli.runs.service_triggers import begin_service
from nexus_cli.runs.unattended import look_back
from nexus_cli.spaces.run_facts import run_facts
from nexus_cli.spaces.space_history import begin_space_run, end_space_run

KINDS: Mapping[str, RunKind] = {
    "plan": RunKind(end=look_back, facts=run_facts),
    "service": RunKind(begin=begin_service, end=look_back, facts=run_facts),
    "space_message": RunKind(begin=begin_space_run, end=end_space_run, facts=run_facts),
}
"""By type of trigger."""
PLAIN = RunKind(facts=run_facts)
"""Any other run: that of a plain session which began to wait."""
