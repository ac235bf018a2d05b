"""The scripted model server as a program: `python tests/server/__main__.py --script FILE.json --port 0`.

Prints one JSON line with its address on stdout, then serves until it is interrupted or its bounds are reached.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

if __name__ == "__main__":  # started as a file, its folder is on the path instead of the one above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from server.forms.overflow import DIALECTS
from server.meter import Meter
from server.play import ScriptedServer


def main() -> int:
    """Serves; 0 when it ended as it should, 2 when the script is wrong or the port taken."""
    parser = argparse.ArgumentParser(prog="server", description="A scripted model provider on 127.0.0.1.")
    parser.add_argument("--script", type=Path, help="JSON: a list of steps, or an object (README.md)")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, help="one JSON line per finished request")
    parser.add_argument("--refuse-above", type=int, metavar="TOKENS")
    parser.add_argument("--factor", type=float, default=1.0, help="of the server's own token counter")
    parser.add_argument("--dialect", choices=DIALECTS, default="openai")
    parser.add_argument("--max-requests", type=int, default=5000)
    parser.add_argument("--lifetime", type=float, default=600.0, metavar="SECONDS")
    given = parser.parse_args()
    try:
        server = ScriptedServer(
            given.script,
            port=given.port,
            refuse_above=given.refuse_above,
            dialect=given.dialect,
            meter=Meter(factor=given.factor),
            max_requests=given.max_requests,
            lifetime=given.lifetime,
            log=given.log,
        ).start()
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"server: {error}", file=sys.stderr)
        return 2
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    print(json.dumps({"url": server.url, "port": server.port}), flush=True)
    while not ended.is_set() and not server.join(0.1):
        pass
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
