"""Other processes, cheaply: turns of a session in a process that `program.nursery` forks, and where to kill it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from laws.world import Ticking, World, say
from program.nursery import PIPE, born

from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import Entry
from nexus_cli.core.limits import Limits
from nexus_cli.ledger import LaneLog, database
from nexus_cli.ledger.server_journal import ServerJournal
from nexus_cli.provider import retry
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

SECONDS = 60


@dataclass(frozen=True)
class Job:
    """What one process does."""

    folder: str
    model: str
    window: int
    clock: str
    """ISO 8601: where its clock begins."""
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


def run_elsewhere(world: World, words: list[str], **more: Any) -> tuple[int, list[str]]:
    """Run these turns in another process: its exit status (negative: the signal), and the commits that it confirmed.

    The world's own clock stands still meanwhile, so move it on afterwards.
    """
    job = Job(str(world.folder), world.model, world.window, world.clock().isoformat(), words)
    job = replace(job, **{"steps": world.steps} | more)
    child = born(
        [json.dumps(asdict(job))],
        cwd=world.folder,
        env=dict(os.environ),
        stdout=PIPE,
        stderr=2,
        code="import laws.elsewhere; program.main = laws.elsewhere.main",
    )
    confirmed, _ = child.communicate(timeout=SECONDS)
    assert child.stdout is not None
    child.stdout.close()
    return child.returncode, confirmed.decode().splitlines()


def main() -> None:
    """Do the job that the only argument describes."""
    asyncio.run(live(Job(**json.loads(sys.argv[1]))))
    os._exit(0)


def confirm(text: str) -> None:
    """Tell one line to whoever started this process; it has left when it returns."""
    os.write(1, text.encode() + b"\n")


async def live(work: Job) -> None:
    """Do a job in this process."""
    retry.FIRST_WAIT = 0.002
    watched(work)
    (Path(work.folder) / "pid").write_text(str(os.getpid()))
    newest = work.session == "newest"
    options = Options(
        Path(work.folder),
        work.model,
        resume="" if newest else work.session,
        newest=newest,
        allow="all",
        limits=Limits(max_steps=work.steps),
    )
    settings = Settings(models={work.model: {"window": work.window}})
    clock = Ticking(datetime.fromisoformat(work.clock))
    session = open_session(options, settings, approver=None, clock=clock)
    confirm(f"session {session.id}")
    for words in work.words:
        await say(session, words)
    await session.aclose()


def watched(work: Job) -> None:
    """Name every commit of this process by its kind, confirm it when it has returned, and kill where the job says.

    The kinds are the ledger's writing methods; an append is named after its entry: `append user`, `append tool`, ...
    """
    doing: list[str] = []
    waiting: list[tuple[str, Any]] = []
    batch: list[tuple[str, Any]] = []
    seen = 0
    real = database.commit
    commit_waiting = ServerJournal.commit_waiting

    def commit(connection: Any) -> None:
        nonlocal seen
        hit = work.kind in (doing[-1:] or [kind for kind, _ in batch])
        seen += hit
        if hit and seen == work.nth and work.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        real(connection)
        if hit and seen == work.nth and work.when == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    def named(method: Any, name: Callable[..., tuple[str, Any]]) -> Any:
        def call(self: LaneLog, *arguments: Any, **more: Any) -> Any:
            kind, detail = name(self.lane, *arguments)
            doing.append(kind)
            try:
                result = method(self, *arguments, **more)
            finally:
                doing.pop()
            if getattr(self._journal, "waiting", ()):  # a server's, which commits it later
                waiting.append((kind, detail))
            else:
                confirm(f"{kind} {detail}")
            return result

        return call

    def write(self: ServerJournal, *, is_asked: bool = False) -> None:
        batch[:] = waiting
        commit_waiting(self, is_asked=is_asked)
        for one in tuple(batch):
            waiting.remove(one)
            confirm(f"{one[0]} {one[1]}")
        batch.clear()

    def of_entry(lane: int, entry: Entry, *_: Any) -> tuple[str, Any]:
        return f"append {entry.kind}", f"{lane} {entry.id}"

    database.commit = commit
    ServerJournal.commit_waiting = write  # type: ignore[method-assign]
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
