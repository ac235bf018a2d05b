"""The job: a person comes in the morning, sees what the night did, answers what waits, and goes on.

Three plans ran: one is done, one was added with --ask and waits for a yes, one was stopped at its limit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledger.postgres import Server
from program.stage import PRICED, QUICK, Stage, calls, stage
from search import some
from terminal.repl import Repl
from terminal.terminal import ENTER, Terminal, ctrl

from nexus_cli.ledger import Ledger

CHECK, UPGRADE, SEARCH = "Read notes.txt, say what is in it.", "Upgrade: write lock.txt.", "Read notes.txt for ever."
WRITES = ("touch lock.txt", "touch lock2.txt", "touch lock3.txt")


def model(body: Any) -> dict[str, Any]:
    first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
    done = [call for one in body["messages"] for call in one.get("tool_calls") or ()]
    if CHECK in first:
        return calls(("read_file", {"path": "notes.txt"})) if not done else {"text": "All quiet.\n\nNothing to do."}
    if SEARCH in first:
        return calls(("read_file", {"path": "notes.txt"})) | {"text": f"Look {len(done)}."}
    if UPGRADE not in first:
        known = [line.strip() for line in first.splitlines() if line.startswith("  > ")]
        return {"text": f"As it reported: {' '.join(known)}" if known else "I know nothing of a night."}
    if len(done) < len(WRITES):
        return calls(("bash", {"command": WRITES[len(done)]}))
    return {"text": "Upgraded, three locks."}


def add(place: Stage, *arguments: str) -> None:
    added = place.run("schedule", "add", *arguments, "--cron", "0 3 * * *", "--model", place.environment["NEXUS_MODEL"])
    assert added.status == 0, added


def pass_night(place: Stage, url: str) -> None:
    """Three in the morning: every plan is due, and cron calls nexus."""
    with closing(Ledger.open(url or place.ledger)) as ledger:
        for plan in ledger.plans.list_plans():
            ledger.plans.change(plan.key, next_at=ledger.runs.now() - 1.0)
    done = place.run("serve", "--once")
    assert done.status == 3, done


def words(terminal: Terminal) -> str:
    return " ".join(" ".join(terminal.scrollback()).split())


def shows(text: str) -> Callable[[Terminal], bool]:
    return lambda terminal: text in words(terminal)


@pytest.mark.parametrize("kind", some(["sqlite", "postgres"], 2))
def test_a_person_sees_what_the_night_did_and_answers_what_waits(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    server: Server | None = request.getfixturevalue("postgres") if kind == "postgres" else None
    url = server.new_database() if server else ""
    with stage(tmp_path, model) as place:
        place.settings(QUICK + PRICED + (f'[ledger]\nurl = "{url}"\n' if url else ""))
        (place.folder / "notes.txt").write_text("a note\n")
        add(place, CHECK, "--name", "Check", "--allow", "auto")
        add(place, UPGRADE, "--name", "Upgrade", "--allow", "ask", "--ask")
        add(place, SEARCH, "--name", "Search", "--allow", "auto", "--max-steps", "3")
        pass_night(place, url)
        play_morning(place)
        pass_night_again(place, url)


def play_morning(place: Stage) -> None:
    with Repl.of_stage(place, columns=140) as repl:
        told = words(repl)
        assert 'while you were away: plan Check ran once; run-1: "All quiet. Nothing to do."' in told, told
        assert "plan Search ran once and failed; run-3: the run reached a limit" in told, told
        assert "run-2 (plan Upgrade) waits for approval: bash touch lock.txt (to answer: /runs resume run-2)" in told, (
            told
        )
        repl.wait_for(lambda one: any("1 run to answer: /runs" in line for line in one.lines()), 30)

        repl.send("/runs" + ENTER)
        repl.asked_about("bash")
        assert "run-2 (plan Upgrade) asks:" in words(repl) and not (place.folder / "lock.txt").exists()
        repl.send("y")
        repl.wait_for(shows("run-2 (plan Upgrade) waits for approval: bash touch lock2.txt"), 60)
        assert (place.folder / "lock.txt").exists() and not (place.folder / "lock2.txt").exists()

        repl.idle()
        repl.send("/runs" + ENTER)
        repl.wait_for(lambda one: words(one).count("run-2 (plan Upgrade) asks:") == 2, 60)
        repl.asked_about("bash")
        repl.send("s" + ENTER)  # for the rest of the run
        repl.wait_for(shows('run-2 (plan Upgrade) done: "Upgraded, three locks."'), 60)
        assert (place.folder / "lock3.txt").exists()
        repl.wait_for(lambda one: not any("to answer" in line for line in one.lines()[-3:]), 30)
        repl.say("What did the nightly run change?")
        repl.wait_for(shows("As it reported: > All quiet. > Nothing to do."), 60)
        first = place.server.requests[-1].body["messages"]
        assert [one["role"] for one in first[:2]] == ["system", "user"] and "All quiet" not in str(first[0]["content"])
        assert "nexus runs show run-1" in str(first[1]["content"])
        repl.idle()
        repl.send("/context all" + ENTER)
        repl.wait_for(shows("away.run-1"), 60)
        repl.send(ctrl("d"))
        assert repl.status() == 0

    shown = place.run("runs", env={"COLUMNS": "200"})
    search, upgrade, check = shown.text.replace("\n    ", " · ").splitlines()
    folder = str(place.folder).replace(str(place.home), "~")
    model = place.environment["NEXUS_MODEL"].split("/")[-1]
    for part in ("run-2 · done · ", "plan Upgrade", "plan-2", folder, "ask", model, "$0.0", "Upgraded, three locks."):
        assert part in upgrade, (part, upgrade)
    assert "the run reached a limit" in search and "All quiet." in check, shown


def pass_night_again(place: Stage, url: str) -> None:
    """The next night the plan asks again; what is not wanted is cancelled together."""
    pass_night(place, url)
    paused = place.run("runs", "pause", "--plan", "Upgrade", "--json").result
    assert [(one["id"], one["paused"]) for one in paused["runs"]] == [("run-5", True)], paused
    assert place.run("serve", "--once", "--json").result["runs"] == []
    assert "paused" in place.run("runs", "list").text
    assert place.run("runs", "resume", "--all").text.splitlines()[0] == "1 run resumed."
    cancelled = place.run("runs", "cancel", "--plan", "Upgrade", "--json").result
    assert [(one["id"], one["state"]) for one in cancelled["runs"]] == [("run-5", "cancelled")], cancelled
    assert place.run("runs", "cancel").status == 2
