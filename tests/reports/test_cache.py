"""`nexus cache`, `nexus cache why` and their slash commands: one value, one text form, and errors in one line."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import on
from search import sample
from session.played import the_ledger
from session.prefix_cache import SETTINGS, lived, opened, working

from nexus_cli.cli.app import run
from nexus_cli.commands.cache import cache_report, miss_report, rewrite_lines
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.usage import cost_report
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.reports.text.blocks import lay_out

FIRST = "read the code " + "and think of every part " * 300


@pytest.fixture
def missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A session with one expiry (request 2), one loss by the provider (3) and one reload (4)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "NEXUS.md").write_text("Answer in prose.\n" * 20)
    provider = working(lambda request, step: "done")
    provider.forgets = lambda number: number == 3
    session = opened(provider, tmp_path)

    async def live() -> None:
        try:
            await lived(session, FIRST)
            provider.clock.forward(hours=3)
            await lived(session, "go on", "and on")
            (tmp_path / "NEXUS.md").write_text("Answer in rhyme, please.\n" * 20)
            session.reload()
            await lived(session, "once more", "and again")
        finally:
            await session.aclose()

    asyncio.run(live())
    return session.id


def test_the_listing_has_a_row_per_request_and_sums_the_misses(missed: str) -> None:
    with the_ledger() as ledger:
        value: Any = cache_report(ledger, missed, SETTINGS)
    rows = value["requests"]
    assert [row["cause"] for row in rows] == ["first", "expired", "provider", "section", "hit"]
    assert [row["ours"] for row in rows] == [None, False, False, True, None]
    assert all(row["read"] + row["missed"] <= row["input"] for row in rows) and rows[-1]["hit"] > 0.9
    total = value["total"]
    assert (total["misses"], total["ours"], total["not_ours"], total["unknown"]) == (3, 1, 2, 0)
    assert total["cost_usd"] == pytest.approx(sum(row["missed"] for row in rows) * 1.5 / 1e6)
    text = " ".join(find_form("cache")(value, 150).split())
    assert "of the prompt tokens in 5 requests came from the cache. 3 misses cost $" in text
    assert "(caused by nexus: 1, not by nexus: 2)" in text and "by nexus: the section instructions" in text


def test_one_request_is_explained_with_what_differed_and_what_changed_it(missed: str) -> None:
    with the_ledger() as ledger:
        value: Any = miss_report(ledger, missed, SETTINGS)
        expired: Any = miss_report(ledger, missed, SETTINGS, 2)
        hit = miss_report(ledger, missed, SETTINGS, 5)
        first = miss_report(ledger, missed, SETTINGS, 1)
    assert value["step"] == 4 and value["previous"] == 3 and value["ours"] is True
    assert value["difference"]["source"].endswith("NEXUS.md") and value["difference"]["by"] == "a reload"
    sentence = " ".join(find_form("miss")(value, 100).split())
    assert re.fullmatch(r"Request 4: [\d,]+ of [\d,]+ tokens missed the cache \(\$[\d.]+\): the section .+\.", sentence)
    text = " ".join(find_form("miss_details")(value, 100).split())
    assert text.startswith(sentence) and "Caused by nexus. First difference from request 3: section" in text
    assert "NEXUS.md): a reload." in text
    assert expired["age_seconds"] == pytest.approx(3 * 3600, abs=60) and expired["cache"]["minimum"] == 1024
    assert "): the cache had expired: unused for 3 h" in " ".join(find_form("miss")(expired, 100).split())
    assert "Not caused by nexus." in find_form("miss_details")(expired, 200)
    assert "Request 5: no miss, " in find_form("miss")(hit, 100) and "request only adds to" in find_form(
        "miss_details"
    )(hit, 200)
    assert "first request, nothing to compare" in find_form("miss")(first, 200)


def test_a_server_that_reports_a_cache_is_not_said_to_have_none() -> None:
    value = {"step": 3, "missed": 0, "read": 1371, "input": 3175, "hit": 0.432, "why": "no cache is known"}
    assert find_form("miss")(value, 100) == "Request 3: no miss, 43.2% of 3,175 tokens cached."
    assert find_form("miss")({**value, "read": 0, "hit": 0.0}, 100).endswith(
        "0.0% of 3,175 tokens cached: no cache is known."
    )


def test_of_many_rewrites_the_newest_are_listed_and_all_summed_up() -> None:
    one = {"cause": "pruned", "saved": 14_344, "cold": 13_648, "cost": 0.0471, "summary_usd": 0.0321, "break_even": 10}
    one |= {"pays": True, "why": "it was due"}
    rows: list[Any] = [{**one, "requests": number, "net_usd": 0.25} for number in range(48)]
    lines = lay_out(rewrite_lines(rows), 80)
    assert len(lines) == 14 and lines[-7].split()[-2:] == ["47", "+$0.2500"], "two lines for each in 80 columns"
    assert lines[-6:-1] == ["  pruned: it was due"] * 5
    assert lines[-1].strip() == "43 earlier rewrites not listed (all 48 cost $3.80; see `nexus cache --json`)"
    assert "listed" not in "".join(lay_out(rewrite_lines(rows[:5]), 80))
    unknown = lay_out(rewrite_lines([{**rows[0], "summary_usd": None}, *rows]), 80)
    assert unknown[-1].strip() == "44 earlier rewrites not listed (all 49; see `nexus cache --json`)", (
        "a summary has no price"
    )
    assert lines[-1].replace(" cost $3.80", "") in lay_out(rewrite_lines([*rows[:47], {**rows[47], "cost": None}]), 80)


@pytest.mark.matrix
def test_what_was_sent_beside_the_conversation_is_one_line_and_no_row(missed: str) -> None:
    with the_ledger() as ledger:
        value = cache_report(ledger, missed, SETTINGS)
    side = {**value["requests"][0], "lane": "compact", "step": 1, "missed": 0}
    rows = [*value["requests"], *([side] * 10), {**side, "lane": "reflection", "read": None, "input": None}]
    for width in (40, 80, 150):
        text = " ".join(find_form("cache")(value | {"requests": rows}, width).split())
        assert "10 requests for summaries: " in text and "% cached)" in text
        assert "1 request for reflections: 0 tokens in" in text and "compact 1" not in text


@pytest.mark.matrix
@pytest.mark.parametrize("width", sample([70, 80, 120, 150], 3))
def test_a_long_reason_is_cut_in_the_table_and_whole_where_it_is_asked_for(missed: str, width: int) -> None:
    with the_ledger() as ledger:
        value = cache_report(ledger, missed, SETTINGS)
        one = miss_report(ledger, missed, SETTINGS, 2)
    reason = "it had expired, " * 30 + "and that is all"
    rows = [{**row, "why": reason} if row["step"] == 2 else row for row in value["requests"]]
    lines = find_form("cache")(value | {"requests": rows}, width).splitlines()
    table = lines[lines.index("requests:") + 1 :][: len(rows) + 1]
    assert table[0].split()[0] == "request" and [line.split()[0] for line in table[1:]] == list("12345")
    assert table[2].endswith("…") and max(map(len, lines)) <= width
    assert "and that is all" in " ".join(find_form("miss")({**one, "why": reason}, width).split())
    assert width == 80 or ("written" in table[0]) is (width > 80)


async def test_a_first_request_that_found_a_cache_says_whose(tmp_path: Path) -> None:
    provider = working(lambda request, step: "done")

    for _ in range(2):
        session = opened(provider, tmp_path)
        await lived(session, FIRST)
        await session.aclose()
    with the_ledger() as ledger:
        first = cache_report(ledger, session.id, SETTINGS)["requests"][0]
    assert (first["read"] or 0) > 0 and first[
        "why"
    ] == "first request of this session; another session had sent the same prefix"


@pytest.mark.matrix
def test_a_request_without_an_answer_is_counted_in_both_reports(missed: str) -> None:
    with the_ledger() as ledger:
        lane = ledger.session(missed).main_lane
        last = on(ledger, lane).requests()[-1].manifest
        on(ledger, lane).record_request(replace(last, step=last.step + 1), (), ())
        cached, spent = cache_report(ledger, missed, SETTINGS), cost_report(ledger, missed)
    assert cached["total"]["requests"] == spent["total"]["requests"] == 6
    assert cached["total"]["unanswered"] == spent["total"]["unanswered"] == 1
    assert sum(row["requests"] for row in spent["models"]) == 6
    assert (spent["total"]["cost_usd"], spent["total"]["known_usd"]) == (None, 5 * 0.25)
    for text in (find_form("cache")(cached, 150), find_form("cost")(spent, 150)):
        assert "6 requests (1 without an answer)" in text


@pytest.mark.parametrize("kind", ["network", "provider"])
async def test_a_request_that_no_provider_took_up_is_one_without_an_answer(kind: str, tmp_path: Path) -> None:
    def refused(request: Any, step: int) -> Any:
        raise ProviderError(kind, "not today")

    session = opened(working(refused), tmp_path)

    try:
        await lived(session, "hello")
    finally:
        await session.aclose()
    with the_ledger() as ledger:
        cached, spent = cache_report(ledger, session.id, SETTINGS), cost_report(ledger, session.id)
        reason = miss_report(ledger, session.id, SETTINGS, 1)
    assert (reason["cause"], reason["why"]) == ("unanswered", f"the request was not answered ({kind})")
    assert cached["total"]["unanswered"] == spent["total"]["unanswered"] == 1 and spent["total"]["estimated"] == 0
    assert "1 request (1 without an answer)." in find_form("cache")(cached, 100)


def test_a_session_that_sent_nothing_says_so(tmp_path: Path) -> None:
    session = opened(working(lambda request, step: "done"), tmp_path)
    assert session.ledger is not None
    with pytest.raises(NexusError, match="not sent a request yet"):
        miss_report(session.ledger, session.id, SETTINGS)
    value = cache_report(session.ledger, session.id, SETTINGS)
    assert value["requests"] == [] and value["total"]["hit"] is None and value["total"]["cost_usd"] == 0
    assert "not sent a request yet" in find_form("cache")(value, 80)
    asyncio.run(session.aclose())


ASKED = [
    *(("context", "--step={}"), ("context", "--diff", "--step={}")),
    *(("replay", "--step={}"), ("cache", "why", "--", "{}")),
]


@pytest.mark.matrix
@pytest.mark.parametrize("step", sample(["0", "-1", "6", "99"], 3))
def test_a_request_that_is_not_there_is_named_with_how_many_there_are(
    missed: str, step: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for words in ASKED:
        assert run([word.format(step) for word in words]) == 2
        told = capfd.readouterr().err
        assert (f"--step {step}:" in told or f"request {step}:" in told) and "has sent 5 requests" in told, told
