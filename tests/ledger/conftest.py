"""What the ledger's tests share: a ledger on disk, builders of values, and children that end as they please."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from nexus_cli.core.entry import Cause, Drop, Entry, Epoch, Form, Kind, Manifest, Slot
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.services import Fixed
from nexus_cli.ledger import Ledger

AT = "2026-01-13T14:30:00.000Z"


def user(number: int, text: str = "", **more: object) -> Entry:
    return Entry(number, AT, "person", Kind.USER, Message(Role.USER, text or f"words {number}"), **more)  # type: ignore[arg-type]


def calling(number: int, call: str = "c1") -> Entry:
    message = Message(Role.ASSISTANT, f"answer {number}", (ToolCall(call, "bash", {"command": "ls"}),))
    return Entry(number, AT, "agent", Kind.ASSISTANT, message)


def result(number: int, text: str = "", call: str = "c1") -> Entry:
    return Entry(number, AT, "tool:bash", Kind.TOOL, Message(Role.TOOL, text or f"out {number}", tool_call_id=call))


def slot(number: int, text: str = "", form: Form = Form.FULL) -> Slot:
    return Slot(number, form, Message(Role.USER, text or f"words {number}"), f"pre {number}", 5)


def epoch(number: int, parent: int | None = None, head: tuple[Slot, ...] = (), base: int = 0, **more: object) -> Epoch:
    tools = ({"type": "function", "function": {"name": "bash", "zeta": 1, "alpha": [1.5, None]}},)
    made = Epoch(
        number, parent, "start", "openai/m", f"system {number}", tools, '{"provider":"openai"}', head, base, 10, 20
    )
    return replace(made, **more)  # type: ignore[arg-type]


def manifest(step: int, last: int, number: int = 0) -> Manifest:
    digest = sha256(f"{step}".encode()).hexdigest()
    return Manifest(step, number, last, {"model": "openai/m", "max_output": 8000}, digest, 100 + step, AT)


def fixed(number: int, preamble: str = "now", tokens: int = 7) -> Fixed:
    return Fixed(number, preamble, tokens, sha256(f"{number}{preamble}".encode()).digest())


def drop(identity: str, text: str | None = None, entries: tuple[int, int] | None = None, **more: object) -> Drop:
    return Drop(identity, f"what {identity}", 40, Cause.OUTPUT_CAP, AT, entries, text, **more)  # type: ignore[arg-type]


def new(ledger: Ledger, folder: str = "/p", **more: str) -> object:
    values = {"folder": folder, "project": folder, "model": "openai/m", "recipe": "chat", "at": AT} | more
    return ledger.create_session(**values)  # type: ignore[arg-type]


def in_child(work: Callable[[Callable[[str], None]], None]) -> tuple[int, list[str]]:
    """Run `work` in a child process; its exit status (negative: the signal) and the lines that it confirmed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.close(read)
            work(lambda line: os.write(write, line.encode() + b"\n") and None)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as lines:
        confirmed = lines.read().splitlines()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), confirmed


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Builders of values, and `in_child`."""
    return SimpleNamespace(
        at=AT, user=user, calling=calling, result=result, slot=slot, epoch=epoch, manifest=manifest, fixed=fixed,
        drop=drop, new=new, in_child=in_child, die=die,
    )  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(path)
    yield opened
    opened.close()
