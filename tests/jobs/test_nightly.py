"""The job: "every night, run the suite, fix what fails, commit that on a branch, report".

Three nights over a small shop. In the first a price is wrong; in the second all is well; in the third a test fails for
a service that is down, which no edit can mend. Nobody watches, so nothing may wait for a person.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ledger.postgres import Server
from program.stage import PRICED, QUICK, Done, Stage, calls, stage
from programs import need
from search import some

from nexus_cli.ledger import Ledger

PROMPT = "Run the suite. Fix what fails, commit the fix on the branch nightly and push it. Report in three lines."
# -B: the edit leaves size and, on a quick machine, second of the file as they are, so its compiled form would count.
SUITE = "python3 -B -m unittest -q 2>&1 | tail -15"
PRICE = "def total(prices):\n    return sum(prices)\n\n\ndef with_tax(price):\n    return round(price * 1.19, 2)\n"
TESTS = """\
import os
import unittest

from shop.price import total, with_tax


class Prices(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)

    def test_tax(self):
        self.assertEqual(with_tax(100), 119.0)

    def test_stock_service(self):
        self.assertTrue(os.path.exists("stock.up"), "the stock service is down")
"""
MODULES = 9


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Engineer:
    """A model that works through a night step by step and goes by what the results say."""

    def __call__(self, body: Any) -> dict[str, Any]:
        messages = body["messages"]
        done = [call["function"] for one in messages for call in one.get("tool_calls") or ()]
        results = [str(one["content"]) for one in messages if one["role"] == "tool"]
        told = "\n".join(results)
        ran = [json.loads(one["arguments"]).get("command", "") for one in done]
        if not done:
            return calls(
                ("bash", {"command": "git status --short && git log --oneline -3"}), ("bash", {"command": SUITE})
            )
        suites = [text for line, text in zip(ran, results, strict=True) if line == SUITE]
        if "FAILED" not in suites[0]:
            return {"text": "All tests pass. Nothing to fix.\nNothing was committed."}
        if "stock service is down" in suites[0]:
            return self.look_for_stock(ran)
        return self.fix_price(done, ran, told, suites)

    def look_for_stock(self, ran: list[str]) -> dict[str, Any]:
        if not any("curl" in line for line in ran):
            return calls(("bash", {"command": "curl -sS http://stock.example/health", "network": True}))
        return {"text": "1 test fails: the stock service is down.\nNo edit can fix that.\nNothing was committed."}

    def fix_price(self, done: list[Any], ran: list[str], told: str, suites: list[str]) -> dict[str, Any]:
        reads = [one for one in done if one["name"] == "read_file"]
        if len(reads) < MODULES:  # it does not know yet which one is to blame, and reads one after another
            return calls(("read_file", {"path": f"shop/module_{len(reads)}.py"}))
        if len(reads) == MODULES:
            return calls(("read_file", {"path": "shop/price.py"}), ("bash", {"command": "git diff HEAD~1 --stat"}))
        edits = [one for one in done if one["name"] == "edit_file"]
        if not edits:
            edit = {"old": "1.16", "new": "1.19"}
            return calls(
                ("edit_file", {"path": "shop/price.py", "edits": [edit]}),
                ("bash", {"command": "python3 -B -m unittest -q tests.test_price.Prices.test_tax"}),
            )
        if len(suites) == 1:
            return calls(("bash", {"command": SUITE}))
        assert "FAILED" not in suites[-1], suites[-1]
        steps = (
            "git checkout -B nightly",
            "git add -A",
            "git commit -qm 'Charge 19 % of tax again'",
            "git log --oneline -1",
            "git push origin nightly",
        )
        left = [line for line in steps if line not in ran]
        if left:
            return calls(("bash", {"command": left[0]}))
        pushed = "not pushed: that was refused" if "error: failed to push" in told else "pushed"
        return {"text": f"with_tax charged 16 %.\nFixed, {len(ran)} calls, the suite passes.\nCommitted, {pushed}."}


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the ledger, "" for the file in the home."""
    if getattr(request, "param", "") != "postgres":
        yield ""
        return
    server: Server = request.getfixturevalue("postgres")
    made = server.new_database()
    yield made
    server.drop(made)


@pytest.fixture
def place(tmp_path: Path, url: str) -> Iterator[Stage]:
    need("bwrap")
    with stage(tmp_path, Engineer()) as made:
        made.settings(QUICK + PRICED + (f'[ledger]\nurl = "{url}"\n' if url else ""))
        origin = tmp_path / "origin.git"
        git(tmp_path, "init", "-q", "--bare", str(origin))
        shop, tests = made.folder / "shop", made.folder / "tests"
        for folder in (shop, tests):
            folder.mkdir()
            (folder / "__init__.py").touch()
        for number in range(MODULES):
            (shop / f"module_{number}.py").write_text(f"def part_{number}(value):\n    return value + {number}\n")
        (shop / "price.py").write_text(PRICE)
        (tests / "test_price.py").write_text(TESTS)
        (made.folder / "stock.up").touch()
        git(made.folder, "init", "-q", "-b", "main")
        git(made.folder, "remote", "add", "origin", str(origin))
        git(made.folder, "config", "user.email", "night@example.org")
        git(made.folder, "config", "user.name", "Night")
        commit(made.folder, "A shop")
        yield made


def commit(folder: Path, words: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", words)


def pass_night(place: Stage, change: Callable[[], None], url: str = "") -> tuple[Done, dict[str, Any]]:
    """Let `change` happen in the day, then run what is due at three in the morning, as cron does."""
    change()
    with closing(Ledger.open(url or place.ledger)) as ledger:
        ledger.plans.change(1, next_at=time.time() - 1.0)
    done = place.run("serve", "--once", "--json")
    (run,) = done.result["runs"]
    return done, place.run("runs", "show", run["id"], "--json").result


@pytest.mark.parametrize("url", some(["sqlite", "postgres"], 2), indirect=True)
def test_three_nights_end_without_a_person(place: Stage, url: str) -> None:
    folder = place.folder
    added = place.run("schedule", "add", PROMPT, "--cron", "0 3 * * *", "--allow", "auto", "--name", "Nightly")
    assert added.status == 0, added

    def break_price() -> None:
        (folder / "shop" / "price.py").write_text(PRICE.replace("1.19", "1.16"))
        commit(folder, "Lower the tax")

    done, run = pass_night(place, break_price, url)
    assert (done.status, run["state"]) == (0, "done"), run
    assert run["report"].splitlines()[0] == "with_tax charged 16 %." and "not pushed" in run["report"], run
    assert "return round(price * 1.19, 2)" in git(folder, "show", "nightly:shop/price.py")
    assert git(folder, "log", "-1", "--format=%s", "nightly") == "Charge 19 % of tax again"
    assert len(place.server.requests) >= 18, "a night is more than a few steps"

    done, run = pass_night(place, lambda: None, url)
    assert (done.status, run["state"], run["report"].splitlines()[0]) == (0, "done", "All tests pass. Nothing to fix.")

    done, run = pass_night(place, (folder / "stock.up").unlink, url)
    assert (done.status, run["state"]) == (0, "done") and run["report"].startswith("1 test fails"), run
    states = [one["state"] for one in place.run("runs", "list", "--json").result["runs"]]
    assert states == ["done"] * 3, "no night waits for a person"
    shown = place.run("runs", "show", run["id"]).text
    assert "curl" in shown, "what was refused stands in the report"


PUSHES = (
    ("git push origin main", False),
    ("git push origin nightly && touch ../outside", False),
    ("git push origin nightly > ../outside", False),
    ("git -c alias.push='!touch ../outside' push origin nightly", False),
    ("git push origin nightly", True),
)


def test_a_rule_that_came_with_the_work_lets_exactly_its_command_out_of_the_sandbox(place: Stage) -> None:
    folder = place.folder

    def pushes(body: Any) -> dict[str, Any]:
        done = sum(len(one.get("tool_calls") or ()) for one in body["messages"])
        if done == len(PUSHES):
            return {"text": "Pushed."}
        return calls(("bash", {"command": PUSHES[done][0], "outside": "the remote is elsewhere"}))

    place.script(pushes)
    git(folder, "branch", "nightly")
    added = place.run(
        "schedule", "add", "push", "--in", "1h", "--allow", "auto", "--rule", "bash(git push origin nightly)"
    )
    assert added.status == 0 and "sandbox if the model asks: bash(git push" in added.text, added
    _, run = pass_night(place, lambda: None)
    assert run["state"] == "done" and run["report"].count("\n- bash ") == sum(not out for _, out in PUSHES), run
    first = str(place.server.requests[0].body["messages"][-1]["content"])
    assert "Allowed without asking, with `network` or `outside` too: bash(git push origin nightly)" in first, first
    results = place.results
    assert ["not permitted" in text for text in results] == [not out for _, out in PUSHES], results
    assert "refs/heads/nightly" in git(folder, "ls-remote", "origin") and not (folder.parent / "outside").exists()
    wrong = place.run("schedule", "add", "push", "--in", "1h", "--rule", "push(x)")
    assert wrong.status == 2 and "--rule 'push(x)'" in wrong.stderr.decode(), wrong


LONG = (
    "Go through the shop as its caretaker: run the whole suite, look at every module that has changed since yesterday,"
    " compare what it charges with the price list of the season, write down in your report each difference that you"
    " found with its file, and if nothing is different say so in one plain sentence, without any further remarks."
)
LESSON = "Orders above 90 Euro ship free of charge."


def test_the_next_night_knows_what_the_last_one_reported_and_learned(place: Stage) -> None:
    def caretaker(body: Any) -> dict[str, Any]:
        first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
        if body["messages"][-1]["role"] == "tool":
            return {"text": "module_3 charges 2 too much.\n" + "Looked at each module in turn. " * 40}
        if "PREVIOUS RUN: " not in first:
            return calls(("remember", {"slot": "project", "text": LESSON}))
        lines = first.partition("PREVIOUS RUN: ")[2].splitlines()
        learned = LESSON in first.partition("MEMORIES:")[2]
        return {
            "text": f"Last night: {lines[0]} | {lines[1].strip()} | {'I know' if learned else 'I do not know'} the rule"
        }

    place.script(caretaker)
    assert place.run("schedule", "add", LONG, "--cron", "0 3 * * *", "--name", "Caretaker").status == 0
    assert place.run("schedule", "add", LONG, "--cron", "0 4 * * *", "--name", "Other").status == 0
    _, run = pass_night(place, lambda: None)
    assert run["state"] == "done", run
    assert place.run("memory", "accept", "all").status == 0
    _, run = pass_night(place, lambda: None)
    told = run["report"]
    assert told.startswith("Last night: run-1 done at 20") and "(nexus runs show run-1)" in told, told
    assert "| > module_3 charges 2 too much. |" in told and told.endswith("| I know the rule"), told
    first = str(place.server.requests[-1].body["messages"][1]["content"])
    assert first.count(LONG) == 1 and first.endswith(f"{LONG} <- TRIGGER")
    assert 'instruction: "Go through the shop as its caretaker: run the whole suite…" [whole: below]' in first
    assert "Session started" not in first and "Now: " not in first and first.count("currentTime") == 1
    assert "Looked at…" in first and len(first.partition("PREVIOUS RUN")[2].partition(LONG)[0]) < 750, first
    with closing(Ledger.open(place.ledger)) as ledger:
        ledger.plans.change(2, next_at=time.time() - 1.0)
    other = place.run("serve", "--once", "--json").result["runs"][0]
    assert "Last night" not in other["last_words"], "another plan has another past"


@pytest.mark.matrix
def test_a_clock_that_is_set_back_in_the_midst_of_a_night_repeats_nothing_and_loses_nothing(place: Stage) -> None:
    place.script({"default": {"text": "Looked."}})
    for name, cron in (("Early", "30 2 * * *"), ("Late", "45 3 * * *"), ("Hourly", "0 * * * *")):
        added = place.run("schedule", "add", "look", "--cron", cron, "--zone", "UTC", "--name", name)
        assert added.status == 0, added
    night = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    with closing(Ledger.open(place.ledger)) as ledger:  # whatever the hour of the day in which this test runs
        for key, minutes in ((1, 150), (2, 225)):
            ledger.plans.change(key, next_at=(night + timedelta(minutes=minutes)).timestamp())

    def look(clock: str, day: int = 0) -> list[str]:
        """Calls nexus as cron does, while the clock of the machine shows this; the plans that ran."""
        hour, minute = map(int, clock.split(":"))
        shown = night + timedelta(days=day, hours=hour, minutes=minute)
        done = place.run("serve", "--once", "--json", bug=CLOCK.format(shown.timestamp() - time.time()))
        assert done.status == 0, done
        return sorted(run["title"] for run in done.result["runs"])

    assert look("1:59") == ["Hourly"], "for all that it has missed today"
    assert [look("2:01"), look("2:31"), look("3:01")] == [["Hourly"], ["Early"], ["Hourly"]]
    assert [look("2:05"), look("2:31"), look("3:01")] == [[], [], []], "an hour back: each of these had its run"
    assert [look("3:46"), look("4:01"), look("4:02")] == [["Late"], ["Hourly"], []]
    assert [look("2:31", day=1), look("3:46", day=1)] == [["Early", "Hourly"], ["Hourly", "Late"]]

    assert look("12:00", day=4) == ["Early", "Hourly", "Late"], "a clock that is days ahead"
    assert look("2:31", day=2) == [], "set right: the run of the wrong day was for this night too"
    assert [look("2:31", day=3), look("3:46", day=3)] == [["Early", "Hourly"], ["Hourly", "Late"]]

    runs = [place.run("runs", "show", str(key), "--json").result for key in range(1, 18)]
    times = [(run["title"], run["trigger"]["scheduledAt"]) for run in runs]
    assert len(times) == len(set(times)), times


CLOCK = (
    "from nexus_cli.ledger.database import Database\n"
    "Database.now_sql = \"((julianday('now') - 2440587.5) * 86400.0 + {:f})\"\n"
)
"""Sets the clock of the ledger for one process, by so many seconds."""
