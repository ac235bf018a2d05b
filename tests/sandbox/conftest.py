"""The ground of a test: each backend that this system has, as root and as an ordinary user."""

from __future__ import annotations

import pytest
from sandbox.scene import GROUNDS, Ground


@pytest.fixture(
    params=[ground for ground in GROUNDS if ground.abi in (0, 7)],  # 0: bwrap
    ids=lambda ground: ground.name,
)
def ground(request: pytest.FixtureRequest) -> Ground:
    found: Ground = request.param
    if found.missing:
        pytest.skip(found.missing)
    return found
