"""Report the unattended runs of a project: those that ended since the person's last visit, broke off, or wait."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import APPROVAL, FAILED, HUMAN, RUNNING, UNATTENDED, Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import broken_runs, describe_run, name_origin

MAX_LINES = 5
MAX_RUNS = 1000
"""Most runs of one report, newest first: opening an old project for the first time does not list years of them."""
LONGEST = 160
"""Most characters of the beginning of a run's answer."""
REPORT = 600
"""Most characters of an answer that the model gets."""


@dataclass(frozen=True, slots=True)
class MissedRunsNote:
    """A line about unattended runs that the person has missed."""

    line: str
    run: str = ""
    """Id of the last of them; "" for none."""
    report: str = ""
    """The beginning of its answer."""


def pop_missed_runs_notes(ledger: Ledger, folder: Path) -> list[MissedRunsNote]:
    """Return a note for each plan, service and agent whose runs in this project ended since the last call, and for each
    run that broke off or waits for a person, however long it has."""
    project = ledger.project_of(folder)
    rested = ledger.runs.list_ended_or_waiting(_last_time(project), MAX_RUNS)
    if rested:
        _note_time(project, rested[-1].updated)
    ended = sorted((run for run in _in_project(ledger, rested, project) if run.has_ended), key=_source)
    notes = [_describe_runs(ledger, list(runs)) for _, runs in groupby(ended, key=_source)]
    broken = _in_project(ledger, broken_runs(ledger, ledger.runs.list_runs([RUNNING], MAX_RUNS)), project)
    other_runs = [*(run for run in reversed(broken) if run.type in UNATTENDED), *waiting_runs(ledger, folder)]
    return [
        *_first_notes(notes),
        *_first_notes([MissedRunsNote(describe_rest(ledger, run), run.id) for run in other_runs]),
    ]


def waiting_runs(ledger: Ledger, folder: Path) -> list[Run]:
    """Return the unattended runs of a project that wait for a person's approval or reply, oldest first."""
    runs = [run for run in ledger.runs.waiting() if run.type in UNATTENDED and _awaits_person(ledger, run)]
    return _in_project(ledger, sorted(runs, key=lambda run: run.key), ledger.project_of(folder))


def describe_rest(ledger: Ledger, run: Run) -> str:
    """Say on one line of a session what a run waits for and who can end that, or how it ended."""
    facts = describe_run(ledger, run)
    origin = f"{run.id} ({name_origin(facts)})"
    if facts["came"]:
        return f"{origin} will continue when nexus serve runs: {facts['came']}"
    if broken_runs(ledger, [run]):
        return f"{origin} was interrupted; to resume it: nexus runs resume {run.id}"
    if run.waits is None:
        return f"{origin} {run.state}: {_quote(run)}".removesuffix(": ")
    acts = {APPROVAL: f"/runs resume {run.id}"}
    if run.waits.kind == "reply":
        acts["reply"] = f"nexus space open {shlex.quote(ledger.spaces.get(run.waits.value['space']).name)}"
    hint = f" (to answer: {acts[run.waits.kind]})" if run.waits.kind in acts else ""
    return f"{origin} waits for {cut_at_word(one_line(run.waits.why), LONGEST)}{hint}"


def _awaits_person(ledger: Ledger, run: Run) -> bool:
    """True if a person has to answer: an approval, or a reply that a person was asked for."""
    if run.waits is None or run.waits.kind != "reply":
        return run.waits is not None and run.waits.kind == APPROVAL and ledger.runs.is_own(run)
    with suppress(NexusError):
        senders = run.waits.value["from"]
        members = ledger.spaces.get(run.waits.value["space"]).members
        return any(member.kind == HUMAN and (not senders or member.key in senders) for member in members)
    return False


def _in_project(ledger: Ledger, runs: Iterable[Run], project: str) -> list[Run]:
    """Return those of `runs` that work in a project here, or on a server are of it wherever they work."""
    project_of, shared = cache(lambda folder: ledger.project_of(Path(folder))), ledger.runs_of(project)
    return [run for run in runs if run.key in shared or project_of(str(run.options.get("folder") or "/")) == project]


def _first_notes(notes: list[MissedRunsNote]) -> list[MissedRunsNote]:
    omitted = len(notes) - MAX_LINES
    return notes[:MAX_LINES] + (
        [MissedRunsNote(f"... and {omitted} more (see `nexus runs list`)")] if omitted > 0 else []
    )


def _source(run: Run) -> tuple[str, int, str]:
    """Return the key by which runs share a line: plan or service, or agent and space."""
    return (run.type, run.entity or 0, str(run.space) if run.space else run.title)


def _describe_runs(ledger: Ledger, runs: Sequence[Run]) -> MissedRunsNote:
    last = runs[-1]
    failed = sum(run.state == FAILED for run in runs)
    bad = (" and failed" if len(runs) == 1 else f", {failed} failed") if failed else ""
    origin = name_origin(describe_run(ledger, last))
    facts = f" ({', '.join(last.facts)})" if last.facts else ""
    outcome = _quote(last) or last.state
    often = "once" if len(runs) == 1 else f"{len(runs)} times"
    line = f"while you were away: {origin} ran {often}{bad}; {last.id}: {outcome}{facts}"
    return MissedRunsNote(line, last.id, cut_at_word(last.last_words.strip(), REPORT))


def _quote(run: Run) -> str:
    """Return the error of a run, or the beginning of its last words in quotation marks, with the command that shows the
    rest; "" if it has neither."""
    text = " ".join(one_line(run.error or run.last_words).split())
    excerpt = cut_at_word(text, LONGEST) if len(text) > LONGEST else text
    quoted = excerpt if run.error or not excerpt else f'"{excerpt}"'
    return quoted if excerpt == text else f"{quoted} (nexus runs show {run.id})"


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
