"""The figures of a request come out: rows add up to their layer, in one scale; and a switch of model is shown as the
new epoch that it begins."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, context_report, opened, say, the_ledger

from nexus_cli.commands.context import request_difference
from nexus_cli.commands.forms import find_form
from nexus_cli.config.settings import Settings
from nexus_cli.core.event import ContextPlan
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.reports.context import live_report
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

OTHER = "anthropic/other"
SETTINGS = Settings(models={MODEL: {"window": 16_000}, OTHER: {"window": 40_000}})


class Counting(Played):
    """Reports what a tokenizer would that makes more of everything than ours."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        self.seen.append(json.loads(json.dumps(list(request.messages))))
        answer = self.script(request)
        if isinstance(answer, str):
            yield TextDelta(answer)
            reported = len(json.dumps([list(request.messages), list(request.tools)])) // 3
            yield UsageDelta(Usage(reported, 10))
            yield FinishDelta("stop")
        else:
            async for delta in super().stream(request):
                yield delta


def shown(folder: Path, session: str | None, step: int | None = None, **options: Any) -> Mapping[str, Any]:
    return context_report(Options(folder, **({"model": MODEL} | options)), SETTINGS, session, step)


def comes_out(value: Mapping[str, Any]) -> None:
    used, sections = value["budget"]["used"], value["sections"]
    assert used["total"] == sum(used[layer] for layer in ("system", "tools", "history", "event"))
    for layer in ("system", "event"):
        assert used[layer] == sum(one["tokens"] for one in sections if one["layer"] == layer), layer
    assert all(0 <= one["tokens"] <= one["full_tokens"] for one in sections)
    assert all(one["tokens"] == one["full_tokens"] for one in sections if one["form"] == "full")
    if "tools" in value:
        assert used["tools"] == sum(one["tokens"] for one in value["tools"])
        assert used["history"] == value["history"]["tokens"] == sum(value["history"]["by_kind"].values())
        assert value["joins"] == {"system": 0}


@pytest.mark.matrix
@pytest.mark.parametrize("provider", [Played, Counting])
def test_the_sums_of_every_report_come_out_whatever_the_provider_counts(tmp_path: Path, provider: type[Played]) -> None:
    (tmp_path / "NEXUS.md").write_text("Be exact. " * 200)
    comes_out(shown(tmp_path, None))
    session = ""
    for words in ("one", "two " * 300, "three"):
        made = opened(provider(lambda request: "well, " * 50), tmp_path, session)
        session = made.id
        events, outcome = say(made, words)
        assert outcome.ok
        for event in events:
            if isinstance(event, ContextPlan):
                comes_out(event.plan)
    for step in (1, 2, 3, None):
        value = shown(tmp_path, session, step)
        comes_out(value)
        text = find_form("context")(value, 120)
        assert "no section" not in text and f"{value['sections'][0]['tokens']:,}" in text


@pytest.mark.matrix
def test_what_a_request_has_more_is_not_what_the_provider_counts_otherwise(tmp_path: Path) -> None:
    session = ""
    for words in ("one", "two " * 300):
        made = opened(Counting(lambda request: "well"), tmp_path, session)
        session = made.id
        assert say(made, words)[1].ok
    one, two = (shown(tmp_path, session, step) for step in (1, 2))
    assert one["scale"] != two["scale"] and one["sections"][0]["tokens"] == two["sections"][0]["tokens"]
    with the_ledger() as ledger:
        sections = request_difference(ledger, session, SETTINGS, 2)["sections"]
    assert sections == {"added": [], "removed": [], "changed": []}


@pytest.mark.matrix
def test_every_figure_is_in_the_unit_that_its_row_says(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("\n".join(f"Rule {number}: be exact and brief." for number in range(4000)))
    made = opened(Counting(lambda request: "well"), tmp_path)
    assert say(made, "two " * 300)[1].ok
    value = shown(tmp_path, made.id, 1)
    assert value["scale"] > 1.1
    [rules] = [one for one in value["sections"] if one["form"] == "shortened"]
    ratio = rules["tokens"] / rules["counted"]
    assert ratio > 1.1 and abs(rules["full_tokens"] / rules["full_counted"] - ratio) < 0.01
    named = [int(found.replace(",", "")) for found in re.findall(r"([\d,]+) tokens", rules["reason"])]
    assert named == [rules["tokens"], rules["full_tokens"]], rules["reason"]
    limit, [drop] = value["section_budget"], value["drops"]
    assert limit["unit"] == drop["unit"] == "counted"
    sent = sum(one["counted"] for one in value["sections"] if one["layer"] == "system")
    assert sent <= limit["used"] <= limit["tokens"] and drop["tokens"] < rules["full_counted"]


@pytest.mark.matrix
def test_only_what_was_sent_before_in_the_epoch_is_called_cached(tmp_path: Path) -> None:
    assert not any(one["cached"] for one in shown(tmp_path, None)["sections"])
    made = opened(Played(lambda request: "well"), tmp_path)
    events, _ = say(made, "one")
    [plan] = [event.plan for event in events if isinstance(event, ContextPlan)]
    assert not any(one["cached"] for one in plan["sections"])
    events, _ = say(opened(Played(lambda request: "well"), tmp_path, made.id), "two")
    [plan] = [event.plan for event in events if isinstance(event, ContextPlan)]
    for value in (plan, shown(tmp_path, made.id, 2), shown(tmp_path, made.id)):
        assert {one["layer"]: one["cached"] for one in value["sections"]}["system"] is True
        assert not any(one["cached"] for one in value["sections"] if one["layer"] == "event")
    assert not any(one["cached"] for one in shown(tmp_path, made.id, 1)["sections"])


@pytest.mark.matrix
def test_a_switch_of_model_shows_the_epoch_that_it_begins_with_the_lines_that_it_sends(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("\n".join(f"Rule {number}: be exact." for number in range(900)))
    made = opened(Played(lambda request: "well"), tmp_path)
    assert say(made, "one")[1].ok
    now, then = shown(tmp_path, made.id), shown(tmp_path, made.id, model=OTHER)
    assert (now["epoch"], now["model"], now["notices"]) == (0, MODEL, [])
    assert then["epoch"] == 1 and then["model"] == OTHER and then["budget"]["window"] == 40_000
    assert "rewrites the window" in then["notices"][0] and then["prefix_sha256"] != now["prefix_sha256"]
    assert then["cached"]["tokens"] == 0 and not any(one["cached"] for one in then["sections"])
    comes_out(then)
    again = shown(tmp_path, made.id)
    assert again["drops"] == now["drops"] and again["epoch"] == 0, "looking changes nothing"
    asked = Options(tmp_path, OTHER, resume=made.id, allow="all", limits=Limits(max_steps=9))
    provider = Played(lambda request: "well")
    session = open_session(asked, SETTINGS, approver=None, provider=provider)
    assert live_report(session)["prefix_sha256"] == then["prefix_sha256"]
    assert say(session, "two")[1].ok
    sent = shown(tmp_path, made.id, 2)
    assert sent["epoch"] == 1
    assert [one["sha256"] for one in sent["sections"] if one["layer"] == "system"] == [
        one["sha256"] for one in then["sections"] if one["layer"] == "system"
    ]
