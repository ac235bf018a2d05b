"""What holds for every test: folders of its own, no keys, no network but loopback, a time limit, hypothesis profiles.

Fixtures of one room live in that room's conftest.py.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import inspect
import ipaddress
import os
import re
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from ledger.postgres import Server, run_server
from programs import describe_left_out
from search import is_frozen_variant, list_promised
from surroundings import replace_inherited
from ui.put_clock import run_at_once

from nexus_cli.ledger import database, schema
from nexus_cli.ledger.open_database import connect_memory
from nexus_cli.sandbox import probe

pytest_plugins = ["processes"]

# Else every process compiles every test and every module of the product anew: a twentieth of what the suite costs.
sys.dont_write_bytecode = False

# The thousands of tests and the model library stay: collections need not look through them so often.
gc.set_threshold(50_000, 20, 20)

TEST_SECONDS = 900
"""After so long a test fails with the stacks of all threads."""

# Always the same examples: more of them every time find nothing that `search` would not find.
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=20)
settings.register_profile(
    "search", deadline=None, database=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
GATE_EXAMPLES = 6
settings.register_profile("gate", settings.get_profile("ci"), max_examples=GATE_EXAMPLES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

TESTS = Path(__file__).parent
STORIES = ("jobs", "terminal")
"""Folders of which the gate runs what `PROMISES.md` and `SEEDS.md` name for it; the rest is for the full matrix."""

MEMORY, ENOUGH = Path("/dev/shm"), 1 << 30


def pytest_configure(config: pytest.Config) -> None:
    """The gate looks at fewer examples than the full matrix; only a search draws from the constants of all files, which
    have to be parsed for that. The mark `put_clock` is made known."""
    config.addinivalue_line("markers", "put_clock: a coroutine that runs in the event loop of `ui/put_clock.py`")
    if "HYPOTHESIS_PROFILE" in os.environ:
        return
    if hasattr(providers, "_get_local_constants") and hasattr(providers, "_local_constants"):  # private: may be renamed
        vars(providers)["_get_local_constants"] = lambda: providers._local_constants
    if is_gate(config):
        settings.load_profile("gate")


def is_gate(config: pytest.Config) -> bool:
    """Return whether variants are left to the full matrix."""
    return bool(config.option.markexpr == "not matrix")


@pytest.fixture(scope="session")
def in_gate(pytestconfig: pytest.Config) -> bool:
    """Whether a test whose work is in a fixture may leave rows to the full matrix."""
    return is_gate(pytestconfig)


def pytest_sessionstart() -> None:
    """Before anything is collected or started."""
    replace_inherited()


def _loopback(host: object) -> bool:
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    try:
        return ipaddress.ip_address(text.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _allowed(family: int, address: Any) -> bool:
    return family not in (socket.AF_INET, socket.AF_INET6) or _loopback(address[0])


class NetworkRefusedError(OSError):
    """A test tried to leave this machine."""


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Refuses every connection and every look-up that is not for loopback, in this process."""
    real = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}
    look_up = socket.getaddrinfo

    def guarded(name: str) -> Any:
        def call(self: socket.socket, *arguments: Any) -> Any:
            address = arguments[-1]
            if not _allowed(self.family, address):
                raise NetworkRefusedError(f"a test tried to reach {address!r}; only loopback is allowed")
            return real[name](self, *arguments)

        return call

    def guarded_look_up(host: Any, *arguments: Any, **named: Any) -> Any:
        if not _loopback(host):
            raise socket.gaierror(socket.EAI_NONAME, f"a test tried to look up {host!r}")
        return look_up(host, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        for name in real:
            patch.setattr(socket.socket, name, guarded(name))
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        yield


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """New folders, one for each test, in memory if there is room: every commit of a ledger waits for its disk."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH
    with tempfile.TemporaryDirectory(
        prefix="nexus-homes-", dir=MEMORY if roomy else tmp_path_factory.getbasetemp()
    ) as made:
        yield (Path(made, str(number)) for number in count())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server of this process."""
    with run_server() as server:
        yield server


@pytest.fixture(autouse=True, scope="session")
def _ledger_tables() -> Iterator[None]:
    """Copies the tables of a new ledger: to make them by their statements is a tenth of what a short test costs.

    Where a test replaces the steps of the schema, or watches the commits, they are made as ever.
    """
    made = connect_memory()
    usual = (schema.STEPS, database.commit)
    take_steps = schema.upgrade

    def upgrade(connection: sqlite3.Connection) -> None:
        if schema.version(connection) or (schema.STEPS, database.commit) != usual:
            take_steps(connection)
        else:
            made.backup(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "upgrade", upgrade)
        yield


@pytest.fixture(autouse=True, scope="session")
def _walls_tried() -> Iterator[None]:
    """Tests each backend of the sandbox once for all tests: in their own homes no earlier success is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "_try_walls", cache(probe._try_walls))
        yield


@pytest.fixture(autouse=True)
def _isolated(_homes: Iterator[Path]) -> Iterator[Path]:
    """A home and a NEXUS_HOME of its own for each test; children inherit them."""
    home = next(_homes)
    home.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("NEXUS_HOME", str(home / "nexus"))
        patch.delenv("NEXUS_IN_SESSION", raising=False)  # the suite may be run by an agent
        yield home
    litellm = sys.modules.get("litellm")
    if litellm is not None:
        # It keeps HTTP clients for the whole process; each belongs to the event loop of the test that made it. Both
        # kinds of keeping place are made anew when they are next asked for.
        litellm.in_memory_llm_clients_cache.flush_cache()
        vars(litellm).pop("module_level_aclient", None)
    secrets = sys.modules.get("nexus_cli.core.redact_secrets")
    if secrets is not None:
        # A key that one test typed is masked for the rest of the process.
        secrets.protected_secrets().clear()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in an event loop of its own; with the mark `put_clock` in one without waiting."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run = run_at_once if pyfuncitem.get_closest_marker("put_clock") else asyncio.run
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class TooLongError(BaseException):
    """A test hung. No `Exception`: hypothesis would take it for an example to shrink, and hang as often."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Ends a test that takes longer than `TEST_SECONDS`, setup and teardown included; again each time it goes on."""

    def expired(signum: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(all_threads=True)
        raise TooLongError(f"{item.nodeid} took longer than {TEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, TEST_SECONDS, TEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


WAITING = (
    "tasks/test_tasks",
    "terminal/test_turns",
    "program/test_blocked_loop",
    "terminal/",
    "cli/test_tour",
    "program/",
    "jobs/",
    "ui/screen/test_screen_terminal",
    "ui/print/",
    "screens/",
    "ledger/test_crash",
    "test_package",
    "tools/test_bash",
    "ui/repl/test_outside",
    "cli/",
)
"""Long files that wait for terminals and processes."""
COMPUTING = (
    "laws/test_sessions",
    "laws/",
    "sandbox/",
    "tools/test_search",
    "provider/",
    "conversation/tokens/",
    "session/",
    "context/",
    "conversation/",
    "sections/",
    "recorded/",
    "config/test_hostile_trees",
    "worktrees/",
    "permission/",
    "test_exchanged_folders",
    "runs/",
    "mcp/",
    "engine/",
    "workers/",
    "undo/",
)
"""Long files that compute."""


def _starting(files: Iterable[Path], starts: Iterable[str]) -> list[Path]:
    """Return the files whose names below `tests/` start so, in the order of `starts`."""
    folder = Path(__file__).parent
    names = {path: path.relative_to(folder).as_posix() for path in files if path.is_relative_to(folder)}
    return list(dict.fromkeys(path for start in starts for path, name in names.items() if name.startswith(start)))


def look_at_fewer(item: pytest.Item) -> None:
    """Scale the examples of a property that names a number of its own as the profile of the gate scales the others."""
    function = getattr(item, "function", None)
    own = getattr(function, "_hypothesis_internal_use_settings", None)
    if own is not None and own.max_examples > GATE_EXAMPLES:
        usual = settings.get_profile("ci").max_examples
        fewer = max(GATE_EXAMPLES, own.max_examples * GATE_EXAMPLES // usual)
        function._hypothesis_internal_use_settings = settings(own, max_examples=fewer)  # type: ignore[union-attr]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files come first, one that waits and one that computes in turns: several processes keep every core busy from
    the beginning, and end together."""
    promised, left = list_promised((TESTS / "PROMISES.md").read_text("utf-8"))
    seeds = set(re.findall(r"`(test_\w+)`", (TESTS / "SEEDS.md").read_text("utf-8")))
    for item in items:
        name = getattr(item, "originalname", item.name)
        is_story = item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] in STORIES
        if is_frozen_variant(item.name) or name in left - seeds or (is_story and name not in promised | seeds):
            item.add_marker("matrix")
        if settings.default is settings.get_profile("gate"):
            look_at_fewer(item)
    files = dict.fromkeys(item.path for item in items)
    if config.option.seconds is not None:  # the order is the caller's
        return
    places = {path: place for starts in (WAITING, COMPUTING) for place, path in enumerate(_starting(files, starts))}
    items.sort(key=lambda item: places.get(item.path, len(files)))
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left out on purpose and on this machine, and how to run it."""
    deselected = terminalreporter.stats.get("deselected", ())
    if is_gate(terminalreporter.config) and (
        matrix := sum(item.get_closest_marker("matrix") is not None for item in deselected)
    ):
        terminalreporter.write_line(
            f"left to the full matrix: {matrix:,} cases; with them: python tests/check.py --all"
        )
    if lines := describe_left_out(terminalreporter.stats.get("skipped", ())):
        terminalreporter.section("left out on this machine")
        for line in lines:
            terminalreporter.write_line(line)
