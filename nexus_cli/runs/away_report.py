"""What unattended runs of a project have done since the person was last here: told once, in a few lines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.elide import one_line, plural
from nexus_cli.core.run import Run
from nexus_cli.ledger import Ledger

MOST_LINES = 5
LONGEST = 160
"""Characters of a report's beginning."""


def take_away_lines(ledger: Ledger, folder: Path) -> list[str]:
    """Return a line for each plan, service and space whose runs in this project have ended since the last call."""
    project = str(project_identity(folder))
    ended = ledger.runs.ended_since(_last_time(project))
    if not ended:
        return []
    _note_time(project, ended[-1].updated)
    here = [run for run in ended if str(project_identity(Path(str(run.options.get("folder") or "/")))) == project]
    here.sort(key=_origin)
    lines = [_line(origin, list(runs)) for origin, runs in groupby(here, key=_origin)]
    more = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + ([f"... and {more} more: nexus runs list shows them"] if more > 0 else [])


def _origin(run: Run) -> str:
    return f"{'agent' if run.type == 'space_message' else run.type} {run.title}"


def _line(origin: str, runs: Sequence[Run]) -> str:
    failed = [run for run in runs if run.state == "failed"]
    last = runs[-1]
    said = one_line(last.error or last.report)
    said = said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
    bad = f", {len(failed)} failed" if failed else ""
    return f"while you were away: {origin} ran {plural(len(runs), 'time')}{bad}; {last.id}: {said or last.state}"


def _file(project: str) -> Path:
    return places().data / "away" / hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _last_time(project: str) -> str:
    """Return the time up to which the person was told; "" if they never were."""
    with suppress(OSError, UnicodeDecodeError):
        return _file(project).read_text(encoding="ascii").strip()
    return ""


def _note_time(project: str, at: str) -> None:
    with suppress(OSError):  # told once more
        replace_private_file(_file(project), at.encode())
