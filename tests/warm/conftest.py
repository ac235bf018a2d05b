"""Patience with the warm process: on a loaded machine it answers later than in 50 ms."""

from __future__ import annotations

import pytest

from nexus_cli.warm import caller


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATIENCE", "FORK_PATIENCE", "COMMAND_PATIENCE"):
        monkeypatch.setattr(caller, name, 300.0)
