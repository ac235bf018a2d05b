"""Every test of this room works in a world of its own."""

import pytest
from undo.world import world

from nexus_cli.undo import unsure_changes

__all__ = ["world"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no command count as one that ran for long because the machine is busy."""
    monkeypatch.setattr(unsure_changes, "SECONDS", 600.0)
