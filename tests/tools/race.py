"""A process that edits one file with the real tool: `race.py FOLDER FILE NAME ROUNDS [hold]`.

Adds one line of its own per round and tries again when it is told to read again; `hold` takes the folder's lock, says
so, and waits.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.atomic_write import locked_folder
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.registry import ToolRegistry


class NothingRead:
    """`SeenFileStore` of a session that has read nothing: the quoted text is all that is checked."""

    def digest(self, path: str) -> str | None:
        return None

    def note(self, path: str, digest: str, how: str) -> None:
        pass


async def race(folder: Path, path: str, name: str, rounds: int) -> None:
    registry = ToolRegistry(services={SeenFileStore: NothingRead()})
    tool = registry.get("edit_file")
    assert tool is not None
    context = ToolContext(folder, folder, 8000, "c1", lambda _: None, registry.services)
    for number in range(rounds):
        edits = [{"old": "end\n", "new": f"{name} {number}\nend\n"}]
        while not (result := await tool.run({"path": path, "edits": edits}, context)).success:
            assert "read it again" in result.text, result.text
    print("done")


def main() -> None:
    folder, path, name, rounds = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    if sys.argv[5:]:
        with locked_folder(folder, StopFlag()):
            print("held", flush=True)
            time.sleep(600)
    asyncio.run(race(folder, path, name, rounds))


if __name__ == "__main__":
    main()
