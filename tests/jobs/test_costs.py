"""The job: "what did this cost, and what for?": a report of known tokens at known prices is the same four parts in all
places that tell it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from program.stage import QUICK, stage

MODEL = "anthropic/priced"
PRICES = (
    f'[models."{MODEL}"]\nwindow = 128000\nmax_output = 8192\n'
    "input_price = 3.0\noutput_price = 15.0\ncache_read_price = 0.3\ncache_write_price = 3.75\n"
)
USED = {"input": 1000, "cache_read": 600, "cache_write": 200, "output": 50}
PARTS = {"input": 0.0006, "cached": 0.00018, "written": 0.00075, "output": 0.00075}
SUM, SAVED = 0.00228, 0.00147
SHOWN = "$0.0006 input, $0.0002 cached, $0.0008 written, $0.0008 output"


def test_the_parts_of_a_cost_are_the_same_wherever_they_are_told(tmp_path: Path) -> None:
    with stage(tmp_path, {"default": {"text": "Done.", "usage": USED}}) as place:
        place.settings(QUICK + PRICES)
        place.environment |= {"ANTHROPIC_API_BASE": place.server.base("anthropic"), "ANTHROPIC_API_KEY": "sk-nobody"}
        place.environment["NEXUS_MODEL"] = MODEL
        result: dict[str, Any] = place.ask("--no-tools", "--json", "hi").result
        report = place.run("usage", "--json").result
        own = place.run("usage", "--session", result["session"], "--json").result
        page = place.run("export", result["session"], "--html").text
        texts = [place.run("usage").text, page]
        with sqlite3.connect(place.ledger) as ledger:
            columns = "cost, cost_input, cost_cached, cost_written, cost_output, saved"
            (kept,) = ledger.execute(f"SELECT {columns} FROM requests").fetchall()
            assert ledger.execute("SELECT cost, saved FROM sessions").fetchone() == (SUM, SAVED)
        ledger.close()
    assert kept == (SUM, *PARTS.values(), SAVED)
    assert own["session"] == result["session"] and len(own["turns"]) == 1
    rows = [own["total"], report["total"], *report["days"], *report["models"], *report["projects"]]
    for told in (result["usage"], *rows):
        assert (told["cost_usd"], told["cost"]) == (SUM, PARTS)
        assert round(sum(told["cost"].values()), 8) == told["cost_usd"]
        assert (told["input"], told["cache_read"], told["cache_write"], told["output"]) == tuple(USED.values())
    assert all((row["known_cost"], row["saved_usd"]) == (PARTS, SAVED) for row in rows)
    assert all(SHOWN in " ".join(text.split()) for text in texts)
    assert "The cache saved $0.0015." in texts[0] and page.count(SHOWN) == 2, "of the session, and of its request"


def test_where_the_price_is_unknown_so_are_the_parts(tmp_path: Path) -> None:
    with stage(tmp_path, {"default": {"text": "Done.", "usage": USED}}) as place:
        place.settings(QUICK)
        result = place.ask("--no-tools", "--json", "hi").result
        total, shown = place.run("usage", "--json").result["total"], place.run("usage").text
    assert result["usage"]["cost"] is result["usage"]["cost_usd"] is total["cost"] is total["cost_usd"] is None
    assert set(total["known_cost"].values()) == {0.0} and "By component" not in shown
