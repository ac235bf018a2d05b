"""`run.py`: the table of a model, resumed where it stopped, within its dollars."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from program.stage import MODEL, Stage, stage
from programs import need
from tasks.run import main
from tasks.styles import Player, Turn, careful
from tasks.task import Task, load, names

NAMES = ["crlf", "tabs", "wrong_assumption"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("bwrap")
    with stage(tmp_path, Player([load(name) for name in NAMES], careful, None)) as made:
        yield made


@pytest.mark.matrix
def test_a_run_stops_at_its_dollars_and_goes_on_where_it_stopped(
    place: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    asked: list[str] = []

    def ask(folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
        done = place.run(*arguments, cwd=folder)
        asked.append(arguments[-1])
        return done.status, done.text

    given = ["--model", MODEL, "--results", str(results)]
    assert main([*given, "--max-cost", "0.025", *NAMES], ask) == 3
    told = capsys.readouterr().out
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [row["task"] for row in rows] == ["crlf"] and rows[0]["solved"], rows
    assert "Stopped: the dollars are spent" in told and 0.01 < sum(row["cost"] for row in rows) <= 0.025, told
    with pytest.raises(SystemExit):
        main([*given, *NAMES], ask)
    assert "--resume" in capsys.readouterr().err
    before = len(asked)
    place.script(Player([load(name) for name in NAMES], lazy, None))
    assert main([*given, "--resume", *NAMES], ask) == 1
    told = capsys.readouterr().out
    assert len(asked) - before == 2, "what stands in the results is not asked again"
    lines = {line.split()[0]: line.split() for line in told.splitlines()}
    assert lines["crlf"][1] == "yes" and lines["wrong_assumption"][1] == "no" and lines["all"][1] != "3/3", told
    assert int(lines["crlf"][2]) >= 2 and lines["crlf"][5].endswith("%") and float(lines["all"][6]) > 0.01, told


class Answers:
    """A program that answers each turn with a result of this price, or with none."""

    def __init__(self, cost: float | None, is_result: bool = True, kind: str = "") -> None:
        self.cost, self.is_result, self.caps = cost, is_result, list[str]()
        self.error = {"kind": kind, "message": f"{kind} happened"} if kind else None
        self.asked = 0

    def __call__(self, folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
        self.asked += 1
        self.caps.append(arguments[arguments.index("--max-cost") + 1] if "--max-cost" in arguments else "")
        usage = {"input": 1, "output": 1, "cache_read": 0, "cost_usd": self.cost}
        result = {"text": "Done.", "steps": 1, "usage": usage, "error": self.error}
        return (0, json.dumps(result)) if self.is_result else (1, "")


@pytest.mark.matrix
@pytest.mark.parametrize("answers", [Answers(None, is_result=False), Answers(None)])
def test_an_unknown_cost_counts_as_all_that_was_allowed(answers: Answers, tmp_path: Path) -> None:
    several = next(name for name in names() if len(load(name).turns) > 1 and not load(name).tool)
    results = tmp_path / "results.jsonl"
    given = ["--model", MODEL, "--results", str(results), "--max-cost", "0.05", several, *NAMES]
    answers.caps.clear()
    assert main(given, answers) == 3
    (row,) = [json.loads(line) for line in results.read_text().splitlines()]
    assert row["task"] == several and row["cost"] == 0.05 and not row["solved"], row
    assert bool(row["stopped"]) == answers.is_result, "what had no dollars left is done again"
    assert answers.caps == ["0.050000"], "nothing is asked when nothing is left"
    unlimited = tmp_path / "unlimited.jsonl"
    main(["--model", MODEL, "--results", str(unlimited), "crlf"], answers)
    assert json.loads(unlimited.read_text())["cost"] is None


def lazy(task: Task, turn: int, folder: Path) -> Turn:
    """Do nothing, and claim that all is done."""
    yield from ()
    return "Done."
