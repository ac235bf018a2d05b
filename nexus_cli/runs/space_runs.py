"""How the runs begin, go on and end that a message of a space starts: the structured request of seed C."""

from __future__ import annotations

from nexus_cli.runs.run_kind import RunKind
from nexus_cli.spaces.space_history import begin_space_run, end_space_run
from nexus_cli.spaces.space_service import run_spaces

SPACE_MESSAGE = "space_message"
"""Type of their trigger."""
SPACE_RUN = RunKind(begin=begin_space_run, end=end_space_run, spaces=run_spaces)
