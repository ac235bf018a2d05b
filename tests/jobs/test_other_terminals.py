"""The job: "which terminal was that in?": two turns run in two terminals; a third one lists them, sees what each works
on, and stops one, whose completed steps stay."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, end, stage, until
from search import sample

from nexus_cli.cli import process
from nexus_cli.commands.sessions import stop_running
from nexus_cli.core.errors import UsageError
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.lock_owners import ENTRY, UNKNOWN_OWNER, describe_process, end_owner, find_owners

SLEEP = 'touch {sign}; while ! test -e "$PWD/go"; do sleep 0.1; done'


def model(body: Any) -> dict[str, Any]:
    said = [one for one in body["messages"] if one["role"] == "user"][-1]
    if body["messages"][-1]["role"] == "tool":
        return {"text": "Done."}
    sign = "first" if "first" in str(said["content"]) else "second"
    return calls(("bash", {"command": SLEEP.format(sign=sign)}))


def running(place: Stage) -> list[dict[str, Any]]:
    rows = place.run("sessions", "list", "--running", "--json").result["running"]
    assert isinstance(rows, list)
    return rows


def test_what_runs_elsewhere_is_listed_and_can_be_stopped(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        assert running(place) == [] and "Nothing is running" in place.run("sessions", "--running").text
        first, second = (place.begin("ask", "--allow", "auto", f"the {name} one") for name in ("first", "second"))
        try:
            assert until(lambda: all((place.folder / name).exists() for name in ("first", "second")))
            rows = {row["title"]: row for row in running(place)}
            assert {*rows} == {"the first one", "the second one"}
            assert {row["state"] for row in rows.values()} == {"runs"}
            assert rows["the first one"]["pid"] == first.pid and rows["the first one"]["command"] == "ask"
            assert rows["the second one"]["what"].startswith("bash touch second")
            name = rows["the first one"]["id"]
            refused = place.run("sessions", "stop", name)
            assert refused.status == 2 and "--yes" in "".join(refused.told) and first.poll() is None, refused
            stopped = place.run("sessions", "stop", name, "--yes")
            assert stopped.status == 0 and str(first.pid) in "".join(stopped.told), stopped
            assert first.wait() == 128 + signal.SIGTERM
            assert [row["title"] for row in running(place)] == ["the second one"]
            gone = place.run("sessions", "stop", name, "--yes")
            assert gone.status == 2 and "no process has it open" in "".join(gone.told), gone
            (place.folder / "go").touch()
            assert second.wait() == 0 and running(place) == []
        finally:
            end(first)
            end(second)
        shown = place.run("sessions", "show", name).text
        assert "the first one" in shown and "bash" in shown, "what was done is kept"


def test_a_process_that_has_not_the_lock_is_never_hit(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    line = {"pid": 1 << 22, "place": "elsewhere", "terminal": "", "command": "ask", "is_busy": True}
    (locks / "01A.lock").write_text(json.dumps(line))
    (locks / "01B.lock").write_text("no JSON")
    assert find_owners(locks) == {} and find_owners(tmp_path / "none") == {}
    assert not end_owner(locks / "01A.lock", UNKNOWN_OWNER)


@pytest.mark.parametrize(
    ("words", "command"),
    sample(
        [
            ("--allow ask", ""),
            ("-m serve -c", ""),
            ("--allow all ask --json hello", "ask"),
            ("serve --port 1", "serve"),
        ],
        4,
        2,
    ),
)
def test_a_lock_names_the_command_and_not_the_value_of_an_option(
    monkeypatch: pytest.MonkeyPatch, words: str, command: str
) -> None:
    monkeypatch.setattr("sys.argv", ["nexus", *words.split()])
    monkeypatch.setitem(sys.modules, ENTRY, process)
    assert json.loads(describe_process(is_busy=False))["command"] == command


def test_a_program_that_has_opened_a_session_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["app.py", "ask"])
    monkeypatch.delitem(sys.modules, ENTRY, raising=False)
    with closing(Ledger.open(tmp_path / "ledger.db")) as ledger:
        session = ledger.create_session(
            folder="/f", project="/f", model="m", recipe="ask", at="2026-01-01T00:00:00.000Z"
        ).id
        assert ledger.lock(session)
        with pytest.raises(UsageError, match="belongs to a program"):
            stop_running(ledger, session)
