"""Run a second process on the tour's session and kill it with SIGKILL while it runs a command.

Nothing is simulated: it is the same program, and SIGKILL leaves it no chance to clean up.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from nexus_cli.cli.tour.sandbox import Sandbox
from nexus_cli.config.paths import PACKAGE

LAUNCH = "import sys; sys.path.append(sys.argv.pop(1)); from nexus_cli.__main__ import main; main()"
"""Starts the program from its own folder; nothing is imported from the working folder."""
KILL_AFTER = 3
"""Number of booked orders at which the process is killed."""
POLLS, POLL_SECONDS = 1500, 0.02
QUIET_SECONDS = 0.35
"""Seconds, more than one booking takes: if none is added for so long, no child of the process is left."""


async def kill_second_process(sandbox: Sandbox, session: str, *, theme: str, slow: bool) -> int:
    """Start `nexus tour --part ...` on `session`, kill it after `KILL_AFTER` orders, and return its process id.

    Return 0 if it did not get that far. Waits until its children have ended; if cancelled, kills it at once.
    """
    child = _start_process(sandbox, session, theme, slow)
    try:
        for _ in range(POLLS):
            if len(sandbox.booked()) >= KILL_AFTER or child.poll() is not None:
                break
            await asyncio.sleep(POLL_SECONDS)
        reached = child.poll() is None and len(sandbox.booked()) >= KILL_AFTER
    finally:
        child.kill()
        child.wait()
    before = -1
    while before != len(sandbox.booked()):
        before = len(sandbox.booked())
        await asyncio.sleep(QUIET_SECONDS)
    return child.pid if reached else 0


def _start_process(sandbox: Sandbox, session: str, theme: str, slow: bool) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-P", "-c", LAUNCH, str(PACKAGE.parent), "tour"]
    part = ["--part", str(sandbox.folder), "--session", session, "--theme", theme, *["--slow"] * slow]
    return subprocess.Popen([*program, *part], stdin=subprocess.DEVNULL, cwd=sandbox.project, start_new_session=True)
