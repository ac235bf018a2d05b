"""Other processes, cheaply: one interpreter imports the model library once, then forks a process for each job.

A job is a `Job`: turns to run in a session, and where to be killed. Run as a program it reads jobs as JSON lines from
stdin and answers each with one JSON line: how the process ended and what it confirmed. `Zygote` is the other end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from laws.world import Ticking, World, loaded, say
from program.nursery import warm

from nexus_cli.config.settings import Settings
from nexus_cli.context.tokens import counter
from nexus_cli.core.entry import Entry
from nexus_cli.core.limits import Limits
from nexus_cli.ledger import LaneLog, database
from nexus_cli.provider import retry
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

TESTS = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True)
class Job:
    """What one process does."""

    folder: str
    model: str
    window: int
    clock: str
    """ISO 8601: where its clock begins."""
    environment: dict[str, str]
    words: list[str] = field(default_factory=list)
    """One turn each."""
    session: str = ""
    """"" begins a new one, `newest` goes on with the newest of the folder."""
    steps: int = 8
    kind: str = ""
    """Kind of commit around which the process is killed (see `watched`), or ""."""
    nth: int = 1
    """Which commit of that kind."""
    when: str = "after"
    """`before` or `after` it."""


def job(world: World, words: list[str], **more: Any) -> Job:
    """A job in this world; the world's own clock stands still meanwhile, so move it on afterwards."""
    environment = world.environment() | {"NEXUS_HOME": os.environ["NEXUS_HOME"], "HOME": os.environ["HOME"]}
    made = Job(str(world.folder), world.model, world.window, world.clock().isoformat(), environment, words)
    return replace(made, **{"steps": world.steps} | more)


class Zygote:
    """The process that makes processes."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": TESTS}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, work: Job) -> tuple[int, list[str]]:
        """Run a job to its end: exit status (negative: the signal), and the commits that it confirmed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(work)) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["status"], answer["confirmed"]

    def close(self) -> None:
        """End it, and wait."""
        self._process.communicate(timeout=20)


def main() -> None:
    """Fork a process for every line of stdin."""
    warm()
    counter._load = loaded
    loaded("o200k_base")
    for line in sys.stdin:
        work = Job(**json.loads(line))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            status = 97
            try:
                os.close(read)
                os.dup2(2, 1)
                os.environ.update(work.environment)
                asyncio.run(live(work, partial(tell, write)))
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        with os.fdopen(read) as lines:
            confirmed = lines.read().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(json.dumps({"status": status, "confirmed": confirmed}) + "\n")
        sys.stdout.flush()


def tell(pipe: int, text: str) -> None:
    """Confirm one line to whoever started the job; it has left this process when it returns."""
    os.write(pipe, text.encode() + b"\n")


async def live(work: Job, confirm: Callable[[str], None]) -> None:
    """Do a job in this process."""
    retry.FIRST_WAIT = 0.002
    watched(work, confirm)
    (Path(work.folder) / "pid").write_text(str(os.getpid()))
    newest = work.session == "newest"
    options = Options(
        Path(work.folder), work.model, resume="" if newest else work.session, newest=newest, allow="all",
        limits=Limits(max_steps=work.steps),
    )  # fmt: skip
    settings = Settings(models={work.model: {"window": work.window}})
    clock = Ticking(datetime.fromisoformat(work.clock))
    session = open_session(options, settings, approver=None, clock=clock)
    confirm(f"session {session.id}")
    for words in work.words:
        await say(session, words)
    await session.aclose()


def watched(work: Job, confirm: Callable[[str], None]) -> None:
    """Name every commit of this process by its kind, confirm it when it has returned, and kill where the job says.

    The kinds are the ledger's writing methods; an append is named after its entry: `append user`, `append tool`, ...
    """
    doing: list[str] = []
    seen = 0
    real = database.commit

    def commit(connection: sqlite3.Connection) -> None:
        nonlocal seen
        hit = bool(doing) and doing[-1] == work.kind
        seen += hit
        if hit and seen == work.nth and work.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        real(connection)
        if hit and seen == work.nth and work.when == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    def named(method: Any, name: Callable[..., tuple[str, Any]]) -> Any:
        def call(self: LaneLog, *arguments: Any) -> Any:
            kind, detail = name(self.lane, *arguments)
            doing.append(kind)
            try:
                result = method(self, *arguments)
            finally:
                doing.pop()
            confirm(f"{kind} {detail}")
            return result

        return call

    def of_entry(lane: int, entry: Entry) -> tuple[str, Any]:
        return f"append {entry.kind}", f"{lane} {entry.id}"

    database.commit = commit
    kinds: dict[str, Callable[..., tuple[str, Any]]] = {
        "append": of_entry,
        "record_request": lambda lane, manifest, *_: ("sending", f"{lane} {manifest.step}"),
        "record_reply": lambda lane, entry, step, *_: ("replied", f"{lane} {step}"),
        "begin_epoch": lambda lane, epoch, *_: ("begin_epoch", f"{lane} {epoch.id}"),
        "record_start": lambda lane, call, *_: ("started", f"{lane} {call}"),
        "record_drop": lambda lane, drop: ("drop", f"{lane} {drop.id}"),
    }
    for method, name in kinds.items():
        setattr(LaneLog, method, named(getattr(LaneLog, method), name))


if __name__ == "__main__":
    main()
