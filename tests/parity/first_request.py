"""Count what each program sends before a person has said anything but "go": by hand, as `run.py`.

`python tests/parity/first_request.py [PROGRAMS]` prints a row for each: tools, and tokens of the whole body (cl100k).
PROGRAMS is npm's folder of the peers. Each program starts in an empty repository with an empty home.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from parity.peers import PACKAGES, Bench, NotRun
from parity.rows import Row

from nexus_cli.conversation.tokens.counter import TiktokenCounter


def count(body: str) -> tuple[int, int]:
    """Return the number of tools and the tokens of a request."""
    value = json.loads(body)
    tools = value.get("tools") or ()
    return len(tools), TiktokenCounter().count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def main(arguments: list[str]) -> int:
    """Play each program; return 2 if one could not be played."""
    programs = Path(arguments[0]) if arguments else Path.home() / ".cache/nexus-parity"
    status = 0
    with tempfile.TemporaryDirectory() as root:
        bench = Bench(Path(root), programs)
        for name in ("nexus", *PACKAGES):
            row = Row("first", lambda played: None, {}, peer="claude" if name == "nexus" else name)
            try:
                played = bench.play_nexus(row) if name == "nexus" else bench.play_peer(row)
            except NotRun as error:
                print(f"{name}: not run: {error}")
                status = 2
                continue
            tools, tokens = count(played.requests[0])
            print(f"{name}: {tools} tools, {tokens:,} tokens")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
