"""Move the pins of `package.json` to the newest versions: `python tests/parity/move_pins.py [PROGRAM...]`.

Prints each version that has changed, and what the first request of the program has gained and lost. Run all rows then.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from parity.first_request import count
from parity.peers import PACKAGES, Bench
from parity.rows import Row
from parity.run import PROGRAMS

PINS = Path(__file__).with_name("package.json")


def find_newest(package: str) -> str:
    """Return the newest version of a package that npm knows."""
    line = ["npm", "view", package, "version"]
    return subprocess.run(line, capture_output=True, text=True, check=True, timeout=120).stdout.strip()


def read_first(program: str) -> tuple[set[str], int]:
    """Return the names of the tools in the first request of the pinned version, and its tokens."""
    with tempfile.TemporaryDirectory() as root:
        row = Row("first", lambda played: None, {}, peer=program)
        body = Bench(Path(root).resolve(), PROGRAMS).play_peer(row).requests[0]
    tools = json.loads(body).get("tools") or ()
    names = {str(one.get("name") or one.get("function", {}).get("name") or one["type"]) for one in tools}
    return names, count(body)[1]


def main(programs: list[str]) -> int:
    """Move the pins of `programs`, all without; return 0."""
    for program in programs or PACKAGES:
        pins, package = json.loads(PINS.read_text()), PACKAGES[program]
        before, newest = pins["dependencies"][package], find_newest(package)
        if newest == before:
            print(f"{program} {before}: the newest")
            continue
        tools, tokens = read_first(program)
        pins["dependencies"][package] = newest
        PINS.write_text(f"{json.dumps(pins)}\n")
        new_tools, new_tokens = read_first(program)
        changes = [*(f"+{one}" for one in sorted(new_tools - tools)), *(f"-{one}" for one in sorted(tools - new_tools))]
        print(f"{program} {before} -> {newest}: first request {tokens:,} -> {new_tokens:,} tokens", *changes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
