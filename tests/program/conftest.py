"""Both ways to run the program: from cold, and from a warm process that all tests of a worker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from program.stage import WarmProcess, runs, warm_process
from search import variant


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess]:
    with warm_process(tmp_path_factory.mktemp("warm")) as made:
        yield made


@pytest.fixture(scope="module", params=["cold", variant("warm")])
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess | None]:
    """The warm process from which every stage of the module starts its runs, None for cold ones."""
    tmp_path_factory.getbasetemp()  # the scenes ask for folders in several threads
    if request.param == "cold":
        yield None
        return
    warm: WarmProcess = request.getfixturevalue("warm")
    before, begun = warm.known()["calls"], len(warm.begun)
    with runs(warm):
        yield warm
    served, wanted = warm.known()["calls"] - before, len(warm.begun) - begun
    assert served or not wanted, f"none of {wanted} runs was warm"
