"""What the ledger's tests share: a ledger on disk, builders of values, and children that end as they please."""

from __future__ import annotations

import inspect
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ledger.postgres import Server

from nexus_cli.config.ledger_place import LedgerPlace
from nexus_cli.core.entry import Cause, Drop, Entry, Epoch, ItemForm, Kind, Manifest, WindowItem
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.services import FixedValues
from nexus_cli.ledger import LaneLog, Ledger

AT = "2026-01-13T14:30:00.000Z"


def user(number: int, text: str = "", **more: object) -> Entry:
    return Entry(number, AT, "person", Kind.USER, Message(Role.USER, text or f"words {number}"), **more)  # type: ignore[arg-type]


def calling(number: int, call: str = "c1") -> Entry:
    message = Message(Role.ASSISTANT, f"answer {number}", (ToolCall(call, "bash", {"command": "ls"}),))
    return Entry(number, AT, "agent", Kind.ASSISTANT, message)


def result(number: int, text: str = "", call: str = "c1") -> Entry:
    return Entry(number, AT, "tool:bash", Kind.TOOL, Message(Role.TOOL, text or f"out {number}", tool_call_id=call))


def slot(number: int, text: str = "", form: ItemForm = ItemForm.FULL) -> WindowItem:
    return WindowItem(number, form, Message(Role.USER, text or f"words {number}"), f"pre {number}", 5)


def epoch(
    number: int, parent: int | None = None, head: tuple[WindowItem, ...] = (), base: int = 0, **more: object
) -> Epoch:
    tools = ({"type": "function", "function": {"name": "bash", "zeta": 1, "alpha": [1.5, None]}},)
    made = Epoch(
        number, parent, "start", "openai/m", f"system {number}", tools, '{"provider":"openai"}', head, base, 10, 20
    )
    return replace(made, **more)  # type: ignore[arg-type]


def manifest(step: int, last: int, number: int = 0) -> Manifest:
    digest = sha256(f"{step}".encode()).hexdigest()
    return Manifest(step, number, last, {"model": "openai/m", "max_output": 8000}, digest, 100 + step, AT)


def fixed(number: int, preamble: str = "now", tokens: int = 7) -> FixedValues:
    return FixedValues(number, preamble, tokens, sha256(f"{number}{preamble}".encode()).digest())


def drop(identity: str, text: str | None = None, entries: tuple[int, int] | None = None, **more: object) -> Drop:
    return Drop(identity, f"what {identity}", 40, Cause.OUTPUT_CAP, AT, entries, text, **more)  # type: ignore[arg-type]


def new(ledger: Ledger, folder: str = "/p", **more: str) -> object:
    values: Any = {"folder": folder, "project": folder, "model": "openai/m", "recipe": "chat", "at": AT, **more}
    return ledger.create_session(**values)


def on(ledger: Ledger, lane: int) -> LaneLog:
    """The log of a lane by its key alone."""
    row = ledger.db.one("SELECT s.id FROM lanes l JOIN sessions s ON s.key = l.session WHERE l.id = ?", lane)
    return LaneLog(ledger.db, row[0] if row else "", lane)


def fail_writes(ledger: Ledger) -> None:
    """Let every write to a ledger fail from now on; it can still be read."""
    ledger.db.connection.execute("PRAGMA query_only = ON")


Work = Callable[[Callable[[str], None]], None]


def spawn(work: Work) -> Callable[[], tuple[int, list[str]]]:
    """Run `work` in a child process. Called, the result waits for the exit status (negative: the signal) and the
    lines that the child confirmed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.close(read)
            work(lambda line: _write(write, line))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)

    def ended() -> tuple[int, list[str]]:
        with os.fdopen(read) as lines:
            confirmed = lines.read().splitlines()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), confirmed

    return ended


def _write(handle: int, line: str) -> None:
    os.write(handle, line.encode() + b"\n")


def in_child(work: Work) -> tuple[int, list[str]]:
    """`spawn`, waited for."""
    return spawn(work)()


def together(count: int, work: Callable[[int, Callable[[str], None]], None]) -> list[tuple[int, list[str]]]:
    """The outcomes of `work(n)` in `count` processes, all let off at once."""
    ready, go = os.pipe()

    def held(number: int) -> Work:
        def begin(say: Callable[[str], None]) -> None:
            os.close(go)
            os.read(ready, 1)
            work(number, say)

        return begin

    children = [spawn(held(number)) for number in range(count)]
    os.close(go)
    outcomes = [ended() for ended in children]
    os.close(ready)
    return outcomes


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Builders of values, and `in_child`."""
    return SimpleNamespace(
        at=AT,
        user=user,
        calling=calling,
        result=result,
        slot=slot,
        epoch=epoch,
        manifest=manifest,
        fixed=fixed,
        drop=drop,
        new=new,
        in_child=in_child,
        together=together,
        die=die,
    )


@pytest.fixture
def path(_isolated: Path) -> Path:
    """In memory if there is room: every commit waits for its disk."""
    return _isolated / "data" / "ledger.db"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of a ledger run on both engines; those that look at its file on SQLite alone."""
    names = metafunc.fixturenames
    if "ledger" in names or "place" in names:
        both = "path" not in inspect.signature(metafunc.function).parameters
        metafunc.parametrize("engine", ["sqlite", "postgres"] if both else ["sqlite"], indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """`sqlite` or `postgres`."""
    return str(request.param)


@pytest.fixture
def place(engine: str, request: pytest.FixtureRequest) -> Iterator[LedgerPlace]:
    """Where a ledger is: a file that is not there yet, or an empty database."""
    if engine == "sqlite":
        yield request.getfixturevalue("path")
        return
    server: Server = request.getfixturevalue("postgres")
    url = server.new_database()
    yield url
    server.drop(url)


@pytest.fixture
def ledger(place: LedgerPlace) -> Iterator[Ledger]:
    opened = Ledger.open(place)
    yield opened
    opened.close()
