"""Fixtures of the program's tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _base_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Made before the scenes ask for folders in several threads."""
    tmp_path_factory.getbasetemp()
