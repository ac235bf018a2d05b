"""Plays each row in the peer and in nexus and compares: `python tests/parity/run.py [WORD...]`. See README.md."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from parity.agent_rows import AGENT_ROWS  # noqa: E402  (found from tests/, as pytest finds it)
from parity.editor_rows import EDITOR_ROWS  # noqa: E402
from parity.hook_rows import HOOK_ROWS  # noqa: E402
from parity.peers import Bench, NotRun  # noqa: E402
from parity.picture_rows import PICTURE_ROWS  # noqa: E402
from parity.plugin_rows import PLUGIN_ROWS  # noqa: E402
from parity.rows import ROWS, Played, Row  # noqa: E402
from parity.rule_rows import RULE_ROWS  # noqa: E402
from parity.server_rows import SERVER_ROWS  # noqa: E402
from parity.session_rows import SESSION_ROWS  # noqa: E402
from parity.setting_rows import SETTING_ROWS  # noqa: E402

PROGRAMS = Path.home() / ".cache" / "nexus-parity"
"""Where the peers stay between runs: they take 800 MB."""


def main(words: list[str]) -> int:
    """Play the rows whose names have one of `words`, all without; return 1 if one differs, 2 if one was not run."""
    rows = (
        *ROWS,
        *HOOK_ROWS,
        *AGENT_ROWS,
        *RULE_ROWS,
        *SETTING_ROWS,
        *SESSION_ROWS,
        *SERVER_ROWS,
        *PLUGIN_ROWS,
        *PICTURE_ROWS,
        *EDITOR_ROWS,
    )
    chosen = [row for row in rows if not words or any(word in row.name for word in words)]
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="parity-") as root:
        bench = Bench(Path(root).resolve(), PROGRAMS)
        for row in chosen:
            outcomes.append(_compare(bench, row))
    print(", ".join(f"{outcomes.count(word)} {word}" for word in ("same", "chosen", "differs", "not run")))
    return 1 if "differs" in outcomes else 2 if "not run" in outcomes else 0


def _compare(bench: Bench, row: Row) -> str:
    """Play a row twice, print its outcome and return it."""
    try:
        wanted, found = (row.look(check_ran(row, play(row))) for play in (bench.play_peer, bench.play_nexus))
    except (NotRun, LookupError, ValueError) as why:
        print(f"not run   {row.name}: {why}", flush=True)
        return "not run"
    outcome = "same" if wanted == found else "chosen" if row.chosen else "differs"
    print(f"{outcome:9} {row.name}{f': {row.chosen}' if outcome == 'chosen' else ''}", flush=True)
    if outcome == "differs":
        print(f"  {row.peer}: {wanted}\n  nexus: {found}", flush=True)
    return outcome


def check_ran(row: Row, played: Played) -> Played:
    """Return what a program left behind. Raises `NotRun` if it ended without a request, but for a row that refuses
    it: a program that cannot start would leave the same as one that refuses."""
    if not (played.requests or row.sends_nothing):
        raise NotRun(f"it sent no request, exit status {played.status}")
    return played


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
