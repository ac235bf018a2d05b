"""Workers on the screen: side by side while a person types, their diffs reviewed, one price for all of it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from typing import Any

import pytest
from project_files import commit_all
from search import sample
from terminal.repl import Opens, Place, Repl
from terminal.stories import tool_call
from terminal.terminal import ENTER, ESCAPE, Terminal, ctrl

from nexus_cli.commands.usage import cost_report
from nexus_cli.ledger import Ledger

TASKS = ("TASK ONE: write one.txt", "TASK TWO: write two.txt")
READY = ("one", "two")


def task_of(body: dict[str, Any]) -> str:
    """The task that a request belongs to, "" for the session's own."""
    first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
    return next((task for task in TASKS if f"# Task\n{task}" in first), "")


def calls_in(body: dict[str, Any]) -> int:
    return sum(bool(one.get("tool_calls")) for one in body["messages"])


def meets(here: Place, name: str, other: str) -> str:
    """A command that ends when both workers are in it, and the test has let them go."""
    wait = " && ".join(f"[ -e {here.folder}/{one}.here ]" for one in (name, other))
    return f"touch {here.folder}/{name}.here; until {wait} && [ -e {here.folder}/go ]; do sleep 0.05; done"


def hands_over(here: Place, **more: Any) -> Callable[[dict[str, Any]], Any]:
    """The model: two tasks side by side, each one file; then an answer."""

    def step(body: dict[str, Any]) -> Any:
        task, count = task_of(body), calls_in(body)
        if not task:
            asked = [tool_call("agent", task=one, **more) for one in TASKS]
            if heard := re.findall(r"worker (w\d) has ended", str(body["messages"])):
                return f"HEARD {' '.join(sorted(set(heard)))}"
            return {"text": "I hand this over.", "calls": asked} if not count else "Both tasks are done."
        name, other = READY if task == TASKS[0] else READY[::-1]
        steps = [
            {"text": "WORKER WORDS", "calls": [tool_call("bash", command=meets(here, name, other))]},
            {"calls": [tool_call("write_file", path=f"{name}.txt", content=f"made by {name}\n")]},
        ]
        return steps[count] if count < len(steps) else f"The file {name}.txt is there."

    return step


def commit(here: Place) -> None:
    """Put the project under version control; what the workers' meeting leaves is ignored."""
    (here.folder / ".gitignore").write_text("*.here\ngo\n")
    commit_all(here.folder)


def boxed(made: Terminal) -> str:
    """What stands in the input box."""
    return next((line for line in reversed(made.lines()) if line.startswith("> ")), "").removeprefix("> ")


def begun(repl: Opens, places: Callable[..., Place], columns: int = 80, level: str = "all", **more: Any) -> Repl:
    here = places()
    here.server.load(hands_over(here, **more))
    commit(here)
    return repl(at=here, columns=columns, rows=40, arguments=("--allow", level))


def test_two_workers_work_side_by_side_while_a_person_types_and_their_diffs_are_applied(
    repl: Opens, places: Callable[..., Place]
) -> None:
    made = begun(repl, places, worktree=True)
    made.say("hand over", ends=False)
    made.wait_for(lambda one: all(any(f"● agent {id_} " in line for line in one.lines()) for id_ in ("w1", "w2")))
    made.wait_for(lambda one: sum("bash touch" in line for line in one.lines()) == 2)
    made.send("also name the author")
    made.wait_for(lambda one: boxed(one) == "also name the author")
    made.send(ENTER)
    made.wait_for("sending after this step: also name the author")
    made.send("a draft of the next")
    made.wait_for(lambda one: boxed(one) == "a draft of the next")
    made.wait_for(lambda one: all((made.folder / f"{name}.here").exists() for name in READY))
    assert not (made.folder / "one.txt").exists()
    (made.folder / "go").touch()
    made.wait_for("Both tasks are done.")
    made.idle()
    rows = made.lines()
    for id_, name in zip(("w1", "w2"), READY, strict=True):
        at = next(number for number, line in enumerate(rows) if line.startswith(f"✓ agent {id_} TASK"))
        assert re.search(r" · 3 steps · \S+ tokens · \$\d", rows[at]), rows[at]
        assert rows[at + 1] == f"    The file {name}.txt is there."
        assert rows[at + 2].startswith(f"    /agents review {id_} (worktree ")
    assert boxed(made) == "a draft of the next" and made.times("WORKER WORDS") == 0
    assert made.times("▌ also name the author") == 1
    last = [one for one in made.server.requests if not task_of(one.body)][-1]
    assert "also name the author" in str(last.body["messages"])

    made.send("\x15")
    assert not any((made.folder / f"{name}.txt").exists() for name in READY)
    for id_, name in zip(("w1", "w2"), READY, strict=True):
        made.send(f"/agents review {id_}{ENTER}")
        made.wait_for(f"made by {name}")
        made.wait_for(f"{id_}: 1 file changed, +1 -0")
        made.send(ENTER)
        made.wait_for(f"applied   {name}.txt")
        assert (made.folder / f"{name}.txt").read_text() == f"made by {name}\n"
    shown = sum(float(found) for line in rows for found in re.findall(r"^· 2 steps .*\$([\d.]+)", line))
    made.send(ctrl("d"))
    made.status()
    with_workers = Ledger.open_for_reading(made.place.nexus_home / "data" / "ledger.db")
    (root,) = with_workers.sessions()
    kinds = {row["name"]: row for row in cost_report(with_workers, root.id)["kinds"]}
    assert kinds["conversation"]["requests"] == 2 and kinds["workers"]["requests"] == 6
    total = kinds["conversation"]["cost_usd"] + kinds["workers"]["cost_usd"]
    assert root.cost_usd == pytest.approx(total) and shown == pytest.approx(total, abs=1e-4)
    with_workers.close()


@pytest.mark.parametrize("key", sample([ESCAPE, ctrl("c")], 2), ids=["esc", "ctrl-c"])
def test_a_stop_stops_the_workers_and_keeps_what_is_typed(key: str, repl: Opens, places: Callable[..., Place]) -> None:
    made = begun(repl, places, columns=40)
    made.say("hand over", ends=False)
    made.wait_for(lambda one: sum("bash" in line for line in one.lines()) == 2)
    assert all(len(line) <= 40 for line in made.lines())
    made.send("typed meanwhile")
    made.wait_for(lambda one: boxed(one) == "typed meanwhile")
    made.send(key)
    made.wait_for("Interrupted. Completed steps are kept.")
    made.idle()
    assert made.times("· agent w1 TASK ONE") == made.times("· agent w2 TASK TWO") == 1
    assert boxed(made) == "typed meanwhile"


def test_workers_go_to_the_background_by_a_key_and_are_not_left_unasked(
    repl: Opens, places: Callable[..., Place]
) -> None:
    made = begun(repl, places)
    made.say("hand it over", ends=False)
    made.wait_for(lambda one: all((made.folder / f"{name}.here").exists() for name in READY))
    made.send(ctrl("b"))
    made.wait_for(lambda one: "w1, w2 moved to the background" in one.text)
    made.wait_for(lambda one: "Both tasks are done." in one.text)
    made.idle()  # while a turn runs, Ctrl+D does nothing
    made.send(ctrl("d"))
    made.wait_for(lambda one: "workers w1, w2 are active. Exit again to stop the work" in " ".join(one.text.split()))
    (made.folder / "go").touch()
    made.wait_for(lambda one: any(f"The file {name}.txt is there." in one.text for name in READY))
    made.wait_for("HEARD w1 w2")  # of a worker that ends while a turn runs, the model alone gets the words
    made.idle()
    told = str(made.server.requests[-1].body["messages"])
    assert all(told.count(f"The file {name}.txt is there.") == 1 for name in READY), told
    assert told.count("reads its report") <= 1, "of one that ended while the other's end was answered"
    made.send(ctrl("d"))
    assert made.status() == 0


@pytest.mark.matrix
def test_a_review_of_a_worker_that_was_killed_in_a_command_shows_its_work(
    repl: Opens, places: Callable[..., Place]
) -> None:
    def step(body: dict[str, Any]) -> Any:
        if task_of(body):
            return {"calls": [tool_call("bash", command="echo half > one.txt; sleep 300")]}
        return "All is told." if calls_in(body) else {"calls": [tool_call("agent", task=TASKS[0], worktree=True)]}

    here = places(step)
    commit(here)
    made = repl(at=here, arguments=("--allow", "auto"))
    made.say("hand over", ends=False)
    made.wait_for(lambda one: any(here.nexus_home.glob("data/worktrees/*/*/one.txt")))
    made.signal(signal.SIGKILL)
    again = repl(at=here, arguments=("-c",))
    again.send(f"/agents review w1{ENTER}")
    again.wait_for("w1: 1 file changed, +1 -0")
    again.send("\x1b")
    again.wait_for(lambda one: "Search:" not in one.text)
    again.send(f"/continue{ENTER}")
    again.wait_for("All is told.")
    assert "a bug in nexus" not in again.text
