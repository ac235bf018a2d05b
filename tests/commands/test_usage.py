"""What all sessions used: the sums are those of every session, days are those of a zone, no price is guessed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, opened, say, the_ledger
from session.recorded_usage import spend

from nexus_cli.commands.forms import find_form
from nexus_cli.commands.usage import cost_report, usage_report
from nexus_cli.config.settings import Settings
from nexus_cli.core.usage import Cost, Usage
from nexus_cli.ledger import Ledger
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

LATE = "2026-01-01T23:30:00.000Z"
NEXT = "2026-01-02T10:00:00.000Z"
PRICED = Usage(1000, 100, cache_read=800, cost_usd=0.25)
UNPRICED = Usage(500, 50, cost_usd=None)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system one hour ahead of UTC."""
    monkeypatch.setenv("TZ", "XYZ-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """Two projects, two models; one request without a price, one without an answer."""
    made = Ledger.open(None)
    spend(made, "/shop", "openai/gpt-5", (LATE, PRICED), (NEXT, PRICED))
    spend(made, "/shop", "local/odd", (NEXT, UNPRICED))
    spend(made, "/page", "openai/gpt-5", (NEXT, PRICED), (NEXT, None))
    yield made
    made.close()


def test_the_sums_come_out_by_day_model_and_project(ledger: Ledger) -> None:
    value = usage_report(ledger)
    total = value["total"]
    assert (value["version"], value["zone"], value["since"]) == (1, "UTC", None)
    assert (total["sessions"], total["requests"], total["input"], total["output"]) == (3, 5, 3600, 350)
    assert (total["cost_usd"], total["known_usd"], total["unpriced"]) == (None, 0.75, 2)
    assert [(day["day"], day["requests"], day["cost_usd"]) for day in value["days"]] == [
        ("2026-01-01", 1, 0.25),
        ("2026-01-02", 4, None),
    ]
    assert [(one["model"], one["sessions"], one["known_usd"]) for one in value["models"]] == [
        ("openai/gpt-5", 2, 0.75),
        ("local/odd", 1, 0),
    ]
    assert [(one["project"], one["requests"]) for one in value["projects"]] == [("/shop", 3), ("/page", 2)]
    for key in ("days", "models", "projects"):
        for figure in ("requests", "input", "output", "cache_read", "known_usd", "unpriced"):
            assert sum(one[figure] for one in value[key]) == total[figure]


def test_a_cost_recorded_without_its_parts_leaves_them_unknown_and_none_is_made_up(ledger: Ledger) -> None:
    parts = {"input": 0.01, "cached": 0.02, "written": 0.03, "output": 0.04}
    spend(ledger, "/shop", "openai/gpt-5", (NEXT, Usage(1000, 100, 500, 300, 0, 0.1, Cost(**parts, saved=0.05))))
    before, after = usage_report(ledger)["days"]
    assert before["cost_usd"] == 0.25 and before["cost"] is None and set(before["known_cost"].values()) == {0.0}
    assert (after["cost"], after["known_cost"], after["saved_usd"]) == (None, parts, 0.05)
    text = find_form("usage")(usage_report(ledger), 200)
    shown = "$0.0100 input, $0.0200 cached, $0.0300 written, $0.0400 output"
    assert f"By component: {shown}, $0.7500 unknown (recorded by an older nexus). The cache saved $0.0500." in text


def test_a_day_is_that_of_the_zone_and_what_was_before_since_is_left_out(ledger: Ledger, berlin: None) -> None:
    assert [day["day"] for day in usage_report(ledger, local=True)["days"]] == ["2026-01-02"]
    since = usage_report(ledger, datetime(2026, 1, 2, tzinfo=UTC))
    assert since["since"] == "2026-01-02T00:00:00.000Z" and since["total"]["requests"] == 4
    assert usage_report(ledger, datetime(2026, 1, 3, tzinfo=UTC))["total"]["sessions"] == 0


def test_the_report_of_a_person_says_what_is_known_and_how_to_set_a_price(ledger: Ledger) -> None:
    value = usage_report(ledger, local=True)
    text = find_form("usage")(value, 100)
    assert text.startswith(
        "$0.7500+ for 5 requests (1 without an answer) in 3 sessions: 3,600 tokens in (66.7% cached), 350 out"
    )
    assert """\n  nexus config set 'models."local/odd".input_price' DOLLARS_PER_MILLION""" in text
    assert "?" not in text
    row = next(line for line in text.splitlines() if line.endswith("local/odd"))
    assert row.split()[-2:] == ["-", "local/odd"]
    later = [{**value["days"][0], "day": f"2026-03-{day:02}"} for day in range(1, 32)]
    listed = find_form("usage")({**value, "days": later}, 100)
    assert "2026-03-01\n" not in listed and "1 earlier day not listed: --since 2026-03-01 lists all" in listed
    assert "2026-03-01\n" in find_form("usage")({**value, "days": later, "since": NEXT}, 100)
    unknown = usage_report(ledger)["models"][1]
    only = {**value, "total": unknown, "days": [], "projects": [], "models": [unknown]}
    alone = find_form("usage")(only, 100)
    assert "cost" not in alone and "$" not in alone.partition("To set a price")[0]


@pytest.mark.matrix
def test_a_request_counts_for_the_model_that_it_was_sent_to(tmp_path: Path) -> None:
    first = opened(Played(lambda request: "answer"), tmp_path)
    assert say(first, "one")[1].ok
    asked = Options(tmp_path, "openai/quick", resume=first.id)
    session = open_session(asked, Settings(), approver=None, provider=Played(lambda request: "answer"))
    assert say(session, "two")[1].ok
    with the_ledger() as ledger:
        value: Mapping[str, Any] = usage_report(ledger)
        spent = cost_report(ledger, session.id)
    assert {one["model"] for one in value["models"]} == {"openai/quick", MODEL}
    for one in spent["models"]:
        (same,) = (other for other in value["models"] if other["model"] == one["name"])
        assert {key: same[key] for key in one if key != "name"} == {key: one[key] for key in one if key != "name"}
    assert value["total"]["cost_usd"] == spent["total"]["cost_usd"]


def test_by_one_thing_only_that_is_listed(ledger: Ledger) -> None:
    value = usage_report(ledger, by="project")
    assert [(one["name"], one["requests"]) for one in value["named"]] == [("/shop", 3), ("/page", 2)]
    lines = find_form("usage")(value, 100).splitlines()
    assert "by project:" in lines and not {"by day:", "by model:"} & {*lines}
    assert [line.split()[-1] for line in lines if line.endswith(("/shop", "/page"))] == ["/shop", "/page"]
    assert {key: one for key, one in value.items() if key not in ("by", "named")} == usage_report(ledger)


def test_by_key_lists_the_keys_alone(ledger: Ledger) -> None:
    lines = find_form("usage")(usage_report(ledger, by="key"), 100).splitlines()
    assert "by key:" in lines and not {"by day:", "by model:", "by project:"} & {*lines}


def test_by_day_is_in_order_and_by_recipe_names_the_recipe(ledger: Ledger) -> None:
    assert [one["name"] for one in usage_report(ledger, by="day")["named"]] == ["2026-01-01", "2026-01-02"]
    assert {one["name"] for one in usage_report(ledger, by="model")["named"]} == {"openai/gpt-5", "local/odd"}
    recipes = {row[0] for row in ledger.db.all("SELECT recipe FROM sessions")}
    assert {one["name"] for one in usage_report(ledger, by="recipe")["named"]} == recipes
