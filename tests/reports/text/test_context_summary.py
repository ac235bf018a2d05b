"""`/context` in twelve rows: every figure of the window once, in colours and without them."""

from __future__ import annotations

from typing import Any

import pytest

from nexus_cli.commands.forms import find_form
from nexus_cli.reports.text.style import PLAIN, ReportStyle
from nexus_cli.text.cells import cells, without_codes
from nexus_cli.ui.render.theme import ASCII, UNICODE, Glyphs, Theme

DROP = {"id": "d3", "what": "result of bash pytest", "tokens": 18_000, "cause": "output_cap", "recall": "d3"}
VALUE: dict[str, Any] = {
    "basis": "reported+estimate",
    "budget": {
        "window": 128_000,
        "available": 112_000,
        "remaining": 76_000,
        "used": {"system": 2_000, "tools": 4_000, "history": 29_000, "event": 1_000, "total": 36_000},
    },
    "cached": {"tokens": 33_000, "expected": 27_000},
    "largest": [{"tokens": 12_000 // size, "what": f"result of read_file {size}.py"} for size in range(1, 9)],
    "drops": [DROP, {**DROP, "id": "d4", "tokens": 240}, {**DROP, "id": "d1", "back": True}],
    "rewrite": {"by": "summary", "at": 95_200, "why": ""},
    "notices": [],
}


def look(signs: Glyphs = UNICODE, colour: bool = True) -> ReportStyle:
    return Theme(colour=colour, signs=signs).look


def drawn(width: int, how: ReportStyle = PLAIN, **changed: Any) -> list[str]:
    lines = find_form("context_summary")({**VALUE, **changed}, width, how).split("\n")
    assert all(cells(without_codes(line)) <= width for line in lines), lines
    return lines


def test_twelve_rows_say_it_all() -> None:
    assert drawn(80, look(colour=False)) == [
        "Context   36,000 of 112,000 tokens, 32% (128k window, 16k reserved)",
        "          █▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░",
        "          ▔▔▔▔▔▔▔▔▔▔▔▔▔▔ next request 75% cached",
        "          █ system 2k  ▓ tools 4k  ▒ history 30k  ░ free 76k",
        "Largest   12,000  result of read_file 1.py",
        "           6,000  result of read_file 2.py",
        "           4,000  result of read_file 3.py",
        "           3,000  result of read_file 4.py",
        "           2,400  result of read_file 5.py",
        "Left out  2 parts, 18,240 tokens; /drops lists them; the model can recall them",
        "Next      at 95,200 tokens, nexus summarizes older messages (now: /compact)",
        "More      /context all: sections, tools, drops, limits",
    ]


@pytest.mark.parametrize(("width", "rows"), [(160, 12), (100, 12), (80, 12), (70, 12), (60, 13), (40, 17)])
def test_colours_change_no_row_and_a_narrow_terminal_gets_few_more(width: int, rows: int) -> None:
    lines = drawn(width, look())
    assert len(lines) == rows and [without_codes(line) for line in lines] == drawn(width, look(colour=False))
    bar = next(line for line in lines if "░░" in line)
    assert [code in bar for code in ("\x1b[36m█", "\x1b[35m▓", "\x1b[32m▒", "\x1b[2m░")] == [True] * 4


def test_without_utf_8_the_parts_of_the_bar_have_signs_of_their_own() -> None:
    lines = drawn(80, look(ASCII, colour=False))
    assert lines == find_form("context_summary")(VALUE, 80).split("\n") and "\n".join(lines).isascii()
    assert lines[1].strip() == "#" + "++" + "-" * 16 + "." * 41
    assert lines[2].strip() == "^" * 14 + " next request 75% cached"


def test_what_is_small_is_seen_and_what_is_full_does_not_run_over() -> None:
    used = {"system": 1, "tools": 1, "history": 1, "event": 0, "total": 3}
    tiny = drawn(80, budget={**VALUE["budget"], "used": used, "remaining": 111_997})
    assert tiny[1].strip() == "#+-" + "." * 57
    used = {"system": 2_000, "tools": 4_000, "history": 200_000, "event": 0, "total": 206_000}
    full = drawn(80, budget={**VALUE["budget"], "used": used, "remaining": -94_000})
    assert full[1].strip() == "#+" + "-" * 58 and "184%" in full[0]


def test_each_case_has_its_words() -> None:
    def row(label: str, **changed: Any) -> str:
        return next(line for line in drawn(100, **changed) if line.startswith(label)).partition("  ")[2].strip()

    assert row("Left out", drops=[]) == "nothing" == row("Left out", drops=VALUE["drops"][2:])
    both = [DROP, {**DROP, "id": "d4"}]
    assert "2 parts (1 counted in the status line), 36,000 tokens; /drops" in row("Left out", drops=both, missed=1)
    assert "status line" not in row("Left out", drops=both, missed=2)
    assert row("Left out", drops=[DROP]) == "result of bash pytest, 18,000 tokens; /drops d3 prints it"
    cut = {"by": "truncation", "at": 9, "why": ""}
    assert row("Next", rewrite=cut) == "at 9 tokens, nexus removes the oldest messages"
    epoch = {"by": "epoch", "at": None, "why": "another model"}
    told: dict[str, Any] = {"rewrite": epoch, "notices": ["a guess", "a switch begins an epoch"]}
    assert row("Next", **told) == "with your next message, which misses the cache: another model"
    assert row("Note", **told) == "a guess" and "switch" not in "".join(drawn(100, PLAIN, **told))
    assert (
        row("Waiting", waiting={"texts": 1, "tokens": 30})
        == "1 attachment (30 tokens) will be sent with your next message"
    )
    assert row("Note", notices=["the window is a guess"]) == "the window is a guess"
    assert row("Context", basis="estimate").startswith("about 36,000 of")
    assert not any("cached" in line for line in drawn(80, cached={"tokens": 33_000, "expected": 0}))
