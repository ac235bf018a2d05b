"""Every row of the exit-status table, some through the installed script, and what must hold for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from program.rows import OF_EACH_KIND, ROWS, Row
from program.stage import NEXUS, Done, Stage, clean, stage, together
from search import variant

from nexus_cli.ledger import Ledger
from nexus_cli.reports.check_replay import check

NAMES = [row.name for row in ROWS]
EACH = [*NAMES[:OF_EACH_KIND], *map(variant, NAMES[OF_EACH_KIND:])]
"""The same, one of each kind for the gate."""
TOGETHER = 8
LINE = re.compile(r"nexus: [^:]+: .+\.")
KEYS = [
    "type",
    "version",
    "ok",
    "exit",
    "text",
    "data",
    "finish",
    "session",
    "model",
    "steps",
    "seconds",
    "usage",
    "context",
    "drops",
    "denied",
    "files_changed",
    "error",
]


@dataclass(frozen=True)
class Ended:
    """How one row ended."""

    row: Row
    done: Done
    requests: int
    replayed: list[bool]
    """Of every session that it left."""
    left: list[str]
    """Names in the project folder afterwards."""


def replays(place: Stage) -> list[bool]:
    """Whether each session of the ledger can be rebuilt."""
    if not place.ledger.exists():
        return []
    ledger = Ledger.open(place.ledger)
    try:
        return [bool(check(ledger, info.id)["ok"]) for info in ledger.sessions(None, 50)]
    finally:
        ledger.close()


class Table:
    """How each row ended, by its name; rows run a few together, when the first of them is looked at."""

    def __init__(self, folder_for: Callable[[str], Path]) -> None:
        self._folder_for = folder_for
        self._ended: dict[str, Ended] = {}

    def __getitem__(self, name: str) -> Ended:
        if name not in self._ended:
            first = NAMES.index(name) // TOGETHER * TOGETHER
            for each in together(self._reach, ROWS[first : first + TOGETHER]):
                self._ended[each.row.name] = each
        return self._ended[name]

    def _reach(self, row: Row) -> Ended:
        with stage(self._folder_for(row.name), row.script) as place:
            place.settings(row.settings)
            done = place.ask("--json", *row.arguments, bug=row.bug, env=row.env, installed=row.installed)
            left = sorted(path.name for path in place.folder.iterdir())
            return Ended(row, done, len(place.server.requests), replays(place), left)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Table:
    assert Path(NEXUS).exists(), "the program is not installed beside this interpreter"
    return Table(tmp_path_factory.mktemp)


@pytest.mark.parametrize("name", EACH)
def test_the_row_ends_with_its_status_and_its_kind(ended: Table, name: str) -> None:
    each = ended[name]
    assert (each.done.status, each.done.kind) == (each.row.status, each.row.kind), each.done


@pytest.mark.parametrize("name", NAMES)
def test_the_result_is_one_object_with_all_its_keys(ended: Table, name: str) -> None:
    each = ended[name]
    result = each.done.result
    assert list(result) == KEYS and each.done.stdout.count(b"\n") == 1
    assert (result["type"], result["version"], result["data"]) == ("result", 1, None)
    assert (result["ok"], result["exit"]) == (each.row.status == 0, each.row.status)
    if each.row.kind:
        assert set(result["error"]) == {"kind", "message", "hint"}


@pytest.mark.parametrize("name", EACH)
def test_stderr_has_one_clear_line_and_no_traceback(ended: Table, name: str) -> None:
    each = ended[name]
    assert clean(each.done), each.done.told
    lines = [line for line in each.done.told if not line.startswith("Resume with: ")]
    errors = [line for line in lines if LINE.fullmatch(line) and " was refused: " not in line]
    if each.row.status:
        assert LINE.fullmatch(lines[-1]) and each.row.says in lines[-1], lines
        message = each.done.result["error"]["message"]
        assert lines[-1].startswith(f"nexus: {message.rstrip('.')}.") and message not in "".join(errors[:-1])
    else:
        assert not lines


@pytest.mark.parametrize("name", EACH)
def test_the_command_that_resumes_comes_last_whenever_there_is_a_session(ended: Table, name: str) -> None:
    each = ended[name]
    session = each.done.result["session"]
    assert bool(session) is each.row.session, each.done
    expected = [f"Resume with: nexus ask -r {session}"] if each.row.session and each.row.status else []
    assert [line for line in each.done.told if line.startswith("Resume")] == expected
    assert not expected or each.done.told[-1] == expected[0]


@pytest.mark.parametrize("name", EACH)
def test_no_more_is_sent_than_the_row_needs_and_all_of_it_can_be_rebuilt(ended: Table, name: str) -> None:
    each = ended[name]
    assert each.row.requests is None or each.requests == each.row.requests
    assert all(each.replayed) and (not each.row.session or each.replayed), each.replayed
    assert each.left == []


def test_what_a_partial_answer_had_is_given_out_only_where_it_ended(ended: Table) -> None:
    assert ended["length"].done.result["text"].startswith("half an ans")
    assert ended["refused"].done.result["finish"] == "refused"


def test_refused_calls_are_named(ended: Table) -> None:
    result = ended["denied"].done.result
    assert {(call["tool"], call["subject"]) for call in result["denied"]} == {("bash", "touch refused")}
    assert any("refused: bash touch refused" in line for line in ended["denied"].done.told)
