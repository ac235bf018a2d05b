"""What the tests of the laws share: a fast folder, and a process that makes processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from laws.zygote import Zygote

MEMORY = Path("/dev/shm")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of sessions commit thousands of times."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="nexus-laws-", dir=MEMORY))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Runs jobs in processes of their own."""
    made = Zygote()
    yield made
    made.close()
