"""The picture of the context on the screen: `/context` and `/cost`, at each width, on each ground, without colours."""

from __future__ import annotations

from typing import Any

import pytest
from terminal.golden import styled
from terminal.repl import Opens, Repl

TALK: list[Any] = ["fine", "fine too"]
LABELS = ["Context", "Largest", "Left out", "Next", "More"]


def shown(made: Repl, command: str) -> list[str]:
    """The rows that `command` puts on an empty screen, with their looks; without the prompt and what is below it."""
    made.send(f"\x0c{command}\r")
    found: list[str] = []

    def is_over(_: object) -> bool:
        rows = styled(made.cells())
        first = next((number for number, row in enumerate(rows) if command in row), len(rows)) + 2
        found[:] = rows[first : next((number for number in range(first + 1, len(rows)) if rows[number] == ">"), 0)]
        return bool(found)

    made.idle()
    made.wait_for(is_over)
    return found[:-1]


def talked(repl: Opens, **options: Any) -> Repl:
    made = repl(TALK, rows=40, **options)
    made.say("what is in this folder?")
    made.say("and now?")
    return made


def test_the_context_is_twelve_rows_at_every_width(repl: Opens) -> None:
    made = talked(repl, columns=160)
    for columns, most in ((160, 12), (100, 12), (60, 13)):
        made.resize(columns, 40)
        made.wait_quiet(0.3)
        rows = shown(made, "/context")
        assert len(rows) == most, "\n".join(rows)
        assert [label for label in LABELS if any(row.startswith(label) for row in rows)] == LABELS
        assert "[cyan|█][magenta|▓][green|▒][dim|░" in rows[1] and rows[1].count("░") == min(60, columns - 2) - 3
        assert rows[2].endswith("% cached]") and "[dim|▔" in rows[2]
        assert " of 112,000 tokens, 1%" in rows[0]
        assert "at 95,200 tokens, nexus summarizes older messages" in rows[-2]
    plot = shown(made, "/cost")
    assert plot[0].startswith("$0.0") and any("[cyan|██]" in row for row in plot)


@pytest.mark.matrix
def test_on_a_light_ground_the_parts_have_other_colours(repl: Opens) -> None:
    made = repl(TALK, settings='[ui]\ntheme = "light"\n')
    assert "[blue|█][magenta|▓][green|▒][dim|░" in shown(made, "/context")[1]


def test_without_colours_the_parts_have_other_shades(repl: Opens) -> None:
    made = repl(TALK, env={"NO_COLOR": "1"})
    assert len(shown(made, "/context")) == 11, "nothing is cached yet"
    text = "\n".join(made.lines())
    assert "█▓▒░" in text and "▒ history" in text


def test_a_dumb_terminal_gets_bars_of_ascii_and_a_model_without_a_price_no_dollars(repl: Opens) -> None:
    made = talked(repl, env={"TERM": "dumb", "NEXUS_MODEL": "openai/odd-model"})
    made.send("/context\r")
    made.wait_for("More ")
    made.send("/cost\r")
    made.wait_for("DOLLARS_PER_MILLION")
    text = "\n".join(made.scrollback())
    assert "#+-..." in text and "^ " in text and "  ##\n  ##\n  ##" in text
    assert "/config set 'models.\"openai/odd-model\".input_price'" in text and "$" not in text and "▓" not in text


def test_the_timeline_is_a_row_for_each_thing_that_happened(repl: Opens) -> None:
    made = talked(repl, columns=80)
    rows = shown(made, "/timeline")
    said = [row for row in rows if " You: " in row or " nexus: " in row]
    assert len(said) == 4 and sum(" You: " in row for row in said) == 2
    assert said[-1].endswith(" nexus: fine too")
    assert sum("request " in row and " out" in row for row in rows) == 2
    made.resize(40, 40)
    made.wait_quiet(0.3)
    assert any(" You: " in row for row in shown(made, "/timeline --last 4"))
