"""Report the unattended runs of a project since the person's last visit, once, in a few lines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.elide import one_line, plural
from nexus_cli.core.run import APPROVAL, Run
from nexus_cli.ledger import Ledger

MOST_LINES = 5
MOST_RUNS = 1000
"""Most runs of one report, newest first: opening an old project for the first time does not list years of them."""
LONGEST = 160
"""Most characters of the beginning of a run's answer."""


def take_away_lines(ledger: Ledger, folder: Path) -> list[str]:
    """Return a line for each plan, service and space with runs in this project that ended, or began to wait for an
    approval, since the last call."""
    project = str(project_identity(folder))
    found = ledger.runs.rested_since(_last_time(project), MOST_RUNS)
    if not found:
        return []
    _note_time(project, found[-1].updated)
    project_of = cache(lambda folder: str(project_identity(Path(folder))))
    here = [run for run in found if project_of(str(run.options.get("folder") or "/")) == project]
    here = sorted((run for run in here if run.waits is None or run.waits.kind == APPROVAL), key=_origin)
    lines = [_line(origin, list(runs)) for origin, runs in groupby(here, key=_origin)]
    more = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + ([f"... and {more} more: nexus runs list shows them"] if more > 0 else [])


def _origin(run: Run) -> str:
    return f"{'agent' if run.type == 'space_message' else run.type} {run.title}"


def _line(origin: str, runs: Sequence[Run]) -> str:
    failed = [run for run in runs if run.state == "failed"]
    asks = [run for run in runs if run.waits is not None]
    last = asks[-1] if asks else runs[-1]
    said = one_line(last.waits.why if last.waits else last.error or last.report)
    said = said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
    said = f"waits for {said}: nexus runs resume {last.id}" if last.waits else said
    bad = f", {len(failed)} failed" if failed else ""
    return f"while you were away: {origin} ran {plural(len(runs), 'time')}{bad}; {last.id}: {said or last.state}"


def _file(project: str) -> Path:
    return places().data / "away" / hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _last_time(project: str) -> str:
    """Return the time up to which runs were reported; "" if none were."""
    with suppress(OSError, UnicodeDecodeError):
        return _file(project).read_text(encoding="ascii").strip()
    return ""


def _note_time(project: str, at: str) -> None:
    with suppress(OSError):  # reported once more
        replace_private_file(_file(project), at.encode())
