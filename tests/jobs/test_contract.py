"""The job: a step of a pipeline goes on with yesterday's large session, and must not pay for what it did not mean to.

It asks for the price first, sends only what fits its contract, and knows by the exit status what happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, PRICED, QUICK, Done, Stage, calls, clean, stage

from nexus_cli.ledger import Ledger

CACHED = PRICED + "cache_read_price = 0.2\ncache_write_price = 2.5\n"
LOG = "".join(f"step {number}: compiled module_{number}.c in {number % 7} s\n" for number in range(15_000))
"""More than the input of the scripted model's window may have."""
PART = LOG[:60_000]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, lambda _body: {"text": "Understood."}) as made:
        made.settings(QUICK + CACHED)
        (made.folder / "AGENTS.md").write_text("Answer briefly.\n")
        yield made


def requests(place: Stage) -> int:
    return len(place.server.requests)


def refused(place: Stage, *arguments: str, kind: str = "contract", status: int = 4, **more: Any) -> str:
    """The error of a run that sends nothing and records nothing."""
    before, recorded = requests(place), sessions(place)
    done = place.ask("--json", *arguments, **more)
    assert (done.status, done.kind, requests(place)) == (status, kind, before), done
    assert clean(done) and len(done.told) == 1 and done.result["session"] is None
    assert sessions(place) == recorded
    return done.told[0]


def sessions(place: Stage) -> list[tuple[Any, ...]]:
    if not place.ledger.exists():
        return []
    with closing(Ledger.open(place.ledger)) as ledger:
        return ledger.db.all(
            "SELECT session, count(*) FROM entries JOIN lanes ON lane = lanes.id GROUP BY 1 ORDER BY 1"
        )


def price(place: Stage, *arguments: str, **more: Any) -> dict[str, Any]:
    before, recorded = requests(place), sessions(place)
    done = place.ask("--price", *arguments, **more)
    assert done.status == 0 and clean(done) and (requests(place), sessions(place)) == (before, recorded), done
    return done.result


def pass_a_night(place: Stage) -> None:
    with closing(Ledger.open(place.ledger)) as ledger:
        ledger.db.run("UPDATE requests SET at = '2026-01-01T00:00:00.000Z'")


def work_yesterday(place: Stage) -> Done:
    done = place.ask("--stream-json", "Read this log.", stdin=PART.encode())
    assert done.status == 0, done
    return done


def lines(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def planned(done: Done) -> int:
    """The tokens of the first request, as nexus estimated them before it was sent."""
    return int(next(one["plan"]["budget"]["used"]["total"] for one in lines(done) if one["type"] == "context.plan"))


def test_a_session_is_priced_warm_and_the_next_morning_cold(place: Stage) -> None:
    first = price(place, "Read this log.", stdin=PART.encode())
    assert first["cold"] and first["cached"] == 0 and first["session"] is None
    assert first["cost_usd"] == pytest.approx(first["input"] * 2.5 / 1e6)
    done = work_yesterday(place)
    session = lines(done)[-1]["session"]
    assert first["input"] == pytest.approx(planned(done), abs=30)

    warm = price(place, "-c", "What failed?")
    assert not warm["cold"] and warm["cached"] > 0.9 * warm["input"] and warm["session"] == session
    assert warm["cost_usd"] == pytest.approx((warm["cached"] * 0.2 + (warm["input"] - warm["cached"]) * 2.5) / 1e6)
    pass_a_night(place)
    cold = price(place, "-r", session, "What failed?")
    assert (
        cold["cold"]
        and cold["input"] == pytest.approx(warm["input"], abs=30)
        and cold["cost_usd"] > 5 * warm["cost_usd"]
    )
    assert planned(place.ask("--stream-json", "-c", "What failed?")) == pytest.approx(cold["input"], abs=30)
    used = cold["used"]
    assert used["total"] == cold["input"] and sum(used.values()) - used["total"] == pytest.approx(used["total"], abs=4)
    assert {"instructions.project", "clock.date"} <= {one["id"] for one in warm["sections"]} | {"clock.date"}


@pytest.mark.matrix
def test_the_price_has_the_schema_too(place: Stage) -> None:
    place.script(lambda _body: {"text": "{}"})
    wanted = ("--schema", json.dumps({"type": "object", "description": "words " * 200}))
    priced = price(place, *wanted, "hi")
    assert planned(place.ask("--stream-json", *wanted, "hi")) == pytest.approx(priced["input"], abs=30)


def test_a_price_that_is_not_known_is_null_and_needs_no_key(place: Stage) -> None:
    place.settings(QUICK + f'[models."{MODEL}"]\nwindow = 128000\n')
    priced = price(place, "--max-steps", "1", "hi", env={"OPENAI_API_KEY": None})
    assert priced["cost_usd"] is None and "notices" in {section["id"] for section in priced["sections"]}


def test_a_broken_contract_is_exit_4_and_nothing_is_sent(place: Stage) -> None:
    assert " too many " in refused(place, "--max-input", "100", "hi")
    assert "does not contain this section" in refused(place, "--require-section", "skills", "hi")


def test_input_that_does_not_fit_is_refused_before_anything_is_sent(place: Stage) -> None:
    said = refused(place, "--require-full-input", "Why did it fail?", stdin=LOG.encode())
    assert "stdin has about" in said and "exceeds its limit" in said and "Nothing was sent" in said
    streamed = place.ask("--stream-json", "--no-drops", "Why did it fail?", stdin=LOG.encode())
    assert streamed.status == 4 and [one["error"]["kind"] for one in lines(streamed)] == ["contract"], streamed
    said = refused(place, "--no-drops", "Why did it fail?", stdin=LOG.encode())
    assert "part of stdin" in said and "--max-drop" in said
    left = int(said.rpartition("--max-drop ")[2].rstrip("."))
    assert place.ask("--max-drop", str(left + 500), "Why?", stdin=LOG.encode()).status == 0
    assert place.ask("--require-full-input", "--no-drops", "Why did it fail?", stdin=PART.encode()).status == 0
    (place.folder / "big.log").write_text(PART)
    said = refused(place, "--max-input", "5000", "Why did it fail?", "-f", "big.log")
    assert "--file big.log, about" in said and " too many " in said
    needed = int(said.rpartition("limit to ")[2].rstrip("."))
    assert place.ask("--max-input-tokens", str(needed), "Why did it fail?", "-f", "big.log").status == 0


@pytest.mark.matrix
def test_a_price_is_checked_against_the_contract_too(place: Stage) -> None:
    refused(place, "--price", "--max-input", "1000", "hi")
    refused(place, "--price", "--no-drops", "hi", stdin=LOG.encode())
    assert (
        price(place, "--max-input", "20000", "--no-drops", "--require-section", "instructions", "hi")["input"] < 20000
    )
    refused(place, "--price", "--max-cost", "0.00001", "hi", kind="limit", status=3)


def test_a_section_is_required_by_its_id(place: Stage) -> None:
    assert place.ask("--require-section", "instructions.project", "--require-section", "clock.date", "hi").status == 0
    assert place.ask("-c", "--require-section", "clock.date", "hi").status == 0, (
        "it was sent before, and is still there"
    )
    known = "The sections are: instructions.global, instructions.ancestor, instructions.project."
    for wrong, hint in (
        ("instructons.project", "Did you mean instructions.project?"),
        ("instructions.projct", "Did you mean instructions.project?"),
        ("instructions.foo", known),
        ("skils", "Did you mean skills?"),
        ("foo.bar", "The sections are: "),
    ):
        assert hint in refused(place, "--require-section", wrong, "hi", kind="usage", status=2)
    (place.folder / "AGENTS.md").unlink()
    for absent in ("instructions.project", "instructions.ancestor", "skills", "task.g7"):
        assert "the request does not contain this section" in refused(place, "--require-section", absent, "hi")


def test_a_shortened_section_breaks_the_contract(place: Stage) -> None:
    (place.folder / "AGENTS.md").write_text(
        "".join(f"- Rule {n}: keep part {n} short and simple.\n" for n in range(9000))
    )
    said = refused(place, "--require-section", "instructions.project", "hi")
    assert "instructions.project is sent as" in said
    refused(place, "--no-drops", "hi")


def test_lists_that_nexus_makes_itself_do_not_break_the_contract(place: Stage) -> None:
    for part in ("loader", "parser", "writer"):
        assert place.ask("--no-drops", f"explain the {part} in app.py").status == 0
    done = place.ask("--json", "--no-drops", "explain the router in app.py")
    assert done.status == 0 and [drop["cause"] for drop in done.result["drops"]] == ["section_budget"], done
    assert place.ask("-c", "--no-drops", "go on").status == 0
    assert "episodic.more is sent as" in refused(place, "--require-section", "episodic", "explain app.py")


def test_a_session_that_would_be_compacted_breaks_a_contract_without_drops(place: Stage) -> None:
    """Compaction begins with a request for the summary: it must not be sent either."""
    small = f'[models."{MODEL}"]\nwindow = 27000\nmax_output = 4000\ninput_price = 2.0\noutput_price = 8.0\n'
    place.settings(QUICK + small)
    for _ in range(2):
        assert (
            place.ask("-c" if place.ledger.exists() else "-q", "Read this.", stdin=PART[:25_000].encode()).status == 0
        )
    assert price(place, "-c", "More.", stdin=PART[:22_000].encode())["compacts"]
    said = refused(place, "-c", "--no-drops", "More.", stdin=PART[:22_000].encode())
    assert "would first compact the session" in said
    assert place.ask("-c", "--require-full-input", "More.", stdin=PART[:22_000].encode()).status == 0

    [made] = place.run("cache", "why", "--json").result["rewrites"]
    assert made["cause"] == "truncation" and made["saved"] > 5000 and made["requests"] == 1, made
    assert made["summary_usd"] > 0, "what the model said is no summary, but was paid for"
    assert made["cost"] is None, "the price of a cached token is not known"
    place.settings(QUICK + small + "cache_read_price = 0.2\n")
    [made] = place.run("cache", "why", "--json").result["rewrites"]
    assert made["saved_usd_each"] == pytest.approx(made["saved"] * 0.2 / 1e6) and made["break_even"] >= 1
    shown = place.run("cache", "why", "--all").text
    assert "rewrites:" in shown and "pays after" in shown and "\n  truncation " in shown, "a row begins with its cause"


def test_a_later_request_that_grows_too_large_stops_the_turn(place: Stage) -> None:
    (place.folder / "big.log").write_text(PART)
    place.script(lambda body: calls(("read_file", {"path": "big.log"})))
    done = place.ask("--json", "--max-input", "8000", "Read big.log.")
    assert (done.status, done.kind) == (3, "limit") and "this turn, about" in done.result["error"]["message"], done
    assert done.result["steps"] == 1 and done.told[-1].startswith("Resume with: ")


@pytest.mark.matrix
def test_a_window_that_is_smaller_than_listed_does_not_break_the_contract(tmp_path: Path) -> None:
    with stage(tmp_path, lambda _body: {"text": "Understood."}, refuse_above=12_000) as small:
        for option in ("--no-drops", "--require-full-input"):
            before = requests(small)
            done = small.ask("--json", option, "Why did it fail?", stdin=PART.encode())
            assert (done.status, done.kind, requests(small) - before) == (4, "contract", 1), done


def test_an_assessment_of_the_task_is_not_sent_either(place: Stage) -> None:
    place.settings(QUICK + CACHED + f'[assess]\nmodel = "{MODEL}"\n')
    stream = b"short\n" + b"word " * 9000 + b"\n"
    done = place.ask("--watch", "--watch-lines", "1", "--max-input", "9000", "Name errors.", stdin=stream)
    assert done.status == 4 and done.text == "Understood.\n" and requests(place) == 2, done
    assert "largest part: this turn" in done.told[-2], done


def warnings(done: Done) -> list[str]:
    assert done.status == 0, done
    return [line for line in done.told if "misses the cache" in line]


def test_an_expensive_cold_request_is_announced_once_with_what_a_compaction_costs(place: Stage) -> None:
    place.settings(QUICK + CACHED + "[limits]\nwarn_cost = 0.03\n")
    assert warnings(place.ask("Read this log.", stdin=PART.encode())) == [], "nothing of a new session can be cached"
    assert warnings(place.ask("-c", "What failed?")) == []
    pass_a_night(place)
    [line] = warnings(place.ask("-c", "What failed?"))
    assert re.search(r"tokens for \$0\.0\d{3}\. Running /compact first would cost \$0\.0\d{3} ", line), line
    assert warnings(place.ask("-c", "And now?")) == [], "it is warm again"
    other = CACHED.replace(MODEL, "openai/other")
    place.settings(QUICK + CACHED + other + "[limits]\nwarn_cost = 0.03\n")
    assert len(warnings(place.ask("-c", "-m", "openai/other", "And now?"))) == 1
    place.settings(QUICK + CACHED + other)
    pass_a_night(place)
    assert warnings(place.ask("-c", "And now?")) == [], "half a dollar unless set"
