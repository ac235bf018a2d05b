"""The kinds of runs that nexus has itself: of plans, of services, of messages in spaces."""

from __future__ import annotations

from collections.abc import Mapping

from nexus_cli.runs.run_kind import RunKind
from nexus_cli.runs.service_triggers import begin_service
from nexus_cli.runs.space_runs import SPACE_MESSAGE, SPACE_RUN
from nexus_cli.runs.unattended import look_back

KINDS: Mapping[str, RunKind] = {
    "plan": RunKind(end=look_back),
    "service": RunKind(begin=begin_service, end=look_back),
    SPACE_MESSAGE: SPACE_RUN,
}
"""By type of trigger."""
PLAIN = RunKind()
"""Any other run: that of a plain session which began to wait."""
