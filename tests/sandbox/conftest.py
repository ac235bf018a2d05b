"""The ground of a test: each backend that this system has, as root and as an ordinary user.

A machine of root has four of them, and a case meets two by turns: each backend, each user; one of the two is left to
the full matrix. `HYPOTHESIS_PROFILE=search` runs every case on all four.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from zlib import crc32

import pytest
from sandbox.scene import GROUNDS, Ground
from search import SEARCHES

from nexus_cli.sandbox import probe
from nexus_cli.sandbox.backend import Backend

EVERY = [ground for ground in GROUNDS if ground.abi in (0, 7)]  # 0: bwrap


@pytest.fixture(params=EVERY, ids=lambda ground: ground.name)
def ground(request: pytest.FixtureRequest) -> Ground:
    found: Ground = request.param
    if found.missing:
        pytest.skip(found.missing)
    return found


@pytest.fixture(autouse=True)
def _walls_tried_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests a backend whenever the program would: elsewhere once for all tests."""
    monkeypatch.setattr(probe, "_try_walls", inspect.unwrap(probe._try_walls))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave two grounds to each case that would meet all four, and one of them to the gate."""
    turns = {item: turn for item in items if isinstance(item, pytest.Function) and (turn := _turn(item)) is not None}
    for item, turn in turns.items():
        if turn % 2:
            item.add_marker("matrix")
    if os.getuid() or SEARCHES:
        return
    left_out = {item for item, turn in turns.items() if turn > 1}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _turn(item: pytest.Function) -> int | None:
    """Return which of the grounds of its case an item has, from 0; None where the test names its grounds."""
    ground = getattr(item, "callspec", None) and item.callspec.params.get("ground")
    chosen: Sequence[pytest.Mark] = [mark for mark in item.iter_markers("parametrize") if "ground" in mark.args[0]]
    if not isinstance(ground, Ground) or ground not in EVERY or chosen:
        return None
    case = crc32(item.nodeid.replace(ground.name, "").encode())
    is_bwrap = ground.backend is Backend.BWRAP
    waits = (case % 2 == 0) == ((ground.user == "root") == is_bwrap)
    return 2 * waits + ((case // 2 % 2 == 0) == is_bwrap)
