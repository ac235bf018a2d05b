"""The journal of a session: `data/undo/SESSION.jsonl`, one synced line for each step.

Before a command a line says that it has begun, so that what a killed process changed is found by the next one. Lines
that are cut off or damaged are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from nexus_cli.config.private_file import append_lines
from nexus_cli.core.errors import NexusError, reason_of, write_failure_hint
from nexus_cli.core.json_value import JsonObject
from nexus_cli.undo.records import Step, fields_of, parse_step

_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn `OSError` of journals, kept bytes and restored files into `NexusError`."""
    try:
        yield
    except OSError as error:
        hint = "Wait a moment" if isinstance(error, TimeoutError) else "Check the permissions"
        hint = f"{write_failure_hint(error, hint)}; then repeat the command"
        raise NexusError("internal", what, reason_of(error).lower(), hint) from error


def journal_path(data: Path, session: str) -> Path:
    """Return the file of a session's journal. Raises `ValueError` for a name that is no session id."""
    if not _SESSION.fullmatch(session):
        raise ValueError(f"not a session id: {session!r}")
    return data / "undo" / f"{session}.jsonl"


def append_step(data: Path, step: Step) -> None:
    """Add a step to the journal of its session; it is on the disk on return. Raises `OSError`."""
    changed = bool(step.changes or step.references or step.unfollowed)
    _append(journal_path(data, step.session), step, synced=changed)


def begin_step(data: Path, step: Step) -> None:
    """Note that a step has begun, of which `changes` are not known yet. `append_step` with the same id ends it."""
    _append(journal_path(data, step.session), {"begun": step}, synced=bool(step.undoes))


def end_step(data: Path, session: str, step: str) -> None:
    """Note that a step that has begun, by its id, changed nothing."""
    _append(journal_path(data, session), {"ended": step}, synced=False)


def copy_steps(data: Path, session: str, fork: str, turns: int) -> None:
    """Copy the steps of the first `turns` turns to the journal of a fork of the session. Raises `OSError`."""
    steps = [replace(step, session=fork) for step in read_steps(data, session) if step.turn <= turns]
    if steps:
        _append(journal_path(data, fork), *steps)


def read_steps(data: Path, session: str) -> list[Step]:
    """Return the steps of a session, oldest first. [] without a journal."""
    rows = _read_rows(journal_path(data, session))
    return [step for row in rows if "begun" not in row and (step := _parse(row))]


def read_begun(data: Path, session: str) -> list[Step]:
    """Return the steps that began and did not end, oldest first: of a killed process, or of one that runs."""
    begun: dict[str, Step] = {}
    for row in _read_rows(journal_path(data, session)):
        step = _parse(row)
        begun.pop(step.id if step else str(row.get("ended", "")), None)
        if step and "begun" in row:
            begun[step.id] = step
    return list(begun.values())


def read_begun_undos(data: Path, session: str) -> list[Step]:
    """Return the steps of an undo that was killed, [] if there is none; the next undo completes it."""
    return [step for step in read_begun(data, session) if step.undoes]


def read_steps_since(data: Path, at: str) -> list[Step]:
    """Return the steps of all sessions that ended at or after `at` (see `Step.at`), oldest first."""
    since, steps = datetime.fromisoformat(at).timestamp(), []
    with suppress(FileNotFoundError):
        for place in (data / "undo").iterdir():
            if place.suffix == ".jsonl" and place.stat().st_mtime >= since - 1:
                steps += _read_newest(place, since)
    return sorted(steps, key=lambda step: datetime.fromisoformat(step.at))


def _read_newest(place: Path, since: float) -> list[Step]:
    """Return the steps that ended since then, newest first, without parsing older lines."""
    steps = []
    for row in _read_rows(place, -1):
        with suppress(ValueError):
            if step := _parse(row):
                if datetime.fromisoformat(step.at).timestamp() < since:
                    break
                steps += [] if "begun" in row else [step]
    return steps


def _append(place: Path, *rows: Step | JsonObject, synced: bool = True) -> None:
    """Add rows as lines of JSON in ASCII."""
    lines = "\n".join(json.dumps(row, default=fields_of, separators=(",", ":")) for row in rows)
    append_lines(place, f"{lines}\n".encode("ascii"), synced=synced)


def _parse(row: JsonObject) -> Step | None:
    """Return the step that a line records or says to have begun; None for a damaged line, or one of the end."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        return parse_step(row.get("begun", row))
    return None


def _read_rows(place: Path, order: int = 1) -> Iterator[JsonObject]:
    """Yield the readable lines of a journal, with the `order` -1 the last one first."""
    lines: list[bytes] = []
    with suppress(FileNotFoundError):
        lines = place.read_bytes().split(b"\n")[::order]
    for line in lines:
        with suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict):
                yield row
