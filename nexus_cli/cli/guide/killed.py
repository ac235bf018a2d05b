"""A second process that goes on with the session, killed in the middle of its work.

Nothing is faked: it is this same program, started anew, and SIGKILL leaves it no chance to tidy up.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from nexus_cli.cli.guide.place import Place
from nexus_cli.config.paths import PACKAGE

LAUNCH = "import sys; sys.path.append(sys.argv.pop(1)); from nexus_cli.__main__ import main; main()"
"""Starts the program wherever it lies; nothing is imported from a working folder."""
BOOKED = 3
"""Orders after which it is killed."""
LOOKS, LOOK = 1500, 0.02
"""So often it is looked whether it is there, and the seconds between two looks."""
QUIET = 0.35
"""Seconds without a new order: longer than one takes, so nothing of it is left."""


async def killed(place: Place, session: str, command: str, *, slow: bool) -> int:
    """Let a process (`nexus COMMAND --part ...`) work in `session` until some orders are booked, and kill it.

    Its id, 0 where it did not get there. Its output goes where ours goes. Returns when nothing of it runs any more;
    cancelled it is killed at once.
    """
    child = _started(place, session, command, slow)
    try:
        for _ in range(LOOKS):
            if len(place.booked()) >= BOOKED or child.poll() is not None:
                break
            await asyncio.sleep(LOOK)
        there = child.poll() is None and len(place.booked()) >= BOOKED
    finally:
        child.kill()
        child.wait()
    before = -1
    while before != len(place.booked()):
        before = len(place.booked())
        await asyncio.sleep(QUIET)
    return child.pid if there else 0


def _started(place: Place, session: str, command: str, slow: bool) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-P", "-c", LAUNCH, str(PACKAGE.parent), command]
    part = ["--part", str(place.folder), "--session", session, *["--slow"] * slow]
    return subprocess.Popen([*program, *part], stdin=subprocess.DEVNULL, cwd=place.project, start_new_session=True)
